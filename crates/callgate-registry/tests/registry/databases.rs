//! A registry of its own for each test, in each kind of database.

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

/// How large a registry is at most in the tests, so that they take seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) methods: usize,
    pub(crate) users: usize,
    pub(crate) tokens: usize,
    /// How many letters a long text has.
    pub(crate) letters: usize,
    /// How many letters a long name has; they come by the three.
    pub(crate) name: usize,
    /// How many values a long list has.
    pub(crate) listed: usize,
}

const LARGE: Scale = Scale {
    methods: 100_000,
    users: 10_000,
    tokens: 1_000_000,
    letters: 20_000,
    name: 255,
    listed: 12_000,
};

/// An empty database, gone at the end.
pub(crate) struct Place {
    pub(crate) url: DatabaseUrl,
    home: Home,
}

/// What holds a database.
enum Home {
    Directory(#[expect(dead_code, reason = "it is gone with it")] TempDir),
    /// With the name that it has there.
    Server(&'static DatabaseServer, String),
    /// It has one database only.
    SqlServerEmulator(SqlServerEmulator),
}

impl Kind {
    /// A database that has nothing yet.
    #[allow(clippy::unused_async, reason = "a server is waited for, a file is not")]
    pub(crate) async fn place(self) -> Place {
        match self {
            Self::Sqlite => {
                let directory = tempfile::tempdir().unwrap();
                let url = DatabaseUrl::sqlite(directory.path().join("registry.db"));
                Place { url, home: Home::Directory(directory) }
            }
            Self::Postgres | Self::MariaDb => self.server().into(),
            Self::SqlServer => {
                let server = SqlServerEmulator::start(Path::new(env!("CARGO_TARGET_TMPDIR")));
                let url = server.url().parse().unwrap();
                Place { url, home: Home::SqlServerEmulator(server) }
            }
        }
    }

    /// Where a copy is made to: a database that has nothing yet, or for the SQL Server emulator a registry
    /// that has nothing yet, since its triggers are made anew.
    pub(crate) async fn target(self) -> Place {
        match self {
            Self::SqlServer => self.registry().await.place,
            _ => self.place().await,
        }
    }

    /// The server of all tests.
    pub(crate) fn server(self) -> &'static DatabaseServer {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        match self {
            Self::Sqlite | Self::SqlServer => panic!("{self:?} has no server of all tests"),
            Self::Postgres => Engine::Postgres.shared(tmp),
            Self::MariaDb => Engine::MariaDb.shared(tmp),
        }
    }

    pub(crate) async fn registry(self) -> Registry {
        self.registry_with(None).await
    }

    pub(crate) async fn registry_with(self, tables: Option<TableNames>) -> Registry {
        let place = self.place().await;
        let (store, _) = place.migrate(tables.as_ref()).await.unwrap();
        if self == Self::SqlServer {
            place.sql(&emulator::triggers(&tables.unwrap_or_default())).await;
        }
        Registry { store, place }
    }
}

/// A database that has nothing yet.
impl From<&'static DatabaseServer> for Place {
    fn from(server: &'static DatabaseServer) -> Self {
        let database = server.database();
        Self { url: database.url.parse().unwrap(), home: Home::Server(server, database.name) }
    }
}

impl Place {
    pub(crate) async fn open(&self, tables: Option<&TableNames>) -> Result<SqlStore, OpenError> {
        SqlStore::open(&self.url, &DatabaseOptions::default(), tables).await
    }

    pub(crate) async fn migrate(
        &self,
        tables: Option<&TableNames>,
    ) -> Result<(SqlStore, Vec<&'static str>), OpenError> {
        SqlStore::migrate(&self.url, &DatabaseOptions::default(), tables).await
    }

