//! The interface of databases: statements with values, rows, and transactions.
//!
//! Statements use `?` as the placeholder of values and contain no other question marks. Drivers replace `?` with `$1`
//! or `@P1`. `dialect.rs` contains the differences between SQL dialects.

use std::time::Duration;

use async_trait::async_trait;
use callgate::Secret;

use crate::db::connect::DatabaseOptions;
use crate::db::dialect::Dialect;
use crate::db::error::{DatabaseError, DatabaseErrorKind, Result};

/// A value of a statement. Null values have a type too, because some databases require it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Int(Option<i64>),
    Text(Option<&'a str>),
    /// Text for a JSON column.
    Json(Option<&'a str>),
    Flag(Option<bool>),
    /// Unix time for a timestamp column. [`Self::time`] creates it, and the dialect converts it.
    Time(Option<i64>),
}

/// Last Unix time that every database can store: the end of the year 9999.
pub(crate) const LAST_SECOND: i64 = 253_402_300_799;

impl Value<'_> {
    /// Returns a time, limited to the range that every database can store.
    pub(crate) fn time(seconds: impl Into<Option<i64>>) -> Self {
        Self::Time(seconds.into().map(|seconds| seconds.clamp(0, LAST_SECOND)))
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(value))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(Some(value))
    }
}

impl<'a> From<&'a Option<String>> for Value<'a> {
    fn from(value: &'a Option<String>) -> Self {
        Self::Text(value.as_deref())
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Flag(Some(value))
    }
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    /// A number, or a boolean as 0 or 1.
    Int(i64),
    Text(String),
    /// Bytes that are not UTF-8, converted with replacement characters.
    Broken(String),
}

impl Cell {
    /// Returns the value as text, or `None` if it is null.
    pub(crate) fn into_text(self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Int(value) => Some(value.to_string()),
            Self::Text(text) | Self::Broken(text) => Some(text),
        }
    }

    /// Converts text, which may not be UTF-8.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Broken(String::from_utf8_lossy(bytes).into_owned()),
        }
    }
}

/// A row. Its columns are read in order.
#[derive(Debug)]
pub(crate) struct Row(std::vec::IntoIter<Cell>);

impl Row {
    pub(crate) fn new(cells: Vec<Cell>) -> Self {
        Self(cells.into_iter())
    }

    /// Returns the next column, or null after the last one.
    pub(crate) fn cell(&mut self) -> Cell {
        self.0.next().unwrap_or(Cell::Null)
    }

    /// Returns the next column.
    pub(crate) fn get<T: FromCell>(&mut self) -> Result<T> {
        T::from_cell(self.cell())
    }

    /// Returns the next column as a number; null is 0. Fails if it is text that is not a number.
    pub(crate) fn int(&mut self) -> Result<i64> {
        self.get()
    }

    pub(crate) fn optional_text(&mut self) -> Option<String> {
        self.cell().into_text()
    }

    /// Returns the next column as text. Null becomes the empty text.
    pub(crate) fn text(&mut self) -> String {
        self.optional_text().unwrap_or_default()
    }

    /// Returns the columns that were not read.
    pub(crate) fn into_cells(self) -> std::vec::IntoIter<Cell> {
        self.0
    }
}

/// A type to which a [`Cell`] can be converted.
pub(crate) trait FromCell: Sized {
    fn from_cell(cell: Cell) -> Result<Self>;
}

impl FromCell for Option<i64> {
    fn from_cell(cell: Cell) -> Result<Self> {
        match cell {
            Cell::Null => Ok(None),
            Cell::Int(value) => Ok(Some(value)),
            Cell::Text(text) | Cell::Broken(text) => {
                let number = text.trim().parse();
                number.map(Some).map_err(|_| {
                    let message = format!("expected a number, found `{text}`");
                    DatabaseError::new(DatabaseErrorKind::Other, message)
                })
            }
        }
    }
}

impl FromCell for i64 {
    fn from_cell(cell: Cell) -> Result<Self> {
        Ok(Option::from_cell(cell)?.unwrap_or_default())
    }
}

impl FromCell for bool {
    fn from_cell(cell: Cell) -> Result<Self> {
        Ok(i64::from_cell(cell)? != 0)
    }
}

impl FromCell for Option<String> {
    fn from_cell(cell: Cell) -> Result<Self> {
        Ok(cell.into_text())
    }
}

impl FromCell for String {
    fn from_cell(cell: Cell) -> Result<Self> {
        Ok(cell.into_text().unwrap_or_default())
    }
}

