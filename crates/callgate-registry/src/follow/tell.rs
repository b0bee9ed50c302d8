//! What the log is told, and when.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use crate::contact::Contact;
use crate::store::StoreError;

/// So many problems are named in the log at once.
const MAX_NAMED: usize = 20;

/// What the log was told of the registry, so that it is told once.
#[derive(Debug, Default)]
pub(super) struct Told {
    away: Away,
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
        if self.away == Away::No {
            self.away = Away::Graceful;
            let age = contact.age().unwrap_or_default();
            tracing::error!(
                error = described(error),
                last_read = format!("{} ago", rounded(age)),
                tokens_honoured_for = rounded(contact.honoured_for()),
                "the registry cannot be read; what was read last is served, and it is tried again"
            );
        }
        self.grace(contact);
    }

    /// The registry is away; tells when tokens are no longer honoured.
    pub(super) fn grace(&mut self, contact: &Contact) {
        if self.away == Away::Graceful && contact.honoured_for().is_zero() {
            self.away = Away::Over;
            tracing::error!(
                "the registry was away for too long: callers with a token are refused until it can be \
                 read again"
            );
        }
    }

    /// A look at the registry succeeded, for the first time in so long.
    pub(super) fn success(&mut self, away_for: Duration) {
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
