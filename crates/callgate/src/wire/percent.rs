//! Percent-encoding (RFC 3986).

use std::borrow::Cow;

#[cfg(feature = "forward")]
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

/// All characters except the unreserved ones of RFC 3986.
#[cfg(feature = "forward")]
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a path segment or a query value.
#[cfg(feature = "forward")]
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Encodes `%`, spaces, and the characters that a header value cannot contain.
#[cfg(feature = "forward")]
pub(crate) fn header_value(text: &str) -> String {
    const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%');
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Decodes a text. Keeps invalid escapes. Returns `None` if the result is not UTF-8.
pub(crate) fn decoded(encoded: &str) -> Option<Cow<'_, str>> {
    percent_encoding::percent_decode_str(encoded).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_other_text_is_unchanged() {
        assert_eq!(decoded("plain").as_deref(), Some("plain"));
        assert_eq!(decoded("caf%C3%a9%2F%25").as_deref(), Some("café/%"));
        assert_eq!(decoded("100%, %+1 %").as_deref(), Some("100%, %+1 %"));
        assert_eq!(decoded("%ff"), None);
    }

    #[cfg(feature = "forward")]
    #[test]
    fn characters_that_a_header_cannot_contain_are_encoded() {
        assert_eq!(header_value("ada"), "ada");
        assert_eq!(header_value("Zoë 100%\r\n"), "Zo%C3%AB%20100%25%0D%0A");
    }
}
