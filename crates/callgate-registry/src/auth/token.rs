//! Tokens: `cg_` and 32 random bytes. Only the digest is stored.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callgate::access::TokenDigest;
use thiserror::Error;

use crate::hex::to_hex;

/// A new token.
pub struct Token(String);

/// The system provided no random bytes.
#[derive(Debug, Error)]
#[error("the system provided no random bytes: {0}")]
pub struct TokenError(getrandom::Error);

impl Token {
    /// Generates a token.
    pub fn generate() -> Result<Self, TokenError> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(TokenError)?;
        Ok(Self(format!("cg_{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// Returns the token.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the digest in hexadecimal.
    pub fn stored_digest(&self) -> String {
        to_hex(TokenDigest::of(&self.0).as_bytes())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::digest_from_hex;

    #[test]
    fn a_token_has_a_prefix_and_32_bytes_and_its_stored_digest_decodes() {
        let token = Token::generate().unwrap();
        assert!(token.expose().starts_with("cg_"));
        assert_eq!(token.expose().len(), 3 + 43);
        assert_eq!(digest_from_hex(&token.stored_digest()), Some(TokenDigest::of(token.expose())));
        assert!(!format!("{token:?}").contains(token.expose()));
    }

    #[test]
    fn an_invalid_digest_is_rejected() {
        for text in ["", "zz", &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(digest_from_hex(text), None);
        }
    }
}
