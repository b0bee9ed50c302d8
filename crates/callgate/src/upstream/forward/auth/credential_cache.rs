//! A credential that calls share and that can be requested again: an access token, or a session.
//!
//! One request serves all calls that wait for the credential. If requests fail, or if the service refuses every new
//! credential, the next request is delayed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::backoff::jittered;

/// Delay after the first failure.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);

/// Maximum delay between renewals of a credential that the service refuses.
const MAX_RENEWAL_BACKOFF: Duration = Duration::from_secs(30);

/// If the service refuses a credential within this time after the end of a delay, the next delay is doubled.
const REFUSAL_WINDOW: Duration = Duration::from_mins(2);

/// A request in flight. The value is `Some` once the request has ended.
pub(crate) type PendingCredential<T, E> = watch::Receiver<Option<Result<Arc<T>, E>>>;

pub(crate) type RequestSender<T, E> = watch::Sender<Option<Result<Arc<T>, E>>>;

#[derive(Debug)]
pub(crate) struct CredentialCache<T, E> {
    pub(crate) value: Option<Arc<T>>,
    failure: Option<(E, Backoff)>,
    refusal: Option<Backoff>,
    pending: Option<PendingCredential<T, E>>,
}

impl<T, E> Default for CredentialCache<T, E> {
    fn default() -> Self {
        Self { value: None, failure: None, refusal: None, pending: None }
    }
}

impl<T, E: Clone> CredentialCache<T, E> {
    /// Sets the value and forgets requests and failures. Keeps the delay after refusals.
    pub(crate) fn reset(&mut self, value: Option<Arc<T>>) {
        *self = Self { value, refusal: self.refusal, ..Self::default() };
    }

    /// Returns the request in flight. If there is none, returns the error of the last request if that request failed
    /// recently. Otherwise `start` starts a request.
    pub(crate) fn join_or_start(
        &mut self,
        now: Instant,
        start: impl FnOnce(RequestSender<T, E>),
    ) -> Result<PendingCredential<T, E>, E> {
        if let Some(pending) = self.in_flight() {
            return Ok(pending);
        }
        if let Some(error) = self.recent_error(now) {
            return Err(error);
        }
        let (sender, pending) = watch::channel(None);
        self.pending = Some(pending.clone());
        start(sender);
        Ok(pending)
    }

    fn in_flight(&self) -> Option<PendingCredential<T, E>> {
        let pending = self.pending.as_ref()?;
        // If the task of the request was aborted, the request never ends.
        let is_aborted = pending.has_changed().is_err() && pending.borrow().is_none();
        (!is_aborted).then(|| pending.clone())
    }

    /// Returns the last error, while the next request is still delayed because of this error.
    fn recent_error(&self, now: Instant) -> Option<E> {
        let (error, backoff) = self.failure.as_ref()?;
        (now < backoff.until).then(|| error.clone())
    }

    /// Records that the service refused the credential. Returns `false` if no new credential may be requested yet,
    /// because the service also refused one shortly before. Without this delay, each call would request a new
    /// credential if the service refused every credential.
    pub(crate) fn refused(&mut self, now: Instant) -> bool {
        // The credential is being replaced, or could not be replaced.
        if self.in_flight().is_some() || self.recent_error(now).is_some() {
            return true;
        }
        let recent = self.refusal.filter(|last| now < last.until + REFUSAL_WINDOW);
        if recent.is_some_and(|last| now < last.until) {
            return false;
        }
        self.refusal = Some(Backoff::after(recent, MAX_RENEWAL_BACKOFF, now));
        true
    }

    /// Stores the result of a request. After a failure, the next request is delayed for at most `max_delay`.
    pub(crate) fn finish(&mut self, result: &Result<Arc<T>, E>, max_delay: Duration, now: Instant) {
        self.pending = None;
        match result {
            Ok(value) => {
                self.value = Some(Arc::clone(value));
                self.failure = None;
            }
            Err(error) => {
                let previous = self.failure.as_ref().map(|(_, backoff)| *backoff);
                self.failure = Some((error.clone(), Backoff::after(previous, max_delay, now)));
            }
        }
    }
}

/// Waits for the end of a request. Returns `None` if the task of the request was aborted.
pub(crate) async fn wait<T, E: Clone>(
    mut pending: PendingCredential<T, E>,
) -> Option<Result<Arc<T>, E>> {
    let result = pending.wait_for(Option::is_some).await.ok()?;
    result.clone()
}

/// A delay that doubles with each failure.
#[derive(Debug, Clone, Copy)]
struct Backoff {
    failures: u32,
    until: Instant,
}

impl Backoff {
    /// Returns twice the previous delay, at most `max`, with jitter.
    fn after(previous: Option<Self>, max: Duration, now: Instant) -> Self {
        let failures = previous.map_or(0, |previous| previous.failures).saturating_add(1);
        let delay = FIRST_BACKOFF.saturating_mul(1 << (failures - 1).min(10)).min(max);
        Self { failures, until: now + jittered(delay) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Cache = CredentialCache<(), &'static str>;

    #[test]
    fn backoff_doubles_up_to_its_maximum() {
        let now = Instant::now();
        let mut cache = Cache::default();
        for expected in [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
            cache.finish(&Err("timed out"), Duration::from_secs(30), now);
            let (_, backoff) = cache.failure.as_ref().unwrap();
            let delay = (backoff.until - now).as_secs_f64();
            assert!((0.74..1.26).contains(&(delay / expected)), "{delay} for {expected}");
        }
        assert_eq!(cache.recent_error(now), Some("timed out"));
        assert_eq!(cache.recent_error(now + Duration::from_mins(1)), None);
    }

    #[test]
    fn renewals_are_delayed_if_the_service_refuses_every_credential() {
        let now = Instant::now();
        let mut cache = Cache::default();
        assert!(cache.refused(now));
        assert!(!cache.refused(now + Duration::from_millis(500)));
        assert!(cache.refused(now + Duration::from_millis(1300)));
        assert!(!cache.refused(now + Duration::from_millis(2700)));
        assert!(cache.refused(now + Duration::from_hours(1)));
        assert!(cache.refused(now + Duration::from_hours(1) + Duration::from_millis(1300)));
    }
}
