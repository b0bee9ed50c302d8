//! Runs statements with the drivers of sqlx.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::pool::PoolConnection;
use sqlx::{ColumnIndex, TypeInfo as _, ValueRef as _};

use crate::db::database::{Cell, Connection, Row, Value};
use crate::db::error::{DatabaseError, DatabaseErrorKind, Result};

/// A database with a driver of sqlx, implemented by [`impl_sqlx_driver`].
#[async_trait]
pub(crate) trait SqlxDriver: sqlx::Database {
    /// Runs one statement.
    async fn rows(
        connection: &mut Self::Connection,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>>;

    /// Runs statements without values and discards their rows.
    async fn run(connection: &mut Self::Connection, sql: &str) -> Result<()>;
}

/// Implements [`SqlxDriver`] with functions that write the placeholders of a statement, bind JSON, and convert a value
/// that is not null. This is a macro, because sqlx has no trait bound for types that every database can bind.
macro_rules! impl_sqlx_driver {
    ($database:ty, $placeholders:expr, $json:expr, $cell:expr) => {
        #[async_trait::async_trait]
        impl $crate::db::driver::sqlx_driver::SqlxDriver for $database {
            async fn rows(
                connection: &mut <Self as sqlx::Database>::Connection,
                sql: &str,
                values: &[Value<'_>],
            ) -> Result<Vec<Row>> {
                use futures_util::{StreamExt as _, TryStreamExt as _};
                let mut query = sqlx::query::<Self>(sqlx::AssertSqlSafe(($placeholders)(sql)));
                for value in values {
                    query = match *value {
                        Value::Int(number) | Value::Time(number) => query.bind(number),
                        Value::Text(text) => query.bind(text),
                        Value::Json(text) => query.bind(text.map($json)),
                        Value::Flag(flag) => query.bind(flag),
                    };
                }
                let rows = query.fetch(connection);
                let row = |row: sqlx::Result<_>| crate::db::driver::sqlx_driver::row(&row?, $cell);
                rows.map(row).try_collect().await
            }

            async fn run(
                connection: &mut <Self as sqlx::Database>::Connection,
                sql: &str,
            ) -> Result<()> {
                sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(connection).await?;
                Ok(())
            }
        }
    };
}
pub(super) use impl_sqlx_driver;

/// Converts a row. `cell` converts a value that is not null, by its index and the name of its type.
pub(super) fn row<R: sqlx::Row>(
    row: &R,
    cell: impl Fn(&R, usize, &str) -> Result<Cell>,
) -> Result<Row>
where
    usize: ColumnIndex<R>,
{
    let cells = (0..row.len()).map(|index| {
        let value = row.try_get_raw(index)?;
        if value.is_null() {
            return Ok(Cell::Null);
        }
        cell(row, index, value.type_info().name())
    });
    Ok(Row::new(cells.collect::<Result<_>>()?))
}

/// A connection in use.
pub(super) struct PooledSqlxConnection<D: SqlxDriver> {
    connection: PoolConnection<D>,
    limit: Duration,
    /// Whether the connection can be used again: no reply is outstanding, the connection is not lost, and `close` was not
    /// called.
    is_usable: bool,
}

impl<D: SqlxDriver> PooledSqlxConnection<D> {
    /// Returns a connection whose statements fail if they take longer than `limit`.
    pub(super) fn new(connection: PoolConnection<D>, limit: Duration) -> Self {
        Self { connection, limit, is_usable: true }
    }
}

#[async_trait]
impl<D: SqlxDriver> Connection for PooledSqlxConnection<D> {
    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let statement = D::rows(&mut self.connection, sql, values);
        with_limit(self.limit, &mut self.is_usable, statement).await
    }

    async fn script(&mut self, sql: &str) -> Result<()> {
        let statement = D::run(&mut self.connection, sql);
        with_limit(self.limit, &mut self.is_usable, statement).await
    }

    fn close(mut self: Box<Self>) {
        self.is_usable = false;
    }
}

/// Closes the connection if it is not usable.
impl<D: SqlxDriver> Drop for PooledSqlxConnection<D> {
    fn drop(&mut self) {
        if !self.is_usable {
            self.connection.close_on_drop();
        }
    }
}

async fn with_limit<T>(
    limit: Duration,
    is_usable: &mut bool,
    statement: impl Future<Output = Result<T>>,
) -> Result<T> {
    // Stays `false` if the future is dropped before the reply arrives.
    if !std::mem::replace(is_usable, false) {
        return Err(unavailable("the connection was lost"));
    }
    let response = tokio::time::timeout(limit, statement).await;
    let result = response.unwrap_or_else(|_| {
        let message = format!("the database did not respond within {}", format_seconds(limit));
        Err(unavailable(message))
    });
    *is_usable = !matches!(&result, Err(error) if error.kind == DatabaseErrorKind::Unavailable);
    result
}

pub(super) fn unavailable(message: impl Into<String>) -> DatabaseError {
    DatabaseError::new(DatabaseErrorKind::Unavailable, message)
}

pub(super) fn format_seconds(limit: Duration) -> String {
    format!("{} s", limit.as_secs_f64())
}
