//! What a client of a session sends about a call that does not run here: its answer to a question, and
//! that it takes a request back. Without stickiness either may arrive at any of several servers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use moka::sync::Cache;
use serde_json::value::RawValue;

use super::session::{Nonce, Session};
use crate::mcp::Mcp;
use crate::mcp::calls::in_flight::Scope;
use crate::mcp::parse::classify::{Message, Outcome};
use crate::mcp::parse::envelope::{Members, incoming};
use crate::mcp::reply::error::Reject;
use crate::upstream::BoxFuture;
use crate::wire::jsonrpc::{INTERNAL_ERROR, INVALID_REQUEST};

/// The notification that cancels a request.
pub(crate) const CANCELLED: &str = "notifications/cancelled";
/// A message that is brought elsewhere is no longer than this, which is also what a body may have
/// unless said otherwise.
const MAX_MESSAGE: usize = 1024 * 1024;
/// How long what was posted counts.
const WINDOW: Duration = Duration::from_mins(1);
/// What a session may post in that time: messages, and bytes.
const OF_SESSION: (usize, usize) = (128, 4 * MAX_MESSAGE);
/// What a user may: sessions cost nothing.
const OF_USER: (usize, usize) = (1024, 16 * MAX_MESSAGE);
/// What all callers without a name may together. It takes more than a few of their sessions to use it
/// up, and callers with a name have their own.
const OF_ANONYMOUS: (usize, usize) = (16 * 1024, 64 * MAX_MESSAGE);
/// So many sessions and users are counted at once.
const MAX_COUNTED: u64 = 100_000;

/// Something that brings what clients send to the other servers of the same sessions.
pub trait Relay: Send + Sync + fmt::Debug {
    /// Has each of the other servers give the message to its [`Mcp::deliver`]. Which of them it
    /// concerns, if any, is not known here.
    fn post(
        &self,
        session: Nonce,
        message: String,
    ) -> BoxFuture<'_, Result<(), Box<dyn std::error::Error + Send + Sync>>>;
}

/// A relay, and how much was given to it lately.
#[derive(Debug)]
pub(crate) struct Relaying {
    relay: Arc<dyn Relay>,
    spent: Cache<Spender, Arc<Spent>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Spender {
    Session(Nonce),
    User(i64),
    Anonymous,
}

#[derive(Debug, Default)]
struct Spent {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

impl Relaying {
    pub(crate) fn new(relay: Arc<dyn Relay>) -> Self {
        let spent = Cache::builder().max_capacity(MAX_COUNTED).time_to_live(WINDOW).build();
        Self { relay, spent }
    }

    /// Posts a message of a session that is good.
    pub(crate) async fn post(&self, session: &Session, message: String) -> Result<(), Reject> {
        if message.len() > MAX_MESSAGE {
            let problem = format!(
                "the call runs on another server, and the message is too long to be brought there: \
                 {} bytes, at most {MAX_MESSAGE}",
                message.len()
            );
            return Err(Reject::with_status(413, INVALID_REQUEST, problem));
        }
        let (owner, of_owner) = match session.user {
            Some(user) => (Spender::User(user), OF_USER),
            None => (Spender::Anonymous, OF_ANONYMOUS),
        };
        let has_room = self.has_room(Spender::Session(session.nonce), OF_SESSION, message.len())
            && self.has_room(owner, of_owner, message.len());
        if !has_room {
            let problem = "too many answers and cancellations for calls that do not run here; \
                           wait a minute";
            return Err(Reject::with_status(429, INVALID_REQUEST, problem));
        }
        self.relay.post(session.nonce, message).await.map_err(|error| {
            let problem = "the call does not run here, and other servers cannot be reached";
            tracing::error!(error = error.to_string(), "{problem}");
            Reject::with_status(503, INTERNAL_ERROR, format!("{problem}; send it again"))
        })
    }

    fn has_room(&self, spender: Spender, (messages, bytes): (usize, usize), more: usize) -> bool {
        let spent = self.spent.get_with(spender, Arc::default);
        spent.messages.fetch_add(1, Ordering::Relaxed) < messages
            && spent.bytes.fetch_add(more, Ordering::Relaxed).saturating_add(more) <= bytes
    }
}

/// Writes an answer as a message.
pub(crate) fn answer(id: &RawValue, outcome: Outcome<'_>) -> String {
    let (name, value) = match outcome {
        Ok(result) => ("result", result),
        Err(error) => ("error", error),
    };
    format!(r#"{{"jsonrpc":"2.0","id":{},"{name}":{}}}"#, id.get(), value.get())
}

/// Writes the cancellation of a request, without the client's reason.
pub(crate) fn cancellation(id: &RawValue) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{CANCELLED}","params":{{"requestId":{}}}}}"#, id.get())
}

/// Returns the id of the request that a notification cancels.
pub(crate) fn cancelled<'a>(method: &str, params: &Members<'a>) -> Option<&'a RawValue> {
    if method == CANCELLED { params.get("requestId") } else { None }
}

impl Mcp {
    /// Takes what a client of a session sent to another server, as [`Relay::post`] had it. What
    /// concerns nothing that runs here is of no effect.
    pub fn deliver(&self, session: Nonce, message: &str) {
        let scope = Scope::Session(session);
        match incoming(message) {
            Ok(Message::Response { id, outcome }) => {
                self.questions.answer(scope, id, outcome);
            }
            Ok(Message::Notification { method, params }) => {
                if let Some(id) = cancelled(&method, &params) {
                    self.cancellations.cancel(scope, id);
                }
            }
            Ok(Message::Request(_)) | Err(_) => {}
        }
    }
}
