//! Registry counters of a server, from `/metrics`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::http_client::get;
use crate::support::TIMEOUT;

/// Number of consecutive polls without another statement after which a server counts as idle.
const IDLE_POLLS: u64 = 20;
/// Maximum time to store the tool names of a large catalog.
const STORE_TIMEOUT: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Metrics {
    /// Number of polls for changes, including one in progress.
    pub(crate) polls: u64,
    /// Number of failed polls.
    pub(crate) failures: u64,
    /// Number of statements sent.
    pub(crate) statements: u64,
    /// Time since the start of the last successful poll.
    pub(crate) registry_age: Duration,
}

impl Metrics {
    pub(crate) fn read(server: SocketAddr) -> Self {
        let page = get(server, "/metrics").unwrap().body;
        let value = |name: &str| {
            let line = page.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name}: {page}")).trim()
        };
        let count = |name: &str| value(name).parse().unwrap();
        let age = value("callgate_registry_age_seconds ").parse().unwrap();
        Self {
            polls: count("callgate_registry_reads_total{what=\"revisions\"}"),
            failures: count("callgate_registry_failures_total "),
            statements: count("callgate_registry_statements_total "),
            registry_age: Duration::from_secs_f64(age),
        }
    }

    /// Reads the counters between two polls. During a poll, only one of the two counters includes
    /// this poll.
    pub(crate) fn settled(server: SocketAddr, before: Self) -> Self {
        let started = Instant::now();
        loop {
            let now = Self::read(server);
            if now.polls - before.polls == now.statements - before.statements
                || started.elapsed() > TIMEOUT / 10
            {
                return now;
            }
        }
    }

    /// Waits until a server has read the state that the registry has now.
    pub(crate) fn wait_for_poll(server: SocketAddr) {
        let mut before = Self::read(server);
        Self::until(server, TIMEOUT, |now| {
            if now.failures != before.failures {
                before = now;
            }
            // A poll may be in progress. The next poll is complete when a third poll begins. The
            // page lists the failures first, so the next page shows whether the second poll failed.
            now.polls >= before.polls + 2 && Self::read(server).failures == before.failures
        });
    }

    /// Waits until a server sends nothing but polls.
    pub(crate) fn wait_until_idle(server: SocketAddr) {
        let mut before = Self::read(server);
        Self::until(server, STORE_TIMEOUT, |now| {
            let polls = now.polls - before.polls;
            let is_idle = now.statements - before.statements == polls;
            if polls >= IDLE_POLLS && !is_idle {
                before = now;
            }
            polls >= IDLE_POLLS && is_idle
        });
    }

    fn until(server: SocketAddr, timeout: Duration, mut is_met: impl FnMut(Self) -> bool) {
        let started = Instant::now();
        while !is_met(Self::read(server)) {
            assert!(started.elapsed() < timeout, "timed out: {:?}", Self::read(server));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
