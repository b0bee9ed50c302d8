//! Durations of a run. They are checked only in measurements, since tests share the machine with other work.

use std::time::{Duration, Instant};

use super::RunRecord;

/// Maximum time until a server is ready again.
const MAX_RECOVERY: Duration = Duration::from_secs(2);
/// Maximum time until a connected server refuses revoked access.
const MAX_REVOCATION: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Timings {
    /// Time from the end of the fault until all servers were ready.
    pub(crate) recovery: Duration,
    /// Time from the end of the revoking command until the last use at a connected server.
    pub(crate) revocation: Option<Duration>,
    /// Time from the disconnection until the last use at the isolated server.
    pub(crate) isolated_use: Option<Duration>,
}

impl Timings {
    /// Computes the durations. The fault ended at `repaired`, all servers were ready at `ready`, and a server was
    /// isolated at `isolated_at`.
    pub(crate) fn of(
        run: &RunRecord,
        repaired: Instant,
        ready: Instant,
        isolated_at: Option<Instant>,
    ) -> Self {
        let revocation = run.revocation.as_ref();
        let isolated = revocation.and_then(|it| it.isolated).map(|(server, _)| server);
        let uses = run.calls.iter().filter(|call| call.is_served()).filter_map(|call| {
            let (_, returned) = revocation?.times.of(call.group)?;
            Some((Some(call.server), call.begin, returned))
        });
        let since = |later: Instant, earlier| later.saturating_duration_since(earlier);
        let connected = uses.clone().filter(|(server, ..)| *server != isolated);
        let at_isolated = uses.filter(|(server, ..)| *server == isolated);
        Self {
            recovery: since(ready, repaired),
            revocation: connected.map(|(_, at, returned)| since(at, returned)).max(),
            isolated_use: isolated_at
                .and_then(|isolated_at| at_isolated.map(|(_, at, _)| since(at, isolated_at)).max()),
        }
    }

    /// Returns the exceeded limits.
    pub(crate) fn violations(&self) -> Vec<String> {
        let revocation = self.revocation.unwrap_or_default();
        let limits =
            [("recovery", self.recovery, MAX_RECOVERY), ("revocation", revocation, MAX_REVOCATION)];
        let exceeded = limits.into_iter().filter(|(_, time, limit)| time > limit);
        exceeded
            .map(|(name, time, limit)| format!("{name} took {time:?}, limit {limit:?}"))
            .collect()
    }
}

#[test]
fn exceeded_limits_are_reported() {
    let [one_second, two_seconds] = [1, 2].map(Duration::from_secs);
    let timings =
        Timings { recovery: two_seconds, revocation: Some(one_second), isolated_use: None };
    assert_eq!(timings.violations(), [""; 0]);
    let excess = Duration::from_millis(1);
    let exceeded = Timings {
        recovery: two_seconds + excess,
        revocation: Some(one_second + excess),
        isolated_use: None,
    };
    let expected = ["recovery took 2.001s, limit 2s", "revocation took 1.001s, limit 1s"];
    assert_eq!(exceeded.violations(), expected);
}
