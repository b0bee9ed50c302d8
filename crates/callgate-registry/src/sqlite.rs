//! The registry on SQLite.

mod edit;
mod festi;
mod import;
mod load;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _, SqliteConnection};

pub use festi::{FestiPrefix, FestiRows, read_festi};

use crate::migrate::{self, Migration};
use crate::store::{DatabaseError, DatabaseErrorKind, Result, Store, StoreError};
use crate::tables::TableNames;

/// How long to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to pause where SQLite does not wait by itself.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// The registry's note of what its tables are called.
const TABLES: &str = "tables";

/// A registry in a file.
#[derive(Debug)]
pub struct SqliteStore {
    pool: SqlitePool,
    tables: TableNames,
    path: PathBuf,
    file: Option<FileId>,
}

impl Store for SqliteStore {}

impl SqliteStore {
    /// Opens a registry that is there. Its own note says what the tables are called; `tables`, if
    /// given, must agree.
    pub async fn open(path: &Path, tables: Option<&TableNames>) -> Result<Self> {
        if !path.exists() {
            return Err(StoreError::Missing(path.display().to_string()));
        }
        let mut connection = SqliteConnection::connect_with(&options(path)).await?;
        let version = applied_version(&mut connection).await?;
        check_version(version)?;
        if version == 0 {
            return Err(StoreError::Missing(path.display().to_string()));
        }
        if version < newest_version() {
            return Err(StoreError::Older { found: version, needed: newest_version() });
        }
        let noted = noted_tables(&mut connection).await?.unwrap_or_default();
        connection.close().await?;
        if tables.is_some_and(|tables| *tables != noted) {
            return Err(StoreError::OtherTables);
        }
        Self::connect(path, noted).await
    }

    /// Opens a registry and brings it up to date, making it first if it is not there. Comes back
    /// with the names of the migrations that were applied.
    pub async fn migrate(
        path: &Path,
        tables: Option<&TableNames>,
    ) -> Result<(Self, Vec<&'static str>)> {
        let mut connection =
            SqliteConnection::connect_with(&options(path).create_if_missing(true)).await?;
        // In one moment, since another process may be making it just now.
        let mut moment = connection.begin().await?;
        let is_ours = applied_version(&mut moment).await? > 0;
        let noted = if is_ours { noted_tables(&mut moment).await? } else { None };
        let names = match (noted, tables) {
            (Some(noted), Some(tables)) if noted != *tables => return Err(StoreError::OtherTables),
            (Some(noted), _) => noted,
            (None, tables) => tables.cloned().unwrap_or_default(),
        };
        if !is_ours {
            refuse_foreign_tables(&mut moment, &names).await?;
        }
        moment.rollback().await?;
        use_wal(&mut connection).await?;
        let applied = apply(&mut connection, &names, migrate::SQLITE).await?;
        connection.close().await?;
        Ok((Self::connect(path, names).await?, applied))
    }

    async fn connect(path: &Path, tables: TableNames) -> Result<Self> {
        let options = options(path).synchronous(SqliteSynchronous::Normal);
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
        Ok(Self { pool, tables, path: path.to_owned(), file: file_id(path) })
    }

    /// An open file goes on to be read after another has taken its place; nobody would notice that
    /// what they change there does not count.
    fn check_file(&self) -> Result<()> {
        if file_id(&self.path) == self.file {
            return Ok(());
        }
        Err(StoreError::Replaced(self.path.display().to_string()))
    }

    /// SQL with the tables' names in it.
    fn sql(&self, template: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(self.tables.expand(template))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let (message, kind) = match &error {
            sqlx::Error::Database(said) if said.is_unique_violation() => {
                (said.message().to_owned(), DatabaseErrorKind::Taken)
            }
            sqlx::Error::Database(said) => (said.message().to_owned(), kind(&**said)),
            sqlx::Error::PoolTimedOut | sqlx::Error::Io(_) => {
                (error.to_string(), DatabaseErrorKind::Away)
            }
            _ => (error.to_string(), DatabaseErrorKind::Other),
        };
        Self::Database(DatabaseError { message, kind })
    }
}

