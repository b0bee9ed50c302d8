//! Page cursors. A REST cursor is an offset in base64. An MCP cursor is the key of the last item of a page, so that no
//! item is skipped or repeated when the catalog changes between two pages.

use base64::Engine as _;
#[cfg(any(test, fuzzing, feature = "http"))]
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
#[cfg(any(test, fuzzing, feature = "http"))]
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use thiserror::Error;

/// Encodes with padding. Decodes with and without padding.
#[cfg(any(test, fuzzing, feature = "http"))]
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Offset of the first item of a page.
#[cfg(any(test, fuzzing, feature = "http"))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OffsetCursor(pub(crate) usize);

/// The text is not a cursor that this server issued.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the cursor was not issued by this server")]
pub(crate) struct CursorError;

#[cfg(any(test, fuzzing, feature = "http"))]
impl OffsetCursor {
    /// Parses a cursor. The empty text is the cursor of the first page.
    pub(crate) fn decode(text: &str) -> Result<Self, CursorError> {
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

    /// Returns the cursor as text.
    pub(crate) fn encode(self) -> String {
        BASE64.encode(self.0.to_string())
    }
}

/// Version prefix of MCP cursors.
const VERSION_PREFIX: &[u8] = b"1:";

/// Returns the key in an MCP cursor, or `None` for the empty text, which is the cursor of the first page.
pub(crate) fn decode_after(text: &str) -> Result<Option<String>, CursorError> {
    if text.is_empty() {
        return Ok(None);
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| CursorError)?;
    let key =
        bytes.strip_prefix(VERSION_PREFIX).filter(|key| !key.is_empty()).ok_or(CursorError)?;
    String::from_utf8(key.to_owned()).map(Some).map_err(|_| CursorError)
}

/// Returns the MCP cursor of the page after the item with this key.
pub(crate) fn encode_after(key: &str) -> String {
    URL_SAFE_NO_PAD.encode([VERSION_PREFIX, key.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn padded_and_unpadded_cursors_parse() {
        assert_eq!(OffsetCursor::decode("NTA="), Ok(OffsetCursor(50)));
        assert_eq!(OffsetCursor::decode("NTA"), Ok(OffsetCursor(50)));
        assert_eq!(OffsetCursor::decode(""), Ok(OffsetCursor(0)));
    }

    #[test]
    fn invalid_cursors_are_rejected() {
        // Base64 of `-5`, `x`, `5 ` and `+5`, and texts that are not base64.
        for text in ["LTU=", "eA==", "NSA=", "KzU=", "%%%", "N", "===", " ", "NTA=NTA="] {
            assert_eq!(OffsetCursor::decode(text), Err(CursorError), "{text}");
        }
        let huge = BASE64.encode("9".repeat(60));
        assert_eq!(OffsetCursor::decode(&huge), Err(CursorError));
    }

    proptest! {
        #[test]
        fn offset_cursor_round_trips(offset: usize) {
            let cursor = OffsetCursor(offset);
            prop_assert_eq!(OffsetCursor::decode(&cursor.encode()), Ok(cursor));
        }

        #[test]
        fn decoding_any_text_does_not_panic(text: String) {
            let _ = OffsetCursor::decode(&text);
            let _ = decode_after(&text);
        }

        #[test]
        fn after_cursor_round_trips(id in "[a-z.é ]{1,20}[a-z]") {
            prop_assume!(!id.starts_with(' '));
            prop_assert_eq!(decode_after(&encode_after(&id)), Ok(Some(id)));
        }
    }
}
