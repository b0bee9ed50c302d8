//! A request and the terms that it is answered on, for whatever answers it.

use std::pin::pin;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::classify::Asked;
use super::converse::{Asks, Conversed, Way, converse};
use super::input_required::{self, Subject};
use super::message::OutMessage;
use super::reject::Reject;
use super::replay::KeptStream;
use super::running::{Answer, PreparedCall, Scope, Work};
use super::voice::Voice;
use super::{Mcp, Reply, Terms};
use crate::access::Caller;
use crate::client::Capabilities;
use crate::context::Context;
use crate::gateway::{CallError, within};
use crate::jsonrpc::{INTERNAL_ERROR, RpcError};
use crate::local::{Error, TOOL_ERROR, guarded};
use crate::revision::Revision;
use crate::upstream::BoxFuture;

/// A request, and on which terms it is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requested<'a> {
    pub(crate) mcp: &'a Arc<Mcp>,
    pub(crate) caller: &'a Caller,
    pub(crate) asked: &'a Asked<'a>,
    pub(crate) terms: Terms,
    pub(crate) capabilities: Capabilities,
    /// What the request's id is unique within, and where answers come from.
    pub(crate) scope: Option<Scope>,
    /// Whether the client hears what is said before the reply.
    pub(crate) hears: bool,
}

impl Requested<'_> {
    /// How its client is asked something, and whether it may be given a task instead.
    pub(crate) fn way(&self, subject: Subject<'_>, tasks: bool) -> Result<Way, Reject> {
        if self.terms.revision.is_modern() {
            let answers = input_required::answers(self.mcp, self.caller, self.asked, subject)?;
            return Ok(Way::Again { answers, tasks });
        }
        Ok(match self.scope {
            Some(scope) if self.hears => {
                Way::Live { scope, questions: Arc::clone(&self.mcp.questions) }
            }
            Some(_) => Way::Cannot("the client cannot be asked: it accepts no stream"),
            None => Way::Cannot("the client cannot be asked: it has no session"),
        })
    }

    pub(crate) fn voice(&self) -> Result<Voice, Reject> {
        Voice::new(self.asked, self.terms, self.capabilities)
    }

    /// The reply that work brings.
    pub(crate) fn call(&self, work: Work, voice: Voice) -> Reply {
        let entered = self.scope.map(|scope| self.mcp.in_flight.enter(scope, self.asked.id));
        let call = Box::new(PreparedCall::new(work, voice, entered));
        let kept = match (self.scope, &self.mcp.replay) {
            // Older clients crash on events without data.
            (Some(Scope::Session(session)), Some(replay))
                if self.terms.revision == Revision::V2025_11_25 =>
            {
                KeptStream::of(session, replay)
            }
            _ => None,
        };
        Reply::Call { call, ends_with_client: self.terms.revision.is_modern(), kept }
    }

    /// Has something of the embedder's run, and its result written. What is about something may ask
    /// the client; a list may not.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        subject: Option<Subject<'_>>,
        run: impl FnOnce(Context) -> BoxFuture<'static, Result<T, Error>> + Send + 'static,
        write: impl FnOnce(T) -> Result<OutMessage, Reject> + Send + 'static,
    ) -> Result<Reply, Reject> {
        let voice = self.voice()?;
        let way = match subject {
            Some(subject) => self.way(subject, false)?,
            None => Way::Cannot("clients are not asked here"),
        };
        let mcp = Arc::clone(self.mcp);
        let (context, guard) =
            Context::new(self.caller.clone(), mcp.gateway.next_call_id(), voice.client());
        let (caller, call_id) = (context.caller.clone(), context.call_id.clone());
        let (client, line) = (context.client.clone(), Arc::clone(voice.line()));
        let id: Box<RawValue> = self.asked.id.to_owned();
        let nothing = Subject { method: &self.asked.method, name: "", arguments: None };
        let about = OwnedSubject::of(subject.unwrap_or(nothing));
        let run = guarded(move || run(context));
        let request_id = id.clone();
        let work = Work::Other(
            request_id,
            Box::pin(async move {
                let _guard = guard;
                let mut run = pin!(within(mcp.gateway.call_limit(), &client, run));
                let reject = match converse(&line, &way, Asks::default(), &mut run).await {
                    Conversed::Over(Ok(value)) => match write(value) {
                        Ok(message) => return message.into(),
                        Err(reject) => reject,
                    },
                    Conversed::Over(Err(error)) => refused(error, &caller, &about, call_id),
                    Conversed::Asks(asks) => {
                        let subject = about.subject();
                        return input_required::answer(&mcp, &caller, &id, subject, asks);
                    }
                    Conversed::Lacks(capability) => Reject::lacks(capability),
                    // It was not offered.
                    Conversed::Task(..) => Reject::with_status(200, INTERNAL_ERROR, "Failed"),
                };
                Answer::from(reject.of(&id))
            }),
        );
        Ok(self.call(work, voice))
    }
}

struct OwnedSubject {
    method: String,
    name: String,
    arguments: Option<Box<RawValue>>,
}

impl OwnedSubject {
    fn of(subject: Subject<'_>) -> Self {
        Self {
            method: subject.method.to_owned(),
            name: subject.name.to_owned(),
            arguments: subject.arguments.map(ToOwned::to_owned),
        }
    }

    fn subject(&self) -> Subject<'_> {
        let arguments = self.arguments.as_deref();
        Subject { method: &self.method, name: &self.name, arguments }
    }
}

/// What the embedder's code says goes to the client only where it is meant for it.
fn refused(error: CallError, caller: &Caller, about: &OwnedSubject, error_id: String) -> Reject {
    match error {
        CallError::Rpc(error) if error.code == TOOL_ERROR => {
            Reject::with_status(200, INTERNAL_ERROR, error.message)
        }
        CallError::Rpc(error) | CallError::Protocol(error) => Reject::rpc(error),
        error => {
            let message = format!("Failed (error id {error_id})");
            let _ = error.logged(caller, &about.method, error_id);
            Reject::rpc(RpcError::new(INTERNAL_ERROR, message))
        }
    }
}