/// An empty text becomes `None`.
impl FromCell for Option<Secret> {
    fn from_cell(cell: Cell) -> Result<Self> {
        Ok(cell.into_text().and_then(|text| Secret::new(&text)))
    }
}

/// A type to which a [`Row`] can be converted. Its fields are the columns, in order.
pub(crate) trait FromRow: Sized {
    fn from_row(row: Row) -> Result<Self>;
}

/// Purpose of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Reads a snapshot. The time limit is [`DatabaseOptions::load_timeout`]. SQL Server provides no snapshots, so
    /// operations compare the change counter before and after the reads.
    Read,
    /// Writes rows. First locks the counters of catalog and access. Plain SQL statements increment the same counters
    /// through triggers, so transactions with this purpose and such statements run one after the other.
    Write,
    /// Writes tokens. Locks only the counter of tokens, so that a long import does not delay a revocation.
    Tokens,
    /// Writes keys. Locks only the counter of keys.
    Keys,
    /// Writes rows such as sessions, without locking a counter.
    WriteUnlocked,
    /// Changes the schema. The time limit is [`DatabaseOptions::load_timeout`]. Locks out other migrations.
    Migrate,
}

impl Purpose {
    /// Returns the counters to lock first, as a SQL list. They are locked in the order of their names.
    #[cfg(any(feature = "mssql", feature = "mysql", feature = "postgres"))]
    pub(crate) fn locked_counters(self) -> Option<&'static str> {
        match self {
            Self::Write => Some("'access', 'catalog'"),
            Self::Tokens => Some("'tokens'"),
            Self::Keys => Some("'keys'"),
            Self::Read | Self::WriteUnlocked | Self::Migrate => None,
        }
    }

    /// Returns the time limit of a statement.
    pub(crate) fn limit(self, options: &DatabaseOptions) -> Duration {
        match self {
            Self::Read | Self::Migrate => options.load_timeout,
            Self::Write | Self::Tokens | Self::Keys | Self::WriteUnlocked => {
                options.statement_timeout
            }
        }
    }
}

/// A database with pooled connections.
#[async_trait]
pub(crate) trait Database: std::fmt::Debug + Send + Sync {
    fn dialect(&self) -> Dialect;

    /// Returns a free connection. `limit` is the time limit of its statements.
    async fn acquire(&self, limit: Duration) -> Result<Box<dyn Connection>>;

    /// Begins a transaction on a connection.
    async fn begin(
        &self,
        connection: &mut dyn Connection,
        purpose: Purpose,
    ) -> Result<TransactionEnd>;

    /// Waits until the database notifies this program of a change. Never returns if the database sends no
    /// notifications.
    async fn changed(&self) {
        std::future::pending::<()>().await;
    }

    /// Prepares the database before the first tables are created.
    async fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// In SQLite, moves writes from the write-ahead log to the database file. Otherwise does nothing.
    async fn checkpoint(&self) -> Result<()> {
        Ok(())
    }

    /// Fails if the file of a SQLite database was replaced or removed.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// A connection. It returns to its pool when it is dropped.
#[async_trait]
pub(crate) trait Connection: Send {
    /// Runs one statement.
    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>>;

    /// Runs a script of several statements.
    async fn script(&mut self, sql: &str) -> Result<()>;

    /// Closes the connection, which rolls back its transaction.
    fn close(self: Box<Self>);
}

/// Scripts that end a transaction.
#[derive(Debug, Default)]
pub(crate) struct TransactionEnd {
    pub(crate) commit: String,
    /// If `None`, the connection is closed to roll back.
    pub(crate) rollback: Option<String>,
}

/// Numbers the placeholders of a statement: with `$`, each `?` becomes `$1`, `$2` and so on.
#[cfg(any(feature = "mssql", feature = "postgres"))]
pub(crate) fn number_placeholders(sql: &str, prefix: &str) -> String {
    let mut parts = sql.split('?');
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    for (number, part) in (1_usize..).zip(parts) {
        numbered.extend([prefix, &number.to_string(), part]);
    }
    numbered
}

#[cfg(all(test, any(feature = "mssql", feature = "postgres")))]
mod tests {
    use super::number_placeholders;

    #[test]
    fn placeholders_are_numbered_in_order() {
        assert_eq!(number_placeholders("SELECT 1", "$"), "SELECT 1");
        assert_eq!(
            number_placeholders("a = ? AND b IN (?, ?)", "@P"),
            "a = @P1 AND b IN (@P2, @P3)"
        );
    }
}
