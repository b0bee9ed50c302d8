//! Removes white space from JSON, so that a message is one line over stdio and one `data:` field over SSE.

use std::borrow::Cow;

use memchr::memchr2;

/// Removes white space outside of strings.
pub(crate) fn compact(json: &str) -> Cow<'_, str> {
    // Most results contain no white space at all, and this check is fast.
    if !json.bytes().any(|byte| byte <= b' ') {
        return Cow::Borrowed(json);
    }
    let Some(first) = find_outer_white_space(json) else { return Cow::Borrowed(json) };
    let (head, mut rest) = json.split_at(first);
    let mut out = String::with_capacity(json.len());
    out.push_str(head);
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        match find_outer_white_space(rest) {
            Some(next) => {
                let (piece, after) = rest.split_at(next);
                out.push_str(piece);
                rest = after;
            }
            None => {
                out.push_str(rest);
                return Cow::Owned(out);
            }
        }
    }
}

/// Returns the index of the first white space outside of a string.
fn find_outer_white_space(json: &str) -> Option<usize> {
    let (bytes, mut index) = (json.as_bytes(), 0);
    while let Some(byte) = bytes.get(index) {
        index += match byte {
            b' ' | b'\t' | b'\r' | b'\n' => return Some(index),
            b'"' => 1 + string_len(bytes.get(index + 1..)?)?,
            _ => 1,
        };
    }
    None
}

/// Returns the length of a string, from its first character to its closing quote.
fn string_len(text: &[u8]) -> Option<usize> {
    let mut index = 0;
    loop {
        index += memchr2(b'"', b'\\', text.get(index..)?)?;
        if text.get(index) == Some(&b'"') {
            return Some(index + 1);
        }
        index += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn white_space_outside_of_strings_is_removed() {
        assert_eq!(compact("{ \"a b\" : [ 1 ,\r\n\t2 ] }"), r#"{"a b":[1,2]}"#);
        assert_eq!(compact(r#"{"a":"x \" y\\"  }"#), r#"{"a":"x \" y\\"}"#);
        assert!(matches!(compact(r#"{"a":"no space outside"}"#), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn compact_json_is_the_same_value(texts in proptest::collection::vec(".*", 0..8)) {
            let value = json!({"texts": texts, "nested": [{"a": texts.len()}, null, 1.5]});
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(compact(&pretty), value.to_string());
            let parsed: Value = serde_json::from_str(&compact(&pretty)).unwrap();
            prop_assert_eq!(parsed, value);
        }
    }
}
