//! Parses replies of services. Not all services follow JSON-RPC 2.0.
//!
//! Accepts replies of JSON-RPC 1.x, which have `"error":null` beside the result and no member `jsonrpc`. Accepts an
//! error with any HTTP status, but a result only with 2xx. Ignores the content type of a valid reply.

mod batch;
mod service_text;
#[cfg(test)]
mod tests;
mod unexpected;

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE};
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::http_client::http1::ResponseHeaders;
use crate::upstream::forward::auth::refusal::AuthRefusal;
use crate::upstream::forward::{Failure, RequestId, known_errors};
use crate::wire::jsonrpc::{Envelope, METHOD_NOT_FOUND, RpcError};

pub(crate) use batch::BatchReply;
pub(crate) use service_text::ServiceText;
pub(crate) use unexpected::{ResponseProblem, UnexpectedResponse};

/// Code that is used for errors without a code.
const NO_CODE: i64 = -32000;

/// Message that replaces the error -32601 in a response from the URL of a tool.
const NOT_FOR_CALLER: &str = "The service behind this tool does not offer the tool to you: you may not use it, or it no longer exists";

/// Maximum length of a media type.
const MAX_MEDIA_TYPE: usize = 60;

#[derive(Debug, Clone)]
pub(crate) struct ServiceResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: ResponseHeaders,
    pub(crate) body: String,
}

/// The request that a message replies to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReplyTarget<'a> {
    /// The request with this id.
    Request(RequestId<'a>),
    /// A request that the service could not parse.
    UnknownRequest,
    NotAReply,
}

impl<'a> ReplyTarget<'a> {
    pub(crate) fn of(message: &'a str) -> Self {
        match read_reply(trimmed(message)) {
            Ok(reply) if reply.method.is_some() => Self::NotAReply,
            Ok(reply) => match reply.id.and_then(RequestId::of) {
                Some(id) => Self::Request(id),
                None if has_no_id(&reply) && reply.error.is_some() => Self::UnknownRequest,
                None => Self::NotAReply,
            },
            Err(_) => Self::NotAReply,
        }
    }
}

impl ServiceResponse {
    /// Fails if the body is not UTF-8.
    pub(crate) fn new(
        status: StatusCode,
        headers: ResponseHeaders,
        body: Vec<u8>,
    ) -> Result<Self, Failure> {
        let response = |body| Self { status, headers, body };
        match String::from_utf8(body) {
            Ok(body) => Ok(response(body)),
            // Error pages may have another encoding.
            Err(error) => {
                let body = String::from_utf8_lossy(error.as_bytes()).into_owned();
                Err(response(body).not_utf8())
            }
        }
    }

    /// Wraps a message that was not received over HTTP.
    pub(crate) fn from_message(body: String) -> Self {
        Self { status: StatusCode::OK, headers: ResponseHeaders::default(), body }
    }

    pub(crate) fn read(&self, id: &RequestId<'_>) -> Result<Box<RawValue>, Failure> {
        let reply = read_reply(trimmed(&self.body))
            .map_err(|problem| self.status_failure().unwrap_or_else(|| self.diagnose(problem)))?;
        if let Some(refusal) = self.refusal_with_error(reply.error) {
            return Err(Failure::Refused(refusal));
        }
        if reply.jsonrpc.is_none() && reply.id.is_none() && reply.result.is_some() {
            return Err(self
                .status_failure()
                .unwrap_or_else(|| self.unexpected(self.other_protocol())));
        }
        match (reply.error, reply.result) {
            (Some(error), _) if matches_id(&reply, id) => Err(Failure::Error(rpc_error(error))),
            (Some(error), _) if has_no_id(&reply) => {
                let error = rpc_error(error);
                let is_denied = known_errors::is_denied(&error);
                Err(if is_denied { Failure::Denied(error) } else { Failure::Error(error) })
            }
            (None, Some(result)) if matches_id(&reply, id) => match self.status_failure() {
                None => Ok(result.to_owned()),
                Some(failure) => Err(failure),
            },
            (None, None) => {
                let problem = ResponseProblem::NotRpc("neither a result nor an error");
                Err(self.status_failure().unwrap_or_else(|| self.unexpected(problem)))
            }
            _ => Err(Failure::WrongId),
        }
    }

    /// Reads a response from the URL of a tool. Drupal's `jsonrpc_mcp` responds with HTTP 404 in two cases: with the
    /// error -32601 if the caller may not use the tool, and with an HTML page if the tool does not exist.
    pub(crate) fn read_at_tool_url(&self, id: &RequestId<'_>) -> Result<Box<RawValue>, Failure> {
        let is_not_found = self.status == StatusCode::NOT_FOUND;
        self.read(id).map_err(|failure| match failure {
            Failure::Error(error) if is_not_found && error.code == METHOD_NOT_FOUND => {
                Failure::Denied(RpcError::new(error.code, NOT_FOR_CALLER))
            }
            Failure::Unexpected(_) if is_not_found => Failure::NoSuchTool,
            failure => failure,
        })
    }

    /// Returns `true` for a JSON-RPC reply with HTTP 401. A reply means that the method has run, whatever the status
    /// is.
    pub(crate) fn has_run_despite_401(&self, id: &RequestId<'_>) -> bool {
        self.status == StatusCode::UNAUTHORIZED
            && read_reply(trimmed(&self.body)).is_ok_and(|reply| {
                reply.result.is_some() || matches_id(&reply, id) && !self.has_challenge()
            })
    }

