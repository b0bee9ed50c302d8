//! The Model Context Protocol, every revision of it, with no I/O: a message comes in as text, what is
//! to be sent comes out.
//!
//! A transport gives each message to [`Mcp::handle`]. `classify` tells which era it belongs to and
//! what is wrong with it; then it is answered at once, or becomes a [`RunningCall`] that the
//! transport polls, or a [`Listener`] that the transport streams from. HTTP is in [`crate::transport::http`],
//! stdio in [`crate::transport::stdio`].

pub(crate) mod parse;
pub(crate) mod reply;
mod sessions;
mod calls;
mod streams;
pub(crate) mod features;
mod dispatch;

use std::sync::Arc;

use tokio::sync::watch;

use crate::access::Caller;
use crate::gateway::Gateway;
use crate::upstream::BoxFuture;
use calls::elicitation::Questions;
use calls::in_flight::{Cancellations, Scope};
use features::output::OutputChecks;
use features::tasks::Tasks;
use parse::classify::classify;
use streams::event::{Change, EventBus};

pub use crate::wire::{Era, LogLevel, LogLevelError, Revision, RevisionError};
pub use calls::running_call::{Answer, RunningCall};
pub use features::completion::{Complete, CompletionOf, Completions, ToComplete};
#[cfg(feature = "macros")]
pub use features::prompt_function::PromptFunction;
pub use features::prompts::{Filled, Prompt, Prompts};
#[cfg(feature = "macros")]
pub use features::resource_function::{IntoContents, ResourceFunction};
pub use features::resources::{Resource, Resources};
pub use features::tasks::{Task, TaskStatus, TaskStore};
pub use parse::classify::{HEADER_MISMATCH, UNSUPPORTED_VERSION, Verb};
pub use parse::headers::{Header, Headers, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID};
pub use reply::error::{MISSING_CAPABILITY, Reject};
pub use reply::message::OutMessage;
pub use sessions::connection::Connection;
pub use sessions::relay::Relay;
pub use sessions::session::{Nonce, SessionKey, Sessions};
pub use sessions::state::{KeepSessions, SessionChange, SessionEdit, SessionState};
pub use streams::event::{Event, Identify, Unidentified};
pub use streams::event_store::{Kept, KeptReader, KeptStream, Replay};
pub use streams::notification_stream::Listener;

/// The protocol over a gateway, shared by every transport.
#[derive(Debug)]
pub struct Mcp {
    gateway: Arc<Gateway>,
    sessions: Sessions,
    outputs: OutputChecks,
    cancellations: Arc<Cancellations>,
    questions: Arc<Questions>,
    events: EventBus,
    services: Services,
    tasks: Option<Tasks>,
    closing: watch::Sender<bool>,
}

/// What a server offers beside tools.
#[derive(Debug, Clone, Default)]
pub struct Services {
    /// Prompts.
    pub prompts: Option<Arc<dyn Prompts>>,
    /// Resources, beside the caller's tools as one.
    pub resources: Option<Arc<dyn Resources>>,
    /// Completion of arguments.
    pub completion: Option<Arc<dyn Complete>>,
    /// Stores tasks, so that methods can run on as tasks
    /// ([`Client::become_task`](crate::upstream::Client::become_task)).
    pub tasks: Option<Arc<dyn TaskStore>>,
    /// Stores the events of legacy clients' streams, so that they can lose them and come back
    /// ([`Client::close_stream`](crate::upstream::Client::close_stream)).
    pub replay: Option<Arc<dyn Replay>>,
}

/// A message and how it came.
#[derive(Clone, Copy)]
pub struct Inbound<'a> {
    /// How it came.
    pub verb: Verb,
    /// The headers; `None` over stdio, where nothing repeats the body.
    pub headers: Option<&'a dyn Headers>,
    /// The text.
    pub body: &'a str,
    /// The connection that all messages of the client share, which is the legacy session; `None` if each
    /// message is an HTTP request of its own.
    pub connection: Option<&'a Arc<Connection>>,
    /// Who sends it.
    pub caller: &'a Caller,
    /// Makes what identifies the caller later on, for clients that listen.
    pub identify: &'a (dyn Fn() -> Arc<dyn Identify> + Sync),
    /// Whether the sender reads what is sent before the reply.
    pub accepts_events: bool,
}

