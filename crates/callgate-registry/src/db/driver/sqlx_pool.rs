//! Connection pool of the drivers for PostgreSQL and MySQL, with time limits and transactions.
//!
//! The server enforces a time limit on each statement. If the connection is lost, there is no response at all, so the
//! client gives up a little later and closes the connection.

use std::future::Future;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::pool::{Pool, PoolConnection, PoolOptions};
use url::Url;

use crate::db::connect::DatabaseOptions;
use crate::db::database::{Purpose, Row, Transaction, Value};
use crate::db::driver::sqlx_driver::SqlxDriver;
use crate::db::error::{DatabaseError, DatabaseErrorKind, Result, UrlError};

/// Difference between the time limit of the server and that of the client.
const GRACE: Duration = Duration::from_secs(1);
/// Idle timeout of connections.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of the ping before a pooled connection is used. A connection that a router has dropped does not respond
/// and is replaced.
const PING_TIMEOUT: Duration = Duration::from_millis(300);
/// Idle timeout of transactions. It makes the database release the locks of a server that has disconnected.
pub(crate) const IDLE_IN_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(15);

/// Statements that begin and end a transaction.
#[derive(Debug)]
pub(crate) struct TransactionSql {
    pub(crate) begin: String,
    /// Text that is appended to `COMMIT` or `ROLLBACK`.
    pub(crate) end: String,
    /// Whether the connection is returned to the pool afterwards.
    pub(crate) is_kept: bool,
}

/// A connection pool.
pub(crate) struct ServerPool<D: SqlxDriver> {
    pool: Pool<D>,
    pub(super) options: DatabaseOptions,
}

/// Omits the connect options, which contain the password.
impl<D: SqlxDriver> std::fmt::Debug for ServerPool<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerPool").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<D: SqlxDriver> ServerPool<D> {
    /// Creates a pool. `session` runs first on each new connection.
    pub(crate) fn new(
        connect: <D::Connection as sqlx::Connection>::Options,
        session: String,
        options: &DatabaseOptions,
    ) -> Self {
        let pool = PoolOptions::new()
            .max_connections(options.max_connections)
            .acquire_timeout(options.connect_timeout)
            .idle_timeout(IDLE_TIMEOUT)
            // The ping of the pool itself has no time limit.
            .test_before_acquire(false)
            .before_acquire(|connection: &mut D::Connection, _| {
                Box::pin(async move {
                    let answer = tokio::time::timeout(PING_TIMEOUT, connection.ping()).await;
                    Ok(matches!(answer, Ok(Ok(()))))
                })
            })
            .after_connect(move |connection, _| {
                let session = session.clone();
                Box::pin(async move {
                    let done = D::run(connection, &session).await;
                    done.map_err(|error| sqlx::Error::Configuration(error.into()))
                })
            })
            .connect_lazy_with(connect);
        Self { pool, options: options.clone() }
    }

    pub(crate) async fn rows(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.acquire(self.options.statement_timeout).await?.rows(sql, values).await
    }

    /// Begins a transaction, and locks the counters that its purpose needs.
    pub(crate) async fn begin(
        &self,
        purpose: Purpose,
        frame: TransactionSql,
    ) -> Result<ServerTransaction<D>> {
        let TransactionSql { mut begin, end, is_kept } = frame;
        if let Some(counters) = purpose.locked() {
            begin.extend([
                "; SELECT 1 FROM callgate_revisions WHERE name IN (",
                counters,
                ") ORDER BY name FOR UPDATE",
            ]);
        }
        let mut held = self.acquire(purpose.limit(&self.options)).await?;
        held.is_kept = is_kept;
        let mut pending = ServerTransaction { held: Some(held), end };
        pending.held()?.run(&begin).await?;
        Ok(pending)
    }

    async fn acquire(&self, limit: Duration) -> Result<PooledConnection<D>> {
        match self.pool.acquire().await {
            Ok(connection) => {
                Ok(PooledConnection { connection, limit, is_sound: true, is_kept: true })
            }
            Err(sqlx::Error::PoolTimedOut) => Err(unavailable(format!(
                "could not connect to the database within {}",
                seconds(self.options.connect_timeout)
            ))),
            Err(error) => Err(error.into()),
        }
    }
}

/// A connection in use.
struct PooledConnection<D: SqlxDriver> {
    connection: PoolConnection<D>,
    limit: Duration,
    /// Whether no reply is outstanding on the connection.
    is_sound: bool,
    is_kept: bool,
}

