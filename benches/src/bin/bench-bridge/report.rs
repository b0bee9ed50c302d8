//! The report.

use std::fmt::Write as _;
use std::time::Duration;

use crate::peer::Era;

/// Medians of one turn.
#[derive(Debug)]
pub(crate) struct Cost {
    pub(crate) direct: Duration,
    pub(crate) bridge: Duration,
    pub(crate) remote: Option<Duration>,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) calls: Vec<(Era, Vec<Cost>)>,
    /// Kilobytes.
    pub(crate) memory: Vec<(&'static str, u64)>,
    pub(crate) bridge_starts: Vec<Duration>,
    pub(crate) remote_starts: Vec<Duration>,
}

impl Report {
    pub(crate) fn markdown(&self, calls: usize, rounds: usize, date: Option<&str>) -> String {
        let mut text = format!(
            "# Overhead of the bridge\n\nWritten by `cargo xtask bench`{}. One client makes one \
             call at a time to the demo on loopback: {calls} calls directly to the server, {calls} \
             through `callgate bridge`, and {calls} through `mcp-remote` 0.15.1 (npm). This is \
             repeated {rounds} times. In each repetition, the overhead of a bridge is the median of \
             its calls minus the median of the direct calls. In the first table, each figure is \
             the median of the {rounds} repetitions. In the second table, the time is the median \
             of several starts, and the memory is the maximum during the calls with the revision \
             2025-11-25.\n\n",
            date.map(|date| format!(", {date}")).unwrap_or_default(),
        );
        text.push_str(
            "| revision | direct | overhead of the bridge | overhead of mcp-remote |\n| --- | --- | --- | --- |\n",
        );
        for (era, costs) in &self.calls {
            let direct = median(costs.iter().map(|cost| cost.direct));
            let bridge = median(costs.iter().map(|cost| cost.bridge.saturating_sub(cost.direct)));
            let remote: Vec<_> = costs
                .iter()
                .filter_map(|cost| Some(cost.remote?.saturating_sub(cost.direct)))
                .collect();
            let remote =
                if remote.is_empty() { "not supported".to_owned() } else { micros(median(remote)) };
            let _ =
                writeln!(text, "| {era} | {} | {} | {remote} |", micros(direct), micros(bridge));
        }
        text.push_str(
            "\n| | maximum memory | start to the reply of the handshake |\n| --- | --- | --- |\n",
        );
        for (name, kilobytes) in &self.memory {
            let starts =
                if *name == "mcp-remote" { &self.remote_starts } else { &self.bridge_starts };
            let start = median(starts.iter().copied());
            let _ = writeln!(
                text,
                "| {name} | {}.{} MB | {} ms |",
                kilobytes / 1000,
                kilobytes % 1000 / 100,
                start.as_millis()
            );
        }
        text
    }
}

fn median(times: impl IntoIterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn micros(time: Duration) -> String {
    format!("{} µs", time.as_micros())
}