    /// Runs plain SQL on a connection of its own, as another program would. Comes back with what that
    /// printed.
    pub(crate) async fn sql(&self, sql: &str) -> String {
        self.try_sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs plain SQL that may be refused.
    pub(crate) async fn try_sql(&self, sql: &str) -> Result<String, String> {
        match &self.home {
            Home::Directory(_) => sqlite(&self.url, sql).await.map(|()| String::new()),
            Home::SqlServerEmulator(server) => {
                emulator::try_sql(server, sql).await.map(|()| String::new())
            }
            Home::Server(server, name) => {
                let (server, name, sql) = (*server, name.clone(), sql.to_owned());
                let run = move || server.try_sql(&name, &sql);
                tokio::task::spawn_blocking(run).await.unwrap()
            }
        }
    }

    /// Runs plain SQL meanwhile.
    pub(crate) fn in_background(&self, sql: &str) -> std::thread::JoinHandle<()> {
        let Home::Server(server, name) = &self.home else { panic!("SQLite has no server") };
        let (server, name, sql) = (*server, name.clone(), sql.to_owned());
        std::thread::spawn(move || drop(server.sql(&name, &sql)))
    }

    pub(crate) fn scale(&self) -> Scale {
        match self.url.dialect() {
            // The emulator leaves out statements and values of more than 4,000 bytes, and takes its time.
            Dialect::SqlServer => Scale {
                methods: 2_000,
                users: 1_000,
                tokens: 1_000,
                letters: 900,
                name: 138,
                listed: 40,
            },
            // Its triggers are run for each row.
            Dialect::MySql => Scale { tokens: 100_000, ..LARGE },
            _ => LARGE,
        }
    }

    /// A number as 64 digits, in plain SQL.
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

    /// What a session says whose clock shows another time of the day than UTC.
    pub(crate) fn far_zone(&self) -> &'static str {
        match self.url.dialect() {
            Dialect::Postgres => "SET TIME ZONE 'Asia/Tokyo'; ",
            Dialect::MySql => "SET time_zone = '+09:00'; ",
            // They have no such setting.
            Dialect::Sqlite | Dialect::SqlServer => "",
        }
    }

    /// The server, where it is the SQL Server emulator.
    pub(crate) fn emulator(&self) -> &SqlServerEmulator {
        match &self.home {
            Home::SqlServerEmulator(server) => server,
            Home::Directory(_) | Home::Server(..) => panic!("it has none"),
        }
    }

    /// Returns the address of the server, or `None` for a file.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match &self.home {
            Home::Directory(_) => None,
            Home::Server(server, _) => Some(server.address()),
            Home::SqlServerEmulator(server) => Some(server.address()),
        }
    }

    /// Returns the URL with another address, which may be a proxy's.
    pub(crate) fn url_at(&self, address: SocketAddr) -> DatabaseUrl {
        let url = match &self.home {
            Home::Directory(_) => panic!("a file has no address"),
            Home::Server(server, name) => server.url(name, address),
            Home::SqlServerEmulator(server) => {
                server.url().replace(&server.address().to_string(), &address.to_string())
            }
        };
        url.parse().unwrap()
    }

    /// The time by the database's clock, in plain SQL.
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
    let done = connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))).await;
    connection.close().await.unwrap();
    done.map(drop).map_err(|error| error.to_string())
}

impl Place {
    /// What the database answers to a question.
    pub(crate) async fn told(&self, sql: &str) -> String {
        match &self.home {
            Home::Directory(_) => sqlite_texts(&self.url, sql).await.join("\n"),
            Home::SqlServerEmulator(server) => emulator::query(server, sql).await,
            Home::Server(server, name) => server.sql(name, sql),
        }
    }
}

/// What the first column of each row has, by SQLite's own account.
pub(crate) async fn sqlite_texts(url: &DatabaseUrl, sql: &str) -> Vec<String> {
    use sqlx::{Connection as _, Row as _};
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(url.path().unwrap());
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    let sql = sqlx::AssertSqlSafe(sql.to_owned());
    let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    rows.iter().map(|row| row.get_unchecked::<String, _>(0)).collect()
}

/// A registry, and where it is.
pub(crate) struct Registry {
    pub(crate) store: SqlStore,
    pub(crate) place: Place,
}
