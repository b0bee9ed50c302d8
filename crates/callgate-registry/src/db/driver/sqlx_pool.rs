//! What PostgreSQL and MySQL have in common: connections that are kept, statements that may take so long
//! and no longer, and transactions.
//!
//! The server has a limit of its own for each statement. One that was cut off says nothing at all, so a
//! little later the wait ends here too, and the connection is given up.

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::pool::{Pool, PoolConnection, PoolOptions};
use url::Url;

use crate::db::connect::DatabaseOptions;
use crate::db::database::{Purpose, Row, Transaction, Value};
use crate::db::error::{DatabaseError, DatabaseErrorKind, Result, UrlError};

/// How much later than the server this side gives up.
const GRACE: Duration = Duration::from_secs(1);
/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(30);
/// How long a connection that was kept may take to say that it is there. One that a router has forgotten says
/// nothing; a new one is made in its place, also of one that is only slow.
const PING_LIMIT: Duration = Duration::from_millis(300);
/// How long the server lets a transaction wait for its next statement: the locks of a gateway that was cut
/// off are held no longer.
pub(crate) const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(15);

/// A database that sqlx speaks to.
#[async_trait]
pub(crate) trait Talk: sqlx::Database {
    /// Runs one statement.
    async fn rows(
        connection: &mut Self::Connection,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>>;

    /// Runs statements without values; their rows do not count.
    async fn run(connection: &mut Self::Connection, sql: &str) -> Result<()>;
}

/// What a transaction stands between.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) begin: String,
    /// Behind `COMMIT` or `ROLLBACK`.
    pub(crate) end: String,
    /// Whether others may have the connection afterwards.
    pub(crate) is_kept: bool,
}

/// A server, with connections to it.
pub(crate) struct Pooled<D: Talk> {
    pool: Pool<D>,
    options: DatabaseOptions,
}

/// Not what it connects with, which has the password.
impl<D: Talk> std::fmt::Debug for Pooled<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pooled").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<D: Talk> Pooled<D> {
    /// Connections are made as they are needed; each begins with `session`.
    pub(crate) fn new(
        connect: <D::Connection as sqlx::Connection>::Options,
        session: String,
        options: &DatabaseOptions,
    ) -> Self {
        let pool = PoolOptions::new()
            .max_connections(options.max_connections)
            .acquire_timeout(options.connect_timeout)
            .idle_timeout(IDLE)
            // Its own look at a connection has no limit.
            .test_before_acquire(false)
            .before_acquire(|connection: &mut D::Connection, _| {
                Box::pin(async move {
                    let answer = tokio::time::timeout(PING_LIMIT, connection.ping()).await;
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

    pub(crate) async fn begin(&self, purpose: Purpose, frame: Frame) -> Result<Pending<D>> {
        let Frame { begin, end, is_kept } = frame;
        let mut held = self.acquire(purpose.limit(&self.options)).await?;
        held.is_kept = is_kept;
        let mut pending = Pending { held: Some(held), end };
        pending.held()?.run(&begin).await?;
        Ok(pending)
    }

    async fn acquire(&self, limit: Duration) -> Result<Held<D>> {
        match self.pool.acquire().await {
            Ok(connection) => Ok(Held { connection, limit, is_sound: true, is_kept: true }),
            Err(sqlx::Error::PoolTimedOut) => Err(away(format!(
                "there was no connection to the database within {}",
                seconds(self.options.connect_timeout)
            ))),
            Err(error) => Err(error.into()),
        }
    }
}

/// A connection that somebody uses.
struct Held<D: Talk> {
    connection: PoolConnection<D>,
    limit: Duration,
    /// Whether it is known what comes next on it.
    is_sound: bool,
    is_kept: bool,
}

impl<D: Talk> Held<D> {
    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.is_sound = false;
        let done = limited(self.limit, D::rows(&mut self.connection, sql, values)).await;
        self.is_sound = !is_away(&done);
        done
    }

    async fn run(&mut self, sql: &str) -> Result<()> {
        self.is_sound = false;
        let done = limited(self.limit, D::run(&mut self.connection, sql)).await;
        self.is_sound = !is_away(&done);
        done
    }
}

/// In the middle of a statement, the connection is of no use to anybody else.
impl<D: Talk> Drop for Held<D> {
    fn drop(&mut self) {
        if !self.is_sound || !self.is_kept {
            self.connection.close_on_drop();
        }
    }
}

/// A transaction.
pub(crate) struct Pending<D: Talk> {
    held: Option<Held<D>>,
    end: String,
}

impl<D: Talk> Pending<D> {
    fn held(&mut self) -> Result<&mut Held<D>> {
        self.held.as_mut().ok_or_else(|| away("the transaction is over".to_owned()))
    }
}

#[async_trait]
impl<D: Talk> Transaction for Pending<D> {
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

impl<D: Talk> Drop for Pending<D> {
    fn drop(&mut self) {
        let Some(mut held) = self.held.take().filter(|held| held.is_sound && held.is_kept) else {
            return;
        };
        let rollback = format!("ROLLBACK{}", self.end);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // One that cannot be rolled back is given up, which does the same.
                if held.run(&rollback).await.is_err() {
                    held.connection.close_on_drop();
                }
            });
        }
    }
}

/// The answer, unless the server has been silent for longer than its own limit.
async fn limited<T>(limit: Duration, statement: impl Future<Output = Result<T>>) -> Result<T> {
    let answered = tokio::time::timeout(limit + GRACE, statement).await;
    answered.unwrap_or_else(|_| {
        Err(away(format!("the database has not answered within {}", seconds(limit + GRACE))))
    })
}

/// Makes a first connection, to hear at once what is wrong.
pub(crate) async fn first<D: Talk>(
    connect: &<D::Connection as sqlx::Connection>::Options,
    options: &DatabaseOptions,
) -> Result<D::Connection> {
    let connecting = async { Ok(sqlx::ConnectOptions::connect(connect).await?) };
    let connected = tokio::time::timeout(options.connect_timeout, connecting).await;
    connected.unwrap_or_else(|_| {
        let limit = seconds(options.connect_timeout);
        Err(away(format!("there was no connection to the database within {limit}")))
    })
}

/// A URL says nothing beyond what is known: what nobody reads could have been meant to protect something.
pub(crate) fn check_parameters(url: &Url, known: &[&str]) -> Result<(), UrlError> {
    let unknown = url.query_pairs().find(|(name, _)| !known.contains(&name.as_ref()));
    let Some((name, _)) = unknown else { return Ok(()) };
    let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    Err(UrlError::Parameter { name: name.into_owned(), expected: format!("one of {known}") })
}

fn away(message: String) -> DatabaseError {
    DatabaseError::new(DatabaseErrorKind::Unavailable, message)
}

fn is_away<T>(done: &Result<T>) -> bool {
    matches!(done, Err(error) if error.kind == DatabaseErrorKind::Unavailable)
}

fn seconds(limit: Duration) -> String {
    format!("{} s", limit.as_secs_f64())
}

#[cfg(test)]
#[cfg(all(feature = "mysql", feature = "postgres"))]
mod tests;
