//! What calls cost the database once all that they need is known: nothing.

use std::time::Duration;

use super::client::{Client, Era};
use super::filled::Filled;
use super::kept::Kept;
use super::load::Account;
use super::metrics::Metrics;
use super::record::{Asked, Outcome, Who};

/// So many clients call at once, half of each era.
const CLIENTS: usize = 8;

/// So often the calls are made at most.
const MAX_ROUNDS: usize = 3;

/// What was counted while the calls were made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) calls: usize,
    /// How often the gateway looked for changes, which is one statement each.
    pub(crate) looks: u64,
    /// Statements that the gateway sent.
    pub(crate) statements: u64,
    /// What the database itself counted, where it counts.
    pub(crate) seen: Option<u64>,
}

/// Makes so many calls through one gateway, with sessions and without, and counts. Where the gateway did
/// something else meanwhile (it found the database too slow, and read everything again, or wrote down when
/// tokens were last used), the calls are made once more.
pub(crate) fn warm_calls(filled: &Filled, kept: &Kept, calls: usize) -> Counted {
    let gateway = filled.serve(kept.url(), Duration::from_mins(1));
    let Account { token, tools } = filled.account(Who::Steady);
    let era = |number| if number % 2 == 0 { Era::Legacy } else { Era::Modern };
    let new = |number| Client::new(era(number), &token, tools, &[gateway.address], 0);
    let mut clients: Vec<Client> = (0..CLIENTS).map(new).collect();
    // Once, so that each token and tool has been seen.
    each(&mut clients, 1, "first");
    let mut round = |number: usize| {
        let (before, seen_before) = (Metrics::read(gateway.address), kept.count());
        each(&mut clients, calls / CLIENTS, &format!("round-{number}"));
        let after = Metrics::settled(gateway.address, before);
        let seen = kept.count().zip(seen_before).map(|(after, before)| after - before);
        let (looks, statements) =
            (after.looks - before.looks, after.statements - before.statements);
        Counted { calls, looks, statements, seen }
    };
    let mut counted = round(1);
    for number in 2..=MAX_ROUNDS {
        if counted.statements == counted.looks {
            break;
        }
        counted = round(number);
    }
    counted
}

/// Each client calls so often; every call must be answered.
fn each(clients: &mut [Client], count: usize, name: &str) {
    std::thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            scope.spawn(move || {
                for call in 0..count {
                    let outcome = client.call(0, Asked::Own, &format!("{name}-{number}-{call}"));
                    assert_eq!(outcome, Outcome::Answered);
                }
            });
        }
    });
}
