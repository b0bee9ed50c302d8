//! Messages on the terms of a handshake.

use std::str::FromStr as _;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::mcp::calls::context::RequestContext;
use crate::mcp::calls::in_flight::Key;
use crate::mcp::calls::negotiated::Terms;
use crate::mcp::parse::classify::{Message, Outcome, Verb};
use crate::mcp::parse::envelope::{Members, is_id};
use crate::mcp::parse::headers::{Header, LAST_EVENT_ID};
use crate::mcp::reply::error::Reject;
use crate::mcp::sessions::relay;
use crate::mcp::sessions::session::{Session, is_random_id};
use crate::mcp::sessions::state::{MAX_SUBSCRIPTIONS, SessionEdit, SessionState};
use crate::mcp::streams::event_store::KeptStream;
use crate::mcp::streams::notification_stream::Listener;
use crate::mcp::{BatchPart, Inbound, Mcp, Reply};
use crate::wire::jsonrpc::{INTERNAL_ERROR, INVALID_REQUEST};
use crate::wire::log_level::LogLevel;
use crate::wire::revision::Revision;
use crate::wire::strict_json;

impl Mcp {
    /// Opens a stream for notifications, or resumes one.
    pub(crate) fn legacy_stream(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        claimed: Option<Revision>,
    ) -> Result<Reply, Reject> {
        let terms = self.terms(inbound, claimed)?;
        let number = self.cancellations.next_number();
        let register = |key| terms.scope.map(|scope| self.cancellations.register(scope, key));
        if let (Some(session), Some(replay)) = (terms.session, &self.services.replay)
            && let Some(Header::One(last)) = inbound.headers.map(|it| it.header(LAST_EVENT_ID))
            && let Some(reader) = KeptStream::resume(last, session.nonce, replay)
        {
            let cancellation = register(Key::Resumed(number));
            let reader = reader.ends_with((inbound.identify)(), self.closing(), cancellation);
            return Ok(Reply::Replay(Box::new(reader)));
        }
        let mut listener = Listener::legacy(self, inbound.caller, (inbound.identify)());
        if let Some(session) = terms.session {
            listener.belongs_to(session, register(Key::Stream(number)));
        }
        Ok(Reply::Listen(Box::new(listener)))
    }

    pub(crate) async fn legacy(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        terms: Terms,
        message: Message<'_>,
    ) -> Result<Reply, Reject> {
        match message {
            Message::Response { id, outcome } => self.answered(&terms, id, outcome).await?,
            Message::Notification { method, params } => {
                self.notified(&terms, &method, &params).await?;
            }
            Message::Request(request) => {
                let context = RequestContext { mcp: self, inbound, request: &request, terms };
                return context.reply().await.map_err(|reject| reject.of(request.id));
            }
        }
        Ok(Reply::Accepted)
    }

    async fn answered(
        &self,
        terms: &Terms,
        id: &RawValue,
        outcome: Outcome<'_>,
    ) -> Result<(), Reject> {
        let Some(scope) = terms.scope else { return Ok(()) };
        let is_known = self.questions.answer(scope, id, outcome);
        let could_be_known = || strict_json::text(id).is_some_and(|id| is_random_id(&id));
        if is_known || !could_be_known() {
            return Ok(());
        }
        self.post(terms, || relay::answer(id, outcome)).await
    }

    async fn notified(
        &self,
        terms: &Terms,
        method: &str,
        params: &Members<'_>,
    ) -> Result<(), Reject> {
        let (Some(scope), Some(id)) = (terms.scope, relay::cancelled(method, params)) else {
            return Ok(());
        };
        if self.cancellations.cancel(scope, id) || !is_id(id.get()) {
            return Ok(());
        }
        self.post(terms, || relay::cancellation(id)).await
    }

    /// Sends a message to the other servers: it may concern a call there.
    async fn post(&self, terms: &Terms, message: impl FnOnce() -> String) -> Result<(), Reject> {
        match (self.sessions.relaying(), &terms.session) {
            (Some(relaying), Some(session)) => relaying.post(session, message()).await,
            _ => Ok(()),
        }
    }

    /// Ends a session.
    pub(crate) async fn end(&self, inbound: &Inbound<'_>) -> Result<Reply, Reject> {
        let Some(session) = self.session(inbound)? else {
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

    /// Answers several messages at once. Nothing can be sent before the reply.
    pub(crate) async fn batch(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        claimed: Option<Revision>,
        messages: Vec<Result<Message<'_>, Reject>>,
    ) -> Result<Reply, Reject> {
        let terms = Terms { accepts_events: false, ..self.terms(inbound, claimed)? };
        if terms.revision != Revision::V2025_03_26 && inbound.verb != Verb::Raw {
            let message = format!("{} has no batches; send one message", terms.revision);
            return Err(Reject::bad_request(INVALID_REQUEST, message));
        }
        let mut parts = Vec::new();
        for message in messages {
            let reply = match message {
                Ok(message) => self.legacy(inbound, terms, message).await,
                Err(reject) => Err(reject),
            };
            match reply {
                Ok(Reply::Message(message) | Reply::Opened { message, .. }) => {
                    parts.push(BatchPart::Message(message));
                }
                Ok(Reply::Call(call)) => parts.push(BatchPart::Call(call)),
                Ok(_) => {}
                Err(reject) if reject.is_unasked => {}
                Err(reject) => parts.push(BatchPart::Message(reject.message())),
            }
        }
        Ok(if parts.is_empty() { Reply::Accepted } else { Reply::Batch(parts) })
    }
}

impl RequestContext<'_> {
    /// Changes the state of the session or connection. Returns `None` if there is neither.
    async fn change(&self, edit: SessionEdit) -> Result<Option<SessionState>, Reject> {
        if let Some(session) = &self.terms.session {
            return self.mcp.change(session, edit).await.map(Some);
        }
        let Some(connection) = self.inbound.connection else { return Ok(None) };
        connection.agree(|agreed| edit.apply(&mut agreed.state));
        Ok(Some(connection.agreed().state))
    }

    /// `logging/setLevel`. Without a session nothing is sent, so there is nothing to note.
    pub(crate) async fn set_log_level(&self) -> Result<Reply, Reject> {
        let level = self.request.params.required_text("level")?;
        let level = LogLevel::from_str(&level)
            .map_err(|error| Reject::invalid_params(error.to_string()))?;
        self.change(SessionEdit::LogLevel(level)).await?;
        Ok(self.empty_result())
    }

    /// `resources/subscribe` and `resources/unsubscribe`
    pub(crate) async fn subscribe(&self) -> Result<Reply, Reject> {
        let uri = self.request.params.required_text("uri")?;
        let subscribes = self.request.method == "resources/subscribe";
        let edit = if subscribes { SessionEdit::Subscribe } else { SessionEdit::Unsubscribe };
        let Some(state) = self.change(edit(uri.clone().into_owned())).await? else {
            return Err(Reject::invalid_params("subscriptions need a session"));
        };
        if subscribes && !state.subscriptions.contains(uri.as_ref()) {
            let problem = format!("no more than {MAX_SUBSCRIPTIONS} bytes of addresses");
            return Err(Reject::invalid_params(problem));
        }
        Ok(self.empty_result())
    }
}
