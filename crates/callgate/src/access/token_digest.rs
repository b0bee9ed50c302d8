//! Digests of access tokens.

use std::hash::{Hash, Hasher};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// SHA-256 digest of a token. Tokens are stored only as digests. Digests are compared in constant time.
///
/// [`Access`](super::Access) has an example.
#[derive(Clone, Copy)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// Computes the digest of a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Wraps a stored digest.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenDigest(…)")
    }
}

impl PartialEq for TokenDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenDigest {}

/// Hashes only a part of the digest, which is enough because its bytes are uniformly distributed.
impl Hash for TokenDigest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (start, _) = self.0.split_first_chunk().unwrap_or((&[0; 8], &[]));
        state.write_u64(u64::from_ne_bytes(*start));
    }
}
