//! The answer to a batch, taken apart.

use std::collections::HashMap;

use http::StatusCode;
use serde_json::value::RawValue;

use super::{Addressee, Parts, Whole, rpc_error, trimmed};
use crate::forward::failure::Failure;
use crate::forward::reply_id::ReplyId;
use crate::forward::request::RequestId;
use crate::jsonrpc::{INVALID_REQUEST, PARSE_ERROR, RpcError};

/// What a batch came to.
#[derive(Debug)]
pub(in crate::forward) enum BatchReply<'a> {
    /// Replies, each for one call.
    Each(Replies<'a>),
    /// One error, for all that were asked.
    ForAll,
    /// It is the batch that is refused, and not what is in it. Nothing was run.
    Refused,
    /// No reply at all.
    Wrong(Failure),
}

#[derive(Debug, Default)]
pub(in crate::forward) struct Replies<'a> {
    pub(in crate::forward) by_id: HashMap<ReplyId, &'a str>,
    /// How many say of no request that they answer it, or of one that has its reply.
    pub(in crate::forward) unknown: usize,
}

impl Whole {
    pub(in crate::forward) fn read_batch(&self) -> BatchReply<'_> {
        let body = trimmed(&self.body);
        if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(body) {
            return BatchReply::Each(Replies::of(items.into_iter().map(RawValue::get)));
        }
        match Parts::read(body) {
            Ok(Parts { error: Some(error), id, .. }) if id.and_then(ReplyId::of).is_none() => {
                let is_about_rights = matches!(self.answer().refused(), Some(Failure::Refused(_)));
                // Behind a failure of the service's own, something may have run.
                let may_have_run = self.status.is_server_error();
                if is_about_the_list(&rpc_error(error)) && !is_about_rights && !may_have_run {
                    BatchReply::Refused
                } else {
                    BatchReply::ForAll
                }
            }
            _ if self.status == StatusCode::PAYLOAD_TOO_LARGE => BatchReply::Refused,
            // As some do who take the first of a list for all of it.
            Ok(Parts { id: Some(_), .. }) => BatchReply::Each(Replies::of([body].into_iter())),
            _ => match self.read(&RequestId::Number(0)) {
                Ok(_) => BatchReply::ForAll,
                Err(failure) => BatchReply::Wrong(failure),
            },
        }
    }

    /// The same, with a part of its body.
    pub(in crate::forward) fn with_body(&self, body: &str) -> Self {
        Self { status: self.status, ..Self::bare(body.to_owned()) }
    }
}

impl<'a> Replies<'a> {
    fn of(items: impl Iterator<Item = &'a str>) -> Self {
        let mut replies = Self::default();
        for item in items {
            match Addressee::of(item) {
                Addressee::Request(id) if !replies.by_id.contains_key(&id) => {
                    replies.by_id.insert(id, item);
                }
                _ => replies.unknown += 1,
            }
        }
        replies
    }
}

/// What is said of batches that are not wanted at all, or not so many calls in one.
const UNWANTED: [&str; 7] =
    ["not supported", "unsupported", "not allowed", "disabled", "too large", "too many", "exceed"];

/// Whether an error without an id is about the list, and not about a call in it that has run, or about
/// somebody's rights.
fn is_about_the_list(error: &RpcError) -> bool {
    let message = error.message.to_ascii_lowercase();
    matches!(error.code, PARSE_ERROR | INVALID_REQUEST)
        || message.contains("batch") && UNWANTED.iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use http::HeaderMap;

    use super::*;

    fn read(status: u16, body: &str) -> String {
        let status = StatusCode::from_u16(status).unwrap();
        let whole = Whole { status, headers: HeaderMap::new(), body: body.to_owned() };
        match whole.read_batch() {
            BatchReply::Each(Replies { by_id, unknown }) => {
                let mut replies: Vec<String> =
                    by_id.iter().map(|(id, reply)| format!("{id:?} {reply}")).collect();
                replies.sort();
                format!("{unknown} unknown, {replies:?}")
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn the_answers_to_batches() {
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
        ] {
            writeln!(table, "{status} {}\n    {}", trimmed(body), read(status, body)).unwrap();
        }
        insta::assert_snapshot!(table);
    }
}
