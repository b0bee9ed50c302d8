//! Parses the response to a batch.

use std::collections::HashMap;

use http::StatusCode;
use serde_json::value::RawValue;

use super::{ReplyEnvelope, ReplyTarget, ServiceResponse, read_reply, rpc_error, trimmed};
use crate::upstream::forward::{Failure, RequestId, known_errors};

#[derive(Debug)]
pub(crate) enum BatchReply<'a> {
    PerCall(Replies<'a>),
    ForAll,
    /// The service refused the batch itself. No call has run.
    Refused,
    /// The service may have refused the batch itself: it responded with an HTTP error and without replies.
    MaybeRefused(Failure),
    Invalid(Failure),
}

#[derive(Debug)]
pub(crate) struct Replies<'a> {
    items: Vec<(ReplyTarget<'a>, &'a str)>,
    /// Whether the response is a single error instead of a list.
    is_single_error: bool,
}

impl ServiceResponse {
    pub(crate) fn read_batch(&self) -> BatchReply<'_> {
        let body = trimmed(&self.body);
        if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(body) {
            return BatchReply::PerCall(Replies::of(items.into_iter().map(RawValue::get)));
        }
        match read_reply(body) {
            Ok(ReplyEnvelope { error: Some(error), id, .. })
                if id.and_then(RequestId::of).is_none() =>
            {
                let is_auth_refusal = matches!(self.status_failure(), Some(Failure::Refused(_)));
                // After HTTP 5xx, some calls may have run.
                let may_have_run = self.status.is_server_error();
                let error = rpc_error(error);
                if known_errors::is_batch_refused(&error) && !is_auth_refusal && !may_have_run {
                    BatchReply::Refused
                } else {
                    BatchReply::ForAll
                }
            }
            _ if self.status == StatusCode::PAYLOAD_TOO_LARGE => BatchReply::Refused,
            Err(_) if known_errors::is_invalid_request(body) => BatchReply::Refused,
            // Some services reply only to the first request of a batch.
            Ok(ReplyEnvelope { id: Some(_), error, .. }) => {
                let is_single_error = error.is_some();
                let replies = Replies { is_single_error, ..Replies::of([body].into_iter()) };
                BatchReply::PerCall(replies)
            }
            _ => match self.read(&RequestId::Number(0)) {
                Ok(_) | Err(Failure::Error(_) | Failure::Denied(_)) => BatchReply::ForAll,
                Err(failure @ Failure::Unexpected(_)) if may_be_about_batch(self.status) => {
                    BatchReply::MaybeRefused(failure)
                }
                Err(failure) => BatchReply::Invalid(failure),
            },
        }
    }
}

impl<'a> Replies<'a> {
    fn of(items: impl Iterator<Item = &'a str>) -> Self {
        let items = items.map(|item| (ReplyTarget::of(item), item)).collect();
        Self { items, is_single_error: false }
    }

    /// Returns the reply to each request, and the number of other messages.
    ///
    /// JSON-RPC allows replies in any order. Drupal replies in the order of the requests, but every error has the
    /// id null. If there are as many replies as requests, and all replies with an id are in order, each error
    /// without an id therefore belongs to the request at the same position. Otherwise, an error without an id can
    /// be assigned only if it is the only such error and only one request has no reply.
    pub(crate) fn assign<'b>(
        self,
        ids: impl ExactSizeIterator<Item = &'b RequestId<'static>> + Clone,
    ) -> (Vec<Result<&'a str, Failure>>, usize) {
        let may_reply_to = |(target, _): &(ReplyTarget<'_>, &str), id: &RequestId<'_>| match target
        {
            ReplyTarget::Request(found) => found == id,
            ReplyTarget::UnknownRequest => true,
            ReplyTarget::NotAReply => false,
        };
        if self.items.len() == ids.len()
            && self.items.iter().zip(ids.clone()).all(|(item, id)| may_reply_to(item, id))
        {
            return (self.items.into_iter().map(|(_, item)| Ok(item)).collect(), 0);
        }
        let (mut by_id, mut without_id, mut ignored) = (HashMap::new(), Vec::new(), 0);
        for (target, item) in self.items {
            match target {
                ReplyTarget::Request(id) if !by_id.contains_key(&id) => {
                    by_id.insert(id, item);
                }
                ReplyTarget::UnknownRequest => without_id.push(item),
                _ => ignored += 1,
            }
        }
        let found: Vec<Option<&str>> = ids.map(|id| by_id.remove(id)).collect();
        let missing = found.iter().filter(|reply| reply.is_none()).count();
        let fallback = match *without_id.as_slice() {
            [only] if missing == 1 => Ok(only),
            [] if !self.is_single_error => Err(Failure::MissingReply),
            _ => Err(Failure::Unmatched),
        };
        ignored += by_id.len() + if fallback.is_ok() { 0 } else { without_id.len() };
        let replies = found.into_iter().map(|reply| reply.map_or(fallback.clone(), Ok));
        (replies.collect(), ignored)
    }
}

