//! Runs statements with the drivers of sqlx.

use async_trait::async_trait;
use sqlx::{ColumnIndex, TypeInfo as _, ValueRef as _};

use crate::db::database::{Cell, Row, Value};
use crate::db::error::Result;

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
/// that is not null. A macro, because sqlx has no bound for a type that every database can bind.
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
