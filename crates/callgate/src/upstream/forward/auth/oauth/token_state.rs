//! The state of a token source: its token, its last failure, and the request in flight.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::sync::watch;
use tokio::time::Instant;

use super::refresh::{StoredGrant, Unstored};
use super::token_error::TokenError;
use super::token_response::TokenResponse;
use crate::backoff::Backoff;
use crate::secret::Secret;

/// Maximum margin. A token counts as expired this long before its actual expiry.
const MAX_MARGIN: Duration = Duration::from_mins(1);

/// Maximum delay after a failed request.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// An access token. Its times are measured on the monotonic clock, from the arrival of the response.
#[derive(Debug)]
pub(crate) struct AccessToken {
    pub(crate) secret: Secret,
    pub(crate) bearer: Option<HeaderValue>,
    renew_from: Instant,
    ends: Instant,
}

impl AccessToken {
    pub(crate) fn new(secret: Secret, lifetime: Duration, now: Instant) -> Self {
        let margin = MAX_MARGIN.min(lifetime / 10);
        let (renew_from, ends) = (now + lifetime - 2 * margin, now + lifetime - margin);
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", secret.expose())).ok();
        if let Some(bearer) = &mut bearer {
            bearer.set_sensitive(true);
        }
        Self { secret, bearer, renew_from, ends }
    }

    /// Returns `true` if the token should be renewed while it is still valid.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.renew_from
    }
}

impl From<TokenResponse> for AccessToken {
    fn from(granted: TokenResponse) -> Self {
        Self::new(granted.access_token, granted.lifetime, granted.at)
    }
}

/// A token request in flight. The value is `Some` once the request has ended.
pub(crate) type PendingToken = watch::Receiver<Option<Result<Arc<AccessToken>, TokenError>>>;

#[derive(Debug, Default)]
pub(crate) struct TokenState {
    pub(crate) token: Option<Arc<AccessToken>>,
    failure: Option<(TokenError, Backoff)>,
    rejection: Option<Backoff>,
    pub(crate) pending: Option<PendingToken>,
    /// The user's stored credential with which tokens are requested.
    pub(crate) basis: Option<Secret>,
    /// The stored credential that was last read. It may be older than the one in the store.
    pub(crate) seen: Option<Secret>,
    /// The credential before `basis`. Reads may still return it for a moment.
    pub(crate) superseded: Option<Secret>,
    pub(crate) unstored: Option<Unstored>,
    /// Counter that is incremented with each new credential. Results of requests with an earlier credential are
    /// dropped.
    pub(crate) generation: u64,
    pub(crate) has_warned: bool,
}

impl TokenState {
    /// Uses this stored credential from now on. If the credential is new, drops the token of the old one.
    pub(crate) fn adopt(&mut self, stored: &Secret, is_refresh: bool, now: Instant) {
        // Reads may return an older value than the store has, so an unchanged credential is not a replacement.
        if self.seen.as_ref() == Some(stored) {
            return;
        }
        self.seen = Some(stored.clone());
        if [&self.basis, &self.superseded].into_iter().any(|known| known.as_ref() == Some(stored)) {
            return;
        }
        let shared = is_refresh.then(|| StoredGrant::parse(stored).access_token(now)).flatten();
        *self = Self {
            token: shared.map(Arc::new),
            rejection: self.rejection,
            basis: Some(stored.clone()),
            seen: Some(stored.clone()),
            generation: self.generation + 1,
            has_warned: self.has_warned,
            ..Self::default()
        };
    }

    pub(crate) fn valid_token(&self, now: Instant) -> Option<Arc<AccessToken>> {
        self.token.as_ref().filter(|token| now < token.ends).cloned()
    }

    pub(crate) fn in_flight(&self) -> Option<PendingToken> {
        let pending = self.pending.as_ref()?;
        // If its task was aborted, the request never ends.
        let is_dead = pending.has_changed().is_err() && pending.borrow().is_none();
        (!is_dead).then(|| pending.clone())
    }

    /// Returns the last error, if its delay has not passed yet.
    pub(crate) fn recent_error(&self, now: Instant) -> Option<TokenError> {
        let (error, back_off) = self.failure.as_ref()?;
        (now < back_off.until).then(|| error.clone())
    }

    pub(crate) fn failed(&mut self, error: TokenError, now: Instant) {
        let before = self.failure.as_ref().map(|(_, back_off)| *back_off);
        self.failure = Some((error, Backoff::after(before, MAX_BACKOFF, now)));
    }

    pub(crate) fn succeeded(&mut self, token: &Arc<AccessToken>) {
        self.token = Some(Arc::clone(token));
        self.failure = None;
    }

    /// Records that the service rejected a token. Returns `true` if a new token may be requested now.
    pub(crate) fn rejected(&mut self, now: Instant) -> bool {
        Backoff::may_renew(&mut self.rejection, now)
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
            assert!(near(token.ends, seconds(end)), "{lifetime}");
        }
    }

    #[test]
    fn back_off_doubles_up_to_half_a_minute() {
        let now = Instant::now();
        let mut state = TokenState::default();
        for expected in [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
            state.failed(TokenError::TimedOut, now);
            let (_, back_off) = state.failure.as_ref().unwrap();
            let pause = (back_off.until - now).as_secs_f64();
            assert!((0.74..1.26).contains(&(pause / expected)), "{pause} for {expected}");
        }
        assert_eq!(state.recent_error(now), Some(TokenError::TimedOut));
        assert_eq!(state.recent_error(now + Duration::from_mins(1)), None);
    }

    #[test]
    fn a_service_that_refuses_every_token_is_not_given_one_per_call() {
        let now = Instant::now();
        let mut state = TokenState::default();
        assert!(state.rejected(now));
        assert!(!state.rejected(now + Duration::from_millis(500)));
        assert!(state.rejected(now + Duration::from_millis(1300)));
        assert!(!state.rejected(now + Duration::from_millis(2700)));
        assert!(state.rejected(now + Duration::from_hours(1)));
        assert!(state.rejected(now + Duration::from_hours(1) + Duration::from_millis(1300)));
    }
}
