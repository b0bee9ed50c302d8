//! Driver for SQL Server.
//!
//! Reads run outside a transaction: at the level `READ COMMITTED`, a transaction would not give them a snapshot.
//! Operations compare change counters instead. After an error the connection is closed, which rolls back its
//! transaction.

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

use crate::db::connect::{DatabaseOptions, OpenMode};
use crate::db::database::{self, Database, Purpose, Row, TransactionEnd, Value};
use crate::db::dialect::Dialect;
use crate::db::error::{DatabaseError, DatabaseErrorKind, OpenError, Result};
use address::Address;
use connection::ConnectionManager;

const BEGIN: &str = "BEGIN TRANSACTION";

/// Locks out other migrations.
const LOCK_MIGRATIONS: &str = "BEGIN TRANSACTION; \
    IF OBJECT_ID(N'callgate_migrations', N'U') IS NOT NULL \
    SELECT version FROM callgate_migrations WITH (TABLOCKX, HOLDLOCK)";

/// A query that returns a row if readers of the database wait for writers.
const READERS_WAIT: &str = "SELECT 1 FROM sys.databases \
    WHERE name = DB_NAME() AND is_read_committed_snapshot_on = 0";

/// A SQL Server with pooled connections.
pub(crate) struct SqlServer {
    pool: Pool<ConnectionManager>,
    address: String,
}

impl fmt::Debug for SqlServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqlServer").field(&self.address).finish()
    }
}

/// Connects to a server. Read-only access must be configured for the login: SQL Server's `ApplicationIntent=ReadOnly`
/// does not forbid writes, and may redirect to another server.
pub(crate) async fn connect(
    url: &Url,
    options: &DatabaseOptions,
    mode: OpenMode,
) -> Result<Box<dyn Database>, OpenError> {
    let parsed = Address::of(url)?;
    let address = parsed.to_string();
    let pool = Pool::builder(ConnectionManager::new(parsed, options))
        .config(PoolConfig {
            max_size: usize::try_from(options.max_connections).unwrap_or(1).max(1),
            timeouts: Timeouts {
                wait: Some(options.connect_timeout),
                // `ConnectionManager` has a time limit of its own.
                create: None,
                recycle: Some(options.connect_timeout),
            },
            // With this mode, unused connections can expire.
            queue_mode: QueueMode::Lifo,
        })
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| DatabaseError::new(DatabaseErrorKind::Other, error.to_string()))?;
    let server = SqlServer { pool, address };
    drop(server.connection().await?);
    if !mode.is_read_only() {
        server.warn_if_readers_wait(options.statement_timeout).await;
    }
    Ok(Box::new(server))
}

impl SqlServer {
    async fn connection(&self) -> Result<Object<ConnectionManager>> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error,
            PoolError::Timeout(_) => {
                let message = format!("no connection to `{}` was free in time", self.address);
                DatabaseError::new(DatabaseErrorKind::Unavailable, message)
            }
            error => DatabaseError::new(DatabaseErrorKind::Other, error.to_string()),
        })
    }

    async fn warn_if_readers_wait(&self, limit: Duration) {
        let Ok(mut connection) = self.connection().await else { return };
        let rows = connection.rows(READERS_WAIT, &[], limit).await;
        if rows.is_ok_and(|rows| !rows.is_empty()) {
            tracing::warn!(
                database = self.address,
                "readers of this database wait for writers, so servers cannot read the registry during a \
                 long import. Run `ALTER DATABASE … SET \
                 READ_COMMITTED_SNAPSHOT ON`; see docs/operate/databases.md"
            );
        }
    }
}

#[async_trait]
impl Database for SqlServer {
    fn dialect(&self) -> Dialect {
        Dialect::SqlServer
    }

    async fn acquire(&self, limit: Duration) -> Result<Box<dyn database::Connection>> {
        Ok(Box::new(PooledSqlServerConnection { connection: self.connection().await?, limit }))
    }

    async fn begin(
        &self,
        connection: &mut dyn database::Connection,
        purpose: Purpose,
    ) -> Result<TransactionEnd> {
        let begin = match (purpose, purpose.locked_counters()) {
            (Purpose::Read, _) => {
                let (commit, rollback) = (String::new(), Some(String::new()));
                return Ok(TransactionEnd { commit, rollback });
            }
            (Purpose::Migrate, _) => LOCK_MIGRATIONS.to_owned(),
            (_, None) => BEGIN.to_owned(),
            // Changes no value, but locks the counters in the order of the key.
            (_, Some(counters)) => format!(
                "{BEGIN}; UPDATE callgate_revisions SET value = value WHERE name IN ({counters})"
            ),
        };
        connection.script(&begin).await?;
        Ok(TransactionEnd { commit: "COMMIT TRANSACTION".to_owned(), rollback: None })
    }
}

/// A connection in use.
struct PooledSqlServerConnection {
    connection: Object<ConnectionManager>,
    limit: Duration,
}

#[async_trait]
impl database::Connection for PooledSqlServerConnection {
    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.connection.rows(sql, values, self.limit).await
    }

    /// Runs the batches between lines with `GO` one by one, like `sqlcmd`.
    async fn script(&mut self, sql: &str) -> Result<()> {
        for batch in values::batches(sql) {
            self.connection.batch(&batch, self.limit).await?;
        }
        Ok(())
    }

    fn close(self: Box<Self>) {
        drop(Object::take(self.connection));
    }
}
