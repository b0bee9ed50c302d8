//! A separate registry for each test, in each kind of database.

use std::net::SocketAddr;
use std::path::Path;

use callgate_registry::{DatabaseOptions, DatabaseUrl, Dialect, OpenError, SqlStore, TableNames};
use callgate_test_support::{DatabaseServer, Engine, SqlServerEmulator};
use tempfile::TempDir;

use crate::emulator;

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    MariaDb,
    SqlServer,
}

/// Maximum size of a registry in the tests, so that they take seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) methods: usize,
    pub(crate) users: usize,
    pub(crate) tokens: usize,
    /// Number of letters of a long text.
    pub(crate) letters: usize,
    /// Number of letters of a long name; a multiple of three.
    pub(crate) name: usize,
    /// Number of values of a long list.
    pub(crate) list_len: usize,
}

const LARGE: Scale = Scale {
    methods: 100_000,
    users: 10_000,
    tokens: 1_000_000,
    letters: 20_000,
    name: 255,
    list_len: 12_000,
};

/// An empty database, which is removed at the end.
pub(crate) struct TestDatabase {
    pub(crate) url: DatabaseUrl,
    backend: Backend,
}

/// The server or file that holds a database.
enum Backend {
    Directory(#[expect(dead_code, reason = "dropping the value removes the directory")] TempDir),
    /// A server, and the name of the database in it.
    Server(&'static DatabaseServer, String),
    /// The emulator, which has only one database.
    SqlServerEmulator(SqlServerEmulator),
}

impl Kind {
    /// Creates an empty database.
    #[allow(clippy::unused_async, reason = "a server is waited for, a file is not")]
    pub(crate) async fn database(self) -> TestDatabase {
        match self {
            Self::Sqlite => {
                let directory = tempfile::tempdir().unwrap();
                let url = DatabaseUrl::sqlite(directory.path().join("registry.db"));
                TestDatabase { url, backend: Backend::Directory(directory) }
            }
            Self::Postgres | Self::MariaDb => self.server().into(),
            Self::SqlServer => {
                let server = SqlServerEmulator::start(Path::new(env!("CARGO_TARGET_TMPDIR")));
                let url = server.url().parse().unwrap();
                TestDatabase { url, backend: Backend::SqlServerEmulator(server) }
            }
        }
    }

    /// Creates the target of a copy: an empty database. For the SQL Server emulator, the target is an empty registry,
    /// because the tests replace the triggers of the emulator's registries.
    pub(crate) async fn target(self) -> TestDatabase {
        match self {
            Self::SqlServer => self.registry().await.database,
            _ => self.database().await,
        }
    }

    /// Returns the server that all tests share.
    pub(crate) fn server(self) -> &'static DatabaseServer {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        match self {
            Self::Sqlite | Self::SqlServer => panic!("{self:?} has no shared server"),
            Self::Postgres => Engine::Postgres.shared(tmp),
            Self::MariaDb => Engine::MariaDb.shared(tmp),
        }
    }

    pub(crate) async fn registry(self) -> Registry {
        self.registry_with(None).await
    }

    pub(crate) async fn registry_with(self, tables: Option<TableNames>) -> Registry {
        let database = self.database().await;
        let (store, _) = database.migrate(tables.as_ref()).await.unwrap();
        if self == Self::SqlServer {
            database.sql(&emulator::triggers(&tables.unwrap_or_default())).await;
        }
        Registry { store, database }
    }
}

/// Creates an empty database on the server.
impl From<&'static DatabaseServer> for TestDatabase {
    fn from(server: &'static DatabaseServer) -> Self {
        let database = server.database();
        Self { url: database.url.parse().unwrap(), backend: Backend::Server(server, database.name) }
    }
}

impl TestDatabase {
    pub(crate) async fn open(&self, tables: Option<&TableNames>) -> Result<SqlStore, OpenError> {
        SqlStore::open(&self.url, &DatabaseOptions::default(), tables).await
    }

    pub(crate) async fn migrate(
        &self,
        tables: Option<&TableNames>,
    ) -> Result<(SqlStore, Vec<&'static str>), OpenError> {
        SqlStore::migrate(&self.url, &DatabaseOptions::default(), tables).await
    }

