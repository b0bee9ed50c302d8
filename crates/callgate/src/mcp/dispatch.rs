//! Finds what answers a message: by era first, then by method.

mod legacy;

use std::sync::Arc;

use crate::mcp::calls::context::RequestContext;
use crate::mcp::calls::negotiated::{self, Terms};
use crate::mcp::features::{completion, handshake, prompts, resources, tasks, tools};
use crate::mcp::parse::classify::{McpRequest, Route};
use crate::mcp::reply::error::Reject;
use crate::mcp::streams::notification_stream::Listener;
use crate::mcp::{Inbound, Mcp, Reply};
use crate::wire::jsonrpc::INVALID_REQUEST;

impl Mcp {
    pub(super) async fn route(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        route: Route<'_>,
    ) -> Result<Reply, Reject> {
        match route {
            Route::Modern(request) => {
                self.modern(inbound, &request).await.map_err(|reject| reject.of(request.id))
            }
            Route::Legacy { claimed, message } => {
                let terms = self.terms_of(inbound, claimed, &message)?;
                self.legacy(inbound, terms, message).await
            }
            Route::Batch { claimed, messages } => self.batch(inbound, claimed, messages).await,
            Route::Stream { claimed } => self.legacy_stream(inbound, claimed),
            Route::End => self.end(inbound).await,
        }
    }

    /// Answers a request that states its own terms.
    async fn modern(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        request: &McpRequest<'_>,
    ) -> Result<Reply, Reject> {
        let log_level = negotiated::log_level(request);
        let terms = Terms {
            log_level: log_level.as_ref().ok().copied().flatten(),
            ..Terms::modern(inbound, request)?
        };
        let changes = ["tasks/update", "tasks/cancel", "subscriptions/listen"];
        if terms.read_only && changes.contains(&request.method.as_ref()) {
            let problem = format!("`{}` is not for this form of request; use POST", request.method);
            return Err(Reject::with_status(405, INVALID_REQUEST, problem));
        }
        let reply = RequestContext { mcp: self, inbound, request, terms }.reply().await?;
        // An unknown method comes before a bad level; nothing has run yet.
        log_level?;
        Ok(reply)
    }
}

impl RequestContext<'_> {
    /// Answers the request.
    async fn reply(&self) -> Result<Reply, Reject> {
        let is_modern = self.terms.revision.is_modern();
        match self.request.method.as_ref() {
            "tools/call" => tools::call(self),
            "tools/list" => tools::list(self),
            "resources/list" => resources::list(self),
            "resources/templates/list" => resources::list_templates(self),
            "resources/read" => resources::read(self),
            "prompts/list" => prompts::list(self),
            "prompts/get" => prompts::get(self),
            "completion/complete" => completion::complete(self),
            "server/discover" if is_modern => Ok(handshake::discover(self)),
            "subscriptions/listen" if is_modern => {
                Ok(Reply::Listen(Box::new(Listener::modern(self)?)))
            }
            "tasks/get" | "tasks/update" | "tasks/cancel"
                if is_modern && self.mcp.tasks.is_some() =>
            {
                tasks::request(self)
            }
            "initialize" if !is_modern => handshake::initialize(self),
            "ping" if !is_modern => Ok(self.empty_result()),
            "logging/setLevel" if !is_modern => self.set_log_level().await,
            "resources/subscribe" | "resources/unsubscribe"
                if !is_modern && self.mcp.can_subscribe() =>
            {
                self.subscribe().await
            }
            other => Err(Reject::no_such_method(other, is_modern)),
        }
    }
}
