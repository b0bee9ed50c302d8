//! Driver for SQLite.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::sqlite::{
    SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, Sqlite, SqliteConnection};
use tokio::sync::{Mutex, watch};

use crate::db::connect::{DatabaseOptions, OpenMode};
use crate::db::database::{Cell, Connection, Database, Purpose, Row, TransactionEnd, Value};
use crate::db::dialect::Dialect;
use crate::db::driver::sqlx_driver::{PooledSqlxConnection, impl_sqlx_driver};
use crate::db::error::{DatabaseError, DatabaseErrorKind, OpenError, Result};

/// Interval between attempts to switch the journal mode.
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(20);

/// Maximum number of rows that the reading thread buffers.
const ROW_BUFFER_SIZE: usize = 1024;

/// Number of open files, including files that aborted tasks still use.
static OPEN_FILES: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// Waits until all files are closed, but at most for `limit`. If the process exits earlier, write-ahead logs are left
/// in the directories of the files.
pub async fn wait_for_closed_files(limit: Duration) {
    let mut count = OPEN_FILES.subscribe();
    let _ = tokio::time::timeout(limit, count.wait_for(|count| *count == 0)).await;
}

/// A database file with pooled connections.
#[derive(Debug)]
struct SqliteFile {
    pool: SqlitePool,
    path: PathBuf,
    file: Option<FileId>,
    /// Maximum time to wait for another writer.
    write_timeout: Duration,
    /// Counts the file as open. When this struct is dropped, the task that closes the connections takes the guard,
    /// so the file is counted until they are closed.
    open: Option<OpenGuard>,
}

/// Opens a file.
pub(crate) async fn connect(
    path: &Path,
    options: &DatabaseOptions,
    mode: OpenMode,
) -> Result<Box<dyn Database>, OpenError> {
    if mode == OpenMode::Existing && !path.exists() {
        return Err(OpenError::Missing(path.display().to_string()));
    }
    if mode == OpenMode::Create {
        create_private(path);
    }
    let connect_options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(mode.is_read_only())
        .immutable(mode == OpenMode::ReadOnce && is_closed_with_wal(path))
        .busy_timeout(options.statement_timeout)
        .synchronous(SqliteSynchronous::Normal)
        .row_buffer_size(ROW_BUFFER_SIZE)
        .disable_statement_logging();
    let pool = SqlitePoolOptions::new()
        .max_connections(options.max_connections)
        .acquire_timeout(options.connect_timeout + options.statement_timeout)
        // A file has no connection that could be lost, and the pool pings released connections anyway.
        .test_before_acquire(false)
        .connect_with(connect_options)
        .await
        .map_err(DatabaseError::from)?;
    let write_timeout = options.statement_timeout;
    let (path, file, open) = (path.to_owned(), file_id(path), Some(OpenGuard::new()));
    Ok(Box::new(SqliteFile { pool, path, file, write_timeout, open }))
}

/// Counts a file as open until the guard is dropped.
#[derive(Debug)]
struct OpenGuard;

impl OpenGuard {
    fn new() -> Self {
        OPEN_FILES.send_modify(|count| *count += 1);
        Self
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        OPEN_FILES.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Drop for SqliteFile {
    fn drop(&mut self) {
        let (pool, open) = (self.pool.clone(), self.open.take());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                close(&pool).await;
                drop(open);
            });
        }
    }
}

/// Closes the connections one after another. SQLite removes the log when the last connection closes, but not if two
/// connections close at the same time.
async fn close(pool: &SqlitePool) {
    static CLOSE_LOCK: Mutex<()> = Mutex::const_new(());
    let _guard = CLOSE_LOCK.lock().await;
    let mut last = pool.try_acquire().map(sqlx::pool::PoolConnection::detach);
    if let Some(last) = &mut last {
        // A connection that has not read anything has not opened the log, so it would not remove the log.
        let _ = sqlx::query("SELECT 1 FROM sqlite_schema LIMIT 1").execute(last).await;
    }
    pool.close().await;
    if let Some(last) = last {
        let _ = last.close().await;
    }
}

/// If the file does not exist, creates it so that other users cannot read it. SQLite gives its log files the same
/// mode. Errors are ignored here, because SQLite reports them.
fn create_private(path: &Path) {
    // An existing file is not opened, because closing it would release the locks of this process.
    if path.exists() {
        return;
    }
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.write(true).create(true).truncate(false).open(path);
}

/// Returns `true` if a database is in WAL mode and no process has it open. If such a database were opened normally,
/// SQLite would create log files and not delete them.
fn is_closed_with_wal(path: &Path) -> bool {
    let mut header = [0; 20];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    read.is_ok() && header.ends_with(&[2, 2]) && !Path::new(&log).exists()
}

#[async_trait]
impl Database for SqliteFile {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    /// Ignores the time limit. SQLite limits only the time that a statement waits for another writer.
    async fn acquire(&self, _: Duration) -> Result<Box<dyn Connection>> {
        Ok(Box::new(PooledSqlxConnection::new(self.pool.acquire().await?, Duration::MAX)))
    }

    async fn begin(
        &self,
        connection: &mut dyn Connection,
        purpose: Purpose,
    ) -> Result<TransactionEnd> {
        // A deferred transaction could not write after another writer has committed.
        let begin = if purpose == Purpose::Read { "BEGIN" } else { "BEGIN IMMEDIATE" };
        connection.script(begin).await?;
        // SQLite rolls back by itself in some cases, for example if the disk is full. `ROLLBACK` then fails, and the
        // connection is closed.
        let (commit, rollback) = ("COMMIT".to_owned(), Some("ROLLBACK".to_owned()));
        Ok(TransactionEnd { commit, rollback })
    }

    /// Switches to a write-ahead log, so that readers and the writer do not block each other. The mode is stored in the
    /// file.
    async fn prepare(&self) -> Result<()> {
        use_wal(&mut *self.pool.acquire().await?, self.write_timeout).await
    }

    /// Moves writes from the write-ahead log to the database file. If no other connection is reading, the file can then be
    /// copied without the log.
    async fn checkpoint(&self) -> Result<()> {
        // Does not wait for readers. Pages that they still use stay in the log.
        sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&self.pool).await?;
        Ok(())
    }

    /// Fails if the file was replaced, because changes of the new file would not be noticed.
    fn check(&self) -> Result<()> {
        if file_id(&self.path) == self.file {
            return Ok(());
        }
        let message = format!(
            "the file `{}` was replaced or removed since it was opened",
            self.path.display()
        );
        Err(DatabaseError::new(DatabaseErrorKind::Replaced, message))
    }
}

impl_sqlx_driver!(Sqlite, str::to_owned, std::convert::identity, cell);

fn cell(row: &SqliteRow, index: usize, type_name: &str) -> Result<Cell> {
    if type_name == "INTEGER" {
        return Ok(Cell::Int(row.try_get_unchecked(index)?));
    }
    Ok(Cell::from_bytes(row.try_get_unchecked(index)?))
}

/// Switches to a write-ahead log. Retries, because SQLite's busy timeout does not apply to this statement.
async fn use_wal(connection: &mut SqliteConnection, write_timeout: Duration) -> Result<()> {
    let started = Instant::now();
    loop {
        let error = match sqlx::query("PRAGMA journal_mode = WAL").execute(&mut *connection).await {
            Ok(_) => return Ok(()),
            Err(error) => DatabaseError::from(error),
        };
        if !error.is_busy() || started.elapsed() > write_timeout {
            return Err(error);
        }
        tokio::time::sleep(BUSY_RETRY_DELAY).await;
    }
}

/// Device and inode of a file.
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
