//! Recognises some errors of services by their text, because there is no common code for these errors.
//!
//! Most texts are compared as a whole, because a text that merely contains one of these phrases may be the error of a
//! method that has run.

use serde_json::Value;

use crate::wire::jsonrpc::{INVALID_REQUEST, PARSE_ERROR, RpcError};

/// Texts of errors which mean that there is no session.
const NO_SESSION: [&str; 3] = ["not authenticated", "not authorised", "not authorized"];

/// Beginnings of error texts which mean that the session has ended.
const SESSION_ENDED: [&str; 3] = ["session terminated", "session expired", "session has expired"];

/// Response that Bitcoin Core and its descendants send instead of running a method.
const QUEUE_FULL: &str = "Work queue depth exceeded";

/// Error that Deluge sends if it gets a list where it expects an object.
const LIST_REFUSED: &str = "TypeError: list indices must be integers or slices, not str";

/// Phrases in errors about unsupported or too large batches.
const BATCH_REFUSED: [&str; 7] =
    ["not supported", "unsupported", "not allowed", "disabled", "too large", "too many", "exceed"];

/// Returns `true` if the service refused a request because the request had no valid session. `phrases` are
/// additional phrases: if the text of an error contains one of them, the session is not valid.
pub(crate) fn is_session_refused(error: &RpcError, phrases: &[String]) -> bool {
    let normalized = |text: &str| text.trim().trim_end_matches(['.', '!']).to_lowercase();
    let data = error.data.as_ref().and_then(Value::as_str).unwrap_or_default();
    [error.message.as_str(), data].into_iter().map(normalized).any(|text| {
        let contains = |phrase: String| !phrase.is_empty() && text.contains(&phrase);
        NO_SESSION.contains(&text.as_str())
            || SESSION_ENDED.iter().any(|start| text.starts_with(start))
            || phrases.iter().any(|phrase| contains(normalized(phrase)))
    })
}

/// Returns `true` if the service discarded a request because too many other requests are queued.
pub(crate) fn is_queue_full(body: &str) -> bool {
    body.trim() == QUEUE_FULL
}

/// Returns `true` if an error without an id is about the batch itself.
pub(crate) fn is_batch_refused(error: &RpcError) -> bool {
    let message = error.message.to_ascii_lowercase();
    matches!(error.code, PARSE_ERROR | INVALID_REQUEST)
        || error.message == LIST_REFUSED
        || message.contains("batch") && BATCH_REFUSED.iter().any(|phrase| message.contains(phrase))
}

/// Returns `true` for the response that Electrum sends to a request that is not an object.
pub(crate) fn is_invalid_request(body: &str) -> bool {
    body.eq_ignore_ascii_case("invalid request")
}

/// Returns `true` for the error with which Drupal denies access.
pub(crate) fn is_denied(error: &RpcError) -> bool {
    let data = error.data.as_ref().and_then(Value::as_str).unwrap_or(&error.message);
    data.get(..13).is_some_and(|start| start.eq_ignore_ascii_case("access denied"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_services_are_recognised_by_their_text() {
        let session = |error: &RpcError| {
            is_session_refused(error, &["Log in again.".to_owned(), String::new()])
        };
        let kinds = |error: &RpcError| {
            let kinds = [
                ("session", session(error)),
                ("queue", is_queue_full(&error.message)),
                ("batch", is_batch_refused(error)),
                ("invalid", is_invalid_request(&error.message)),
                ("denied", is_denied(error)),
            ];
            kinds.into_iter().filter(|(_, is_found)| *is_found).map(|(kind, _)| kind)
        };
        for (message, expected) in [
            ("Not authenticated", "session"),
            ("Not authorised.", "session"),
            ("Session terminated, re-login, please.", "session"),
            ("Please log in again", "session"),
            ("You are not authorized to delete item 7", ""),
            ("Work queue depth exceeded\n", "queue"),
            ("The limit is: Work queue depth exceeded", ""),
            (LIST_REFUSED, "batch"),
            ("Batched requests are not supported", "batch"),
            ("Batch size limit exceeded", "batch"),
            ("Batch timed out", ""),
            ("Too many requests", ""),
            ("Invalid Request", "invalid"),
            ("Access denied to node 7", "denied"),
            ("No access", ""),
        ] {
            let error = RpcError::new(1, message);
            let found: Vec<&str> = kinds(&error).collect();
            assert_eq!(found.join(" "), expected, "{message}");
            let in_data = RpcError { data: Some(message.into()), ..RpcError::new(1, "Error") };
            let is_in_data = session(&in_data) || is_denied(&in_data);
            assert_eq!(is_in_data, matches!(expected, "session" | "denied"), "{message}");
        }
    }
}
