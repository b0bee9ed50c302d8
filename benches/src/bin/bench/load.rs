//! The two kinds of load: full load and a fixed rate.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::client::{Client, PreparedRequest, WaitMode};

/// Maximum delay of the last requests of a round. If the delay is longer, the server counts as unable to keep up.
const GRACE_PERIOD: Duration = Duration::from_millis(250);

/// Result of a full load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Full {
    pub(crate) answered: u32,
    pub(crate) elapsed: Duration,
}

/// Keeps every connection busy for a duration, then waits for the outstanding replies.
pub(crate) fn full(
    client: &mut Client,
    requests: &[PreparedRequest],
    length: Duration,
    is_separate: bool,
) -> anyhow::Result<Full> {
    let wait_mode = if is_separate { WaitMode::Spin } else { WaitMode::Block };
    let mut request_numbers = (0..requests.len()).cycle();
    let mut idle: Vec<usize> = client.connections().collect();
    let mut in_flight = 0_u32;
    let mut answered = 0_u32;
    let started = Instant::now();
    loop {
        let is_running = started.elapsed() < length;
        if is_running {
            for (connection, request) in idle.drain(..).zip(&mut request_numbers) {
                client.send(connection, requests, request)?;
                in_flight += 1;
            }
        }
        idle.clear();
        if in_flight == 0 {
            return Ok(Full { answered, elapsed: started.elapsed() });
        }
        client.receive(requests, &mut idle, wait_mode)?;
        let replies = u32::try_from(idle.len()).unwrap_or(u32::MAX);
        in_flight -= replies;
        answered += replies;
    }
}

/// Result of a fixed rate.
#[derive(Debug, Clone)]
pub(crate) struct Paced {
    /// Times from the moment at which a request was due to its reply, sorted.
    pub(crate) latencies: Vec<Duration>,
    /// Number of requests that were due but not sent before the end.
    pub(crate) unsent: usize,
}

/// Sends requests at fixed times. The wait of a request for an idle connection counts as latency.
pub(crate) fn paced(
    client: &mut Client,
    requests: &[PreparedRequest],
    per_second: f64,
    length: Duration,
    is_separate: bool,
) -> anyhow::Result<Paced> {
    let wait_mode = if is_separate { WaitMode::Spin } else { WaitMode::Pause };
    let interval = Duration::from_secs_f64(1.0 / per_second);
    let mut request_numbers = (0..requests.len()).cycle();
    // Connections take turns, so that none is idle for so long that the server closes it.
    let mut idle: VecDeque<usize> = client.connections().collect();
    let mut due_times = vec![Instant::now(); idle.len()];
    let mut due = VecDeque::new();
    let mut latencies = Vec::new();
    let mut newly_idle = Vec::new();
    let started = Instant::now();
    let mut next = started;
    loop {
        let now = Instant::now();
        while next <= now && next < started + length {
            due.push_back(next);
            next += interval;
        }
        let is_over = now >= started + length + GRACE_PERIOD;
        while !is_over && !due.is_empty() {
            let (Some(connection), Some(request)) = (idle.pop_front(), request_numbers.next())
            else {
                break;
            };
            if let (Some(time), Some(slot)) = (due.pop_front(), due_times.get_mut(connection)) {
                *slot = time;
            }
            client.send(connection, requests, request)?;
        }
        let none_in_flight = idle.len() == due_times.len();
        if none_in_flight && now >= started + length && (is_over || due.is_empty()) {
            latencies.sort_unstable();
            return Ok(Paced { latencies, unsent: due.len() });
        }
        client.receive(requests, &mut newly_idle, wait_mode)?;
        let now = Instant::now();
        latencies
            .extend(newly_idle.iter().filter_map(|number| Some(now - *due_times.get(*number)?)));
        idle.extend(newly_idle.drain(..));
    }
}
