//! Messages of legacy clients, after `initialize`.

use std::str::FromStr as _;
use std::sync::Arc;

use crate::access::{Caller, RateLimited};
use crate::mcp::parse::classify::McpMessage;
use crate::mcp::parse::headers::LAST_EVENT_ID;
use crate::mcp::parse::method::McpMethod;
use crate::mcp::sessions::state::MAX_SUBSCRIPTIONS;
use crate::mcp::streams::guard::StreamGuard;
use crate::mcp::{
    BatchPart, Header, InFlightKey, Inbound, InboundKind, Mcp, McpError, McpResponse, Negotiated,
    NotificationStream, RequestContext, ResumableStream, Session, SessionEdit, SessionState,
};
use crate::wire::jsonrpc::{INTERNAL_ERROR, INVALID_REQUEST};
use crate::wire::{LogLevel, Revision};

impl Mcp {
    /// Opens a notification stream, or resumes a stored stream.
    pub(crate) fn legacy_stream(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        header_revision: Option<Revision>,
    ) -> Result<McpResponse, McpError> {
        let negotiated = self.negotiated(inbound, header_revision)?;
        let number = self.cancellations.next_number();
        let register = |key| negotiated.scope.map(|scope| self.cancellations.register(scope, key));
        if let (Some(session), Some(store)) = (negotiated.session, &self.services.event_store)
            && let Some(Header::One(last)) = inbound.headers.map(|it| it.header(LAST_EVENT_ID))
            && let cancellation = register(InFlightKey::Resumed(number))
            && let guard =
                StreamGuard::new(self, inbound.caller, (inbound.identify)(), cancellation)
            && let Some(reader) = ResumableStream::resume(last, session.nonce, store, guard)
        {
            return Ok(McpResponse::Resumed(Box::new(reader)));
        }
        let mut stream = NotificationStream::legacy(self, inbound.caller, (inbound.identify)());
        if let Some(session) = negotiated.session {
            stream.bind_to_session(session, register(InFlightKey::Stream(number)));
        }
        Ok(McpResponse::Notifications(Box::new(stream)))
    }

    pub(crate) async fn legacy(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        negotiated: Negotiated,
        message: McpMessage<'_>,
        admitted: Result<(), RateLimited>,
    ) -> Result<McpResponse, McpError> {
        let request = match (message, admitted) {
            (McpMessage::Request(request), _) => request,
            (_, Err(limited)) => return Err(McpError::from(limited).for_notification()),
            (message, Ok(())) => {
                let relayed = negotiated.scope.and_then(|scope| self.pass_to_call(scope, &message));
                if let (Some(message), Some(relay), Some(session)) =
                    (relayed, self.sessions.relay(), &negotiated.session)
                {
                    Box::pin(relay.post(session, inbound.caller.principal(), message)).await?;
                }
                return Ok(McpResponse::Accepted);
            }
        };
        let context = RequestContext { mcp: self, inbound, request: &request, negotiated };
        let response = match admitted {
            Ok(()) => context.dispatch().await,
            Err(limited) => context.refuse(limited),
        };
        response.map_err(|error| error.with_id(request.id))
    }

    pub(crate) async fn end_session(&self, inbound: &Inbound<'_>) -> Result<McpResponse, McpError> {
        let Some(session) = self.session(inbound)? else {
            let message = "the header `Mcp-Session-Id` is missing";
            return Err(McpError::bad_request(INVALID_REQUEST, message));
        };
        self.change(inbound.caller, &session, SessionEdit::End).await?;
        self.cancel_session(session.nonce);
        Ok(McpResponse::Accepted)
    }

    async fn change(
        &self,
        caller: &Caller,
        session: &Session,
        edit: SessionEdit,
    ) -> Result<SessionState, McpError> {
        let principal = caller.principal();
        self.sessions.admit_change(principal)?;
        self.sessions.change(session, principal, edit).await.map_err(|error| {
            let problem = "the session's state cannot be stored";
            tracing::error!(error = error.to_string(), "{problem}");
            McpError::new(503, INTERNAL_ERROR, problem)
        })
    }

    /// Handles a batch. Its calls cannot send notifications.
    pub(crate) async fn batch(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        header_revision: Option<Revision>,
        messages: Vec<Result<McpMessage<'_>, McpError>>,
    ) -> Result<McpResponse, McpError> {
        let negotiated = self.negotiated(inbound, header_revision)?;
        if negotiated.revision != Revision::V2025_03_26 && inbound.kind != InboundKind::RawRequest {
            let message = format!(
                "revision {} does not support batches; send one message at a time",
                negotiated.revision
            );
            return Err(McpError::bad_request(INVALID_REQUEST, message));
        }
        let caller = &inbound.caller.in_batch();
        let inbound = &Inbound { caller, accepts_events: false, ..*inbound };
        let mut parts = Vec::new();
        for (index, message) in messages.into_iter().enumerate() {
            // The first message of the batch has already been counted.
            let admitted =
                if index == 0 { Ok(()) } else { self.gateway.count_request(inbound.caller) };
            let response = match message {
                Ok(message) => self.legacy(inbound, negotiated, message, admitted).await,
                Err(error) => Err(error),
            };
            match response {
                Ok(McpResponse::Message(message) | McpResponse::SessionOpened { message, .. }) => {
                    parts.push(BatchPart::Message(message));
                }
                Ok(McpResponse::Call(call)) => parts.push(BatchPart::Call(*call)),
                Ok(_) => {}
                Err(error) if error.is_for_notification => {}
                Err(error) => parts.push(BatchPart::Message(error.message())),
            }
        }
        Ok(if parts.is_empty() { McpResponse::Accepted } else { McpResponse::Batch(parts) })
    }
}

impl RequestContext<'_> {
    /// Changes the state of the session or connection. Returns `None` if the client has neither.
    async fn change(&self, edit: SessionEdit) -> Result<Option<SessionState>, McpError> {
        if let Some(session) = &self.negotiated.session {
            return self.mcp.change(self.inbound.caller, session, edit).await.map(Some);
        }
        let Some(connection) = self.inbound.connection else { return Ok(None) };
        connection.update(|state| edit.apply(&mut state.session));
        Ok(Some(connection.state().session))
    }

    /// `logging/setLevel`. Has no effect for a client without a session or connection, which gets no log messages.
    pub(crate) async fn set_log_level(&self) -> Result<McpResponse, McpError> {
        let level = self.request.params.required_text("level")?;
        let level = LogLevel::from_str(&level)
            .map_err(|error| McpError::invalid_params(error.to_string()))?;
        self.change(SessionEdit::LogLevel(level)).await?;
        Ok(self.empty_result())
    }

    /// `resources/subscribe` and `resources/unsubscribe`
    pub(crate) async fn subscribe(&self) -> Result<McpResponse, McpError> {
        let uri = self.request.params.required_text("uri")?;
        let subscribes = self.request.method == McpMethod::ResourcesSubscribe;
        let edit = if subscribes { SessionEdit::Subscribe } else { SessionEdit::Unsubscribe };
        let Some(state) = self.change(edit(uri.clone().into_owned())).await? else {
            return Err(McpError::invalid_params("subscriptions need a session"));
        };
        if subscribes && !state.subscriptions.contains(uri.as_ref()) {
            let problem = format!("the URIs of all subscriptions exceed {MAX_SUBSCRIPTIONS} bytes");
            return Err(McpError::invalid_params(problem));
        }
        Ok(self.empty_result())
    }
}
