//! The two kinds of load: full load and a fixed rate.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::client::{Client, Prepared, Waiting};

/// Maximum delay of the last requests of a round. If the delay is longer, the server counts as unable to keep up.
const GRACE: Duration = Duration::from_millis(250);

/// Result of a full load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Full {
    pub(crate) answered: u32,
    pub(crate) took: Duration,
}

/// Keeps every connection busy for a duration, then waits for the outstanding replies.
pub(crate) fn full(
    client: &mut Client,
    requests: &[Prepared],
    length: Duration,
    is_separate: bool,
) -> anyhow::Result<Full> {
    let waiting = if is_separate { Waiting::Spin } else { Waiting::Block };
    let mut turn = (0..requests.len()).cycle();
    let mut free: Vec<usize> = client.connections().collect();
    let mut under_way = 0_u32;
    let mut answered = 0_u32;
    let started = Instant::now();
    loop {
        let go_on = started.elapsed() < length;
        if go_on {
            for (connection, request) in free.drain(..).zip(&mut turn) {
                client.send(connection, requests, request)?;
                under_way += 1;
            }
        }
        free.clear();
        if under_way == 0 {
            return Ok(Full { answered, took: started.elapsed() });
        }
        client.receive(requests, &mut free, waiting)?;
        let replies = u32::try_from(free.len()).unwrap_or(u32::MAX);
        under_way -= replies;
        answered += replies;
    }
}

/// Result of a fixed rate.
#[derive(Debug, Clone)]
pub(crate) struct Paced {
    /// Times from the moment at which a request was due to its reply, sorted.
    pub(crate) latencies: Vec<Duration>,
    /// Number of requests that were due but not sent before the end.
    pub(crate) left: usize,
}

/// Sends requests at fixed times. The wait of a request for an idle connection counts as latency.
pub(crate) fn paced(
    client: &mut Client,
    requests: &[Prepared],
    per_second: f64,
    length: Duration,
    is_separate: bool,
) -> anyhow::Result<Paced> {
    let waiting = if is_separate { Waiting::Spin } else { Waiting::Pause };
    let interval = Duration::from_secs_f64(1.0 / per_second);
    let mut turn = (0..requests.len()).cycle();
    // Connections take turns, so that none is idle for so long that the server closes it.
    let mut idle: VecDeque<usize> = client.connections().collect();
    let mut due_of = vec![Instant::now(); idle.len()];
    let mut due = VecDeque::new();
    let mut latencies = Vec::new();
    let mut free = Vec::new();
    let started = Instant::now();
    let mut next = started;
    loop {
        let now = Instant::now();
        while next <= now && next < started + length {
            due.push_back(next);
            next += interval;
        }
        let is_over = now >= started + length + GRACE;
        while !is_over && !due.is_empty() {
            let (Some(connection), Some(request)) = (idle.pop_front(), turn.next()) else { break };
            if let (Some(time), Some(slot)) = (due.pop_front(), due_of.get_mut(connection)) {
                *slot = time;
            }
            client.send(connection, requests, request)?;
        }
        let none_under_way = idle.len() == due_of.len();
        if none_under_way && now >= started + length && (is_over || due.is_empty()) {
            latencies.sort_unstable();
            return Ok(Paced { latencies, left: due.len() });
        }
        client.receive(requests, &mut free, waiting)?;
        let now = Instant::now();
        latencies.extend(free.iter().filter_map(|number| Some(now - *due_of.get(*number)?)));
        idle.extend(free.drain(..));
    }
}
