//! The state of a token source: its token, and the stored credential with which it requests tokens.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;

use super::refresh::{StoredGrant, Unstored};
use super::token_error::TokenError;
use super::token_response::TokenResponse;
use crate::http_client::sensitive;
use crate::secret::Secret;
use crate::upstream::forward::auth::credential_cache::CredentialCache;

/// A token counts as expired some time before its actual expiry. This is the maximum of that time.
const MAX_MARGIN: Duration = Duration::from_mins(1);

/// An access token. Its times are measured on the monotonic clock, from the arrival of the response.
#[derive(Debug)]
pub(crate) struct AccessToken {
    pub(crate) secret: Secret,
    pub(crate) bearer: Option<HeaderValue>,
    renew_from: Instant,
    valid_until: Instant,
}

impl AccessToken {
    pub(crate) fn new(secret: Secret, lifetime: Duration, now: Instant) -> Self {
        let margin = MAX_MARGIN.min(lifetime / 10);
        let (renew_from, valid_until) = (now + lifetime - 2 * margin, now + lifetime - margin);
        let bearer = sensitive(&format!("Bearer {}", secret.expose())).ok();
        Self { secret, bearer, renew_from, valid_until }
    }

    /// Returns `true` if the token should be renewed while it is still valid.
    pub(crate) fn is_renewal_due(&self, now: Instant) -> bool {
        now >= self.renew_from
    }
}

impl From<TokenResponse> for AccessToken {
    fn from(response: TokenResponse) -> Self {
        Self::new(response.access_token, response.lifetime, response.received_at)
    }
}

#[derive(Debug, Default)]
pub(crate) struct TokenState {
    pub(crate) cache: CredentialCache<AccessToken, TokenError>,
    /// The user's stored credential with which tokens are requested.
    pub(crate) credential: Option<Secret>,
    /// The stored credential that was last read. It may be older than the one in the store.
    last_read: Option<Secret>,
    /// The credential before `credential`. Reads may still return it for a moment.
    pub(crate) superseded: Option<Secret>,
    pub(crate) unstored: Option<Unstored>,
    /// Counter that is incremented with each new credential. Results of requests with an earlier credential are
    /// dropped.
    pub(crate) generation: u64,
    pub(crate) has_warned: bool,
}

impl TokenState {
    /// Uses this stored credential from now on. If the credential is new, drops the token of the old credential.
    pub(crate) fn adopt(&mut self, stored: &Secret, is_refresh: bool, now: Instant) {
        // A read may return an old value, so a value that was already read does not replace `credential`.
        if self.last_read.as_ref() == Some(stored) {
            return;
        }
        self.last_read = Some(stored.clone());
        if [&self.credential, &self.superseded]
            .into_iter()
            .any(|known| known.as_ref() == Some(stored))
        {
            return;
        }
        let shared = is_refresh.then(|| StoredGrant::parse(stored).access_token(now)).flatten();
        self.cache.reset(shared.map(Arc::new));
        (self.credential, self.superseded, self.unstored) = (Some(stored.clone()), None, None);
        self.generation += 1;
    }

    pub(crate) fn valid_token(&self, now: Instant) -> Option<Arc<AccessToken>> {
        self.cache.value.as_ref().filter(|token| now < token.valid_until).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_before_it_expires() {
        let now = Instant::now();
        let seconds = |number| now + Duration::from_secs_f64(number);
        for (lifetime, renew, end) in [(3600, 3480.0, 3540.0), (10, 8.0, 9.0), (1, 0.8, 0.9)] {
            let secret = Secret::new("t").unwrap();
            let token = AccessToken::new(secret, Duration::from_secs(lifetime), now);
            let near = |a: Instant, b: Instant| a.max(b) - a.min(b) < Duration::from_millis(1);
            assert!(near(token.renew_from, seconds(renew)), "{lifetime}");
            assert!(near(token.valid_until, seconds(end)), "{lifetime}");
        }
    }
}
