//! Finds the id of a request that is too long to be parsed, if the id is near the start or the end of the line.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::bridge::receive::message::MessageId;
use crate::wire::lines::LineEnds;

/// Returns the id if the line is a request and its stored beginning or end contains the id.
pub(crate) fn truncated_id(ends: &LineEnds) -> Option<MessageId> {
    let mut head = Head::default();
    // The truncated JSON is an error, but the members before the end have been parsed.
    let _ = serde_json::Deserializer::from_slice(&ends.head).deserialize_map(&mut head);
    let id = head.id.or_else(|| last_id(&ends.tail));
    id.filter(|_| head.has_method)
}

#[derive(Default)]
struct Head {
    id: Option<MessageId>,
    has_method: bool,
}

impl<'de> Visitor<'de> for &mut Head {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            match &*name {
                "id" => self.id = Some(MessageId::of(members.next_value::<&RawValue>()?)),
                name => {
                    self.has_method |= name == "method";
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the value of the last member if this member is the id of the message.
fn last_id(tail: &[u8]) -> Option<MessageId> {
    let tail = String::from_utf8_lossy(tail);
    let (_, value) = tail.trim_end().strip_suffix('}')?.rsplit_once("\"id\":")?;
    let value: &RawValue = serde_json::from_str(value.trim()).ok()?;
    value
        .get()
        .starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
        .then(|| MessageId::of(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(head: &str, tail: &str) -> Option<String> {
        let ends = LineEnds { head: head.into(), tail: tail.into() };
        truncated_id(&ends).map(|id| id.as_json().to_owned())
    }

    #[test]
    fn only_the_id_near_the_start_or_end_of_a_truncated_request_is_found() {
        let head = r#"{"method":"tools/call","params":{"id":3,"text":"xx"#;
        assert_eq!(
            id(r#"{"id":"a","method":"m","params":{"id":3"#, "}}"),
            Some("\"a\"".to_owned())
        );
        assert_eq!(id(head, r#"xx"},"jsonrpc":"2.0","id":7}"#), Some("7".to_owned()));
        assert_eq!(id(head, r#"xx","id":7}}"#), None);
        assert_eq!(id(head, r#"xx \"id\":7}"}}"#), None);
        assert_eq!(id(head, r#"xx"},"id":{"a":1}}"#), None);
        assert_eq!(id(r#"{"id":3,"result":{"text":"xx"#, "}}"), None, "an answer to the server");
        assert_eq!(id("nonsense", "nonsense"), None);
    }
}
