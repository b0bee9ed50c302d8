//! The context of a request, and of the call that it starts.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::negotiated::Negotiated;
use super::notifier::Notifier;
use super::questions::{AnswerMode, CallTarget};
use super::running_call::{CallReply, RunningCall};
use crate::access::Caller;
use crate::gateway::with_time_limit;
use crate::mcp::{
    EncodedMessage, Inbound, Mcp, McpError, McpRequest, McpResponse, ResultWriter, some_or_pending,
};
use crate::upstream::client::{CallChannel, Outgoing};
use crate::upstream::local::{Context, Error, TOOL_ERROR, guarded};
use crate::upstream::{CallError, Client};
use crate::wire::jsonrpc::{INTERNAL_ERROR, RpcError};

/// A request, with all data that is needed to answer the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    pub(crate) mcp: &'a Arc<Mcp>,
    pub(crate) inbound: &'a Inbound<'a>,
    pub(crate) request: &'a McpRequest<'a>,
    pub(crate) negotiated: Negotiated,
}

/// The owned part of a request's context, for a call that runs.
#[derive(Debug)]
pub(crate) struct CallContext {
    pub(crate) mcp: Arc<Mcp>,
    pub(crate) caller: Caller,
    pub(crate) id: Box<RawValue>,
    pub(crate) negotiated: Negotiated,
    /// Channel to the client; `None` if the method sends neither notifications nor questions.
    pub(crate) channel: Option<Arc<CallChannel>>,
    pub(crate) target: CallTarget,
    pub(crate) mode: AnswerMode,
}

impl CallContext {
    pub(crate) fn client(&self) -> Client {
        Client::new(self.channel.clone())
    }

    /// Waits for the next message that the method sends to the client.
    pub(crate) async fn next_outgoing(&self) -> Outgoing {
        some_or_pending(self.channel.as_ref().map(|channel| channel.next_outgoing())).await
    }

    /// Returns `true` if the call may continue as a task: a modern `tools/call`, if the server stores tasks.
    pub(crate) fn can_become_task(&self) -> bool {
        self.mcp.tasks.is_some()
            && self.target.method == "tools/call"
            && self.negotiated.revision.is_modern()
    }

    pub(crate) fn result(&self, capacity: usize) -> ResultWriter {
        ResultWriter::new(&self.id, self.negotiated.revision, capacity)
    }

    pub(crate) fn finish(&self, result: ResultWriter) -> EncodedMessage {
        result.finish(&self.mcp.gateway.settings())
    }
}

impl RequestContext<'_> {
    pub(crate) fn result(&self, capacity: usize) -> ResultWriter {
        ResultWriter::new(self.request.id, self.negotiated.revision, capacity)
    }

    pub(crate) fn empty_result(&self) -> McpResponse {
        McpResponse::Message(self.result(0).finish(&self.mcp.gateway.settings()))
    }

    /// Starts a call. `run` returns the future of the call.
    pub(crate) fn start<F>(
        &self,
        notifier: Notifier,
        channel: Option<Arc<CallChannel>>,
        target: CallTarget,
        run: impl FnOnce(Arc<CallContext>) -> F,
    ) -> Result<McpResponse, McpError>
    where
        F: Future<Output = Result<CallReply, McpError>> + Send + 'static,
    {
        let Self { mcp, inbound, request, negotiated } = *self;
        let context = Arc::new(CallContext {
            mcp: Arc::clone(mcp),
            caller: inbound.caller.clone(),
            id: request.id.to_owned(),
            negotiated,
            channel,
            mode: AnswerMode::of(self, &target)?,
            target,
        });
        let work = run(Arc::clone(&context));
        Ok(McpResponse::Call(Box::new(RunningCall::new(context, notifier, work))))
    }

    /// Starts a function of the embedding program. `write` writes the result of the function.
    pub(crate) fn run<T: Send + 'static, F: Future<Output = Result<T, Error>> + Send + 'static>(
        &self,
        target: CallTarget,
        run: impl FnOnce(Context) -> F + Send + 'static,
        write: impl FnOnce(T, &CallContext) -> Result<EncodedMessage, McpError> + Send + 'static,
    ) -> Result<McpResponse, McpError> {
        let notifier = Notifier::new(self.request, self.negotiated.revision)?;
        let channel = notifier.open(&self.negotiated);
        self.start(notifier, Some(channel), target, |call| run_embedded(call, run, write))
    }
}

/// Runs a function of the embedding program and writes its result.
async fn run_embedded<T: Send + 'static, F: Future<Output = Result<T, Error>> + Send + 'static>(
    call: Arc<CallContext>,
    run: impl FnOnce(Context) -> F + Send + 'static,
    write: impl FnOnce(T, &CallContext) -> Result<EncodedMessage, McpError> + Send + 'static,
) -> Result<CallReply, McpError> {
    let (call, gateway) = (&*call, &call.mcp.gateway);
    if call.caller.is_batch_full() {
        return Err(McpError::batch_full());
    }
    let (context, _guard) =
        Context::new(call.caller.clone(), gateway.next_call_id(), call.client());
    let (client, call_id) = (context.client.clone(), context.call_id.clone());
    let run = guarded(move || run(context));
    let value = with_time_limit(gateway.call_limit(), &client, run).await;
    let value = value.map_err(|error| embedded_error(error, call, call_id))?;
    Ok(call.mcp.reserve(&call.caller, write(value, call)?)?.into())
}

/// Converts an error of the embedding program. The text of an internal error is only logged, not sent.
fn embedded_error(error: CallError, call: &CallContext, error_id: String) -> McpError {
    match error {
        CallError::Rpc(error) if error.code == TOOL_ERROR => {
            McpError::from_rpc(RpcError { code: INTERNAL_ERROR, ..error })
        }
        CallError::Rpc(error) | CallError::Protocol(error) => McpError::from_rpc(error),
        error => {
            let message = format!(
                "the request failed; the server's log has the reason (error id {error_id})"
            );
            let _ = error.logged(&call.caller, call.target.method, error_id);
            McpError::from_rpc(RpcError::new(INTERNAL_ERROR, message))
        }
    }
}