/// Returns `true` for the statuses that services send if they cannot parse a batch.
fn may_be_about_batch(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 415 | 422 | 500 | 501)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn read(status: u16, body: &str) -> String {
        let status = StatusCode::from_u16(status).unwrap();
        let response = ServiceResponse { status, ..ServiceResponse::from_message(body.to_owned()) };
        match response.read_batch() {
            BatchReply::PerCall(replies) => {
                let mut by_id: Vec<String> = Vec::new();
                let mut unknown = 0;
                for (target, reply) in replies.items {
                    match target {
                        ReplyTarget::Request(id) => by_id.push(format!("{id:?} {reply}")),
                        _ => unknown += 1,
                    }
                }
                by_id.sort();
                format!("{unknown} unknown, {by_id:?}")
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn batch_responses_are_classified() {
        let mut table = String::new();
        for (status, body) in [
            (200, r#"[{"id":"b","result":2},{"id":"a","error":{"code":1,"message":"no"}}]"#),
            (200, "\u{feff} [ ]\n"),
            (200, r#"[{"id":7.0,"result":1},{"id":7,"result":2},{"id":null,"error":{}},1]"#),
            (200, r#"[{"id":1,"result":1},{"id":2,"resu"#),
            (200, r#"{"id":"a","result":1}"#),
            (400, r#"{"error":{"code":-32600,"message":"Invalid Request"},"id":null}"#),
            (200, r#"{"error":{"code":-32700,"message":"Parse error"},"id":0}"#),
            (200, r#"{"error":{"code":-32005,"message":"Batched requests are not supported"}}"#),
            (500, r#"{"error":{"code":-32600,"message":"Invalid Request"},"id":null}"#),
            (200, r#"{"error":{"code":-32000,"message":"Batch timed out"},"id":null}"#),
            (200, r#"{"error":{"code":-32000,"message":"Batch size limit exceeded"},"id":null}"#),
            (413, "<h1>Too large</h1>"),
            (401, r#"{"error":{"code":-32600,"message":"Who are you?"},"id":null}"#),
            (429, r#"{"error":{"code":-32029,"message":"Too many requests"},"id":null}"#),
            (200, r#"{"result":1,"id":null}"#),
            (502, "<h1>Bad gateway</h1>"),
            (200, ""),
            (500, "Invalid Request"),
            (500, "Internal Server Error"),
            (400, "Bad request"),
            (
                200,
                r#"{"result":null,"id":null,"error":{"code":5,"message":"TypeError: list indices must be integers or slices, not str"}}"#,
            ),
            (500, "<p>AttributeError: 'list' object has no attribute 'get'</p>"),
        ] {
            writeln!(table, "{status} {}\n    {}", trimmed(body), read(status, body)).unwrap();
        }
        insta::assert_snapshot!(table);
    }

    fn parts(body: &str, count: u64) -> String {
        let response = ServiceResponse::from_message(body.to_owned());
        let BatchReply::PerCall(replies) = response.read_batch() else { panic!("{body}") };
        let ids: Vec<RequestId<'_>> = (1..=count).map(RequestId::Number).collect();
        let (parts, ignored) = replies.assign(ids.iter());
        let parts: Vec<String> = parts
            .into_iter()
            .map(|part| match part {
                Ok(reply) => reply.split_once("\"m\":\"").unwrap().1[..1].to_owned(),
                Err(failure) => format!("{failure:?}"),
            })
            .collect();
        format!("{} ({ignored} ignored)", parts.join(" "))
    }

    #[test]
    fn errors_without_an_id_are_assigned_only_if_the_request_is_certain() {
        let reply = |id: u32, name: char| format!(r#"{{"id":{id},"result":{{"m":"{name}"}}}}"#);
        let error = |name: char| format!(r#"{{"id":null,"error":{{"m":"{name}"}}}}"#);
        for (items, expected) in [
            // In order, as Drupal replies.
            (vec![reply(1, 'a'), error('b'), error('c')], "a b c (0 ignored)"),
            (vec![error('a'), error('b'), error('c')], "a b c (0 ignored)"),
            (vec![error('a'), reply(2, 'b'), error('c')], "a b c (0 ignored)"),
            // Not in order, but only one request is left for the error.
            (vec![reply(3, 'c'), reply(1, 'a'), error('b')], "a b c (0 ignored)"),
            (vec![error('c'), reply(1, 'a'), reply(2, 'b')], "a b c (0 ignored)"),
            // The errors cannot be assigned.
            (vec![error('x'), reply(1, 'a'), error('y')], "a Unmatched Unmatched (2 ignored)"),
            (vec![reply(1, 'a'), error('x')], "a Unmatched Unmatched (1 ignored)"),
            (vec![reply(2, 'b'), reply(2, 'x'), error('y')], "Unmatched b Unmatched (2 ignored)"),
            // No error is left for the missing reply.
            (vec![reply(1, 'a'), reply(3, 'c')], "a MissingReply c (0 ignored)"),
            (vec![reply(1, 'a'), reply(3, 'c'), reply(7, 'x')], "a MissingReply c (1 ignored)"),
        ] {
            assert_eq!(parts(&format!("[{}]", items.join(",")), 3), expected, "{items:?}");
        }
        // A single error for one of the requests, instead of a list.
        let single = r#"{"id":2,"error":{"m":"b"}}"#;
        assert_eq!(parts(single, 2), "Unmatched b (0 ignored)");
    }
}
