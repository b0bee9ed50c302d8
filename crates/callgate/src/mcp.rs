//! The Model Context Protocol in all its revisions, without I/O. [`http`](crate::http) has an example.
//!
//! A transport passes each message to [`Mcp::handle`]. `parse` checks the message and determines its [`Era`];
//! `dispatch` calls the function of the MCP method. The result is a message, a [`RunningCall`] that the transport
//! polls, or a [`NotificationStream`]. The transports are [`http`](crate::http) and [`stdio`](crate::stdio).

pub(crate) mod parse;
pub(crate) mod reply;
mod random_id;
mod sessions;
mod calls;
mod streams;
pub(crate) mod features;
mod dispatch;
mod test_client;

use std::sync::Arc;

use tokio::sync::{broadcast, watch};

use crate::access::Caller;
use crate::gateway::Gateway;
use crate::model::output::CompiledOutput;
use crate::model::schema::cache::SchemaCache;
use crate::upstream::{BoxFuture, CallError};
use crate::wire::jsonrpc::INTERNAL_ERROR;
use calls::in_flight::Cancellations;
use calls::questions::Questions;
use features::tasks::Tasks;
use parse::classify::classify;
use sessions::unread_pages::UnreadPages;
use streams::event::{Change, MAX_WAITING};

pub(crate) use calls::context::{CallContext, RequestContext};
pub(crate) use calls::in_flight::{Cancellation, InFlightKey, Scope};
pub(crate) use calls::negotiated::Negotiated;
pub(crate) use calls::questions::CallTarget;
pub(crate) use features::tools::MAX_PAGE_BYTES;
pub(crate) use parse::classify::McpRequest;
#[cfg(feature = "http")]
pub(crate) use parse::envelope::request_id;
pub(crate) use reply::message::{ResultWriter, ServerInfo, write_json};
pub(crate) use sessions::session_id::Session;

pub use crate::wire::{Era, LogLevel, LogLevelError, Revision, RevisionError};
pub use features::completion::{Complete, CompletionReference, CompletionRequest, Completions};
#[cfg(feature = "macros")]
pub use features::prompt_function::PromptFunction;
pub use features::prompts::{GetPromptResult, Prompt, Prompts};
#[cfg(feature = "macros")]
pub use features::resource_function::{IntoContents, ResourceFunction};
pub use features::resources::{Resource, Resources};
pub use features::tasks::{Task, TaskStatus, TaskStore};
pub use sessions::Sessions;
pub use sessions::relay::Relay;
pub use sessions::session_id::{Nonce, SessionKey};
pub use sessions::state::{SessionChange, SessionEdit, SessionState, SessionStore};
pub use streams::event::{Identify, IdentifyError};
pub use streams::event_store::{EventStore, StoredEvent};
pub use test_client::TestClient;

// For transports.
#[doc(hidden)]
pub use self::{
    calls::running_call::{CallReply, RunningCall},
    parse::classify::{HEADER_MISMATCH, InboundKind, UNSUPPORTED_VERSION},
    parse::headers::{Header, Headers, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID},
    reply::error::{MISSING_CAPABILITY, McpError},
    reply::message::EncodedMessage,
    sessions::connection::Connection,
    streams::event::Event,
    streams::event_store::{EventReader, ResumableStream},
    streams::notification_stream::NotificationStream,
};

/// Serves the Model Context Protocol, for all transports.
///
/// Applications get this value from [`Callgate::mcp`](crate::Callgate::mcp). The module [`http`](crate::http) has an
/// example that creates it.
#[derive(Debug)]
pub struct Mcp {
    gateway: Arc<Gateway>,
    sessions: Sessions,
    /// Compiled output schemas.
    outputs: SchemaCache<CompiledOutput>,
    cancellations: Arc<Cancellations>,
    questions: Arc<Questions>,
    unread_pages: UnreadPages,
    changes: broadcast::Sender<Change>,
    services: Services,
    tasks: Option<Tasks>,
    closing: watch::Sender<bool>,
}

