//! A request with its terms, and what answers it.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::elicitation;
use super::elicitation::{AnswerMode, Subject};
use super::in_flight::Key;
use super::negotiated::Terms;
use super::notifier::Notifier;
use super::running_call::{Answer, RunningCall};
use crate::access::Caller;
use crate::gateway::within;
use crate::mcp::parse::classify::McpRequest;
use crate::mcp::reply::error::Reject;
use crate::mcp::reply::message::{OutMessage, ResultWriter};
use crate::mcp::streams::event_store::KeptStream;
use crate::mcp::{Inbound, Mcp, Reply};
use crate::upstream::CallError;
use crate::upstream::client::{CallChannel, Client};
use crate::upstream::local::context::Context;
use crate::upstream::local::{Error, TOOL_ERROR, guarded};
use crate::wire::jsonrpc::{INTERNAL_ERROR, RpcError};
use crate::wire::revision::Revision;

/// A request and its terms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    pub(crate) mcp: &'a Arc<Mcp>,
    pub(crate) inbound: &'a Inbound<'a>,
    pub(crate) request: &'a McpRequest<'a>,
    pub(crate) terms: Terms,
}

/// What a call keeps of its request.
#[derive(Debug)]
pub(crate) struct CallContext {
    pub(crate) mcp: Arc<Mcp>,
    pub(crate) caller: Caller,
    pub(crate) id: Box<RawValue>,
    pub(crate) terms: Terms,
    /// `None` for methods that neither notify nor ask their client.
    pub(crate) channel: Option<Arc<CallChannel>>,
    pub(crate) subject: Subject,
    pub(crate) mode: AnswerMode,
}

impl CallContext {
    pub(crate) fn client(&self) -> Client {
        Client::new(self.channel.clone())
    }

    /// Begins a result.
    pub(crate) fn result(&self, capacity: usize) -> ResultWriter {
        ResultWriter::new(&self.id, self.terms.revision, capacity)
    }

    /// Ends a result.
    pub(crate) fn finish(&self, result: ResultWriter) -> OutMessage {
        result.finish(&self.mcp.gateway.settings())
    }
}

impl RequestContext<'_> {
    /// Begins a result.
    pub(crate) fn result(&self, capacity: usize) -> ResultWriter {
        ResultWriter::new(self.request.id, self.terms.revision, capacity)
    }

    pub(crate) fn empty_result(&self) -> Reply {
        Reply::Message(self.result(0).finish(&self.mcp.gateway.settings()))
    }

    pub(crate) fn notifier(&self) -> Result<Notifier, Reject> {
        Notifier::new(self.request, &self.terms)
    }

    /// Starts a call: `run` makes what it runs.
    pub(crate) fn start<F: Future<Output = Answer> + Send + 'static>(
        &self,
        notifier: Notifier,
        subject: Subject,
        mode: AnswerMode,
        run: impl FnOnce(CallContext) -> F,
    ) -> Reply {
        let Self { mcp, inbound, request, terms } = *self;
        let call = CallContext {
            mcp: Arc::clone(mcp),
            caller: inbound.caller.clone(),
            id: request.id.to_owned(),
            terms,
            channel: notifier.channel().cloned(),
            subject,
            mode,
        };
        let key = || Key::Request(request.id.get().to_owned());
        let cancellation = terms.scope.map(|scope| mcp.cancellations.register(scope, key()));
        let call = RunningCall::new(request.id, notifier, cancellation, run(call));
        if terms.revision.is_modern() {
            return Reply::Call(call);
        }
        let kept = match (terms.session, &mcp.services.replay) {
            // Older clients crash on events without data.
            (Some(session), Some(replay)) if terms.revision == Revision::V2025_11_25 => {
                KeptStream::of(session.nonce, replay)
            }
            _ => None,
        };
        Reply::Call(call.outlives_client(kept))
    }

    /// Starts a list, or anything else that does not ask its client.
    pub(crate) fn run<T: Send + 'static, F: Future<Output = Result<T, Error>> + Send + 'static>(
        &self,
        method: &'static str,
        run: impl FnOnce(Context) -> F + Send + 'static,
        write: impl FnOnce(T, &CallContext) -> Result<OutMessage, Reject> + Send + 'static,
    ) -> Result<Reply, Reject> {
        let mode = AnswerMode::Never("clients are not asked here");
        let mut notifier = self.notifier()?;
        notifier.open(&self.terms);
        Ok(self.start(notifier, Subject::of(method), mode, |call| embedder(call, run, write)))
    }

    /// Starts something of the embedder's that may ask the client.
    pub(crate) fn run_about<T, F>(
        &self,
        subject: Subject,
        run: impl FnOnce(Context) -> F + Send + 'static,
        write: impl FnOnce(T, &CallContext) -> Result<OutMessage, Reject> + Send + 'static,
    ) -> Result<Reply, Reject>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let mut notifier = self.notifier()?;
        notifier.open(&self.terms);
        let mode = AnswerMode::of(self, &subject, false)?;
        Ok(self.start(notifier, subject, mode, |call| embedder(call, run, write)))
    }
}

/// Runs something of the embedder's, and writes its result.
async fn embedder<T: Send + 'static, F: Future<Output = Result<T, Error>> + Send + 'static>(
    call: CallContext,
    run: impl FnOnce(Context) -> F + Send + 'static,
    write: impl FnOnce(T, &CallContext) -> Result<OutMessage, Reject> + Send + 'static,
) -> Answer {
    let gateway = &call.mcp.gateway;
    let (context, _guard) =
        Context::new(call.caller.clone(), gateway.next_call_id(), call.client());
    let (client, call_id) = (context.client.clone(), context.call_id.clone());
    let channel = call.channel.clone().unwrap_or_default();
    let work = async {
        let run = guarded(move || Box::pin(run(context)));
        let written = match within(gateway.call_limit(), &client, run).await {
            Ok(value) => write(value, &call),
            Err(error) => Err(refused(error, &call, call_id)),
        };
        written.map_or_else(|reject| reject.of(&call.id).into(), Answer::from)
    };
    elicitation::run_without_tasks(&call, &channel, work).await
}

/// Only what is meant for the client is told.
fn refused(error: CallError, call: &CallContext, error_id: String) -> Reject {
    match error {
        CallError::Rpc(error) if error.code == TOOL_ERROR => {
            Reject::with_status(200, INTERNAL_ERROR, error.message)
        }
        CallError::Rpc(error) | CallError::Protocol(error) => Reject::rpc(error),
        error => {
            let message = format!("Failed (error id {error_id})");
            let _ = error.logged(&call.caller, call.subject.method, error_id);
            Reject::rpc(RpcError::new(INTERNAL_ERROR, message))
        }
    }
}
