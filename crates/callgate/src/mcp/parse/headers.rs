//! The HTTP headers of the protocol.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// `MCP-Protocol-Version`
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// `Mcp-Session-Id`
pub const SESSION_ID: &str = "mcp-session-id";
/// `Mcp-Method`
pub const METHOD: &str = "mcp-method";
/// `Mcp-Name`
pub const NAME: &str = "mcp-name";

/// `Last-Event-ID`: the last event that a reconnecting client has received.
pub(crate) const LAST_EVENT_ID: &str = "last-event-id";

/// One header of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header<'a> {
    /// The header is missing.
    Absent,
    /// The header occurs once. The value has no surrounding white space.
    One(&'a str),
    /// The header occurs several times, or its value is not visible ASCII.
    Unusable,
}

#[cfg(any(test, fuzzing, feature = "http"))]
impl<'a> Header<'a> {
    /// Adds a further value of this header. `None` stands for a value that is not visible ASCII.
    pub(crate) fn and(self, value: Option<&'a str>) -> Self {
        match (self, value) {
            (Self::Absent, Some(value)) => Self::One(value.trim_ascii()),
            _ => Self::Unusable,
        }
    }
}

/// The headers of a request.
pub trait Headers: Sync {
    /// Returns a header by its name in lower case.
    fn header(&self, name: &str) -> Header<'_>;
}

/// For tests and fuzzing.
#[cfg(any(test, fuzzing))]
impl Headers for Vec<(&str, &str)> {
    fn header(&self, name: &str) -> Header<'_> {
        let values = self.iter().filter(|(header_name, _)| header_name.eq_ignore_ascii_case(name));
        values.fold(Header::Absent, |header, (_, value)| header.and(Some(value)))
    }
}

/// Decodes a header that repeats a part of the body. `=?base64?…?=` encodes text that is not ASCII.
pub(crate) fn decode(value: &str) -> Option<Cow<'_, str>> {
    let Some(encoded) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="))
    else {
        return Some(Cow::Borrowed(value));
    };
    let bytes = STANDARD.decode(encoded).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Encodes a text as a header value that [`decode`] can decode.
#[cfg(feature = "bridge")]
pub(crate) fn encode(text: &str) -> Cow<'_, str> {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && !text.starts_with("=?base64?");
    // Some servers ignore an empty header.
    if is_plain && !text.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("=?base64?{}?=", STANDARD.encode(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_header_values_are_decoded_strictly() {
        assert_eq!(decode("plain").as_deref(), Some("plain"));
        assert_eq!(decode("=?base64?w6k=?=").as_deref(), Some("é"));
        assert_eq!(decode("=?base64??=").as_deref(), Some(""));
        // Not the marker for base64, so the value is literal.
        assert_eq!(decode("=?BASE64?w6k=?=").as_deref(), Some("=?BASE64?w6k=?="));
        for invalid in ["=?base64?w6k?=", "=?base64?%%%?=", "=?base64?/w==?="] {
            assert_eq!(decode(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn header_values_are_trimmed_and_repeated_headers_are_unusable() {
        let headers = vec![("Mcp-Name", " a\t"), ("mcp-method", "x"), ("MCP-Method", "x")];
        assert_eq!(headers.header(NAME), Header::One("a"));
        assert_eq!(headers.header(METHOD), Header::Unusable);
        assert_eq!(headers.header(SESSION_ID), Header::Absent);
    }

    #[cfg(feature = "bridge")]
    proptest::proptest! {
        #[test]
        fn encoded_headers_are_ascii_and_decode_to_the_text(text in ".*") {
            let header = encode(&text);
            proptest::prop_assert!(header.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            proptest::prop_assert_eq!(header.trim(), &header);
            let decoded = decode(&header);
            proptest::prop_assert_eq!(decoded.as_deref(), Some(text.as_str()));
        }
    }
}