impl<D: SqlxDriver> PooledConnection<D> {
    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let statement = D::rows(&mut self.connection, sql, values);
        limited(self.limit, &mut self.is_sound, statement).await
    }

    async fn run(&mut self, sql: &str) -> Result<()> {
        let statement = D::run(&mut self.connection, sql);
        limited(self.limit, &mut self.is_sound, statement).await
    }
}

/// Closes the connection if a reply is outstanding, or if the connection is not to be kept.
impl<D: SqlxDriver> Drop for PooledConnection<D> {
    fn drop(&mut self) {
        if !self.is_sound || !self.is_kept {
            self.connection.close_on_drop();
        }
    }
}

pub(crate) struct ServerTransaction<D: SqlxDriver> {
    held: Option<PooledConnection<D>>,
    end: String,
}

impl<D: SqlxDriver> ServerTransaction<D> {
    fn held(&mut self) -> Result<&mut PooledConnection<D>> {
        self.held.as_mut().ok_or_else(|| unavailable("the transaction is over".to_owned()))
    }
}

#[async_trait]
impl<D: SqlxDriver> Transaction for ServerTransaction<D> {
    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.held()?.rows(sql, values).await
    }

    async fn script(&mut self, sql: &str) -> Result<()> {
        self.held()?.run(sql).await
    }

    async fn commit(mut self: Box<Self>) -> Result<()> {
        let commit = format!("COMMIT{}", self.end);
        self.held()?.run(&commit).await?;
        self.held = None;
        Ok(())
    }
}

impl<D: SqlxDriver> Drop for ServerTransaction<D> {
    fn drop(&mut self) {
        let Some(mut held) = self.held.take().filter(|held| held.is_sound && held.is_kept) else {
            return;
        };
        let rollback = format!("ROLLBACK{}", self.end);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // If this fails, closing the connection also rolls back.
                if held.run(&rollback).await.is_err() {
                    held.connection.close_on_drop();
                }
            });
        }
    }
}

/// Fails if the server does not respond within its own time limit plus a grace period.
async fn limited<T>(
    limit: Duration,
    is_sound: &mut bool,
    statement: impl Future<Output = Result<T>>,
) -> Result<T> {
    *is_sound = false;
    let answered = tokio::time::timeout(limit + GRACE, statement).await;
    let done = answered.unwrap_or_else(|_| {
        Err(unavailable(format!("the database did not respond within {}", seconds(limit + GRACE))))
    });
    *is_sound = !matches!(&done, Err(error) if error.kind == DatabaseErrorKind::Unavailable);
    done
}

/// Opens the first connection, so that errors are reported immediately.
pub(crate) async fn first<D: SqlxDriver>(
    connect: &<D::Connection as sqlx::Connection>::Options,
    options: &DatabaseOptions,
) -> Result<D::Connection> {
    let connecting = async { Ok(sqlx::ConnectOptions::connect(connect).await?) };
    let connected = tokio::time::timeout(options.connect_timeout, connecting).await;
    connected.unwrap_or_else(|_| {
        let limit = seconds(options.connect_timeout);
        Err(unavailable(format!("could not connect to the database within {limit}")))
    })
}

/// Returns `true` if the server is on another machine and the URL does not specify how to verify it.
pub(crate) fn must_verify(url: &Url, (host, socket): (&str, Option<&PathBuf>)) -> bool {
    let is_defined = url.query_pairs().any(|(name, _)| matches!(&*name, "sslmode" | "ssl-mode"));
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let is_loopback = host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback());
    !is_defined && socket.is_none() && !is_loopback
}

/// Refuses unknown parameters. The user may have meant them to protect the connection.
pub(crate) fn check_parameters(url: &Url, known: &[&str]) -> Result<(), UrlError> {
    let unknown = url.query_pairs().find(|(name, _)| !known.contains(&name.as_ref()));
    let Some((name, _)) = unknown else { return Ok(()) };
    let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    Err(UrlError::Parameter { name: name.into_owned(), expected: format!("one of {known}") })
}

fn unavailable(message: String) -> DatabaseError {
    DatabaseError::new(DatabaseErrorKind::Unavailable, message)
}

fn seconds(limit: Duration) -> String {
    format!("{} s", limit.as_secs_f64())
}

#[cfg(test)]
#[cfg(all(feature = "mysql", feature = "postgres"))]
mod tests;
