//! Logs failures and recoveries of the registry.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::Instant;

use crate::auth::tracked_store::TrackedStore;
use crate::store::StoreError;

/// Maximum number of problems that are logged at once.
pub(super) const MAX_LOGGED: usize = 20;
/// Minimum interval between log entries about why the registry is unavailable, if the reason changes.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// State of the log. Ensures that each failure is logged once.
#[derive(Debug, Default)]
pub(super) struct FailureLog {
    state: RegistryState,
    /// The last logged reason why the registry is unavailable, and the time at which the reason was logged.
    reason: Option<(String, Instant)>,
    catalog: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum RegistryState {
    #[default]
    Available,
    /// Known tokens are still accepted.
    TokensAccepted,
    /// Tokens are refused.
    TokensRefused,
}

impl FailureLog {
    /// Logs a failed poll.
    pub(super) fn failure(&mut self, error: StoreError, store: &TrackedStore) {
        let error = error_chain(error);
        if !self.is_new(&error) {
            return;
        }
        if self.state == RegistryState::Available {
            self.state = RegistryState::TokensAccepted;
            let age = store.age().unwrap_or_default();
            tracing::error!(
                error,
                last_read = format!("{} ago", format_millis(age)),
                tokens_accepted_for = format_millis(store.grace_left()),
                "registry unavailable, serving the last state and retrying"
            );
        } else {
            tracing::error!(error, "registry still unavailable");
        }
        self.reason = Some((error, Instant::now()));
    }

    /// Returns `true` if the reason is new and the last entry is old enough.
    fn is_new(&self, error: &str) -> bool {
        let last = self.reason.as_ref();
        last.is_none_or(|(reason, at)| reason != error && at.elapsed() >= LOG_INTERVAL)
    }

    /// Logs the end of the grace period. Returns `true` if the grace period ends now.
    pub(super) fn check_grace_period(&mut self, store: &TrackedStore) -> bool {
        let is_over = self.state == RegistryState::TokensAccepted && store.grace_left().is_zero();
        if is_over {
            self.state = RegistryState::TokensRefused;
            tracing::error!(
                "registry unavailable for longer than the grace period, refusing callers with a token"
            );
        }
        is_over
    }

    /// Logs the recovery after an outage.
    pub(super) fn success(&mut self, unavailable_for: Duration) {
        self.reason = None;
        if std::mem::take(&mut self.state) != RegistryState::Available {
            tracing::info!(
                unavailable_for = format_millis(unavailable_for),
                "registry available again"
            );
        }
    }

    /// Logs the result of building a catalog.
    pub(super) fn catalog(&mut self, failure: Option<&String>) {
        if self.catalog.as_ref() == failure {
            return;
        }
        match failure {
            Some(error) => {
                tracing::error!(error, "failed to build the catalog, serving the previous one");
            }
            None => tracing::info!("built the catalog after an earlier failure"),
        }
        self.catalog = failure.cloned();
    }
}

/// Formats a duration in milliseconds.
fn format_millis(duration: Duration) -> String {
    format!("{:?}", Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
}

/// Returns the messages of an error and its sources.
#[expect(clippy::needless_pass_by_value, reason = "fits map")]
pub(super) fn error_chain(error: StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// Logs the problems that did not exist before.
pub(super) fn log_new_problems(before: &BTreeSet<String>, now: &BTreeSet<String>) {
    let new: Vec<&String> = now.difference(before).collect();
    for problem in new.iter().take(MAX_LOGGED) {
        tracing::warn!("{problem}");
    }
    if new.len() > MAX_LOGGED {
        tracing::warn!("{} more problems are not listed", new.len() - MAX_LOGGED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::db::error::{DatabaseError, DatabaseErrorKind};
    use crate::follow::tests::fake_store::FakeStore;

    #[tokio::test(start_paused = true)]
    async fn only_changed_reasons_are_logged_and_at_most_one_per_interval() {
        let store = TrackedStore::new(Arc::new(FakeStore::default()), LOG_INTERVAL);
        let mut log = FailureLog::default();
        let mut failure = |reason: &str| {
            let is_new = log.is_new(reason);
            log.failure(DatabaseError::new(DatabaseErrorKind::Unavailable, reason).into(), &store);
            is_new
        };
        assert_eq!([failure("refused"), failure("refused")], [true, false]);
        assert!(!failure("wrong password"), "too soon after the last entry");
        tokio::time::advance(LOG_INTERVAL).await;
        assert!(!failure("refused"));
        assert_eq!([failure("wrong password"), failure("wrong password")], [true, false]);
        tokio::time::advance(LOG_INTERVAL).await;
        assert!(failure("refused"));
        log.success(LOG_INTERVAL);
        assert!(log.is_new("refused"), "another outage");
    }
}