    /// Returns the failure for a body that is not UTF-8.
    fn not_utf8(&self) -> Failure {
        self.status_failure().unwrap_or_else(|| self.diagnose(ResponseProblem::NotJson))
    }

    /// Returns the body if the status is 2xx.
    pub(crate) fn into_text(self) -> Result<String, Failure> {
        match self.status_failure() {
            Some(failure) => Err(failure),
            None => Ok(self.body),
        }
    }

    /// Returns the refusal in a response whose error does not come from the method. An error does not come from the
    /// method if the response has a challenge, or if it is not a JSON-RPC error, such as OAuth's
    /// `"error":"access_denied"`.
    fn refusal_with_error(&self, error: Option<&RawValue>) -> Option<AuthRefusal> {
        let is_not_json_rpc = error.is_some_and(|error| !error.get().starts_with('{'));
        self.auth_refusal().filter(|_| is_not_json_rpc || self.has_challenge())
    }

    /// Returns the failure for an HTTP status other than 2xx.
    fn status_failure(&self) -> Option<Failure> {
        match self.auth_refusal() {
            Some(refusal) => Some(Failure::Refused(refusal)),
            None => (!self.status.is_success()).then(|| {
                let Self { status, headers, body } = self;
                Failure::Unexpected(UnexpectedResponse::of_status(*status, &headers.map(), body))
            }),
        }
    }

    fn auth_refusal(&self) -> Option<AuthRefusal> {
        if !self.status.is_client_error() {
            return None;
        }
        let refusal = AuthRefusal::of(self.status, &self.headers.map())?;
        Some(AuthRefusal { text: ServiceText::new(&self.body), ..refusal })
    }

    fn has_challenge(&self) -> bool {
        self.headers.map().contains_key(WWW_AUTHENTICATE)
    }

    fn unexpected(&self, problem: ResponseProblem) -> Failure {
        Failure::Unexpected(UnexpectedResponse::new(self.status, problem, &self.body))
    }

    /// Returns the failure for `problem`, or for a more specific problem that the body or the content type shows.
    fn diagnose(&self, problem: ResponseProblem) -> Failure {
        self.unexpected(match media_type(&self.headers.map()) {
            _ if self.body.trim().is_empty() => ResponseProblem::Empty,
            _ if self.body.contains("<methodResponse") => ResponseProblem::OtherProtocol("XML-RPC"),
            _ if unexpected::has_php_error(&self.body) => ResponseProblem::PhpError,
            Some(media_type) if !media_type.contains("json") => {
                ResponseProblem::ContentType(media_type)
            }
            _ => problem,
        })
    }

    /// Describes a JSON object that has a result, but neither a version nor an id.
    fn other_protocol(&self) -> ResponseProblem {
        let has_arguments = serde_json::from_str::<Value>(trimmed(&self.body))
            .is_ok_and(|reply| reply.get("arguments").is_some_and(Value::is_object));
        if has_arguments {
            ResponseProblem::OtherProtocol("the RPC protocol of Transmission")
        } else {
            ResponseProblem::NotRpc("neither `jsonrpc` nor `id`")
        }
    }
}

/// Removes white space, and the byte order mark that some PHP files have.
fn trimmed(body: &str) -> &str {
    body.trim_start_matches('\u{feff}').trim()
}

fn media_type(headers: &HeaderMap) -> Option<String> {
    let media_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let media_type = media_type.split(';').next()?.trim().to_ascii_lowercase();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "/+-.".contains(c);
    (!media_type.is_empty()
        && media_type.len() <= MAX_MEDIA_TYPE
        && media_type.chars().all(is_allowed))
    .then_some(media_type)
}

type ReplyEnvelope<'a> = Envelope<'a, IgnoredAny>;

/// Parses a message. Treats an `error` of null as absent.
fn read_reply(body: &str) -> Result<ReplyEnvelope<'_>, ResponseProblem> {
    let reply = ReplyEnvelope::read(body).map_err(|error| {
        if error.is_data() && body.starts_with('{') {
            ResponseProblem::NotRpc("a duplicate key")
        } else if serde_json::from_str::<&RawValue>(body).is_ok() {
            ResponseProblem::NotRpc("not an object")
        } else {
            ResponseProblem::NotJson
        }
    })?;
    let error = reply.error.filter(|error| error.get() != "null");
    Ok(ReplyEnvelope { error, ..reply })
}

fn matches_id(reply: &ReplyEnvelope<'_>, id: &RequestId<'_>) -> bool {
    reply.id.and_then(RequestId::of).as_ref() == Some(id)
}

/// Returns `true` for the id that services use in replies to requests that they could not parse.
fn has_no_id(reply: &ReplyEnvelope<'_>) -> bool {
    reply.id.is_none_or(|id| matches!(id.get(), "null" | "0"))
}

/// Parses an error. The error may deviate from JSON-RPC.
fn rpc_error(raw: &RawValue) -> RpcError {
    if let Ok(error) = serde_json::from_str(raw.get()) {
        return error;
    }
    let error: Value = serde_json::from_str(raw.get()).unwrap_or_default();
    let text = |key| error.get(key).and_then(Value::as_str);
    let code = error.get("code").and_then(|code| match code {
        Value::String(code) => code.parse().ok(),
        code => code.as_i64(),
    });
    let message = error.as_str().or(text("message")).unwrap_or_default().to_owned();
    let data = match error.get("data") {
        Some(data) => Some(data.clone()),
        None if message.is_empty() => Some(error),
        None => None,
    };
    RpcError { code: code.unwrap_or(NO_CODE), message, data }
}
