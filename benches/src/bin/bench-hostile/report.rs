//! The report, and the limits that make the benchmark fail.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::ensure;

use crate::honest::Outcome;
use crate::hostile::KINDS;

/// Maximum memory of the server.
const MAX_MEMORY: u64 = 640 * 1024 * 1024;
/// Maximum ratio of the 99th percentile with hostile clients to that without.
const MAX_RATIO: f64 = 3.0;
/// Maximum growth of the memory after the first minute: the peak in the second half of this time divided by the peak in
/// the first half.
const MAX_GROWTH: f64 = 1.25;
/// Number of measurements of the memory in the first minute.
const FIRST_MINUTE: usize = 6;
/// Maximum response time of `/healthz`.
const MAX_PROBE: Duration = Duration::from_secs(2);

/// Measurements of a phase.
#[derive(Debug)]
pub(crate) struct Phase {
    duration: Duration,
    requests: usize,
    failures: Vec<String>,
    p50: Duration,
    p99: Duration,
    memory: Vec<u64>,
    longest_probe: Duration,
}

impl Phase {
    pub(crate) fn new(
        duration: Duration,
        outcomes: Vec<Outcome>,
        memory: Vec<u64>,
        longest_probe: Duration,
    ) -> Self {
        let mut latencies = Vec::new();
        let mut failures = Vec::new();
        for outcome in outcomes {
            latencies.extend(outcome.latencies);
            failures.extend(outcome.failure);
        }
        latencies.sort_unstable();
        let percentile = |percent: usize| {
            let index = latencies.len().saturating_sub(1) * percent / 100;
            Duration::from_micros(latencies.get(index).copied().unwrap_or_default().into())
        };
        let (p50, p99, requests) = (percentile(50), percentile(99), latencies.len());
        Self { duration, requests, failures, p50, p99, memory, longest_probe }
    }

    fn per_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let requests = self.requests as f64;
        requests / self.duration.as_secs_f64()
    }
}

/// All measurements.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) connections: usize,
    pub(crate) length: Duration,
    pub(crate) baseline: Phase,
    pub(crate) attacked: Phase,
}

impl Report {
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!(
            "{} connections for {} s. A tenth of them belong to hostile clients, which use:\n\n",
            self.connections,
            self.length.as_secs()
        );
        for kind in KINDS {
            let _ = writeln!(text, "- {kind}");
        }
        text.push_str("\n| honest clients | without hostile clients | with hostile clients |\n| --- | --- | --- |\n");
        let Self { baseline, attacked, .. } = self;
        let mut row = |name: &str, value: &dyn Fn(&Phase) -> String| {
            let _ = writeln!(text, "| {name} | {} | {} |", value(baseline), value(attacked));
        };
        let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        row("requests per second", &|phase| format!("{:.0}", phase.per_second()));
        row("errors", &|phase| phase.failures.len().to_string());
        row("median of the response times", &|phase| milliseconds(phase.p50));
        row("99th percentile of the response times", &|phase| milliseconds(phase.p99));
        row("longest response time of `/healthz`", &|phase| milliseconds(phase.longest_probe));
        let memory: Vec<String> =
            attacked.memory.iter().map(|bytes| (bytes >> 20).to_string()).collect();
        let _ = writeln!(
            text,
            "\nMemory with hostile clients, every 10 s, in MiB: {}.",
            memory.join(", ")
        );
        text
    }

    /// Fails if hostile clients impair the honest clients or the server.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Self { baseline, attacked, .. } = self;
        for phase in [baseline, attacked] {
            let failures: Vec<&str> = phase.failures.iter().take(5).map(String::as_str).collect();
            ensure!(failures.is_empty(), "honest clients failed:\n{}", failures.join("\n"));
        }
        let ratio = attacked.p99.as_secs_f64() / baseline.p99.as_secs_f64();
        ensure!(
            ratio <= MAX_RATIO,
            "with hostile clients, the 99th percentile is {ratio:.1} times as long"
        );
        let probe = attacked.longest_probe;
        ensure!(probe <= MAX_PROBE, "the slowest reply of `/healthz` took {probe:?}");
        let peak = attacked.memory.iter().max().copied().unwrap_or_default();
        ensure!(peak <= MAX_MEMORY, "the server used {} MiB", peak >> 20);
        let later = attacked.memory.get(FIRST_MINUTE..).unwrap_or_default();
        let (before, after) = later.split_at(later.len() / 2);
        if let (Some(before), Some(after)) = (before.iter().max(), after.iter().max()) {
            #[expect(clippy::cast_precision_loss, reason = "a ratio")]
            let growth = *after as f64 / *before as f64;
            ensure!(
                growth <= MAX_GROWTH,
                "the memory of the server grew by a factor of {growth:.2}"
            );
        }
        Ok(())
    }
}
