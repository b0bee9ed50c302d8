//! Page cursors. Over REST: base64 of the decimal offset. Over MCP: what a page ended with, so
//! that nothing is skipped or repeated when the catalog changes in between.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use thiserror::Error;

/// Written with padding, read with and without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Where a page starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OffsetCursor(pub usize);

/// A text that is no cursor of ours.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the cursor is not one that this server gave out")]
pub struct CursorError;

impl OffsetCursor {
    /// Reads a cursor; an empty one is the start.
    pub fn decode(text: &str) -> Result<Self, CursorError> {
        if text.is_empty() {
            return Ok(Self(0));
        }
        let digits = BASE64.decode(text).map_err(|_| CursorError)?;
        let digits = std::str::from_utf8(&digits).map_err(|_| CursorError)?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(CursorError);
        }
        digits.parse().map(Self).map_err(|_| CursorError)
    }

    /// The text for clients.
    pub fn encode(self) -> String {
        BASE64.encode(self.0.to_string())
    }
}

/// What an MCP cursor begins with; another form would have another.
const AFTER: &[u8] = b"1:";

/// The method, or whatever else is listed, that a page ended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AfterCursor(pub(crate) String);

impl AfterCursor {
    /// Reads a cursor; an empty one is the start.
    pub(crate) fn decode(text: &str) -> Result<Option<Self>, CursorError> {
        if text.is_empty() {
            return Ok(None);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| CursorError)?;
        let id = bytes.strip_prefix(AFTER).ok_or(CursorError)?;
        let id = std::str::from_utf8(id).map_err(|_| CursorError)?;
        if id.is_empty() {
            return Err(CursorError);
        }
        Ok(Some(Self(id.to_owned())))
    }

    /// The text for clients.
    pub(crate) fn encode(id: &str) -> String {
        URL_SAFE_NO_PAD.encode([AFTER, id.as_bytes()].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn b4_padded_and_unpadded_cursors_are_read() {
        assert_eq!(OffsetCursor::decode("NTA="), Ok(OffsetCursor(50)));
        assert_eq!(OffsetCursor::decode("NTA"), Ok(OffsetCursor(50)));
        assert_eq!(OffsetCursor::decode(""), Ok(OffsetCursor(0)));
    }

    #[test]
    fn b6_d32_anything_else_is_refused() {
        // base64 of `-5`, `x`, `5 `, `+5`, 2^200, and things that are not base64.
        for text in ["LTU=", "eA==", "NSA=", "KzU=", "%%%", "N", "===", " ", "NTA=NTA="] {
            assert_eq!(OffsetCursor::decode(text), Err(CursorError), "{text}");
        }
        let huge = BASE64.encode("9".repeat(60));
        assert_eq!(OffsetCursor::decode(&huge), Err(CursorError));
    }

    proptest! {
        #[test]
        fn a_cursor_comes_back(offset: usize) {
            let cursor = OffsetCursor(offset);
            prop_assert_eq!(OffsetCursor::decode(&cursor.encode()), Ok(cursor));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = OffsetCursor::decode(&text);
            let _ = AfterCursor::decode(&text);
        }

        #[test]
        fn d32_a_method_comes_back(id in "[a-z.é ]{1,20}[a-z]") {
            prop_assume!(!id.starts_with(' '));
            let cursor = AfterCursor::decode(&AfterCursor::encode(&id));
            prop_assert_eq!(cursor, Ok(Some(AfterCursor(id))));
        }
    }
}
