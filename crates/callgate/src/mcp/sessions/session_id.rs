//! Session ids. An id contains the signed content of the session.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::upstream::client::Capabilities;
use crate::wire::Revision;

/// First byte of the content of a session id.
const CONTENT_KIND: u8 = 1;
/// Length of the content: kind, revision, capabilities, user, nonce, expiry.
const CONTENT: usize = 1 + 1 + 1 + 9 + 16 + 8;
/// Length of the signature, HMAC-SHA256.
const SIGNATURE: usize = 32;

/// Identifies a session.
///
/// Argument of [`SessionStore::update`](crate::mcp::SessionStore::update), [`Relay::post`](crate::mcp::Relay::post) and
/// [`Mcp::deliver`](crate::mcp::Mcp::deliver).
pub type Nonce = [u8; 16];

/// The content of a session id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) revision: Revision,
    /// Capabilities that the client declared.
    pub(crate) capabilities: Capabilities,
    /// Id of the user who opened the session. No other user may use the session.
    pub(crate) user: Option<i64>,
    pub(crate) nonce: Nonce,
    /// Time at which the session expires, in seconds since the Unix epoch.
    pub(crate) ends_at: u64,
}

impl Session {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CONTENT);
        bytes.push(CONTENT_KIND);
        let revision = Revision::ALL.iter().position(|candidate| *candidate == self.revision);
        bytes.push(revision.and_then(|index| u8::try_from(index).ok()).unwrap_or(u8::MAX));
        bytes.push(self.capabilities.bits());
        bytes.push(self.user.is_some().into());
        bytes.extend_from_slice(&self.user.unwrap_or_default().to_be_bytes());
        bytes.extend_from_slice(&self.nonce);
        bytes.extend_from_slice(&self.ends_at.to_be_bytes());
        bytes
    }

    pub(super) fn read(content: &[u8]) -> Option<Self> {
        let (kind, rest) = content.split_first()?;
        let (revision, rest) = rest.split_first()?;
        let (capabilities, rest) = rest.split_first()?;
        let (has_user, rest) = rest.split_first()?;
        let (user, rest) = rest.split_first_chunk()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let ends_at = rest.try_into().ok()?;
        Some(Self {
            revision: *Revision::ALL
                .get(usize::from(*revision))
                .filter(|_| *kind == CONTENT_KIND)?,
            capabilities: Capabilities::from_bits(*capabilities),
            user: (*has_user == 1).then(|| i64::from_be_bytes(*user)),
            nonce: *nonce,
            ends_at: u64::from_be_bytes(ends_at),
        })
    }
}

/// A key that signs session ids.
///
/// [`Sessions`](crate::mcp::Sessions) has an example.
#[derive(Clone)]
pub struct SessionKey(Hmac<Sha256>);

impl SessionKey {
    /// Creates a key from 32 bytes.
    pub fn new(secret: &[u8; 32]) -> Self {
        // HMAC pads a short key with zeros. Padding it here gives the same key, and creating an HMAC with a key of this
        // length cannot fail.
        let mut block = [0; 64];
        for (to, from) in block.iter_mut().zip(secret) {
            *to = *from;
        }
        Self(Hmac::new(&block.into()))
    }

    /// Generates a key. Sessions end when this process ends, because no other process knows the key.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self::new(&secret))
    }

    /// Signs content. Returns the content and its signature as text.
    pub(super) fn seal(&self, content: &[u8]) -> String {
        let signature = self.0.clone().chain_update(content).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([content, &signature].concat())
    }

    /// Returns the content of a text if this key signed it.
    pub(super) fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        let mut content = URL_SAFE_NO_PAD.decode(text).ok()?;
        let signature = content.split_off(content.len().checked_sub(SIGNATURE)?);
        let is_signed = self.0.clone().chain_update(&content).verify_slice(&signature).is_ok();
        is_signed.then_some(content)
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(…)")
    }
}
