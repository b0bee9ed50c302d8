//! What a token source knows: its token, its last failure, and a request that is under way.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::sync::watch;
use tokio::time::Instant;

use super::answer::Granted;
use super::error::TokenError;
use super::refresh::{StoredGrant, Unstored};
use crate::backoff::jittered;
use crate::secret::Secret;

/// Maximum time before its end at which a token counts as expired.
const MAX_MARGIN: Duration = Duration::from_mins(1);

/// Back-off after the first failure in a row, and its maximum.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const MAX_BACK_OFF: Duration = Duration::from_secs(30);

/// Tokens that were refused longer ago than this say nothing about a new one.
const REJECTIONS_COUNT: Duration = Duration::from_mins(2);

/// An access token, with times on the monotonic clock of when its answer came.
#[derive(Debug)]
pub(in crate::upstream::forward) struct AccessToken {
    pub(super) secret: Secret,
    /// It as the value of `Authorization`.
    pub(super) bearer: Option<HeaderValue>,
    renew_from: Instant,
    ends: Instant,
}

impl AccessToken {
    pub(super) fn new(secret: Secret, lifetime: Duration, now: Instant) -> Self {
        let margin = MAX_MARGIN.min(lifetime / 10);
        let (renew_from, ends) = (now + lifetime - 2 * margin, now + lifetime - margin);
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", secret.expose())).ok();
        if let Some(bearer) = &mut bearer {
            bearer.set_sensitive(true);
        }
        Self { secret, bearer, renew_from, ends }
    }

    /// Whether it is to be renewed while it is still good.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.renew_from
    }
}

impl From<Granted> for AccessToken {
    fn from(granted: Granted) -> Self {
        Self::new(granted.access_token, granted.lifetime, granted.at)
    }
}

/// A token request under way; `Some` once it has ended.
pub(super) type PendingToken = watch::Receiver<Option<Result<Arc<AccessToken>, TokenError>>>;

/// A time during which something is not tried again.
#[derive(Debug, Clone, Copy)]
struct BackOff {
    times: u32,
    until: Instant,
}

impl BackOff {
    /// Twice as long as the one before, with some jitter.
    fn after(before: Option<Self>, now: Instant) -> Self {
        let times = before.map_or(0, |before| before.times).saturating_add(1);
        let pause = FIRST_BACK_OFF.saturating_mul(1 << (times - 1).min(5)).min(MAX_BACK_OFF);
        Self { times, until: now + jittered(pause) }
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) token: Option<Arc<AccessToken>>,
    failure: Option<(TokenError, BackOff)>,
    rejection: Option<BackOff>,
    pub(super) pending: Option<PendingToken>,
    /// The stored credential that tokens are requested with, where it is a user's.
    pub(super) basis: Option<Secret>,
    /// The stored credential as it was last seen; what was stored since may not be seen yet.
    pub(super) seen: Option<Secret>,
    /// The one before it, which others may still see for a moment.
    pub(super) superseded: Option<Secret>,
    /// A rotated refresh token that could not be stored yet.
    pub(super) unstored: Option<Unstored>,
    /// Raised when another credential is adopted, so that a request of before changes nothing.
    pub(super) generation: u64,
    /// Whether the log was told that a rotated refresh token is only in memory.
    pub(super) has_warned: bool,
}

impl State {
    /// Takes over a stored credential. One that somebody has replaced makes the token of the old one
    /// void.
    pub(super) fn adopt(&mut self, stored: &Secret, is_refresh: bool, now: Instant) {
        // What is seen lags behind what was stored: the same as before is not a replacement.
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

    /// The token, while it is good.
    pub(super) fn good(&self, now: Instant) -> Option<Arc<AccessToken>> {
        self.token.as_ref().filter(|token| now < token.ends).cloned()
    }

    /// A request under way.
    pub(super) fn under_way(&self) -> Option<PendingToken> {
        let pending = self.pending.as_ref()?;
        // One whose task was stopped never ends.
        let is_dead = pending.has_changed().is_err() && pending.borrow().is_none();
        (!is_dead).then(|| pending.clone())
    }

    /// Why no token is requested now.
    pub(super) fn backs_off(&self, now: Instant) -> Option<TokenError> {
        let (error, back_off) = self.failure.as_ref()?;
        (now < back_off.until).then(|| error.clone())
    }

    /// Notes that a request failed.
    pub(super) fn failed(&mut self, error: TokenError, now: Instant) {
        let before = self.failure.as_ref().map(|(_, back_off)| *back_off);
        self.failure = Some((error, BackOff::after(before, now)));
    }

    pub(super) fn succeeded(&mut self, token: &Arc<AccessToken>) {
        self.token = Some(Arc::clone(token));
        self.failure = None;
    }

    /// Notes that the service refused a token. Returns whether another one may be requested: a
    /// service that refuses all of them, or answers 401 for other reasons, must not make us request one
    /// for each call.
    pub(super) fn rejected(&mut self, now: Instant) -> bool {
        let recent = self.rejection.filter(|last| now < last.until + REJECTIONS_COUNT);
        if recent.is_some_and(|last| now < last.until) {
            return false;
        }
        self.rejection = Some(BackOff::after(recent, now));
        true
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
        let mut state = State::default();
        for expected in [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
            state.failed(TokenError::TimedOut, now);
            let (_, back_off) = state.failure.as_ref().unwrap();
            let pause = (back_off.until - now).as_secs_f64();
            assert!((0.74..1.26).contains(&(pause / expected)), "{pause} for {expected}");
        }
        assert_eq!(state.backs_off(now), Some(TokenError::TimedOut));
        assert_eq!(state.backs_off(now + Duration::from_mins(1)), None);
    }

    #[test]
    fn a_service_that_refuses_every_token_is_not_given_one_per_call() {
        let now = Instant::now();
        let mut state = State::default();
        assert!(state.rejected(now));
        assert!(!state.rejected(now + Duration::from_millis(500)));
        assert!(state.rejected(now + Duration::from_millis(1300)));
        assert!(!state.rejected(now + Duration::from_millis(2700)));
        assert!(state.rejected(now + Duration::from_hours(1)));
        assert!(state.rejected(now + Duration::from_hours(1) + Duration::from_millis(1300)));
    }
}
