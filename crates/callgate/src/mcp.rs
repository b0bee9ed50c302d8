//! The Model Context Protocol, every revision of it, with no I/O: a message comes in as text, what is
//! to be sent comes out.
//!
//! A transport gives each message to [`Mcp::handle`]. [`classify`] tells which era it belongs to and
//! what is wrong with it; then it is answered at once, or becomes a [`PreparedCall`] that the
//! transport runs, or a [`Listener`] that the transport streams from. HTTP is in [`crate::http`],
//! stdio in [`crate::stdio`].

mod classify;
pub(crate) mod compact;
mod envelope;
mod handshake;
pub(crate) mod headers;
mod log_level;
mod members;
mod message;
mod output;
mod param_headers;
mod reject;
mod resources;
mod running;
mod session;
mod session_streams;
mod tools;
mod watch;

use std::str::FromStr as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch as tokio_watch;

use crate::access::Caller;
use crate::gateway::Gateway;
use crate::jsonrpc::INTERNAL_ERROR;
use crate::revision::Revision;
use crate::upstream::BoxFuture;
use members::Members;
use output::OutputChecks;
use running::{Entered, InFlight, Scope};
use session::Session;
use session_streams::SessionStreams;

pub use classify::{
    Asked, HEADER_MISMATCH, Inbound, Incoming, Route, UNSUPPORTED_VERSION, Verb, classify,
};
pub use headers::{Header, Headers, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID};
pub use log_level::{LogLevel, LogLevelError};
pub use message::OutMessage;
pub use reject::Reject;
pub use running::{Ended, PreparedCall, RunningCall};
pub use session::{KeepSessions, Nonce, SessionChange, SessionKey, SessionState, Sessions};
pub use tools::{Answer, ToolCall};
pub use watch::{Event, Identify, Listener};

const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The protocol over a gateway, shared by every transport.
#[derive(Debug)]
pub struct Mcp {
    gateway: Arc<Gateway>,
    sessions: Sessions,
    outputs: OutputChecks,
    in_flight: Arc<InFlight>,
    streams: Arc<SessionStreams>,
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
    Connection(&'a Connection),
    /// A GET with the message in its URL: no session, and nothing that changes anything.
    RawRequest,
}

impl Carrier<'_> {
    /// What the ids of modern requests are unique within. Over HTTP, who goes away cancels.
    fn scope(self) -> Option<Scope> {
        match self {
            Self::Connection(connection) => Some(Scope::Connection(connection.number)),
            Self::Http | Self::RawRequest => None,
        }
    }
}

/// A connection that a client keeps: what legacy messages agreed on.
#[derive(Debug)]
pub struct Connection {
    number: u64,
    agreed: Mutex<Agreed>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Agreed {
    revision: Option<Revision>,
    log_level: Option<LogLevel>,
}

impl Default for Connection {
    fn default() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self { number: COUNT.fetch_add(1, Ordering::Relaxed), agreed: Mutex::default() }
    }
}

impl Connection {
    /// Whether the client has had its handshake, and so hears of changes unasked.
    pub fn is_initialized(&self) -> bool {
        self.agreed().revision.is_some()
    }

