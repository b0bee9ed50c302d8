//! The id of a request, to find again who waits for its reply.

use serde_json::value::RawValue;

use super::request::RequestId;
use crate::strict_json;

/// The id of a request, as replies name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ReplyId {
    Text(String),
    Number(u64),
}

impl ReplyId {
    /// The id in a reply, unless it is one that is never given. A number may have become `7.0` on its
    /// way, and 0 is what those send who could not read the request.
    pub(super) fn of(found: &RawValue) -> Option<Self> {
        if let Some(text) = strict_json::text(found) {
            return Some(Self::Text(text.into_owned()));
        }
        let digits = found.get().strip_suffix(".0").unwrap_or(found.get());
        digits.parse().ok().filter(|number| *number > 0).map(Self::Number)
    }
}

impl From<RequestId<'_>> for ReplyId {
    fn from(id: RequestId<'_>) -> Self {
        match id {
            RequestId::Text(text) => Self::Text(text.to_owned()),
            RequestId::Number(number) => Self::Number(number),
        }
    }
}
