//! Messages on the terms of a handshake.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::value::RawValue;

use super::classify::{self, Asked, Incoming, Outcome};
use super::connection::Agreed;
use super::envelope::is_id;
use super::headers::{Header, LAST_EVENT_ID, SESSION_ID};
use super::members::Members;
use super::message::{OutMessage, ResultWriter};
use super::reject::Reject;
use super::replay::KeptStream;
use super::requested::Requested;
use super::running::Scope;
use super::session::{Session, is_random_id};
use super::session_state::{MAX_SUBSCRIPTIONS, SessionEdit, SessionState, subscribe};
use super::watch::Listener;
use super::{BatchPart, Carrier, Exchange, Mcp, Reply, Terms, handshake, relay};
use crate::client::Capabilities;
use crate::jsonrpc::{INTERNAL_ERROR, INVALID_REQUEST};
use crate::log_level::LogLevel;
use crate::revision::Revision;
use crate::strict_json;

/// A client that begins with a handshake, as far as its message tells.
pub(super) struct LegacyClient {
    terms: Terms,
    capabilities: Capabilities,
    scope: Option<Scope>,
    session: Option<Session>,
}

impl LegacyClient {
    fn on(terms: Terms) -> Self {
        Self { terms, capabilities: Capabilities::default(), scope: None, session: None }
    }
}

impl Mcp {
    pub(super) async fn legacy_message(
        self: &Arc<Self>,
        exchange: &Exchange<'_>,
        claimed: Option<Revision>,
        message: Incoming<'_>,
    ) -> Result<Reply, Reject> {
        let client = match self.client_of(exchange, claimed, &message) {
            Ok(client) => client,
            Err(reject) => return Err(about(&message, reject)),
        };
        self.legacy(exchange, &client, message).await
    }