    fn agreed(&self) -> Agreed {
        *self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn agree(&self, change: impl FnOnce(&mut Agreed)) {
        change(&mut self.agreed.lock().unwrap_or_else(PoisonError::into_inner));
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
    },
    /// What happens from now on.
    Listen(Box<Listener>),
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
            streams: Arc::default(),
            closing: tokio_watch::Sender::new(false),
        }
    }

    /// The gateway.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// The legacy sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
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
        match classify(&exchange.inbound, newest)? {
            Route::Modern(asked) => {
                self.modern(exchange, &asked).map_err(|reject| reject.of(asked.id))
            }
            Route::Legacy { claimed, message } => {
                let client = match self.client_of(exchange, claimed, &message) {
                    Ok(client) => client,
                    Err(reject) => return Err(about(&message, reject)),
                };
                self.legacy(exchange, &client, message).await
            }
            Route::Batch { claimed, messages } => {
                let client = self.client(exchange, claimed)?;
                self.batch(exchange, &client, messages).await
            }
            Route::Stream { claimed } => {
                let client = self.client(exchange, claimed)?;
                let who = (exchange.who)();
                let mut listener = Listener::legacy(self, exchange.caller, who);
                if let Some(session) = client.session {
                    let place = self.streams.open(session.nonce);
                    listener.belongs_to(session, place);
                }
                Ok(Reply::Listen(Box::new(listener)))
            }
            Route::End => self.end(exchange).await,
        }
    }

    fn modern(
        self: &Arc<Self>,
        exchange: &Exchange<'_>,
        asked: &Asked<'_>,
    ) -> Result<Reply, Reject> {
        let log_level = asked.meta.text(META_LOG_LEVEL).and_then(|level| {
            level.map(|level| LogLevel::from_str(&level)).transpose().map_err(|e| e.to_string())
        });
        let read_only = matches!(exchange.carrier, Carrier::RawRequest);
        let wanted = log_level.as_ref().ok().copied().flatten();
        let terms = Terms { read_only, log_level: wanted, ..Terms::MODERN };
        let reply = match asked.method.as_ref() {
            "server/discover" => Reply::Message(handshake::discover(self, asked, terms)),
            "subscriptions/listen" => {
                let who = (exchange.who)();
                let entered = self.enter(exchange.carrier.scope(), asked);
                let listener = Listener::modern(self, exchange.caller, who, asked, entered)?;
                Reply::Listen(Box::new(listener))
            }
            "tools/call" => self.call(exchange, asked, terms, exchange.carrier.scope())?,
            _ => Reply::Message(self.common(exchange.caller, asked, terms)?),
        };
        // An unknown method comes before a bad level; nothing has run yet.
        log_level.map_err(Reject::invalid_params)?;
        Ok(reply)
    }

    /// What both eras have.
    fn common(
        &self,
        caller: &Caller,
        asked: &Asked<'_>,
        terms: Terms,
    ) -> Result<OutMessage, Reject> {
        match asked.method.as_ref() {
            "tools/list" => tools::list(self, caller, asked, terms),
            "resources/list" => resources::list(self, asked, terms),
            "resources/templates/list" => resources::list_templates(self, asked, terms),
            "resources/read" => resources::read(self, caller, asked, terms),
            "prompts/list" => resources::list_prompts(self, asked, terms),
            "prompts/get" => resources::get_prompt(asked),
            other => Err(Reject::no_such_method(other, terms.revision.is_modern())),
        }
    }

    fn call(
        self: &Arc<Self>,
        exchange: &Exchange<'_>,
        asked: &Asked<'_>,
        terms: Terms,
        scope: Option<Scope>,
    ) -> Result<Reply, Reject> {
        let Exchange { caller, inbound, .. } = exchange;
        let call = tools::call(self, caller, asked, terms, inbound.headers)?;
        let entered = self.enter(scope, asked);
        let call = Box::new(PreparedCall::new(call, entered));
        Ok(Reply::Call { call, ends_with_client: terms.revision.is_modern() })
    }

    /// Notes a request that its client can take back.
    fn enter(&self, scope: Option<Scope>, asked: &Asked<'_>) -> Option<Entered> {
        scope.map(|scope| self.in_flight.enter(scope, asked.id))
    }

    /// A handshake begins anew, whatever session the client still names.
    fn client_of(
        &self,
        exchange: &Exchange<'_>,
        claimed: Option<Revision>,
        message: &Incoming<'_>,
    ) -> Result<LegacyClient, Reject> {
        match (message, exchange.carrier) {
            (Incoming::Request(asked), Carrier::Http) if asked.method == "initialize" => {
                let terms =
                    Terms { revision: Revision::NEWEST_LEGACY, read_only: false, log_level: None };
                Ok(LegacyClient { terms, scope: None, session: None })
            }
            _ => self.client(exchange, claimed),
        }
    }

    /// The legacy client that sends a message.
    fn client(
        &self,
        exchange: &Exchange<'_>,
        claimed: Option<Revision>,
    ) -> Result<LegacyClient, Reject> {
        let newest = self.gateway.settings().protocol_version.min(Revision::NEWEST_LEGACY);
        let fallback = Revision::V2025_03_26.min(newest);
        match exchange.carrier {
            Carrier::RawRequest => {
                let terms = Terms { revision: newest, read_only: true, log_level: None };
                Ok(LegacyClient { terms, scope: None, session: None })
            }
            Carrier::Connection(connection) => {
                let Agreed { revision, log_level } = connection.agreed();
                let revision = revision.unwrap_or(fallback);
                let terms = Terms { revision, read_only: false, log_level };
                let scope = Some(Scope::Connection(connection.number));
                Ok(LegacyClient { terms, scope, session: None })
            }
            Carrier::Http => {
                let session = self.session(exchange)?;
                let agreed = session.as_ref().map(|session| session.revision);
                // What was agreed on stays, also when less is offered since.
                if let Some(claimed) = claimed.filter(|it| *it > newest && agreed != Some(*it)) {
                    return Err(classify::unsupported_header(claimed.as_str(), newest));
                }
                let revision = claimed.or(agreed).unwrap_or(fallback);
                let log_level =
                    session.as_ref().and_then(|session| self.sessions.state(session).log_level);
                let terms = Terms { revision, read_only: false, log_level };
                let scope = session.as_ref().map(|session| Scope::Session(session.nonce));
                Ok(LegacyClient { terms, scope, session })
            }
        }
    }

    /// A client need not name its session; one that is named must be good.
    fn session(&self, exchange: &Exchange<'_>) -> Result<Option<Session>, Reject> {
        let id = match exchange.inbound.headers.map(|headers| headers.header(SESSION_ID)) {
            None | Some(Header::Absent) => return Ok(None),
            Some(Header::One(id)) => id,
            Some(Header::Unusable) => return Err(Reject::no_such_session()),
        };
        let session = self.sessions.find(id, exchange.caller, SystemTime::now());
        session.map(Some).ok_or_else(Reject::no_such_session)
    }

    async fn legacy(
        self: &Arc<Self>,
        exchange: &Exchange<'_>,
        client: &LegacyClient,
        message: Incoming<'_>,
    ) -> Result<Reply, Reject> {
        match message {
            Incoming::Response => Ok(Reply::Accepted),
            Incoming::Notification { method, params } => {
                self.notified(client, &method, &params);
                Ok(Reply::Accepted)
            }
            Incoming::Request(asked) => {
                let answer = self.legacy_request(exchange, client, &asked).await;
                answer.map_err(|reject| reject.of(asked.id))
            }
        }
    }

    fn notified(&self, client: &LegacyClient, method: &str, params: &Members<'_>) {
        if method == "notifications/cancelled"
            && let (Some(scope), Some(id)) = (client.scope, params.get("requestId"))
        {
            self.in_flight.cancel(scope, id);
        }
    }

    async fn legacy_request(
        self: &Arc<Self>,
        exchange: &Exchange<'_>,
        client: &LegacyClient,
        asked: &Asked<'_>,
    ) -> Result<Reply, Reject> {
        let terms = client.terms;
        match asked.method.as_ref() {
            "initialize" => {
                let (message, session, revision) =
                    handshake::initialize(self, exchange.caller, asked)?;
                if let Carrier::Connection(connection) = exchange.carrier {
                    connection.agree(|agreed| agreed.revision = Some(revision));
                }
                let session = session.filter(|_| matches!(exchange.carrier, Carrier::Http));
                Ok(Reply::Opened { message, session })
            }
            "ping" => Ok(Reply::Message(self.empty(asked, terms))),
            "logging/setLevel" => {
                self.set_log_level(exchange, client, asked).await?;
                Ok(Reply::Message(self.empty(asked, terms)))
            }
            "tools/call" => self.call(exchange, asked, terms, client.scope),
            _ => self.common(exchange.caller, asked, terms).map(Reply::Message),
        }
    }

    fn empty(&self, asked: &Asked<'_>, terms: Terms) -> OutMessage {
        let result = message::ResultWriter::new(asked.id, terms.revision, 0);
        result.finish(&self.gateway.settings())
    }

    /// Without a session there is nothing to note it by, and nothing that would be sent.
    async fn set_log_level(
        &self,
        exchange: &Exchange<'_>,
        client: &LegacyClient,
        asked: &Asked<'_>,
    ) -> Result<(), Reject> {
        let level = asked.params.required_text("level").map_err(Reject::invalid_params)?;
        let level = LogLevel::from_str(&level)
            .map_err(|error| Reject::invalid_params(error.to_string()))?;
        if let Carrier::Connection(connection) = exchange.carrier {
            connection.agree(|agreed| agreed.log_level = Some(level));
        }
        match &client.session {
            Some(session) => self.change(session, |state| state.log_level = Some(level)).await,
            None => Ok(()),
        }
    }

    async fn end(&self, exchange: &Exchange<'_>) -> Result<Reply, Reject> {
        let Some(session) = self.session(exchange)? else {
            let message = "the header `Mcp-Session-Id` is missing";
            return Err(Reject::bad_request(crate::jsonrpc::INVALID_REQUEST, message));
        };
        self.change(&session, |state| state.ended = true).await?;
        self.streams.end(session.nonce);
        Ok(Reply::Accepted)
    }

    async fn change(
        &self,
        session: &Session,
        change: impl FnOnce(&mut SessionState),
    ) -> Result<(), Reject> {
        self.sessions.change(session, change).await.map_err(|error| {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(error = why, "{error}");
            Reject::with_status(503, INTERNAL_ERROR, error.to_string())
        })
    }

    /// Several messages at once.
    async fn batch(
        self: &Arc<Self>,
        exchange: &Exchange<'_>,
        client: &LegacyClient,
        messages: Vec<Result<Incoming<'_>, Reject>>,
    ) -> Result<Reply, Reject> {
        let is_lenient = matches!(exchange.carrier, Carrier::RawRequest);
        if client.terms.revision != Revision::V2025_03_26 && !is_lenient {
            let message = format!("{} has no batches; send one message", client.terms.revision);
            return Err(Reject::bad_request(crate::jsonrpc::INVALID_REQUEST, message));
        }
        let mut parts = Vec::new();
        for message in messages {
            let reply = match message {
                Ok(message) => self.legacy(exchange, client, message).await,
                Err(reject) => Err(reject),
            };
            match reply {
                Ok(Reply::Message(message) | Reply::Opened { message, .. }) => {
                    parts.push(BatchPart::Message(message));
                }
                Ok(Reply::Call { call, .. }) => parts.push(BatchPart::Call(call)),
                Ok(_) => {}
                Err(reject) if reject.is_unasked => {}
                Err(reject) => parts.push(BatchPart::Message(reject.message())),
            }
        }
        Ok(if parts.is_empty() { Reply::Accepted } else { Reply::Batch(parts) })
    }
}

/// A client that begins with a handshake, as far as its message tells.
struct LegacyClient {
    terms: Terms,
    scope: Option<Scope>,
    session: Option<Session>,
}

fn about(message: &Incoming<'_>, reject: Reject) -> Reject {
    match message {
        Incoming::Request(asked) => reject.of(asked.id),
        _ => reject,
    }
}