impl std::fmt::Debug for Inbound<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbound").field("verb", &self.verb).finish_non_exhaustive()
    }
}

/// What a message is answered with.
#[derive(Debug)]
pub enum Reply {
    /// A message, at once.
    Message(OutMessage),
    /// A handshake's reply, and the id of the session that begins.
    Opened {
        /// The reply.
        message: OutMessage,
        /// The id, for the header.
        session: Option<String>,
    },
    /// Nothing.
    Accepted,
    /// The reply of a call.
    Call(RunningCall),
    /// Notifications from now on.
    Listen(Box<Listener>),
    /// The events of a stream since its client lost it.
    Replay(Box<KeptReader>),
    /// The answers to several messages, as one list.
    Batch(Vec<BatchPart>),
}

/// One answer of a batch.
#[derive(Debug)]
pub enum BatchPart {
    /// It is ready.
    Message(OutMessage),
    /// A call has it.
    Call(RunningCall),
}

/// Answers a batch. Its calls run side by side, each given to `spawn` at once; `None` if all were
/// cancelled.
pub fn answer_batch(
    mut parts: Vec<BatchPart>,
    mut spawn: impl FnMut(BoxFuture<'static, ()>),
) -> impl Future<Output = Option<OutMessage>> + Send + 'static {
    for part in &mut parts {
        if let BatchPart::Call(call) = part {
            spawn(call.detach());
        }
    }
    async move {
        let mut messages = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                BatchPart::Message(message) => messages.push(message),
                BatchPart::Call(mut call) => {
                    messages.extend(call.answer().await.map(|answer| answer.reply));
                }
            }
        }
        (!messages.is_empty()).then(|| OutMessage::batch(messages))
    }
}

impl Mcp {
    /// The protocol over a gateway, with tools only.
    pub fn new(gateway: Arc<Gateway>, sessions: Sessions) -> Self {
        Self::with_services(gateway, sessions, Services::default())
    }

    /// The protocol over a gateway, with what it offers beside tools.
    pub fn with_services(gateway: Arc<Gateway>, sessions: Sessions, services: Services) -> Self {
        let events = EventBus::default();
        let store = services.tasks.clone();
        Self {
            gateway,
            sessions,
            outputs: OutputChecks::default(),
            cancellations: Arc::default(),
            questions: Arc::default(),
            tasks: store.map(|store| Tasks::new(store, events.clone())),
            events,
            services,
            closing: watch::Sender::new(false),
        }
    }

    /// Tells clients that listen that there are other prompts.
    pub fn prompts_changed(&self) {
        self.announce(Change::Prompts);
    }

    /// Tells clients that listen that there are other resources.
    pub fn resources_changed(&self) {
        self.announce(Change::Resources);
    }

    /// Tells clients that asked for it that a resource has other contents.
    pub fn resource_updated(&self, uri: &str) {
        self.announce(Change::Resource(uri.into()));
    }

    fn announce(&self, change: Change) {
        // Nobody may be listening.
        let _ = self.events.changes.send(change);
    }

    /// The gateway.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// The legacy sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// What another server, or this one before its restart, kept of a session. One that was ended there
    /// is over here too, with its calls and streams.
    pub fn learn(&self, change: SessionChange) {
        let (nonce, has_ended) = (change.nonce, change.state.ended);
        self.sessions.learn(change);
        if has_ended {
            self.ended(nonce);
        }
    }

    fn ended(&self, session: Nonce) {
        self.cancellations.cancel_all(Scope::Session(session));
    }

    /// Ends the streams of clients that listen, so that the program can stop.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Answers a message.
    pub async fn handle(self: &Arc<Self>, inbound: &Inbound<'_>) -> Result<Reply, Reject> {
        let Inbound { verb, headers, body, caller, .. } = *inbound;
        let route = classify(verb, headers, body, self.gateway.settings().protocol_version)?;
        if !self.gateway.has_visibility() {
            return self.route(inbound, route).await;
        }
        let caller = &if route.is_about_tools() {
            self.gateway.prepare(caller.clone()).await
        } else {
            self.gateway.prepare_at_once(caller.clone()).await
        };
        self.route(&Inbound { caller, ..*inbound }, route).await
    }

    fn can_subscribe(&self) -> bool {
        self.services.resources.as_ref().is_some_and(|resources| resources.can_subscribe())
    }
}
