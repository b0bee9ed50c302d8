//! A connection, and how those that are kept are made and looked at.

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
use crate::db::database::{Row, Value, numbered};
use crate::db::error::{DatabaseError, DatabaseErrorKind, Result};

/// A connection that nobody used for so long is asked whether it still is one.
const MAX_IDLE: Duration = Duration::from_secs(5);
/// So long may that take. One that a router has forgotten says nothing; another is taken, or made.
const PING_LIMIT: Duration = Duration::from_millis(300);

/// What each connection begins with: the settings of the database's own tools, values in full, no counts
/// of rows. What fails ends its transaction.
const SETTINGS: &str = "SET ANSI_NULLS ON; SET ANSI_PADDING ON; SET ANSI_WARNINGS ON; \
    SET ARITHABORT ON; SET CONCAT_NULL_YIELDS_NULL ON; SET QUOTED_IDENTIFIER ON; \
    SET TEXTSIZE 2147483647; SET NOCOUNT ON; SET XACT_ABORT ON; \
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// A connection. After an error it is not used again: part of an answer may still be on its way.
pub(super) struct Connection {
    client: Client<Compat<TcpStream>>,
    is_broken: bool,
}

/// What is asked of the server.
enum Ask<'a> {
    Statement(Query<'a>),
    Batch(&'a str),
}

impl Connection {
    async fn open(address: &Address) -> Result<Self> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
        let stream = stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
        let stream = stream.map_err(|error| {
            let message = format!("cannot connect to `{address}`: {error}");
            DatabaseError::new(DatabaseErrorKind::Unavailable, message)
        })?;
        // It is large, and callers are deep.
        let client = Box::pin(Client::connect(address.config.clone(), stream.compat_write())).await;
        let client = client.map_err(|error| error::of_login(error, address))?;
        Ok(Self { client, is_broken: false })
    }

    /// Runs one statement.
    pub(super) async fn rows(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        limit: Duration,
    ) -> Result<Vec<Row>> {
        let mut query = Query::new(numbered(sql, "@P"));
        for value in values {
            values::bind(&mut query, *value);
        }
        let results = self.ask(Ask::Statement(query), limit).await?;
        Ok(results.into_iter().flatten().map(values::row).collect())
    }

    /// Runs statements without values.
    pub(super) async fn batch(&mut self, sql: &str, limit: Duration) -> Result<()> {
        self.ask(Ask::Batch(sql), limit).await.map(drop)
    }

    async fn ask(&mut self, ask: Ask<'_>, limit: Duration) -> Result<Vec<Vec<tiberius::Row>>> {
        if self.is_broken {
            let message = "the connection was lost, or what it was used for failed before";
            return Err(DatabaseError::new(DatabaseErrorKind::Unavailable, message));
        }
        // Also where nobody waits for the answer any more.
        self.is_broken = true;
        let answer = async {
            let stream = match ask {
                Ask::Statement(query) => query.query(&mut self.client).await?,
                Ask::Batch(sql) => self.client.simple_query(sql).await?,
            };
            stream.into_results().await
        };
        let answer = timeout(limit, Box::pin(answer)).await.map_err(|_| {
            let message = format!("the database did not answer within {limit:?}");
            DatabaseError::new(DatabaseErrorKind::Unavailable, message)
        })?;
        let results = answer.map_err(error::of_statement)?;
        self.is_broken = false;
        Ok(results)
    }
}

/// Makes connections, and looks at those that were used.
pub(super) struct Connections {
    address: Address,
    settings: String,
    timeout: Duration,
}

impl Connections {
    pub(super) fn new(mut address: Address, options: &DatabaseOptions) -> Self {
        let config = &mut address.config;
        config.application_name("callgate");
        // All of it has one, and each statement its own.
        config.handshake_timeout(None);
        config.command_timeout(None);
        // The server's words say more than a client that has waited for long enough.
        let for_locks = options.statement_timeout * 4 / 5;
        let settings = format!("{SETTINGS}; SET LOCK_TIMEOUT {}", for_locks.as_millis());
        Self { address, settings, timeout: options.connect_timeout }
    }
}

impl Manager for Connections {
    type Type = Connection;
    type Error = DatabaseError;

    async fn create(&self) -> Result<Connection> {
        let made = async {
            let mut connection = Connection::open(&self.address).await?;
            connection.batch(&self.settings, self.timeout).await?;
            Ok(connection)
        };
        timeout(self.timeout, Box::pin(made)).await.unwrap_or_else(|_| {
            let message = format!("cannot log in at `{}`: no answer in time", self.address);
            Err(DatabaseError::new(DatabaseErrorKind::Unavailable, message))
        })
    }

    async fn recycle(
        &self,
        used: &mut Connection,
        metrics: &Metrics,
    ) -> RecycleResult<DatabaseError> {
        if used.is_broken {
            return Err(RecycleError::message("its last use failed"));
        }
        if metrics.last_used() > MAX_IDLE {
            used.batch("SELECT 1", PING_LIMIT).await?;
        }
        Ok(())
    }
}
