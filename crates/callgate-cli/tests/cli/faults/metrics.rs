//! What a gateway counts of its registry, from `/metrics`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::wire::get;
use crate::support::PATIENCE;

/// So many looks in a row with nothing else between them, and the gateway has nothing more to do.
const QUIET_LOOKS: u64 = 20;
/// To write down what was learned of a large catalog takes longer than anything else.
const MORE_PATIENCE: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Metrics {
    /// How often it looked for changes, with the look that is under way.
    pub(crate) looks: u64,
    /// Of those, how many failed.
    pub(crate) failures: u64,
    /// Statements that it sent.
    pub(crate) statements: u64,
    /// How long ago the last look that succeeded began.
    pub(crate) contact_age: Duration,
}

impl Metrics {
    pub(crate) fn read(gateway: SocketAddr) -> Self {
        let page = get(gateway, "/metrics").unwrap().body;
        let value = |name: &str| {
            let line = page.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name}: {page}")).trim()
        };
        let count = |name: &str| value(name).parse().unwrap();
        let age = value("callgate_registry_contact_age_seconds ").parse().unwrap();
        Self {
            looks: count("callgate_registry_reads_total{what=\"revisions\"}"),
            failures: count("callgate_registry_failures_total "),
            statements: count("callgate_registry_statements_total "),
            contact_age: Duration::from_secs_f64(age),
        }
    }

    /// Both numbers between two looks: one that is under way is in one of them already.
    pub(crate) fn settled(gateway: SocketAddr, before: Self) -> Self {
        let started = Instant::now();
        loop {
            let now = Self::read(gateway);
            if now.looks - before.looks == now.statements - before.statements
                || started.elapsed() > PATIENCE / 10
            {
                return now;
            }
        }
    }

    /// Waits until a gateway has looked, and found what was there when this began.
    pub(crate) fn until_looked(gateway: SocketAddr) {
        let mut before = Self::read(gateway);
        Self::until(gateway, PATIENCE, |now| {
            if now.failures != before.failures {
                before = now;
            }
            // One look may have been under way; the next one has ended when there is another. A page has
            // the failures first, so whether that one failed is seen in the next page.
            now.looks >= before.looks + 2 && Self::read(gateway).failures == before.failures
        });
    }

    /// Waits until a gateway does nothing but look.
    pub(crate) fn until_quiet(gateway: SocketAddr) {
        let mut before = Self::read(gateway);
        Self::until(gateway, MORE_PATIENCE, |now| {
            let looks = now.looks - before.looks;
            let is_quiet = now.statements - before.statements == looks;
            if looks >= QUIET_LOOKS && !is_quiet {
                before = now;
            }
            looks >= QUIET_LOOKS && is_quiet
        });
    }

    fn until(gateway: SocketAddr, patience: Duration, mut is_so: impl FnMut(Self) -> bool) {
        let started = Instant::now();
        while !is_so(Self::read(gateway)) {
            assert!(started.elapsed() < patience, "never: {:?}", Self::read(gateway));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
