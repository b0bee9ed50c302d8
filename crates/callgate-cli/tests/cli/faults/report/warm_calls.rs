//! Number of statements that calls send to the database once tokens and tools are cached.

use std::time::Duration;

use crate::faults::cluster::database::RegistryDatabase;
use crate::faults::cluster::metrics::Metrics;
use crate::faults::cluster::registry::TestRegistry;
use crate::faults::load::Account;
use crate::faults::load::call_log::{ClientGroup, Outcome, RequestKind};
use crate::faults::load::client::{Client, Era};

/// Number of concurrent clients, half of each era.
const CLIENTS: usize = 8;

/// Maximum number of attempts.
const MAX_ROUNDS: usize = 3;

/// Counts during the calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WarmCallCounts {
    pub(crate) calls: usize,
    /// Number of polls for changes. A poll is one statement.
    pub(crate) polls: u64,
    /// Number of statements that the server sent.
    pub(crate) statements: u64,
    /// Number of statements that the database server counted, if the server counts statements.
    pub(crate) counted_by_database: Option<u64>,
}

/// Makes calls through one server, with and without sessions, and counts statements. If the server did other
/// work meanwhile (a reload after a slow poll, or storing when tokens were last used), repeats the calls.
pub(crate) fn warm_calls(
    registry: &TestRegistry,
    database: &RegistryDatabase,
    calls: usize,
) -> WarmCallCounts {
    let server = registry.serve(database.url(), Duration::from_mins(1));
    let Account { token, tools } = registry.account(ClientGroup::Unchanged);
    let era = |number| if number % 2 == 0 { Era::Legacy } else { Era::Modern };
    let new = |number| Client::new(era(number), &token, tools, &[server.address], 0);
    let mut clients: Vec<Client> = (0..CLIENTS).map(new).collect();
    // Caches each token and tool.
    call_all(&mut clients, 1, "first");
    let mut round = |number: usize| {
        let (before, count_before) = (Metrics::read(server.address), database.statement_count());
        call_all(&mut clients, calls / CLIENTS, &format!("round-{number}"));
        let after = Metrics::settled(server.address, before);
        let counted_by_database =
            database.statement_count().zip(count_before).map(|(after, before)| after - before);
        let (polls, statements) =
            (after.polls - before.polls, after.statements - before.statements);
        WarmCallCounts { calls, polls, statements, counted_by_database }
    };
    let mut counts = round(1);
    for number in 2..=MAX_ROUNDS {
        if counts.statements == counts.polls {
            break;
        }
        counts = round(number);
    }
    counts
}

/// Makes `count` calls with each client. Every call must succeed.
fn call_all(clients: &mut [Client], count: usize, name: &str) {
    std::thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            scope.spawn(move || {
                for call in 0..count {
                    let outcome =
                        client.call(0, RequestKind::Write, &format!("{name}-{number}-{call}"));
                    assert_eq!(outcome, Outcome::Answered);
                }
            });
        }
    });
}
