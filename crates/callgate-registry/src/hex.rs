//! Hexadecimal encoding.

use std::fmt::Write as _;

use callgate::access::TokenDigest;

/// Encodes bytes in lower case.
pub fn to_hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// Decodes exactly `N` bytes.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0_u8; N];
    if text.len() != N * 2 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// Decodes a stored digest.
pub(crate) fn digest_from_hex(text: &str) -> Option<TokenDigest> {
    from_hex(text).map(TokenDigest::from_bytes)
}
