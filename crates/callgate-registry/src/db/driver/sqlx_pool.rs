//! Connection pool of the drivers for PostgreSQL and MySQL, with time limits.
//!
//! The database enforces a time limit on each statement. If the connection is lost, there is no response at all.
//! Therefore the client gives up a little later than the database would, and closes the connection.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::pool::{Pool, PoolOptions};
use url::Url;

use crate::db::connect::DatabaseOptions;
use crate::db::database::{Connection, Purpose};
use crate::db::driver::sqlx_driver::{
    PooledSqlxConnection, SqlxDriver, format_seconds, unavailable,
};
use crate::db::error::{DatabaseError, Result, UrlError};

/// Time by which the client's time limit for a statement is longer than that of the database.
const GRACE: Duration = Duration::from_secs(1);
/// Idle timeout of connections.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of the ping before a pooled connection is used. A connection that a router has dropped does not respond
/// and is replaced.
const PING_TIMEOUT: Duration = Duration::from_millis(300);
/// Idle timeout of transactions. It makes the database release the locks of a server that has disconnected.
pub(crate) const IDLE_IN_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(15);

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
        connect_options: <D::Connection as sqlx::Connection>::Options,
        init_statements: String,
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
                    let ping = tokio::time::timeout(PING_TIMEOUT, connection.ping()).await;
                    Ok(matches!(ping, Ok(Ok(()))))
                })
            })
            .after_connect(move |connection, _| {
                let init_statements = init_statements.clone();
                Box::pin(async move {
                    let result = D::run(connection, &init_statements).await;
                    result.map_err(|error| sqlx::Error::Configuration(error.into()))
                })
            })
            .connect_lazy_with(connect_options);
        Self { pool, options: options.clone() }
    }

    /// Returns a free connection. The client waits for a statement a little longer than the database's time limit.
    pub(crate) async fn acquire(&self, limit: Duration) -> Result<Box<dyn Connection>> {
        match self.pool.acquire().await {
            Ok(connection) => Ok(Box::new(PooledSqlxConnection::new(connection, limit + GRACE))),
            Err(sqlx::Error::PoolTimedOut) => Err(connect_timeout_error(&self.options)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the statement that locks the counters of a purpose.
pub(crate) fn lock_counters(purpose: Purpose) -> String {
    let lock = |counters| {
        format!(
            "; SELECT 1 FROM callgate_revisions WHERE name IN ({counters}) ORDER BY name FOR UPDATE"
        )
    };
    purpose.locked_counters().map(lock).unwrap_or_default()
}

/// Opens the first connection, so that errors are reported immediately.
pub(crate) async fn connect_first<D: SqlxDriver>(
    connect_options: &<D::Connection as sqlx::Connection>::Options,
    options: &DatabaseOptions,
) -> Result<D::Connection> {
    let connecting = async { Ok(sqlx::ConnectOptions::connect(connect_options).await?) };
    let result = tokio::time::timeout(options.connect_timeout, connecting).await;
    result.unwrap_or_else(|_| Err(connect_timeout_error(options)))
}

fn connect_timeout_error(options: &DatabaseOptions) -> DatabaseError {
    let limit = format_seconds(options.connect_timeout);
    unavailable(format!("could not connect to the database within {limit}"))
}

/// Returns `true` if the server is on another machine and the URL does not specify how to verify it.
pub(crate) fn must_verify(url: &Url, (host, socket): (&str, Option<&PathBuf>)) -> bool {
    let is_specified = url.query_pairs().any(|(name, _)| matches!(&*name, "sslmode" | "ssl-mode"));
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let is_loopback = host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback());
    !is_specified && socket.is_none() && !is_loopback
}

/// Refuses unknown parameters. The user may have meant them to protect the connection.
pub(crate) fn check_parameters(url: &Url, supported: &[&str]) -> Result<(), UrlError> {
    let unknown = url.query_pairs().find(|(name, _)| !supported.contains(&name.as_ref()));
    let Some((name, _)) = unknown else { return Ok(()) };
    let supported = supported.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    Err(UrlError::Parameter { name: name.into_owned(), expected: format!("one of {supported}") })
}

#[cfg(test)]
#[cfg(all(feature = "mysql", feature = "postgres"))]
mod tests;
