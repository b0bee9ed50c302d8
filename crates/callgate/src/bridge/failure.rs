//! What the client is told when there is no answer: what is wrong, and what to do about it.

use serde_json::json;

use super::credential::Credential;
use super::message::Id;
use crate::http_client::BodyError;
use crate::http_client::endpoint::Endpoint;
use crate::http_client::send_error::{SendError, SendErrorKind};
use crate::wire::jsonrpc::{INTERNAL_ERROR, RpcError};

/// For answers that no MCP server would give.
pub(super) const IS_THAT_IT: &str = "Is that an MCP server? Check --path, or --url";

/// Why a request has no answer of the server's.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    words: String,
    status: Option<u16>,
    /// Instead of our own code.
    code: i64,
    supported: Option<serde_json::Value>,
}

impl Failure {
    pub(super) fn new(words: impl Into<String>) -> Self {
        Self { words: words.into(), status: None, code: INTERNAL_ERROR, supported: None }
    }

    pub(super) fn with_status(mut self, status: http::StatusCode) -> Self {
        self.status = Some(status.as_u16());
        self
    }

    /// With the code of the server, and the versions that it named.
    pub(super) fn like(mut self, error: &RpcError) -> Self {
        self.code = error.code;
        self.supported = error.data.as_ref().and_then(|data| data.get("supported")).cloned();
        self
    }

    /// With another sentence.
    pub(super) fn and(mut self, sentence: &str) -> Self {
        self.words.push_str(". ");
        self.words.push_str(sentence);
        self
    }

    /// For people.
    pub(super) fn words(&self) -> &str {
        &self.words
    }

    /// No connection, or one that broke.
    pub(super) fn of_sending(endpoint: &Endpoint, error: &SendError) -> Self {
        let words = &error.words;
        Self::new(match error.kind {
            SendErrorKind::NotSent | SendErrorKind::ConnectTimeout => format!(
                "cannot reach {endpoint}: {words}. Is the server running? Check --host and --port, or \
                 --url"
            ),
            SendErrorKind::HungUp => format!(
                "cannot reach {endpoint}: it took the connection and closed it before TLS was agreed \
                 on. If it does not speak TLS, try --protocol http"
            ),
            SendErrorKind::Untrusted => format!(
                "cannot trust {endpoint}: {words}. If its certificate is signed by your own authority, \
                 name that with --ca-file"
            ),
            SendErrorKind::NoTls => format!("{endpoint} does not speak TLS; try --protocol http"),
            SendErrorKind::NoHttp if endpoint.is_https() => {
                format!("{endpoint} does not speak HTTP")
            }
            SendErrorKind::NoHttp => {
                format!("{endpoint} does not speak HTTP. If it speaks TLS, try --protocol https")
            }
            SendErrorKind::Broken { .. } => format!(
                "the connection to {endpoint} broke before the answer came: {words}. The request may \
                 have been carried out; look before you send it again"
            ),
        })
    }

    /// An answer that could not be read.
    pub(super) fn of_body(endpoint: &Endpoint, error: &BodyError) -> Self {
        Self::new(format!("cannot read the answer of {endpoint}: {error}"))
    }

    /// A response that is an error, without a JSON-RPC error in it.
    pub(super) fn of_status(
        endpoint: &Endpoint,
        status: http::StatusCode,
        location: Option<&str>,
        credential: Option<Credential>,
    ) -> Self {
        let refused = credential.map(|credential| credential.refused());
        let advice = match status.as_u16() {
            401 if refused.is_some() => refused.as_deref().unwrap_or_default(),
            401 => "The server wants a token: set CALLGATE_TOKEN, or name a file with --token-file",
            403 => {
                "The server refuses: check the token in CALLGATE_TOKEN or --token-file, and whether the \
                 server allows this host name"
            }
            400 | 404..=406 | 410 | 415 | 501 => IS_THAT_IT,
            413 => "The request is larger than the server takes",
            429 => "The server is asked too often; wait before you send it again",
            502..=504 => "Something in front of the server answered: is the server itself running?",
            300..=399 => "Redirects are not followed; give the URL of the server itself with --url",
            _ => "Look at the server's log",
        };
        let place = match location.and_then(|location| location.split(['?', '#']).next()) {
            Some(place) if !place.contains('@') => format!(" to {place}"),
            _ => String::new(),
        };
        Self::new(format!("{endpoint} answered HTTP {status}{place}. {advice}")).with_status(status)
    }

    /// As the answer to a request.
    pub(super) fn message(&self, id: &Id, endpoint: &Endpoint) -> Vec<u8> {
        let mut data = json!({"url": endpoint.to_string()});
        if let Some(members) = data.as_object_mut() {
            members.extend(self.status.map(|status| ("status".to_owned(), json!(status))));
            members.extend(self.supported.clone().map(|list| ("supported".to_owned(), list)));
        }
        let error = RpcError {
            code: self.code,
            message: format!("callgate bridge: {}", self.words),
            data: Some(data),
        };
        error_message(Some(id.as_json()), &error)
    }
}

/// A JSON-RPC error; without an id where none could be read.
pub(super) fn error_message(id: Option<&str>, error: &RpcError) -> Vec<u8> {
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
