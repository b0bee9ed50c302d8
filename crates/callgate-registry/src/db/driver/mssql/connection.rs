//! Connections and their pool.

use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use tiberius::{Client, Query};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt as _};

use super::address::Address;
use super::error;
use super::values;
use crate::db::connect::DatabaseOptions;
use crate::db::database::{Row, Value, number_placeholders};
use crate::db::error::{DatabaseError, DatabaseErrorKind, Result};

/// Idle time after which a connection is pinged before it is used.
const MAX_IDLE: Duration = Duration::from_secs(5);
/// Time limit of a ping. A connection that a router has dropped does not respond.
const PING_TIMEOUT: Duration = Duration::from_millis(300);

/// Settings of each connection: the same as those of SQL Server's tools, an unlimited text size, and no row counts.
/// Errors abort the transaction.
const SETTINGS: &str = "SET ANSI_NULLS ON; SET ANSI_PADDING ON; SET ANSI_WARNINGS ON; \
    SET ARITHABORT ON; SET CONCAT_NULL_YIELDS_NULL ON; SET QUOTED_IDENTIFIER ON; \
    SET TEXTSIZE 2147483647; SET NOCOUNT ON; SET XACT_ABORT ON; \
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// A connection. It is not reused after an error, because a part of a reply may still arrive.
pub(super) struct SqlServerConnection {
    client: Client<Compat<TcpStream>>,
    is_broken: bool,
}

/// A request to the server.
enum Request<'a> {
    Statement(Query<'a>),
    Batch(&'a str),
}

impl SqlServerConnection {
    async fn open(address: &Address) -> Result<Self> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
        let stream = stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
        let stream = stream.map_err(|error| {
            let message = format!("failed to connect to `{address}`: {error}");
            DatabaseError::new(DatabaseErrorKind::Unavailable, message)
        })?;
        // Boxed, because the future is large.
        let client = Box::pin(Client::connect(address.config.clone(), stream.compat_write())).await;
        let client = client.map_err(|error| error::login_error(error, address))?;
        Ok(Self { client, is_broken: false })
    }

    /// Runs one statement.
    pub(super) async fn rows(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        limit: Duration,
    ) -> Result<Vec<Row>> {
        let mut query = Query::new(number_placeholders(sql, "@P"));
        for value in values {
            values::bind(&mut query, *value);
        }
        let results = self.send(Request::Statement(query), limit).await?;
        Ok(results.into_iter().flatten().map(values::row).collect())
    }

    /// Runs several statements without values.
    pub(super) async fn batch(&mut self, sql: &str, limit: Duration) -> Result<()> {
        self.send(Request::Batch(sql), limit).await.map(drop)
    }

    async fn send(
        &mut self,
        request: Request<'_>,
        limit: Duration,
    ) -> Result<Vec<Vec<tiberius::Row>>> {
        if self.is_broken {
            let message = "the connection was lost, or was closed after an error";
            return Err(DatabaseError::new(DatabaseErrorKind::Unavailable, message));
        }
        // Stays set if the future is dropped before the reply arrives.
        self.is_broken = true;
        let response = async {
            let stream = match request {
                Request::Statement(query) => query.query(&mut self.client).await?,
                Request::Batch(sql) => self.client.simple_query(sql).await?,
            };
            stream.into_results().await
        };
        let response = timeout(limit, Box::pin(response)).await.map_err(|_| {
            let message = format!("the database did not respond within {limit:?}");
            DatabaseError::new(DatabaseErrorKind::Unavailable, message)
        })?;
        let results = response.map_err(error::statement_error)?;
        self.is_broken = false;
        Ok(results)
    }
}

/// Creates and checks connections for the pool.
pub(super) struct ConnectionManager {
    address: Address,
    settings: String,
    timeout: Duration,
}

impl ConnectionManager {
    pub(super) fn new(mut address: Address, options: &DatabaseOptions) -> Self {
        let config = &mut address.config;
        config.application_name("callgate");
        // Connecting as a whole has a time limit, and so has each statement.
        config.handshake_timeout(None);
        config.command_timeout(None);
        // Shorter than the client's time limit, so that the server's error message arrives first.
        let lock_timeout = options.statement_timeout * 4 / 5;
        let settings = format!("{SETTINGS}; SET LOCK_TIMEOUT {}", lock_timeout.as_millis());
        Self { address, settings, timeout: options.connect_timeout }
    }
}

impl Manager for ConnectionManager {
    type Type = SqlServerConnection;
    type Error = DatabaseError;

    async fn create(&self) -> Result<SqlServerConnection> {
        let opening = async {
            let mut connection = SqlServerConnection::open(&self.address).await?;
            connection.batch(&self.settings, self.timeout).await?;
            Ok(connection)
        };
        timeout(self.timeout, Box::pin(opening)).await.unwrap_or_else(|_| {
            let message = format!("failed to log in to `{}`: no response in time", self.address);
            Err(DatabaseError::new(DatabaseErrorKind::Unavailable, message))
        })
    }

    async fn recycle(
        &self,
        connection: &mut SqlServerConnection,
        metrics: &Metrics,
    ) -> RecycleResult<DatabaseError> {
        if connection.is_broken {
            return Err(RecycleError::message("the last use of the connection failed"));
        }
        if metrics.last_used() > MAX_IDLE {
            connection.batch("SELECT 1", PING_TIMEOUT).await?;
        }
        Ok(())
    }
}
