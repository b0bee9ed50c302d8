//! What calls cost the database once all that they need is known: nothing.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use callgate_throwaway::{MariaDb, Postgres, Server, TestDatabase};

use super::client::{Client, Era};
use super::filled::Filled;
use super::load::Account;
use super::record::{Asked, Outcome, Who};
use super::wire::get;
use crate::support::PATIENCE;

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

/// Where the registry is.
pub(crate) enum Kept {
    File,
    Server(&'static Server, TestDatabase),
}

impl Kept {
    pub(crate) fn all() -> [(&'static str, Self); 3] {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let on = |server: &'static Server| Self::Server(server, server.database());
        [
            ("SQLite", Self::File),
            ("PostgreSQL", on(Postgres::shared(tmp))),
            ("MariaDB", on(MariaDb::shared(tmp))),
        ]
    }

    pub(crate) fn url(&self) -> &str {
        match self {
            Self::File => "sqlite:callgate.db",
            Self::Server(_, database) => &database.url,
        }
    }

    /// Runs SQL as another program would.
    pub(crate) fn sql(&self, filled: &Filled, sql: &str) {
        match self {
            Self::File => filled.place.sql("callgate.db", sql),
            Self::Server(server, database) if database.url.starts_with("mysql") => {
                server.sql(
                    &database.name,
                    &format!("SET max_recursive_iterations = 10000000; {sql}"),
                );
            }
            Self::Server(server, database) => drop(server.sql(&database.name, sql)),
        }
    }

    /// What the database counts of what it was asked; a file counts nothing. PostgreSQL is a second late
    /// with it.
    fn count(&self) -> Option<u64> {
        let Self::Server(server, database) = self else { return None };
        let name = &database.name;
        let said = if database.url.starts_with("mysql") {
            server.sql(name, "SHOW GLOBAL STATUS LIKE 'Questions'")
        } else {
            let counts = "SELECT xact_commit + xact_rollback FROM pg_stat_database";
            server.sql("postgres", &format!("{counts} WHERE datname = '{name}'"))
        };
        said.split_whitespace().last()?.parse().ok()
    }
}

/// Makes so many calls through one gateway, with sessions and without, and counts. Where the gateway did
/// something else meanwhile (it found the database too slow, and read everything again, or wrote down when
/// tokens were last used), the calls are made once more.
pub(crate) fn warm_calls(filled: &Filled, kept: &Kept, calls: usize) -> Counted {
    let gateway = filled.serve(kept.url(), Duration::from_mins(1));
    let Account { token, tool } = filled.account(Who::Steady);
    let era = |number| if number % 2 == 0 { Era::Legacy } else { Era::Modern };
    let new = |number| Client::new(era(number), &token, tool, &[gateway.address], 0);
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

/// What a gateway counts.
#[derive(Debug, Clone, Copy)]
struct Metrics {
    looks: u64,
    statements: u64,
}

impl Metrics {
    fn read(gateway: SocketAddr) -> Self {
        let page = get(gateway, "/metrics").unwrap().body;
        let value = |name: &str| {
            let line = page.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name}: {page}")).trim().parse().unwrap()
        };
        let looks = value("callgate_registry_reads_total{what=\"revisions\"}");
        Self { looks, statements: value("callgate_registry_statements_total") }
    }

    /// Both numbers between two looks: one that is under way is in one of them already.
    fn settled(gateway: SocketAddr, before: Self) -> Self {
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
}
