//! Percent-encoding.

use std::borrow::Cow;
#[cfg(feature = "forward")]
use std::fmt::Write as _;

/// The text as one segment of a path, or as a value in a query: all but the unreserved characters of
/// RFC 3986 is encoded.
#[cfg(feature = "forward")]
pub(crate) fn segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            let _ = write!(segment, "%{byte:02X}");
        }
    }
    segment
}

/// The text that `encoded` stands for; `None` where it is not UTF-8. What is no escape stays.
pub(crate) fn decoded(encoded: &str) -> Option<Cow<'_, str>> {
    if !encoded.contains('%') {
        return Some(Cow::Borrowed(encoded));
    }
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| {
            let digits =
                after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        });
        let (byte, length) = escaped.flatten().map_or((*first, 0), |byte| (byte, 2));
        bytes.push(byte);
        rest = after.get(length..).unwrap_or_default();
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_and_all_else_stays() {
        assert_eq!(decoded("plain").as_deref(), Some("plain"));
        assert_eq!(decoded("caf%C3%a9%2F%25").as_deref(), Some("café/%"));
        assert_eq!(decoded("100%, %+1 %").as_deref(), Some("100%, %+1 %"));
        assert_eq!(decoded("%ff"), None);
    }
}
