//! Requests that carry their own terms.

use std::str::FromStr as _;
use std::sync::Arc;

use super::classify::{Asked, META_CAPABILITIES};
use super::reject::Reject;
use super::requested::Requested;
use super::watch::Listener;
use super::{Carrier, Exchange, Mcp, Reply, Terms, handshake, tasks};
use crate::client::Capabilities;
use crate::jsonrpc::INVALID_REQUEST;
use crate::log_level::LogLevel;

const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

impl Mcp {
    pub(super) fn modern(
        self: &Arc<Self>,
        exchange: &Exchange<'_>,
        asked: &Asked<'_>,
    ) -> Result<Reply, Reject> {
        let log_level = asked.meta.text(META_LOG_LEVEL).and_then(|level| {
            level.map(|level| LogLevel::from_str(&level)).transpose().map_err(|e| e.to_string())
        });
        let read_only = matches!(exchange.carrier, Carrier::RawRequest);
        let wanted = log_level.as_ref().ok().copied().flatten();
        let request = Requested {
            mcp: self,
            caller: exchange.caller,
            asked,
            terms: Terms { read_only, log_level: wanted, ..Terms::MODERN },
            capabilities: declared(asked)?,
            scope: exchange.carrier.scope(),
            hears: exchange.hears,
        };
        let changes = ["tasks/update", "tasks/cancel", "subscriptions/listen"];
        if read_only && changes.contains(&asked.method.as_ref()) {
            let problem = format!("`{}` is not for this form of request; use POST", asked.method);
            return Err(Reject::with_status(405, INVALID_REQUEST, problem));
        }
        let reply = match asked.method.as_ref() {
            "server/discover" => Reply::Message(handshake::discover(&request)),
            "subscriptions/listen" => {
                let who = (exchange.who)();
                Reply::Listen(Box::new(Listener::modern(&request, who)?))
            }
            "tools/call" => Self::call(&request, exchange.inbound.headers)?,
            "tasks/get" | "tasks/update" | "tasks/cancel" if self.tasks.is_some() => {
                tasks::request(&request)?
            }
            _ => Self::common(&request)?,
        };
        // An unknown method comes before a bad level; nothing has run yet.
        log_level.map_err(Reject::invalid_params)?;
        Ok(reply)
    }
}

/// It was looked at that they are an object.
fn declared(asked: &Asked<'_>) -> Result<Capabilities, Reject> {
    let Some(words) = asked.meta.get(META_CAPABILITIES) else { return Ok(Capabilities::default()) };
    Capabilities::declared(words).map_err(|error| {
        let problem = crate::strict_json::problem(&error);
        Reject::invalid_params(format!("`{META_CAPABILITIES}`: {problem}"))
    })
}
