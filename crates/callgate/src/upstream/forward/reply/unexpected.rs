//! Responses that are not JSON-RPC replies. Each is described by its problem and the remedy.

use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue, UPGRADE};

use super::service_text::ServiceText;
use crate::upstream::forward::CallOutcome;
use crate::upstream::forward::known_errors::is_queue_full;

#[derive(Debug, Clone)]
pub(crate) struct UnexpectedResponse {
    pub(crate) status: StatusCode,
    pub(crate) problem: ResponseProblem,
    pub(crate) text: ServiceText,
}

#[derive(Debug, Clone)]
pub(crate) enum ResponseProblem {
    /// The status is not 2xx, and the body is not a JSON-RPC error.
    Status,
    /// Status 426, with the setting that suits the protocol that the service expects.
    Upgrade(&'static str),
    /// Status 409, with a header that the service expects in the next request.
    Session(Box<(HeaderName, HeaderValue)>),
    /// The service discarded the request because its queue is full.
    QueueFull,
    Empty,
    ContentType(String),
    NotJson,
    NotRpc(&'static str),
    /// A reply of another protocol.
    OtherProtocol(&'static str),
    /// PHP wrote an error message into the response.
    PhpError,
}

impl UnexpectedResponse {
    pub(crate) fn new(status: StatusCode, problem: ResponseProblem, body: &str) -> Self {
        Self { status, problem, text: ServiceText::new(body) }
    }

    /// Describes a response with a status other than 2xx.
    pub(crate) fn of_status(status: StatusCode, headers: &HeaderMap, body: &str) -> Self {
        let session = || headers.iter().find(|(name, _)| name.as_str().ends_with("session-id"));
        let problem = match status {
            _ if is_queue_full(body) => ResponseProblem::QueueFull,
            StatusCode::UPGRADE_REQUIRED => ResponseProblem::Upgrade(expected_url(headers)),
            StatusCode::CONFLICT => session().map_or(ResponseProblem::Status, |(name, value)| {
                let mut value = value.clone();
                value.set_sensitive(true);
                ResponseProblem::Session(Box::new((name.clone(), value)))
            }),
            _ => ResponseProblem::Status,
        };
        Self::new(status, problem, body)
    }

    /// Returns the description for the log, with the configuration key to change.
    pub(crate) fn description(&self) -> String {
        let (status, text) = (self.status.as_u16(), &self.text);
        let problem = match &self.problem {
            ResponseProblem::Status => format!("HTTP {status} without a JSON-RPC error"),
            ResponseProblem::QueueFull => {
                format!(
                    "HTTP {status}: the service discarded the request because its queue is full"
                )
            }
            ResponseProblem::Upgrade(_) => {
                format!("HTTP {status}: the service expects another protocol")
            }
            ResponseProblem::Session(_) => format!("HTTP {status}: the service expects a session"),
            ResponseProblem::Empty => format!("HTTP {status} without a body"),
            ResponseProblem::ContentType(media) => format!("the response is `{media}`, not JSON"),
            ResponseProblem::NotJson => "the response is not JSON".to_owned(),
            ResponseProblem::NotRpc(reason) => {
                format!("the response is not a JSON-RPC reply: {reason}")
            }
            ResponseProblem::OtherProtocol(name) => {
                format!("the response is {name}, and not a JSON-RPC reply")
            }
            ResponseProblem::PhpError => "the response has an error of PHP".to_owned(),
        };
        let hint = match (&self.problem, self.status) {
            (ResponseProblem::Status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) => {
                "; check the path of `url`".to_owned()
            }
            (ResponseProblem::Status, StatusCode::CONFLICT) => {
                "; if the service expects a session, set `login`".to_owned()
            }
            (
                ResponseProblem::Status,
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE,
            ) => "; nothing was run".to_owned(),
            (ResponseProblem::Upgrade(setting), _) => format!("; set {setting}"),
            (ResponseProblem::Session(header), _) => {
                format!("; set `login.header` to `{}`", header.0)
            }
            (ResponseProblem::OtherProtocol(_), _) => {
                "; the service cannot be called with JSON-RPC".to_owned()
            }
            (ResponseProblem::PhpError, _) => {
                "; correct the error, and turn off `display_errors` of PHP".to_owned()
            }
            _ => String::new(),
        };
        format!("{problem}{text}{hint}")
    }

    /// Returns the counter, the problem and the remedy, in the form of `Failure::row`.
    pub(crate) fn row(&self) -> (CallOutcome, &'static str, &'static str) {
        const RETRY_LATER: &str = "Nothing was run: try again later.";
        let (outcome, problem, advice) = match &self.problem {
            ResponseProblem::Status => {
                return (CallOutcome::Status, self.status_text(), self.advice());
            }
            ResponseProblem::QueueFull => {
                (CallOutcome::Status, "has too many requests in its queue (HTTP {}).", RETRY_LATER)
            }
            ResponseProblem::Upgrade(_) => (
                CallOutcome::Status,
                "expects another protocol (HTTP {}).",
                "Nothing was run; an administrator has to change the configuration of the service.",
            ),
            ResponseProblem::Session(_) => (
                CallOutcome::Status,
                "expects a session (HTTP {}).",
                "Nothing was run; an administrator has to configure a login for the service.",
            ),
            ResponseProblem::Empty => {
                (CallOutcome::Empty, "responded without a body (HTTP {}).", CHECK_URL_ADVICE)
            }
            ResponseProblem::ContentType(_) => {
                (CallOutcome::ContentType, "responded with `{}` instead of JSON.", CHECK_URL_ADVICE)
            }
            ResponseProblem::NotJson => {
                (CallOutcome::NotJson, "responded with a body that is not JSON.", CHECK_URL_ADVICE)
            }
            ResponseProblem::NotRpc(_) => (
                CallOutcome::NotRpc,
                "responded with JSON that is not a JSON-RPC reply.",
                CHECK_URL_ADVICE,
            ),
            ResponseProblem::OtherProtocol(_) => {
                (CallOutcome::NotRpc, "responded with {}, which is not JSON-RPC.", CHECK_URL_ADVICE)
            }
            ResponseProblem::PhpError => {
                (CallOutcome::Error, "responded with an error of PHP.", "{again}")
            }
        };
        (outcome, problem, advice)
    }

    fn status_text(&self) -> &'static str {
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                "is not available at the moment, for example because its site is in maintenance (HTTP {})."
            }
            StatusCode::TOO_MANY_REQUESTS => "accepts no more requests at the moment (HTTP {}).",
            StatusCode::CONFLICT => "responded with a conflict (HTTP {}).",
            _ if self.text.as_str().is_empty() => "responded with HTTP {} and no reason.",
            _ => "responded with HTTP {}.",
        }
    }