/// Features that a server has in addition to tools.
///
/// Argument of [`Mcp::with_services`]. Functions of [`Builder`](crate::Builder), such as
/// [`completion`](crate::Builder::completion), set the same features.
#[derive(Debug, Clone, Default)]
pub struct Services {
    /// Prompts.
    pub prompts: Option<Arc<dyn Prompts>>,
    /// Resources. The caller's tools are always offered as a resource, too.
    pub resources: Option<Arc<dyn Resources>>,
    /// Completion of arguments.
    pub completion: Option<Arc<dyn Complete>>,
    /// Stores tasks, for methods that call [`Client::become_task`](crate::upstream::Client::become_task).
    pub tasks: Option<Arc<dyn TaskStore>>,
    /// Stores the events of legacy streams, so that clients can resume them.
    pub event_store: Option<Arc<dyn EventStore>>,
}

/// A message from a client, with data from the transport.
///
/// Argument of [`Mcp::handle`]. The transports [`http`](crate::http) and [`stdio`](crate::stdio) build it; applications
/// do not need it.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Inbound<'a> {
    /// The kind of message.
    pub kind: InboundKind,
    /// HTTP headers; `None` over stdio.
    pub headers: Option<&'a dyn Headers>,
    /// Text of the message.
    pub body: &'a str,
    /// The connection that carries all messages of the client; `None` over HTTP.
    pub connection: Option<&'a Arc<Connection>>,
    /// The authenticated caller.
    pub caller: &'a Caller,
    /// Returns the [`Identify`] that identifies the caller again while a stream is open.
    pub identify: &'a (dyn Fn() -> Arc<dyn Identify> + Sync),
    /// Whether the client can read messages that are sent before the reply.
    pub accepts_events: bool,
}

impl Inbound<'_> {
    /// Returns `true` if only read-only tools may run.
    pub(crate) fn is_read_only(&self) -> bool {
        self.kind == InboundKind::RawRequest
    }
}

impl std::fmt::Debug for Inbound<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbound").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The response to a message.
///
/// Returned by [`Mcp::handle`]. The transports [`http`](crate::http) and [`stdio`](crate::stdio) send it; applications
/// do not need it.
#[doc(hidden)]
#[derive(Debug)]
pub enum McpResponse {
    /// A message.
    Message(EncodedMessage),
    /// The response to `initialize`.
    SessionOpened {
        /// The message.
        message: EncodedMessage,
        /// The new session's id, for the header `Mcp-Session-Id`.
        session: Option<String>,
    },
    /// The client's message needs no response.
    Accepted,
    /// A call that runs.
    Call(Box<RunningCall>),
    /// A stream of notifications.
    Notifications(Box<NotificationStream>),
    /// A stream that the client resumed.
    Resumed(Box<EventReader>),
    /// Responses to a batch.
    Batch(Vec<BatchPart>),
}

/// One response of a batch.
///
/// Part of [`McpResponse::Batch`]. Argument of [`answer_batch`].
#[doc(hidden)]
#[derive(Debug)]
pub enum BatchPart {
    /// A message.
    Message(EncodedMessage),
    /// A call that runs.
    Call(RunningCall),
}

/// Collects the responses of a batch. The calls of the batch run concurrently: the future of each call is passed to
/// `spawn`.
///
/// Returns `None` if all parts of the batch are calls that were cancelled.
///
/// The transports [`http`](crate::http) and [`stdio`](crate::stdio) call this function for [`McpResponse::Batch`];
/// applications do not need it.
#[doc(hidden)]
pub fn answer_batch(
    mut parts: Vec<BatchPart>,
    mut spawn: impl FnMut(BoxFuture<'static, ()>),
) -> impl Future<Output = Option<EncodedMessage>> + Send + 'static {
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
                    messages.extend(call.reply().await.map(|reply| reply.message));
                }
            }
        }
        (!messages.is_empty()).then(|| EncodedMessage::batch(messages))
    }
}

