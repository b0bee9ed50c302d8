//! Durations of a run. They are checked only in measurements, since tests share the machine with other work.

use std::time::{Duration, Instant};

use super::RunRecord;

/// Maximum time until a gateway is ready again.
const MAX_RECOVERY: Duration = Duration::from_secs(2);
/// Maximum time until a connected gateway refuses revoked access.
const MAX_REVOCATION: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Timings {
    /// Time from the end of the fault until all gateways were ready.
    pub(crate) recovery: Duration,
    /// Time from the end of the revoking command until the last use at a connected gateway.
    pub(crate) revocation: Option<Duration>,
    /// Time from the disconnection until the last use at the isolated gateway.
    pub(crate) isolated_use: Option<Duration>,
}

impl Timings {
    /// Computes the durations. The fault ended at `repaired`, all gateways were ready at `ready`, and a gateway was
    /// isolated at `isolated_at`.
    pub(crate) fn of(
        run: &RunRecord,
        repaired: Instant,
        ready: Instant,
        isolated_at: Option<Instant>,
    ) -> Self {
        let revocation = run.revocation.as_ref();
        let isolated = revocation.and_then(|it| it.isolated).map(|(gateway, _)| gateway);
        let uses = run.calls.iter().filter(|call| call.is_served()).filter_map(|call| {
            let (_, returned) = revocation?.times.of(call.group)?;
            Some((Some(call.gateway), call.begin, returned))
        });
        let since = |later: Instant, earlier| later.saturating_duration_since(earlier);
        let connected = uses.clone().filter(|(gateway, ..)| *gateway != isolated);
        let at_isolated = uses.filter(|(gateway, ..)| *gateway == isolated);
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
    let [second, two] = [1, 2].map(Duration::from_secs);
    let timings = Timings { recovery: two, revocation: Some(second), isolated_use: None };
    assert_eq!(timings.violations(), [""; 0]);
    let more = Duration::from_millis(1);
    let late =
        Timings { recovery: two + more, revocation: Some(second + more), isolated_use: None };
    let expected = ["recovery took 2.001s, limit 2s", "revocation took 1.001s, limit 1s"];
    assert_eq!(late.violations(), expected);
}
