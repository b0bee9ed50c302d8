//! Descriptions that a service was asked for and does not have.
//!
//! A source is replaced by another description only where the service says that the first one is not
//! there. A refusal, a failure or an answer in another form may pass, and the other description may have
//! methods that the first one leaves out.

use callgate::forward::{AskError, Outcome, Target};
use callgate::jsonrpc::{INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR, RpcError};

use super::service::cut;
use crate::errors::hinted;

/// Phrases for a method that a service does not have, or about which it has no information.
const UNKNOWN: [&str; 10] = [
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

const OTHER_ANSWER: &str =
    "a login page or a proxy may answer in its place; ask the same URL with curl";

/// The question for a document at the URL of a service.
pub(super) const GET_DOCUMENT: &str = "GET";

/// The questions that were answered with "not there".
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    absent: Vec<String>,
    is_search: bool,
}

impl Attempts {
    /// For a URL of which nothing is known: what is not JSON-RPC at all, such as a web page, also means
    /// that this kind of description is not there.
    pub(crate) fn searching() -> Self {
        Self { absent: Vec::new(), is_search: true }
    }

    /// Reads the answer to a question; `None` if it says that the description is not there, which is
    /// recorded. Every other failure is an error, with `reason` as its likely cause, and so is an answer that
    /// `read` does not take.
    pub(crate) fn read<T>(
        &mut self,
        service: &Target,
        what: &str,
        answer: Result<String, AskError>,
        reason: Option<&str>,
        read: impl FnOnce(String) -> Result<T, &'static str>,
    ) -> anyhow::Result<Option<T>> {
        let (problem, is_absent, hint) = match answer.map(read) {
            Ok(Ok(read)) => return Ok(Some(read)),
            Ok(Err(problem)) => (problem.to_owned(), self.is_search, OTHER_ANSWER),
            Err(error) => (
                cut(&error.to_string()),
                is_absent(&error) || (self.is_search && is_no_rpc(what, &error)),
                reason.unwrap_or_else(|| likely_reason(&error)),
            ),
        };
        if !is_absent {
            return Err(hinted(format!("{service}: {what}: {problem}"), hint));
        }
        self.absent.push(format!("{what}: {problem}"));
        Ok(None)
    }

    /// Returns the error for a service that has none of the descriptions.
    pub(crate) fn into_error(self, problem: &str, hint: &str) -> anyhow::Error {
        hinted([&[problem.to_owned()][..], &self.absent].concat().join("\n  "), hint)
    }
}

/// Returns `true` if the service says that it has no such method, resource or HTTP method. What an error
/// says in words does not count: "no such session" is a refusal. aria2 is known by its code and its words.
fn is_absent(error: &AskError) -> bool {
    match error {
        AskError::Rpc(error) => {
            error.code == METHOD_NOT_FOUND
                || (error.code == 1 && error.message.starts_with("No such method: "))
        }
        AskError::Failed { status, .. } => matches!(status, Some(404 | 405 | 501)),
    }
}

/// Returns `true` if what answered is not a service that takes such a request, or does not answer GET.
fn is_no_rpc(what: &str, error: &AskError) -> bool {
    let (outcome, status) = match error {
        AskError::Rpc(error) => {
            return matches!(error.code, INVALID_PARAMS | PARSE_ERROR) || is_unknown_method(error);
        }
        AskError::Failed { outcome, status, .. } => (outcome, status),
    };
    match outcome {
        // Services that take POST alone answer a GET of their URL in many ways.
        Outcome::Status if what == GET_DOCUMENT => true,
        Outcome::Status => matches!(status, Some(400 | 415 | 422 | 426)),
        Outcome::ContentType | Outcome::NotJson | Outcome::NotRpc | Outcome::Empty => true,
        _ => false,
    }
}

/// Returns `true` if the error says that there is no such method, or nothing to say about one. Not every
/// service has the code for it: aria2 has 1, and services that come from XML-RPC have their own.
pub(super) fn is_unknown_method(error: &RpcError) -> bool {
    let message = error.message.to_lowercase().replace('_', " ");
    let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
    error.code == METHOD_NOT_FOUND || (says(&["method", "signature"]) && says(&UNKNOWN))
}

fn likely_reason(error: &AskError) -> &'static str {
    const CREDENTIALS: &str = "it needs other credentials, or more permissions for them: `--header-env \
         Authorization=VARIABLE`, or those of an upstream by `--upstream NAME`";
    let AskError::Failed { outcome, status, .. } = error else {
        return "the service has this method and does not answer it; nothing else was asked";
    };
    match (outcome, status) {
        (Outcome::Refused, _) => CREDENTIALS,
        (Outcome::NoToken, _) => {
            "the service was not asked: look at `token_url`, `client_id`, `client_secret`, `scope` and \
             `refresh_token` in the table `oauth` of the upstream, and at the log of the authorization \
             server; one that is away may be back later"
        }
        (Outcome::Redirected, _) => {
            "redirects are not followed; name the URL that it leads to, if that is the service's"
        }
        (_, Some(503)) => "it is not available now, such as a site in maintenance; try again later",
        (_, Some(500..)) => "its own log says why; try again later",
        (
            Outcome::Busy
            | Outcome::Down
            | Outcome::Unreachable
            | Outcome::Untrusted
            | Outcome::NoHttp
            | Outcome::NoWebSocket
            | Outcome::TimedOut,
            _,
        ) => "is it running, and is that its URL?",
        _ => OTHER_ANSWER,
    }
}