/// By SQLite's primary code, which is the low byte.
fn kind(error: &dyn sqlx::error::DatabaseError) -> DatabaseErrorKind {
    let code = error.code().and_then(|code| code.parse::<i32>().ok()).map(|code| code & 0xff);
    match code {
        Some(5 | 6) => DatabaseErrorKind::Busy,
        Some(8) => DatabaseErrorKind::ReadOnly,
        Some(11) => DatabaseErrorKind::Damaged,
        Some(13) => DatabaseErrorKind::Full,
        Some(14) => DatabaseErrorKind::CannotOpen,
        Some(26) => DatabaseErrorKind::Foreign,
        _ => DatabaseErrorKind::Other,
    }
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
}

/// Which file it is: device and number, where the system has them.
type FileId = (u64, u64);

#[cfg(unix)]
fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn file_id(path: &Path) -> Option<FileId> {
    path.exists().then_some((0, 0))
}

/// The newest migration that this database has; 0 where it has none.
async fn applied_version(connection: &mut SqliteConnection) -> Result<i64> {
    let there =
        "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'callgate_migrations'";
    let there: i64 = sqlx::query(there).fetch_one(&mut *connection).await?.try_get(0)?;
    if there == 0 {
        return Ok(0);
    }
    let newest = "SELECT COALESCE(MAX(version), 0) FROM callgate_migrations";
    Ok(sqlx::query(newest).fetch_one(connection).await?.try_get(0)?)
}

async fn noted_tables(connection: &mut SqliteConnection) -> Result<Option<TableNames>> {
    let row = sqlx::query("SELECT value FROM callgate_meta WHERE name = ?")
        .bind(TABLES)
        .fetch_optional(connection)
        .await?;
    let value: Option<String> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(value.and_then(|value| serde_json::from_str(&value).ok()))
}

/// With a write-ahead log, readers and a writer do not wait for each other. The file keeps it; it is
/// set only when the file is known to be ours. SQLite does not wait for others here by itself.
async fn use_wal(connection: &mut SqliteConnection) -> Result<()> {
    let started = Instant::now();
    loop {
        let error = match sqlx::query("PRAGMA journal_mode = WAL").execute(&mut *connection).await {
            Ok(_) => return Ok(()),
            Err(error) => StoreError::from(error),
        };
        if !error.is_busy() || started.elapsed() > BUSY_TIMEOUT {
            return Err(error);
        }
        tokio::time::sleep(BUSY_PAUSE).await;
    }
}

async fn refuse_foreign_tables(
    connection: &mut SqliteConnection,
    tables: &TableNames,
) -> Result<()> {
    for name in tables.all() {
        let found = sqlx::query("SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE")
            .bind(&name)
            .fetch_optional(&mut *connection)
            .await?;
        if found.is_some() {
            return Err(StoreError::TableTaken(name));
        }
    }
    Ok(())
}

fn check_version(found: i64) -> Result<()> {
    let known = newest_version();
    if found > known { Err(StoreError::Newer { found, known }) } else { Ok(()) }
}

fn newest_version() -> i64 {
    migrate::SQLITE.last().map_or(0, |migration| migration.version)
}

/// Applies what is missing, all in one transaction that keeps other processes out.
async fn apply(
    connection: &mut SqliteConnection,
    tables: &TableNames,
    migrations: &[Migration],
) -> Result<Vec<&'static str>> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS callgate_migrations (
             version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL
         )",
    )
    .execute(&mut *transaction)
    .await?;
    let version = applied_version(&mut transaction).await?;
    check_version(version)?;
    let mut applied = Vec::new();
    for migration in migrations.iter().filter(|migration| migration.version > version) {
        let sql = AssertSqlSafe(tables.expand(migration.sql));
        sqlx::raw_sql(sql).execute(&mut *transaction).await?;
        sqlx::query("INSERT INTO callgate_migrations VALUES (?, ?, unixepoch())")
            .bind(migration.version)
            .bind(migration.name)
            .execute(&mut *transaction)
            .await?;
        applied.push(migration.name);
    }
    if version == 0 {
        let names = serde_json::to_string(tables).unwrap_or_default();
        sqlx::query("INSERT INTO callgate_meta (name, value) VALUES (?, ?)")
            .bind(TABLES)
            .bind(names)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(applied)
}
