//! Where a registry is: each of the databases, for whoever wants all of them.

use std::path::Path;

use callgate_test_support::{DatabaseServer, Engine, SqlServerEmulator, TestDatabase};
use tiberius::{AuthMethod, Client, Config, EncryptionLevel};
use tokio::net::TcpStream;
use tokio_util::compat::TokioAsyncWriteCompatExt as _;

use super::filled::Filled;
use crate::support::Place;

/// SQL Server's tables and triggers.
const INSTALL: &str = include_str!("../../../../../install/install.mssql.sql");

/// Where the registry is. The servers are nobody else's: they count all that they are asked.
pub(crate) enum Kept {
    File,
    Server(DatabaseServer, TestDatabase),
    /// SQL Server's, with its URL.
    SqlServerEmulator(
        #[expect(dead_code, reason = "runs as long as this lives")] SqlServerEmulator,
        String,
    ),
}

impl Kept {
    /// The databases themselves.
    pub(crate) fn real() -> Vec<(&'static str, Self)> {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let on = |server: DatabaseServer| {
            let database = server.database();
            Self::Server(server, database)
        };
        vec![
            ("SQLite", Self::File),
            ("PostgreSQL", on(Engine::Postgres.start(tmp))),
            ("MariaDB", on(Engine::MariaDb.start(tmp))),
        ]
    }

    /// With what stands in for SQL Server.
    pub(crate) fn all() -> Vec<(&'static str, Self)> {
        let mut all = Self::real();
        all.push(Self::sql_server());
        all
    }

    /// What stands in for SQL Server.
    pub(crate) fn sql_server() -> (&'static str, Self) {
        let stand_in = SqlServerEmulator::start(Path::new(env!("CARGO_TARGET_TMPDIR")));
        prepare(&stand_in);
        let url = stand_in.url();
        ("SQL Server's stand-in", Self::SqlServerEmulator(stand_in, url))
    }

    pub(crate) fn url(&self) -> &str {
        match self {
            Self::File => "sqlite:callgate.db",
            Self::Server(_, database) => &database.url,
            Self::SqlServerEmulator(_, url) => url,
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
            Self::SqlServerEmulator(..) => panic!("it is not asked by others: {sql}"),
        }
    }

    /// What the database counts of what it was asked, where it does. PostgreSQL is a second late with it.
    pub(crate) fn count(&self) -> Option<u64> {
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

/// Makes the tables, and takes the triggers away: the stand-in fails where a statement changes no row of a
/// table that has one. Nothing changes later on, so none is missed.
fn prepare(server: &SqlServerEmulator) {
    let place = Place::new();
    let migrated = place.command(&["migrate"]).env("CALLGATE_DATABASE", server.url()).output();
    let migrated = migrated.unwrap();
    assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    let triggers = INSTALL.lines().filter_map(|line| line.strip_prefix("CREATE TRIGGER "));
    let triggers: Vec<&str> = triggers.filter_map(|rest| rest.split(' ').next()).collect();
    assert!(triggers.len() > 20, "{triggers:?}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut config = Config::new();
        config.authentication(AuthMethod::sql_server(
            SqlServerEmulator::USER,
            SqlServerEmulator::PASSWORD,
        ));
        config.encryption(EncryptionLevel::NotSupported);
        let stream = TcpStream::connect(server.address()).await.unwrap();
        let mut client = Box::pin(Client::connect(config, stream.compat_write())).await.unwrap();
        for trigger in triggers {
            let dropped = client.simple_query(format!("DROP TRIGGER {trigger}")).await.unwrap();
            dropped.into_results().await.unwrap();
        }
    });
}
