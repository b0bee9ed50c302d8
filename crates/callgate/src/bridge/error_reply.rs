//! Error responses of the bridge. Each describes the problem and the remedy.

use serde_json::json;

use crate::bridge::options::token_origin::TokenOrigin;
use crate::bridge::receive::message::MessageId;
use crate::http_client::body::BodyError;
use crate::http_client::endpoint::Endpoint;
use crate::http_client::send_error::{SendError, SendErrorKind};
use crate::wire::jsonrpc::{INTERNAL_ERROR, RpcError};

/// Advice for responses that are not MCP.
pub(crate) const CHECK_URL: &str = "Is that an MCP server? Check the path of the URL";

#[derive(Debug, Clone)]
pub(crate) struct BridgeFailure {
    message: String,
    status: Option<u16>,
    code: i64,
    supported: Option<serde_json::Value>,
}

impl BridgeFailure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: None, code: INTERNAL_ERROR, supported: None }
    }

    pub(crate) fn with_status(mut self, status: http::StatusCode) -> Self {
        self.status = Some(status.as_u16());
        self
    }

    /// Copies the code and the supported versions from the server's error.
    pub(crate) fn with_error(mut self, error: &RpcError) -> Self {
        self.code = error.code;
        self.supported = error.data.as_ref().and_then(|data| data.get("supported")).cloned();
        self
    }

    pub(crate) fn with_sentence(mut self, sentence: &str) -> Self {
        self.message.push_str(". ");
        self.message.push_str(sentence);
        self
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn of_sending(endpoint: &Endpoint, error: &SendError) -> Self {
        let message = &error.message;
        Self::new(match error.kind {
            SendErrorKind::NotSent | SendErrorKind::ConnectTimeout => {
                format!("cannot reach {endpoint}: {message}. Is the server running? Check the URL")
            }
            SendErrorKind::ClosedInHandshake => format!(
                "cannot reach {endpoint}: the server accepted the connection and closed it during the TLS \
                 handshake. If the server does not speak TLS, use `http://`"
            ),
            SendErrorKind::Untrusted => format!(
                "cannot trust {endpoint}: {message}. If your own certificate authority signed \
                 the certificate, add the authority to those that the system trusts, or pass the certificate of \
                 the authority to the bridge with --ca-file"
            ),
            SendErrorKind::NotTls => format!("{endpoint} does not speak TLS; use `http://`"),
            SendErrorKind::NotHttp if endpoint.is_https() => {
                format!("{endpoint} does not speak HTTP")
            }
            SendErrorKind::NotHttp => {
                format!("{endpoint} does not speak HTTP. If it speaks TLS, use `https://`")
            }
            SendErrorKind::Broken { .. } => format!(
                "the connection to {endpoint} closed before the response arrived: {message}. The request may \
                 have been executed; check before you send it again"
            ),
        })
    }

    /// Returns the failure for a lost session that cannot be opened again in the same revision.
    pub(crate) fn of_new_revision(endpoint: &Endpoint, old: &str, new: &str) -> Self {
        Self::new(format!(
            "the session at {endpoint} is lost, and a new session would use revision {new} instead of {old}. \
             Restart the connection in your client"
        ))
    }

    pub(crate) fn of_body(endpoint: &Endpoint, error: &BodyError) -> Self {
        Self::new(format!("cannot read the response of {endpoint}: {error}"))
    }

    /// Returns the failure for a response with an HTTP error status and without a JSON-RPC error.
    pub(crate) fn of_status(
        endpoint: &Endpoint,
        status: http::StatusCode,
        location: Option<&str>,
        credential: Option<TokenOrigin>,
    ) -> Self {
        let refused = credential.map(|credential| credential.rejected());
        let advice = match status.as_u16() {
            401 if refused.is_some() => refused.as_deref().unwrap_or_default(),
            401 => "The server needs a token: set CALLGATE_TOKEN",
            403 => {
                "The server denies access: check the token in CALLGATE_TOKEN, and whether the server allows \
                 this host name"
            }
            400 | 404..=406 | 410 | 415 | 501 => CHECK_URL,
            413 => "The request is larger than the server accepts",
            429 => "Too many requests; wait before you send the request again",
            502..=504 => "A proxy in front of the server responded: is the server itself running?",
            300..=399 => "Redirects are not followed; use the URL of the server itself",
            _ => "Check the server's log",
        };
        let redirect = match location.and_then(|location| location.split(['?', '#']).next()) {
            Some(redirect) if !redirect.contains('@') => format!(" to {redirect}"),
            _ => String::new(),
        };
        Self::new(format!("{endpoint} answered HTTP {status}{redirect}. {advice}"))
            .with_status(status)
    }

    pub(crate) fn to_response(&self, id: &MessageId, endpoint: &Endpoint) -> Vec<u8> {
        let mut data = json!({"url": endpoint.to_string()});
        if let Some(members) = data.as_object_mut() {
            members.extend(self.status.map(|status| ("status".to_owned(), json!(status))));
            members.extend(self.supported.clone().map(|list| ("supported".to_owned(), list)));
        }
        let error = RpcError {
            code: self.code,
            message: format!("callgate bridge: {}", self.message),
            data: Some(data),
        };
        error_message(Some(id.as_json()), &error)
    }
}

/// Returns a JSON-RPC error response, without an id if it is unknown.
pub(crate) fn error_message(id: Option<&str>, error: &RpcError) -> Vec<u8> {
    let mut out = b"{\"jsonrpc\":\"2.0\",".to_vec();
    if let Some(id) = id {
        out.extend_from_slice(b"\"id\":");
        out.extend_from_slice(id.as_bytes());
        out.push(b',');
    }
    out.extend_from_slice(b"\"error\":");
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(&mut out, error);
    out.push(b'}');
    out
}