    /// Runs plain SQL on a separate connection, as another program would. Returns the output.
    pub(crate) async fn sql(&self, sql: &str) -> String {
        self.try_sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs plain SQL that the database may refuse.
    pub(crate) async fn try_sql(&self, sql: &str) -> Result<String, String> {
        match &self.backend {
            Backend::Directory(_) => sqlite(&self.url, sql).await.map(|()| String::new()),
            Backend::SqlServerEmulator(server) => {
                emulator::try_sql(server, sql).await.map(|()| String::new())
            }
            Backend::Server(server, name) => {
                let (server, name, sql) = (*server, name.clone(), sql.to_owned());
                let run = move || server.try_sql(&name, &sql);
                tokio::task::spawn_blocking(run).await.unwrap()
            }
        }
    }

    /// Runs plain SQL on another thread.
    pub(crate) fn in_background(&self, sql: &str) -> std::thread::JoinHandle<()> {
        let Backend::Server(server, name) = &self.backend else { panic!("SQLite has no server") };
        let (server, name, sql) = (*server, name.clone(), sql.to_owned());
        std::thread::spawn(move || drop(server.sql(&name, &sql)))
    }

    pub(crate) fn scale(&self) -> Scale {
        match self.url.dialect() {
            // The emulator drops statements and values of more than 4,000 bytes, and is slow.
            Dialect::SqlServer => Scale {
                methods: 2_000,
                users: 1_000,
                tokens: 1_000,
                letters: 900,
                name: 138,
                list_len: 40,
            },
            // MariaDB runs triggers once for each row.
            Dialect::MySql => Scale { tokens: 100_000, ..LARGE },
            _ => LARGE,
        }
    }

    /// Returns an SQL expression for a number with 64 digits.
    pub(crate) fn padded(&self, number: &str) -> String {
        match self.url.dialect() {
            Dialect::Sqlite => format!("printf('%064d', {number})"),
            Dialect::Postgres => format!("lpad(CAST({number} AS TEXT), 64, '0')"),
            Dialect::MySql => format!("LPAD({number}, 64, '0')"),
            Dialect::SqlServer => {
                format!("RIGHT(CONCAT(REPLICATE('0', 64), CAST({number} AS VARCHAR(20))), 64)")
            }
        }
    }

    /// Returns the statement that sets a time zone other than UTC for a session.
    pub(crate) fn set_other_time_zone(&self) -> &'static str {
        match self.url.dialect() {
            Dialect::Postgres => "SET TIME ZONE 'Asia/Tokyo'; ",
            Dialect::MySql => "SET time_zone = '+09:00'; ",
            // These databases have no such setting.
            Dialect::Sqlite | Dialect::SqlServer => "",
        }
    }

    /// Returns the SQL Server emulator. Panics for other databases.
    pub(crate) fn emulator(&self) -> &SqlServerEmulator {
        match &self.backend {
            Backend::SqlServerEmulator(server) => server,
            Backend::Directory(_) | Backend::Server(..) => {
                panic!("this database is not the emulator")
            }
        }
    }

    /// Returns the address of the server, or `None` for a file.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match &self.backend {
            Backend::Directory(_) => None,
            Backend::Server(server, _) => Some(server.address()),
            Backend::SqlServerEmulator(server) => Some(server.address()),
        }
    }

    /// Returns the URL with another address, which may be a proxy's.
    pub(crate) fn url_at(&self, address: SocketAddr) -> DatabaseUrl {
        let url = match &self.backend {
            Backend::Directory(_) => panic!("a file has no address"),
            Backend::Server(server, name) => server.url(name, address),
            Backend::SqlServerEmulator(server) => {
                server.url().replace(&server.address().to_string(), &address.to_string())
            }
        };
        url.parse().unwrap()
    }

    /// Returns the SQL expression for the current time of the database.
    pub(crate) fn now(&self) -> &'static str {
        match self.url.dialect() {
            Dialect::Sqlite => "unixepoch()",
            Dialect::Postgres => "CURRENT_TIMESTAMP",
            Dialect::MySql => "UTC_TIMESTAMP()",
            Dialect::SqlServer => "SYSUTCDATETIME()",
        }
    }
}

async fn sqlite(url: &DatabaseUrl, sql: &str) -> Result<(), String> {
    use sqlx::{Connection as _, Executor as _};
    let path = url.path().unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    let result = connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))).await;
    connection.close().await.unwrap();
    result.map(drop).map_err(|error| error.to_string())
}

impl TestDatabase {
    /// Returns the result of a query as text.
    pub(crate) async fn query(&self, sql: &str) -> String {
        match &self.backend {
            Backend::Directory(_) => sqlite_texts(&self.url, sql).await.join("\n"),
            Backend::SqlServerEmulator(server) => emulator::query(server, sql).await,
            Backend::Server(server, name) => server.sql(name, sql),
        }
    }
}

/// Returns the first column of each row, read with SQLite's own driver.
pub(crate) async fn sqlite_texts(url: &DatabaseUrl, sql: &str) -> Vec<String> {
    use sqlx::{Connection as _, Row as _};
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(url.path().unwrap());
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    let sql = sqlx::AssertSqlSafe(sql.to_owned());
    let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    rows.iter().map(|row| row.get_unchecked::<String, _>(0)).collect()
}

/// A registry and its database.
pub(crate) struct Registry {
    pub(crate) store: SqlStore,
    pub(crate) database: TestDatabase,
}
