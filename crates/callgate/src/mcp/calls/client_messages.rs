//! Answers and cancellations that a legacy client sends for its running calls.

use serde_json::value::RawValue;

use crate::mcp::parse::classify::{McpMessage, RpcResult};
use crate::mcp::parse::envelope::is_id;
use crate::mcp::random_id::is_random_id;
use crate::mcp::{Mcp, Scope};
use crate::wire::strict_json;

const CANCELLED: &str = "notifications/cancelled";

impl Mcp {
    /// Passes an answer or a cancellation to its call. If the call does not run on this server, returns the message
    /// for the other servers.
    pub(crate) fn pass_to_call(&self, scope: Scope, message: &McpMessage<'_>) -> Option<String> {
        match message {
            McpMessage::Response { id, outcome } => {
                let is_possible_question_id =
                    || strict_json::text(id).is_some_and(|id| is_random_id(&id));
                let is_relayed =
                    !self.questions.answer(scope, id, *outcome) && is_possible_question_id();
                is_relayed.then(|| response(id, *outcome))
            }
            McpMessage::Notification { method, params } if method == CANCELLED => {
                let id = params.get("requestId")?;
                let is_relayed = !self.cancellations.cancel(scope, id) && is_id(id.get());
                is_relayed.then(|| cancellation(id))
            }
            McpMessage::Notification { .. } | McpMessage::Request(_) => None,
        }
    }
}

fn response(id: &RawValue, outcome: RpcResult<'_>) -> String {
    let (name, value) = match outcome {
        Ok(result) => ("result", result),
        Err(error) => ("error", error),
    };
    format!(r#"{{"jsonrpc":"2.0","id":{},"{name}":{}}}"#, id.get(), value.get())
}

/// Writes the cancellation of a request, without the client's reason.
fn cancellation(id: &RawValue) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{CANCELLED}","params":{{"requestId":{}}}}}"#, id.get())
}