    fn advice(&self) -> &'static str {
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                "Nothing was run: try again later."
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                "Do not try again: an administrator should check the path of the service's URL."
            }
            _ => "{again}",
        }
    }

    /// Returns the text that replaces `{}` in the texts of [`Self::row`].
    pub(crate) fn detail(&self) -> String {
        match &self.problem {
            ResponseProblem::ContentType(media) => media.clone(),
            ResponseProblem::OtherProtocol(name) => (*name).to_owned(),
            _ => self.status.as_u16().to_string(),
        }
    }
}

/// Returns `true` if the body contains an error or a warning in the format of PHP, as HTML or as text.
pub(super) fn has_php_error(body: &str) -> bool {
    const KINDS: [&str; 5] = ["Fatal error", "Parse error", "Warning", "Notice", "Deprecated"];
    let has = |kind: &str| ["</b>:", ":"].iter().any(|end| body.contains(&format!("{kind}{end}")));
    body.contains(".php") && body.contains(" on line ") && KINDS.into_iter().any(has)
}

const CHECK_URL_ADVICE: &str = "{again} An administrator should check the URL of the service.";

fn expected_url(headers: &HeaderMap) -> &'static str {
    let upgrade = headers.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let upgrade = upgrade.to_ascii_lowercase();
    if upgrade.starts_with("tls/") {
        "`url` to `https://…`"
    } else if upgrade.starts_with("h2c") {
        "`http2` to `true`"
    } else {
        "`url` to `ws://…` or `wss://…`"
    }
}
