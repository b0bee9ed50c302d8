//! The driver for SQL Server.
//!
//! A transaction for reading is none here: under READ COMMITTED it would promise nothing that single
//! statements do not, and the operations look at the revision before and after. Whoever fails in a
//! transaction loses it, and its connection with it: so nothing of it can be committed by mistake.

mod address;
mod connection;
mod error;
mod values;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use deadpool::Runtime;
use deadpool::managed::{Object, Pool, PoolConfig, PoolError, QueueMode, Timeouts};
use url::Url;

use crate::db::connect::{DatabaseOptions, Wanted};
use crate::db::database::{Database, Dialect, Purpose, Row, Transaction, Value};
use crate::db::error::{DatabaseError, DatabaseErrorKind, OpenError, Result};
use address::Address;
use connection::{Connection, Connections};

const BEGIN: &str = "BEGIN TRANSACTION";

/// Of two that make the table, one waits and is then told that it is there.
const LOCK_MIGRATIONS: &str = "BEGIN TRANSACTION; \
    IF OBJECT_ID(N'callgate_migrations', N'U') IS NOT NULL \
    SELECT version FROM callgate_migrations WITH (TABLOCKX, HOLDLOCK)";

/// Whether those who read wait for those who write.
const READERS_WAIT: &str = "SELECT 1 FROM sys.databases \
    WHERE name = DB_NAME() AND is_read_committed_snapshot_on = 0";

/// SQL Server, with connections that are kept.
pub(crate) struct SqlServer {
    pool: Pool<Connections>,
    shown: String,
    options: DatabaseOptions,
}

impl fmt::Debug for SqlServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqlServer").field(&self.shown).finish()
    }
}

/// Connects once, to see that it can be done.
///
/// That it is only to be read is for the rights of its login to say: what SQL Server calls the intent to read
/// forbids nothing, and may lead to another server.
pub(crate) async fn connect(
    url: &Url,
    options: &DatabaseOptions,
    wanted: Wanted,
) -> Result<Box<dyn Database>, OpenError> {
    let address = Address::of(url)?;
    let shown = address.to_string();
    let pool = Pool::builder(Connections::new(address, options))
        .config(PoolConfig {
            max_size: usize::try_from(options.max_connections).unwrap_or(1).max(1),
            timeouts: Timeouts {
                wait: Some(options.connect_timeout),
                // It has a limit of its own.
                create: None,
                recycle: Some(options.connect_timeout),
            },
            // So that what is not needed is not used.
            queue_mode: QueueMode::Lifo,
        })
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| DatabaseError::new(DatabaseErrorKind::Other, error.to_string()))?;
    let server = SqlServer { pool, shown, options: options.clone() };
    drop(server.connection().await?);
    if wanted == Wanted::There {
        server.warn_if_readers_wait().await;
    }
    Ok(Box::new(server))
}

impl SqlServer {
    async fn connection(&self) -> Result<Object<Connections>> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error,
            PoolError::Timeout(_) => {
                let message = format!("no connection to `{}` was free in time", self.shown);
                DatabaseError::new(DatabaseErrorKind::Unavailable, message)
            }
            error => DatabaseError::new(DatabaseErrorKind::Other, error.to_string()),
        })
    }

    /// One that does not say is not warned of.
    async fn warn_if_readers_wait(&self) {
        if self.rows(READERS_WAIT, &[]).await.is_ok_and(|rows| !rows.is_empty()) {
            tracing::warn!(
                database = self.shown,
                "whoever reads from this database waits for whoever writes: during a long import, \
                 every gateway is without its registry. Run `ALTER DATABASE … SET \
                 READ_COMMITTED_SNAPSHOT ON` in it; see docs/operate/databases.md"
            );
        }
    }
}

#[async_trait]
impl Database for SqlServer {
    fn dialect(&self) -> Dialect {
        Dialect::SqlServer
    }

    async fn rows(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let mut connection = self.connection().await?;
        connection.rows(sql, values, self.options.statement_timeout).await
    }

    async fn begin(&self, purpose: Purpose) -> Result<Box<dyn Transaction>> {
        let limit = purpose.limit(&self.options);
        let begin = match (purpose, purpose.locked()) {
            (Purpose::Read, _) => None,
            (Purpose::Migrate, _) => Some(LOCK_MIGRATIONS.to_owned()),
            (_, None) => Some(BEGIN.to_owned()),
            // Changes nothing, and locks what triggers change, in the order of the key.
            (_, Some(counters)) => Some(format!(
                "{BEGIN}; UPDATE callgate_revisions SET value = value WHERE name IN ({counters})"
            )),
        };
        let connection = self.connection().await?;
        let mut open = Open { connection: Some(connection), is_begun: begin.is_some(), limit };
        if let Some(begin) = begin {
            open.connection()?.batch(&begin, limit).await?;
        }
        Ok(Box::new(open))
    }
}

/// A transaction under way.
struct Open {
    /// `None` once it has ended.
    connection: Option<Object<Connections>>,
    /// Whether there is something to commit, or to leave.
    is_begun: bool,
    limit: Duration,
}

impl Open {
    fn connection(&mut self) -> Result<&mut Connection> {
        let ended = || DatabaseError::new(DatabaseErrorKind::Other, "the transaction has ended");
        self.connection.as_deref_mut().ok_or_else(ended)
    }
}

#[async_trait]
impl Transaction for Open {
    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let limit = self.limit;
        self.connection()?.rows(sql, values, limit).await
    }

    /// What stands between lines with `GO` is sent one by one, as the database's own tools do.
    async fn script(&mut self, sql: &str) -> Result<()> {
        let limit = self.limit;
        for batch in values::batches(sql) {
            self.connection()?.batch(&batch, limit).await?;
        }
        Ok(())
    }

    async fn commit(mut self: Box<Self>) -> Result<()> {
        if self.is_begun {
            let limit = self.limit;
            self.connection()?.batch("COMMIT TRANSACTION", limit).await?;
            self.is_begun = false;
        }
        Ok(())
    }
}

/// The server takes back what was not committed when the connection goes.
impl Drop for Open {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take().filter(|_| self.is_begun) {
            drop(Object::take(connection));
        }
    }
}
