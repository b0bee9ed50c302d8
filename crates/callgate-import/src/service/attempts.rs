//! Requests for descriptions. Distinguishes a service that lacks a description from one that failed to return it.
//!
//! Descriptions are requested one after another. The next one is requested only if the service says that it does not
//! have the current one. After a refusal or a failure, the next one is not requested: the failure may be temporary, and
//! the next description may contain methods that the current one leaves out.

use callgate::forward::{CallOutcome, QueryError, Target};
use callgate::jsonrpc::{INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR, RpcError};

use super::{Service, shortened_message};
use crate::hinted::hinted;

/// Phrases in errors of services that do not have a method, or have no information about it.
const UNKNOWN_PHRASES: [&str; 10] = [
    "unknown method",
    "method unknown",
    "no such",
    "not found",
    "can't find",
    "not defined",
    "does not exist",
    "not supported",
    "unsupported",
    "not implemented",
];

const UNEXPECTED_REPLY: &str =
    "a login page or a proxy may have replied; try the same URL with curl";

const METHOD_FAILED: &str =
    "the service has this method but returned an error; other descriptions were not requested";

const LOGIN: &str = "the service expects a login: configure it as `login` of an upstream in callgate.toml, and import the \
     methods with `--upstream NAME`";

const CREDENTIALS: &str = "give credentials, or credentials with more permissions: `--basic USER` with `--password-env \
     VARIABLE`, or `--header-env Authorization=VARIABLE`";

const CREDENTIALS_OR_UPSTREAM: &str = "give credentials, or credentials with more permissions: `--basic USER` with \
     `--password-env VARIABLE`, `--header-env Authorization=VARIABLE`, or those of an upstream with `--upstream NAME`";

/// Name of the request for a document at the URL of a service.
pub(crate) const GET_DOCUMENT: &str = "GET";

/// Records the descriptions that a service does not have.
#[derive(Debug, Default)]
pub struct Attempts {
    absent: Vec<String>,
    is_search: bool,
    /// Whether the service replied to JSON-RPC with another type of content, such as a web page.
    is_page: bool,
}

impl Attempts {
    /// Creates attempts for a URL that may not belong to a JSON-RPC service. A reply that is not JSON-RPC, such as a
    /// web page, also means that the description does not exist.
    pub fn searching() -> Self {
        Self { is_search: true, ..Self::default() }
    }

    /// Returns `true` if the URL does not belong to a JSON-RPC service, so that another method would get the same
    /// reply.
    pub fn is_page(&self) -> bool {
        self.is_page
    }

    /// Calls a method that describes the service, and parses its reply with [`Self::parse_reply`].
    pub(crate) async fn request<T>(
        &mut self,
        service: &Service,
        method: &str,
        parse: impl FnOnce(String) -> Result<T, &'static str>,
    ) -> anyhow::Result<Option<T>> {
        let post = if service.target().is_websocket() { "" } else { "POST " };
        let reply = service.call(method, &[]).await.map(|reply| reply.get().to_owned());
        self.parse_reply(service.target(), &format!("{post}{method}"), reply, None, parse)
    }

    /// Parses a reply. If the service does not have the description, records the reason and returns `None`.
    /// Every other failure is an error, with `reason` as its hint.
    pub(crate) fn parse_reply<T>(
        &mut self,
        service: &Target,
        request: &str,
        reply: Result<String, QueryError>,
        reason: Option<&str>,
        parse: impl FnOnce(String) -> Result<T, &'static str>,
    ) -> anyhow::Result<Option<T>> {
        let (problem, is_absent, hint) = match reply.map(parse) {
            Ok(Ok(value)) => return Ok(Some(value)),
            Ok(Err(problem)) => (problem.to_owned(), self.is_search, UNEXPECTED_REPLY),
            Err(error) => {
                self.is_page |= request.starts_with("POST ")
                    && matches!(
                        error,
                        QueryError::Failed { outcome: CallOutcome::ContentType, .. }
                    );
                (
                    message(&error),
                    is_absent(&error) || (self.is_search && is_not_rpc(request, &error)),
                    reason.unwrap_or_else(|| self.likely_reason(&error)),
                )
            }
        };
        if !is_absent {
            return Err(hinted(format!("{service}: {request}: {problem}"), hint));
        }
        self.absent.push(format!("{request}: {problem}"));
        Ok(None)
    }