impl Mcp {
    /// Creates a server for the tools of a gateway.
    pub fn new(gateway: Arc<Gateway>, sessions: Sessions) -> Self {
        Self::with_services(gateway, sessions, Services::default())
    }

    /// Creates a server for the tools of a gateway and for other features.
    pub fn with_services(gateway: Arc<Gateway>, sessions: Sessions, services: Services) -> Self {
        Self {
            gateway,
            sessions,
            outputs: SchemaCache::new(CompiledOutput::compile),
            cancellations: Arc::default(),
            questions: Arc::default(),
            unread_pages: UnreadPages::default(),
            tasks: services.tasks.clone().map(Tasks::new),
            changes: broadcast::Sender::new(MAX_WAITING),
            services,
            closing: watch::Sender::new(false),
        }
    }

    /// Notifies clients that the list of prompts changed.
    pub fn prompts_changed(&self) {
        self.announce(Change::Prompts);
    }

    /// Notifies clients that the list of resources changed.
    pub fn resources_changed(&self) {
        self.announce(Change::Resources);
    }

    /// Notifies subscribed clients that the contents of a resource changed.
    pub fn resource_updated(&self, uri: &str) {
        self.announce(Change::Resource(uri.into()));
    }

    fn announce(&self, change: Change) {
        // Sending fails if there are no open streams, which is not an error.
        let _ = self.changes.send(change);
    }

    /// Returns the gateway.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Returns the legacy sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Applies a session change that was stored by another server or by an earlier process. If the change ended the
    /// session, ends its calls and streams on this server.
    pub fn apply_change(&self, change: SessionChange) {
        let (nonce, has_ended) = (change.nonce, change.state.ended);
        self.sessions.apply_change(change);
        if has_ended {
            self.cancel_session(nonce);
        }
    }

    fn cancel_session(&self, session: Nonce) {
        self.cancellations.cancel_all(Scope::Session(session));
    }

    /// Ends all streams, so that the process can shut down.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Handles a message.
    #[doc(hidden)]
    pub async fn handle(self: &Arc<Self>, inbound: &Inbound<'_>) -> Result<McpResponse, McpError> {
        let Inbound { kind, headers, body, caller, .. } = *inbound;
        let admitted = self.gateway.count_request(caller);
        let route = classify(kind, headers, body, self.gateway.settings().protocol_version);
        let route = route.map_err(|error| match admitted {
            Ok(()) => error,
            Err(limited) => {
                let McpError { id, is_for_notification, .. } = error;
                McpError { id, is_for_notification, ..limited.into() }
            }
        })?;
        if admitted.is_err() || !self.gateway.has_visibility() {
            return self.route(inbound, route, admitted).await;
        }
        let caller = &if route.depends_on_tools() {
            Box::pin(self.gateway.prepare(caller.clone())).await
        } else {
            Box::pin(self.gateway.prepare_at_once(caller.clone())).await
        };
        self.route(&Inbound { caller, ..*inbound }, route, admitted).await
    }

    /// Reserves memory in the budget for a message, until the message is sent.
    fn reserve(
        &self,
        caller: &Caller,
        message: EncodedMessage,
    ) -> Result<EncodedMessage, McpError> {
        match self.gateway.reserve(caller, message.len()) {
            Ok(reservation) => Ok(message.with_reservation(reservation)),
            Err(exceeded) => {
                Err(McpError::new(200, INTERNAL_ERROR, CallError::from(exceeded).to_string()))
            }
        }
    }

    fn can_subscribe(&self) -> bool {
        self.services.resources.as_ref().is_some_and(|resources| resources.can_subscribe())
    }
}

/// Waits for a future. Never resolves for `None`.
async fn some_or_pending<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
