//! The Model Context Protocol, every revision of it, with no I/O: a message comes in as text, what is
//! to be sent comes out.
//!
//! A transport gives each message to [`Mcp::handle`]. [`classify`] tells which era it belongs to and
//! what is wrong with it; then it is answered at once, or becomes a [`PreparedCall`] that the
//! transport runs, or a [`Listener`] that the transport streams from. HTTP is in [`crate::http`],
//! stdio in [`crate::stdio`].

mod classify;
pub(crate) mod compact;
mod completion;
mod connection;
mod converse;
mod envelope;
mod handshake;
pub(crate) mod headers;
mod input_required;
mod legacy;
mod members;
mod message;
mod modern;
mod news;
mod output;
mod page;
mod param_headers;
mod prompts;
mod reject;
mod relay;
mod replay;
mod requested;
mod resources;
mod running;
mod session;
mod session_state;
mod session_streams;
mod tasks;
mod tools;
mod voice;
mod watch;

use std::sync::Arc;

use tokio::sync::watch as tokio_watch;

use crate::access::Caller;
use crate::gateway::Gateway;
use crate::log_level::LogLevel;
use crate::revision::Revision;
use crate::upstream::BoxFuture;
use converse::Questions;
use news::{News, Newsroom};
use output::OutputChecks;
use requested::Requested;
use running::{InFlight, Scope};
use session_streams::SessionStreams;
use tasks::Tasks;

pub use classify::{
    Asked, HEADER_MISMATCH, Inbound, Incoming, Outcome, Route, UNSUPPORTED_VERSION, Verb, classify,
};
pub use completion::{Complete, CompletionOf, Completions, ToComplete};
pub use connection::Connection;
#[cfg(any(test, fuzzing))]
pub(crate) use envelope::incoming;
pub use headers::{Header, Headers, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID};
pub use message::OutMessage;
pub use prompts::{Filled, Prompt, Prompts};
pub use reject::{MISSING_CAPABILITY, Reject};
pub use relay::Relay;
pub use replay::{Kept, KeptReader, KeptStream, Read, Replay};
pub use resources::{Resource, ResourceTemplate, Resources};
pub use running::{Answer, Ended, PreparedCall, RunningCall};
pub use session::{Nonce, SessionKey, Sessions};
pub use session_state::{KeepSessions, SessionChange, SessionEdit, SessionState};
pub use tasks::{Task, TaskStatus, TaskStore};
pub use watch::{Event, Identify, Listener, Unidentified};

/// The protocol over a gateway, shared by every transport.
#[derive(Debug)]
pub struct Mcp {
    gateway: Arc<Gateway>,
    sessions: Sessions,
    outputs: OutputChecks,
    in_flight: Arc<InFlight>,
    questions: Arc<Questions>,
    streams: Arc<SessionStreams>,
    news: Newsroom,
    prompts: Option<Arc<dyn Prompts>>,
    resources: Option<Arc<dyn Resources>>,
    completion: Option<Arc<dyn Complete>>,
    tasks: Option<Tasks>,
    replay: Option<Arc<dyn Replay>>,
    closing: tokio_watch::Sender<bool>,
}

/// What a request is answered by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) revision: Revision,
    /// Whether tools that change something are out.
    pub(crate) read_only: bool,
    /// The least severe log messages that the client wants; none unless it says so.
    pub(crate) log_level: Option<LogLevel>,
}

impl Terms {
    pub(crate) const MODERN: Self =
        Self { revision: Revision::NEWEST, read_only: false, log_level: None };
}

/// What carries the messages of a client.
#[derive(Debug, Clone, Copy)]
pub enum Carrier<'a> {
    /// Each message is an HTTP request of its own.
    Http,
    /// All messages share one connection, which is the legacy session.
    Connection(&'a Arc<Connection>),
    /// A GET with the message in its URL: no session, and nothing that changes anything.
    RawRequest,
}

impl Carrier<'_> {
    /// What the ids of modern requests are unique within. Over HTTP, who goes away cancels.
    fn scope(self) -> Option<Scope> {
        match self {
            Self::Connection(connection) => Some(connection.scope()),
            Self::Http | Self::RawRequest => None,
        }
    }
}

/// A message, and everything that belongs to it.
pub struct Exchange<'a> {
    /// The message.
    pub inbound: Inbound<'a>,
    /// How it came.
    pub carrier: Carrier<'a>,
    /// Who sends it.
    pub caller: &'a Caller,
    /// Who that is later on, for clients that listen.
    pub who: &'a (dyn Fn() -> Arc<dyn Identify> + Sync),
    /// Whether the sender hears what is said before the reply.
    pub hears: bool,
}

impl std::fmt::Debug for Exchange<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("inbound", &self.inbound).finish_non_exhaustive()
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
    /// What a call brings. One of the legacy era goes on when its client goes away.
    Call {
        /// The call.
        call: Box<PreparedCall>,
        /// Whether it ends with its client.
        ends_with_client: bool,
        /// Where what it brings is kept, if it is streamed.
        kept: Option<KeptStream>,
    },
    /// What happens from now on.
    Listen(Box<Listener>),
    /// What happened on a stream since its client lost it.
    Replay(Box<KeptReader>),
    /// The answers to several messages, as one list.
    Batch(Vec<BatchPart>),
}

/// One answer of a batch.
#[derive(Debug)]
pub enum BatchPart {
    /// It is there.
    Message(OutMessage),
    /// A call brings it.
    Call(Box<PreparedCall>),
}