    /// Returns the error for a service that has none of the descriptions.
    pub fn into_error(self, problem: &str, hint: &str) -> anyhow::Error {
        hinted([&[problem.to_owned()][..], &self.absent].concat().join("\n  "), hint)
    }

    fn likely_reason(&self, error: &QueryError) -> &'static str {
        let QueryError::Failed { outcome, status, needs_digest, .. } = error else {
            return if error.is_session_refused() { LOGIN } else { METHOD_FAILED };
        };
        match (outcome, status) {
            (CallOutcome::Refused, _) if *needs_digest => {
                "turn off the login of the service, such as `--rpc-login` of monerod, and let only this machine \
                 connect to it"
            }
            (CallOutcome::Refused, _) if self.is_search => CREDENTIALS,
            (CallOutcome::Refused, _) => CREDENTIALS_OR_UPSTREAM,
            (CallOutcome::Status, Some(409)) => LOGIN,
            (CallOutcome::Status, Some(426)) => {
                "give the URL with the scheme that the service expects"
            }
            (CallOutcome::NoToken, _) => {
                "no request was sent: check the table `login` of the upstream, or `token_url`, `client_id`, \
                 `client_secret`, `scope` and `refresh_token` in its table `oauth`, and the log of the server"
            }
            (CallOutcome::Redirected, _) => {
                "redirects are not followed; if this redirect leads to the service, give the URL that it leads to"
            }
            (_, Some(503)) => "the service is unavailable, perhaps in maintenance; try again later",
            (CallOutcome::Error, _) | (_, Some(500..)) => {
                "check the log of the service, and try again later"
            }
            (
                CallOutcome::Busy
                | CallOutcome::Down
                | CallOutcome::Unreachable
                | CallOutcome::Untrusted
                | CallOutcome::NoHttp
                | CallOutcome::NoWebSocket
                | CallOutcome::TimedOut,
                _,
            ) => "check that the service is running, and that this is its URL",
            _ => UNEXPECTED_REPLY,
        }
    }
}

/// Returns an error in one line. The error of the HTTP client is short and contains no secrets.
fn message(error: &QueryError) -> String {
    match error {
        QueryError::Rpc(error) => shortened_message(&error.to_string()),
        QueryError::Failed { message, .. } => message.clone(),
    }
}

/// Returns `true` if the service says that it has no such method, resource or HTTP method. The text counts only
/// together with the error code of aria2, because elsewhere a text such as "no such session" is a refusal.
fn is_absent(error: &QueryError) -> bool {
    match error {
        QueryError::Rpc(error) => {
            error.code == METHOD_NOT_FOUND
                || (error.code == 1 && error.message.starts_with("No such method: "))
        }
        QueryError::Failed { status, .. } => matches!(status, Some(404 | 405 | 501)),
    }
}

/// Returns `true` if the reply does not come from a JSON-RPC service, or comes from one that does not answer GET.
fn is_not_rpc(request: &str, error: &QueryError) -> bool {
    let (outcome, status) = match error {
        QueryError::Rpc(error) => {
            return matches!(error.code, INVALID_PARAMS | PARSE_ERROR) || is_unknown_method(error);
        }
        QueryError::Failed { outcome, status, .. } => (outcome, status),
    };
    match outcome {
        // Services that accept only POST answer GET with various statuses.
        CallOutcome::Status if request == GET_DOCUMENT => true,
        CallOutcome::Status => matches!(status, Some(400 | 415 | 422)),
        CallOutcome::ContentType
        | CallOutcome::NotJson
        | CallOutcome::NotRpc
        | CallOutcome::Empty => true,
        _ => false,
    }
}

/// Returns `true` if the error says that the method is unknown. Not every service uses the standard code: aria2 uses 1,
/// and services derived from XML-RPC use other codes.
pub(crate) fn is_unknown_method(error: &RpcError) -> bool {
    let message = error.message.to_lowercase().replace('_', " ");
    let contains_any = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    error.code == METHOD_NOT_FOUND
        || (contains_any(&["method", "signature"]) && contains_any(&UNKNOWN_PHRASES))
}