    pub(super) fn legacy_stream(
        self: &Arc<Self>,
        exchange: &Exchange<'_>,
        claimed: Option<Revision>,
    ) -> Result<Reply, Reject> {
        let client = self.client(exchange, claimed)?;
        if let (Some(session), Some(replay)) = (&client.session, &self.replay)
            && let Some(Header::One(last)) =
                exchange.inbound.headers.map(|it| it.header(LAST_EVENT_ID))
            && let Some(reader) = KeptStream::resume(last, session.nonce, replay)
        {
            let (who, place) = ((exchange.who)(), self.streams.note(session.nonce));
            return Ok(Reply::Replay(Box::new(reader.ends_with(who, self.closing(), place))));
        }
        let who = (exchange.who)();
        let mut listener = Listener::legacy(self, exchange.caller, who);
        if let Some(session) = client.session {
            let place = self.streams.open(session.nonce);
            listener.belongs_to(session, place);
        }
        Ok(Reply::Listen(Box::new(listener)))
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
                Ok(LegacyClient::on(terms))
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
                Ok(LegacyClient::on(terms))
            }
            Carrier::Connection(connection) => {
                let Agreed { revision, log_level, capabilities, .. } = connection.agreed();
                let revision = revision.unwrap_or(fallback);
                let terms = Terms { revision, read_only: false, log_level };
                let scope = Some(connection.scope());
                Ok(LegacyClient { terms, capabilities, scope, session: None })
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
                let capabilities = session.as_ref().map(|session| session.capabilities);
                let capabilities = capabilities.unwrap_or_default();
                Ok(LegacyClient { terms, capabilities, scope, session })
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
            Incoming::Response { id, outcome } => {
                self.answered(client, id, outcome).await?;
                Ok(Reply::Accepted)
            }
            Incoming::Notification { method, params } => {
                self.notified(client, &method, &params).await?;
                Ok(Reply::Accepted)
            }
            Incoming::Request(asked) => {
                let answer = self.legacy_request(exchange, client, &asked).await;
                answer.map_err(|reject| reject.of(asked.id))
            }
        }
    }

    async fn answered(
        &self,
        client: &LegacyClient,
        id: &RawValue,
        outcome: Outcome<'_>,
    ) -> Result<(), Reject> {
        let Some(scope) = client.scope else { return Ok(()) };
        let is_known = self.questions.answer(scope, id, outcome);
        let could_be_known = || strict_json::text(id).is_some_and(|id| is_random_id(&id));
        if is_known || !could_be_known() {
            return Ok(());
        }
        self.post(client, || relay::answer(id, outcome)).await
    }

    async fn notified(
        &self,
        client: &LegacyClient,
        method: &str,
        params: &Members<'_>,
    ) -> Result<(), Reject> {
        let (Some(scope), Some(id)) = (client.scope, relay::taken_back(method, params)) else {
            return Ok(());
        };
        if self.in_flight.cancel(scope, id) || !is_id(id.get()) {
            return Ok(());
        }
        self.post(client, || relay::cancellation(id)).await
    }

    /// What concerns no call here may concern one on another server.
    async fn post(
        &self,
        client: &LegacyClient,
        message: impl FnOnce() -> String,
    ) -> Result<(), Reject> {
        match (self.sessions.relaying(), &client.session) {
            (Some(relaying), Some(session)) => relaying.post(session, message()).await,
            _ => Ok(()),
        }
    }

    async fn legacy_request(
        self: &Arc<Self>,
        exchange: &Exchange<'_>,
        client: &LegacyClient,
        asked: &Asked<'_>,
    ) -> Result<Reply, Reject> {
        let terms = client.terms;
        let request = Requested {
            mcp: self,
            caller: exchange.caller,
            asked,
            terms,
            capabilities: client.capabilities,
            scope: client.scope,
            hears: exchange.hears,
        };
        match asked.method.as_ref() {
            "initialize" => self.initialize(exchange, asked),
            "ping" => Ok(Reply::Message(self.empty(asked, terms))),
            "logging/setLevel" => {
                self.set_log_level(exchange, client, asked).await?;
                Ok(Reply::Message(self.empty(asked, terms)))
            }
            "resources/subscribe" | "resources/unsubscribe" if self.can_subscribe() => {
                self.subscribe(exchange, client, asked).await?;
                Ok(Reply::Message(self.empty(asked, terms)))
            }
            "tools/call" => Self::call(&request, exchange.inbound.headers),
            _ => Self::common(&request),
        }
    }

    fn initialize(&self, exchange: &Exchange<'_>, asked: &Asked<'_>) -> Result<Reply, Reject> {
        let opened = handshake::initialize(self, exchange.caller, asked)?;
        if let Carrier::Connection(connection) = exchange.carrier {
            connection.agree(|agreed| {
                agreed.revision = Some(opened.revision);
                agreed.capabilities = opened.capabilities;
            });
        }
        let session = opened.session.filter(|_| matches!(exchange.carrier, Carrier::Http));
        Ok(Reply::Opened { message: opened.message, session })
    }

    fn empty(&self, asked: &Asked<'_>, terms: Terms) -> OutMessage {
        let result = ResultWriter::new(asked.id, terms.revision, 0);
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
            Some(session) => self.change(session, SessionEdit::LogLevel(level)).await.map(drop),
            None => Ok(()),
        }
    }

    /// `resources/subscribe` and `resources/unsubscribe`. Without a session there is nothing to note
    /// it by, and no stream to tell it on.
    async fn subscribe(
        &self,
        exchange: &Exchange<'_>,
        client: &LegacyClient,
        asked: &Asked<'_>,
    ) -> Result<(), Reject> {
        let uri = asked.params.required_text("uri").map_err(Reject::invalid_params)?;
        let wants = asked.method == "resources/subscribe";
        let subscriptions = match (&client.session, exchange.carrier) {
            (Some(session), _) => {
                let uri = uri.clone().into_owned();
                let edit =
                    if wants { SessionEdit::Subscribe(uri) } else { SessionEdit::Unsubscribe(uri) };
                self.change(session, edit).await?.subscriptions
            }
            (None, Carrier::Connection(connection)) => {
                connection.agree(|agreed| {
                    if wants {
                        subscribe(&mut agreed.subscriptions, &uri);
                    } else {
                        Arc::make_mut(&mut agreed.subscriptions).remove(uri.as_ref());
                    }
                });
                connection.agreed().subscriptions
            }
            (None, _) => return Err(Reject::invalid_params("subscriptions need a session")),
        };
        if wants && !subscriptions.contains(uri.as_ref()) {
            let problem = format!("no more than {MAX_SUBSCRIPTIONS} bytes of addresses");
            return Err(Reject::invalid_params(problem));
        }
        Ok(())
    }

    pub(super) async fn end(&self, exchange: &Exchange<'_>) -> Result<Reply, Reject> {
        let Some(session) = self.session(exchange)? else {
            let message = "the header `Mcp-Session-Id` is missing";
            return Err(Reject::bad_request(INVALID_REQUEST, message));
        };
        self.change(&session, SessionEdit::End).await?;
        self.ended(session.nonce);
        Ok(Reply::Accepted)
    }

    async fn change(&self, session: &Session, edit: SessionEdit) -> Result<SessionState, Reject> {
        self.sessions.change(session, edit).await.map_err(|error| {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(error = why, "{error}");
            Reject::with_status(503, INTERNAL_ERROR, error.to_string())
        })
    }

    /// Several messages at once.
    pub(super) async fn batch(
        self: &Arc<Self>,
        exchange: &Exchange<'_>,
        claimed: Option<Revision>,
        messages: Vec<Result<Incoming<'_>, Reject>>,
    ) -> Result<Reply, Reject> {
        let client = &self.client(exchange, claimed)?;
        // What is said during a batch has no place in its answer.
        let Exchange { inbound, carrier, caller, who, .. } = *exchange;
        let exchange = &Exchange { inbound, carrier, caller, who, hears: false };
        let is_lenient = matches!(exchange.carrier, Carrier::RawRequest);
        if client.terms.revision != Revision::V2025_03_26 && !is_lenient {
            let message = format!("{} has no batches; send one message", client.terms.revision);
            return Err(Reject::bad_request(INVALID_REQUEST, message));
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

fn about(message: &Incoming<'_>, reject: Reject) -> Reject {
    match message {
        Incoming::Request(asked) => reject.of(asked.id),
        _ => reject,
    }
}
