//! A request with its terms, and what answers it.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::classify::McpRequest;
use super::elicitation::{self, AnswerMode, Subject};
use super::message::{OutMessage, ResultWriter};
use super::notifier::Notifier;
use super::registry::Key;
use super::reject::Reject;
use super::replay::KeptStream;
use super::running::{Answer, RunningCall};
use super::subscriptions::Listener;
use super::terms::Terms;
use super::{Inbound, Mcp, Reply, completion, handshake, prompts, resources, tasks, terms, tools};
use crate::access::Caller;
use crate::gateway::within;
use crate::upstream::CallError;
use crate::upstream::client::{CallChannel, Client};
use crate::upstream::local::context::Context;
use crate::upstream::local::{Error, TOOL_ERROR, guarded};
use crate::wire::jsonrpc::{INTERNAL_ERROR, INVALID_REQUEST, RpcError};
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
    pub(super) mcp: Arc<Mcp>,
    pub(super) caller: Caller,
    pub(super) id: Box<RawValue>,
    pub(super) terms: Terms,
    /// `None` for methods that neither notify nor ask their client.
    pub(super) channel: Option<Arc<CallChannel>>,
    pub(super) subject: Subject,
    pub(super) mode: AnswerMode,
}

impl CallContext {
    pub(super) fn client(&self) -> Client {
        Client::new(self.channel.clone())
    }

    /// Begins a result.
    pub(super) fn result(&self, capacity: usize) -> ResultWriter {
        ResultWriter::new(&self.id, self.terms.revision, capacity)
    }

    /// Ends a result.
    pub(super) fn finish(&self, result: ResultWriter) -> OutMessage {
        result.finish(&self.mcp.gateway.settings())
    }
}

impl Mcp {
    /// Answers a request that states its own terms.
    pub(super) async fn modern(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        request: &McpRequest<'_>,
    ) -> Result<Reply, Reject> {
        let log_level = terms::log_level(request);
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
    pub(super) async fn reply(&self) -> Result<Reply, Reject> {
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

    /// Begins a result.
    pub(super) fn result(&self, capacity: usize) -> ResultWriter {
        ResultWriter::new(self.request.id, self.terms.revision, capacity)
    }

    pub(super) fn empty_result(&self) -> Reply {
        Reply::Message(self.result(0).finish(&self.mcp.gateway.settings()))
    }

    pub(super) fn notifier(&self) -> Result<Notifier, Reject> {
        Notifier::new(self.request, &self.terms)
    }

    /// Starts a call: `run` makes what it runs.
    pub(super) fn start<F: Future<Output = Answer> + Send + 'static>(
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
    pub(super) fn run<T: Send + 'static, F: Future<Output = Result<T, Error>> + Send + 'static>(
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
    pub(super) fn run_about<T, F>(
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