/// The answers of a batch. Its calls run side by side, each given to `spawn` at once; `None` comes
/// where all were cancelled.
pub fn answer_batch(
    parts: Vec<BatchPart>,
    mut spawn: impl FnMut(BoxFuture<'static, ()>),
) -> impl Future<Output = Option<OutMessage>> + Send + 'static {
    let mut answers = Vec::with_capacity(parts.len());
    for part in parts {
        answers.push(match part {
            BatchPart::Message(message) => Err(message),
            BatchPart::Call(call) => {
                let mut running = call.start();
                spawn(running.detach());
                Ok(running)
            }
        });
    }
    async move {
        let mut messages = Vec::with_capacity(answers.len());
        for answer in answers {
            match answer {
                Err(message) => messages.push(message),
                Ok(mut running) => {
                    if let Ended::Answered(answer) = running.ended().await {
                        messages.push(answer.reply);
                    }
                }
            }
        }
        (!messages.is_empty()).then(|| OutMessage::batch(messages))
    }
}

impl Mcp {
    /// The protocol over a gateway.
    pub fn new(gateway: Arc<Gateway>, sessions: Sessions) -> Self {
        Self {
            gateway,
            sessions,
            outputs: OutputChecks::default(),
            in_flight: Arc::default(),
            questions: Arc::default(),
            streams: Arc::default(),
            news: Newsroom::default(),
            prompts: None,
            resources: None,
            completion: None,
            tasks: None,
            replay: None,
            closing: tokio_watch::Sender::new(false),
        }
    }

    /// Offers prompts.
    #[must_use]
    pub fn prompts(mut self, prompts: Arc<dyn Prompts>) -> Self {
        self.prompts = Some(prompts);
        self
    }

    /// Offers resources, beside the caller's tools as one.
    #[must_use]
    pub fn resources(mut self, resources: Arc<dyn Resources>) -> Self {
        self.resources = Some(resources);
        self
    }

    /// Offers completion of arguments.
    #[must_use]
    pub fn completion(mut self, completion: Arc<dyn Complete>) -> Self {
        self.completion = Some(completion);
        self
    }

    /// Lets methods run on as tasks ([`Client::become_task`](crate::Client::become_task)), which are
    /// kept here.
    #[must_use]
    pub fn tasks(mut self, store: Arc<dyn TaskStore>) -> Self {
        self.tasks = Some(Tasks::new(store, self.news.clone()));
        self
    }

    /// Keeps what is said on the streams of legacy clients, so that they can lose them and come back
    /// ([`Client::let_go`](crate::Client::let_go)).
    #[must_use]
    pub fn replay(mut self, replay: Arc<dyn Replay>) -> Self {
        self.replay = Some(replay);
        self
    }

    /// Tells clients that listen that there are other prompts.
    pub fn prompts_changed(&self) {
        self.news.tell(News::Prompts);
    }

    /// Tells clients that listen that there are other resources.
    pub fn resources_changed(&self) {
        self.news.tell(News::Resources);
    }

    /// Tells clients that asked for it that a resource has other contents.
    pub fn resource_updated(&self, uri: &str) {
        self.news.tell(News::Resource(uri.into()));
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
        self.streams.end(session);
        self.in_flight.end(Scope::Session(session));
    }

    /// Ends the streams of clients that listen, so that the program can stop.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    pub(crate) fn closing(&self) -> tokio_watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Answers a message.
    pub async fn handle(self: &Arc<Self>, exchange: &Exchange<'_>) -> Result<Reply, Reject> {
        let newest = self.gateway.settings().protocol_version;
        let route = classify(&exchange.inbound, newest)?;
        if !self.gateway.has_visibility() {
            return self.routed(exchange, route).await;
        }
        let caller = exchange.caller.clone();
        let caller = &if route.is_about_tools() {
            self.gateway.prepare(caller).await
        } else {
            self.gateway.prepare_at_once(caller).await
        };
        let Exchange { inbound, carrier, who, hears, .. } = *exchange;
        self.routed(&Exchange { inbound, carrier, caller, who, hears }, route).await
    }

    async fn routed(
        self: &Arc<Self>,
        exchange: &Exchange<'_>,
        route: Route<'_>,
    ) -> Result<Reply, Reject> {
        match route {
            Route::Modern(asked) => {
                self.modern(exchange, &asked).map_err(|reject| reject.of(asked.id))
            }
            Route::Legacy { claimed, message } => {
                self.legacy_message(exchange, claimed, message).await
            }
            Route::Batch { claimed, messages } => self.batch(exchange, claimed, messages).await,
            Route::Stream { claimed } => self.legacy_stream(exchange, claimed),
            Route::End => self.end(exchange).await,
        }
    }

    fn can_subscribe(&self) -> bool {
        self.resources.as_ref().is_some_and(|resources| resources.can_subscribe())
    }

    /// What both eras have.
    fn common(request: &Requested<'_>) -> Result<Reply, Reject> {
        match request.asked.method.as_ref() {
            "tools/list" => tools::list(request).map(Reply::Message),
            "resources/list" => resources::list(request),
            "resources/templates/list" => resources::list_templates(request),
            "resources/read" => resources::read(request),
            "prompts/list" => prompts::list(request),
            "prompts/get" => prompts::get(request),
            "completion/complete" => completion::complete(request),
            other => Err(Reject::no_such_method(other, request.terms.revision.is_modern())),
        }
    }

    fn call(request: &Requested<'_>, headers: Option<&dyn Headers>) -> Result<Reply, Reject> {
        let voice = request.voice()?;
        let call = tools::call(request, &voice, headers)?;
        Ok(request.call(running::Work::Tool(call), voice))
    }
}
