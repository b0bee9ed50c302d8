//! What the log is told, and when.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::Instant;

use crate::auth::health::Contact;
use crate::store::StoreError;

/// So many problems are named in the log at once.
const MAX_NAMED: usize = 20;
/// Reasons that take turns are told no more often than this.
const BETWEEN: Duration = Duration::from_secs(30);

/// What the log was told of the registry, so that it is told once.
#[derive(Debug, Default)]
pub(super) struct Told {
    away: Away,
    /// Why it is away, and when that was told.
    reason: Option<(String, Instant)>,
    catalog: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Away {
    #[default]
    No,
    /// Tokens that were good are honoured.
    Graceful,
    /// They no longer are.
    Over,
}

impl Told {
    /// A look at the registry failed.
    pub(super) fn failure(&mut self, error: StoreError, contact: &Contact) {
        let error = described(error);
        if !self.is_new(&error) {
            return;
        }
        if self.away == Away::No {
            self.away = Away::Graceful;
            let age = contact.age().unwrap_or_default();
            tracing::error!(
                error,
                last_read = format!("{} ago", rounded(age)),
                tokens_honoured_for = rounded(contact.honoured_for()),
                "the registry cannot be read; what was read last is served, and it is tried again"
            );
        } else {
            tracing::error!(error, "the registry still cannot be read, for another reason");
        }
        self.reason = Some((error, Instant::now()));
    }

    /// Whether a reason is the first, or another than was told last and that not just now.
    fn is_new(&self, error: &str) -> bool {
        let told = self.reason.as_ref();
        told.is_none_or(|(reason, at)| reason != error && at.elapsed() >= BETWEEN)
    }

    /// The registry is away; tells when tokens are no longer honoured. Comes back with whether that is
    /// so from now on.
    pub(super) fn grace(&mut self, contact: &Contact) -> bool {
        let is_over = self.away == Away::Graceful && contact.honoured_for().is_zero();
        if is_over {
            self.away = Away::Over;
            tracing::error!(
                "the registry was away for too long: callers with a token are refused until it can be \
                 read again"
            );
        }
        is_over
    }

    /// A look at the registry succeeded, for the first time in so long.
    pub(super) fn success(&mut self, away_for: Duration) {
        self.reason = None;
        if std::mem::take(&mut self.away) != Away::No {
            tracing::info!(away_for = rounded(away_for), "the registry can be read again");
        }
    }

    /// How the making of the last catalog went.
    pub(super) fn catalog(&mut self, failure: Option<&String>) {
        if self.catalog.as_ref() == failure {
            return;
        }
        match failure {
            Some(error) => tracing::error!(error, "the catalog cannot be made; the last one stays"),
            None => tracing::info!("the catalog can be made again"),
        }
        self.catalog = failure.cloned();
    }
}

/// To milliseconds.
fn rounded(duration: Duration) -> String {
    format!("{:?}", Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
}

/// An error with its causes.
#[expect(clippy::needless_pass_by_value, reason = "fits map")]
pub(super) fn described(error: StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// Logs the problems that were not there before.
pub(super) fn tell_new(before: &BTreeSet<String>, now: &BTreeSet<String>) {
    let new: Vec<&String> = now.difference(before).collect();
    for problem in new.iter().take(MAX_NAMED) {
        tracing::warn!("{problem}");
    }
    if new.len() > MAX_NAMED {
        tracing::warn!("and {} more", new.len() - MAX_NAMED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::error::{DatabaseError, DatabaseErrorKind};

    #[tokio::test(start_paused = true)]
    async fn another_reason_is_told_and_the_same_one_once() {
        let (mut told, contact) = (Told::default(), Contact::new(BETWEEN));
        let mut failure = |reason: &str| {
            let is_new = told.is_new(reason);
            told.failure(
                DatabaseError::new(DatabaseErrorKind::Unavailable, reason).into(),
                &contact,
            );
            is_new
        };
        assert_eq!([failure("refused"), failure("refused")], [true, false]);
        assert!(!failure("wrong password"), "it was told a moment ago");
        tokio::time::advance(BETWEEN).await;
        assert!(!failure("refused"));
        assert_eq!([failure("wrong password"), failure("wrong password")], [true, false]);
        tokio::time::advance(BETWEEN).await;
        assert!(failure("refused"));
        told.success(BETWEEN);
        assert!(told.is_new("refused"), "another outage");
    }
}
