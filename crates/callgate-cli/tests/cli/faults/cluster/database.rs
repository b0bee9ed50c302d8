//! The databases that a registry can be in.

use std::path::Path;

use callgate_test_support::{DatabaseServer, Engine, SqlServerEmulator, TestDatabase};
use tiberius::{AuthMethod, Client, Config, EncryptionLevel};
use tokio::net::TcpStream;
use tokio_util::compat::TokioAsyncWriteCompatExt as _;

use crate::faults::cluster::registry::TestRegistry;
use crate::support::TestDirectory;

/// Tables and triggers for SQL Server.
const INSTALL: &str = include_str!("../../../../../../install/install.mssql.sql");

/// A database for a registry. No other test uses the server, so its statement counter is exact.
pub(crate) enum RegistryDatabase {
    Sqlite,
    Server(DatabaseServer, TestDatabase),
    /// With its URL.
    SqlServerEmulator(
        #[expect(dead_code, reason = "runs as long as this lives")] SqlServerEmulator,
        String,
    ),
}

impl RegistryDatabase {
    /// Returns all databases except SQL Server.
    pub(crate) fn without_sql_server() -> Vec<(&'static str, Self)> {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let on = |server: DatabaseServer| {
            let database = server.database();
            Self::Server(server, database)
        };
        vec![
            ("SQLite", Self::Sqlite),
            (Engine::Postgres.name(), on(Engine::Postgres.start(tmp))),
            (Engine::MariaDb.name(), on(Engine::MariaDb.start(tmp))),
        ]
    }

    pub(crate) fn all() -> Vec<(&'static str, Self)> {
        let mut all = Self::without_sql_server();
        all.push(Self::sql_server());
        all
    }

    pub(crate) fn sql_server() -> (&'static str, Self) {
        let server = SqlServerEmulator::start(Path::new(env!("CARGO_TARGET_TMPDIR")));
        prepare(&server);
        let url = server.url();
        ("SQL Server emulator", Self::SqlServerEmulator(server, url))
    }

    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Sqlite => "sqlite:callgate.db",
            Self::Server(_, database) => &database.url,
            Self::SqlServerEmulator(_, url) => url,
        }
    }

    /// Runs SQL as another program does.
    pub(crate) fn sql(&self, registry: &TestRegistry, sql: &str) {
        match self {
            Self::Sqlite => registry.dir.sql("callgate.db", sql),
            Self::Server(server, database) if database.url.starts_with("mysql") => {
                server.sql(
                    &database.name,
                    &format!("SET max_recursive_iterations = 10000000; {sql}"),
                );
            }
            Self::Server(server, database) => drop(server.sql(&database.name, sql)),
            Self::SqlServerEmulator(..) => panic!("not supported: {sql}"),
        }
    }

    /// Returns the number of statements or transactions that the server has counted. PostgreSQL
    /// updates this number once a second.
    pub(crate) fn statement_count(&self) -> Option<u64> {
        let Self::Server(server, database) = self else { return None };
        let name = &database.name;
        let output = if database.url.starts_with("mysql") {
            server.sql(name, "SHOW GLOBAL STATUS LIKE 'Questions'")
        } else {
            let counts = "SELECT xact_commit + xact_rollback FROM pg_stat_database";
            server.sql("postgres", &format!("{counts} WHERE datname = '{name}'"))
        };
        output.split_whitespace().last()?.parse().ok()
    }
}

/// Creates the tables and drops the triggers: on a table with a trigger, the emulator fails if a statement
/// changes no row. The tests change nothing later.
fn prepare(server: &SqlServerEmulator) {
    let dir = TestDirectory::new();
    let migrated = dir.command(&["migrate"]).env("CALLGATE_DATABASE", server.url()).output();
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
