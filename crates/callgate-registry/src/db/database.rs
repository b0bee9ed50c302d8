//! What the registry needs of a database: statements with values, rows, and transactions.
//!
//! The operations are written once, over this; one module per database brings it. Statements have `?`
//! for their values, in order, and no other question mark; a database that wants `$1` or `@P1` puts it
//! there itself. What dialects write differently is in `dialect.rs`.
use async_trait::async_trait;

#[cfg(any(feature = "mssql", feature = "mysql", feature = "postgres"))]
use crate::db::connect::DatabaseOptions;
use crate::db::error::{DatabaseError, DatabaseErrorKind, Result};

/// How a database writes SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MySQL, and MariaDB.
    MySql,
    /// SQL Server.
    SqlServer,
}

/// A value for a statement. Nothing has a type too: some databases ask.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Int(Option<i64>),
    Text(Option<&'a str>),
    /// A text for a column that holds JSON.
    Json(Option<&'a str>),
    Flag(Option<bool>),
    /// Seconds since 1970, for a column that holds times; [`Self::time`] makes it. The dialect writes
    /// around it what makes a time of the number, or nothing where the driver binds a time.
    Time(Option<i64>),
}

/// The last second that each database has: that of the year 9999.
pub(crate) const LAST_SECOND: i64 = 253_402_300_799;

impl Value<'_> {
    /// A time that each database can hold.
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

/// What a column of a row has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    /// Also a truth value: 0 or 1.
    Int(i64),
    Text(String),
    /// Bytes that are not text, as far as they can be shown.
    Broken(String),
}

/// A row, whose columns are taken in the order that they were asked for.
#[derive(Debug)]
pub(crate) struct Row(std::vec::IntoIter<Cell>);

impl Row {
    pub(crate) fn new(cells: Vec<Cell>) -> Self {
        Self(cells.into_iter())
    }

    /// The next column as it is; null behind the last.
    pub(crate) fn cell(&mut self) -> Cell {
        self.0.next().unwrap_or(Cell::Null)
    }

    /// What is no number is an error: of a column that the program wrote.
    pub(crate) fn optional_int(&mut self) -> Result<Option<i64>> {
        match self.cell() {
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

    /// Null is 0.
    pub(crate) fn int(&mut self) -> Result<i64> {
        Ok(self.optional_int()?.unwrap_or_default())
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        Ok(self.int()? != 0)
    }

    pub(crate) fn optional_text(&mut self) -> Option<String> {
        match self.cell() {
            Cell::Null => None,
            Cell::Int(value) => Some(value.to_string()),
            Cell::Text(text) | Cell::Broken(text) => Some(text),
        }
    }

    /// Null is empty.
    pub(crate) fn text(&mut self) -> String {
        self.optional_text().unwrap_or_default()
    }
}

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To read as of one moment; it may take its time. SQL Server does not promise the moment: what
    /// reads several tables looks at the revision before and after.
    Read,
    /// To write. The revisions of catalog and access are locked first, also against plain SQL whose
    /// triggers raise them: whoever comes second waits, and sees what the first one wrote.
    Write,
    /// To write tokens. Only their own counter is locked first: an import that takes its time holds no
    /// revocation up.
    Tokens,
    /// To write the secrets that sign; so too.
    Keys,
    /// To write what raises none of these, such as sessions; nothing is locked.
    Note,
    /// To make and change tables; it may take its time. Others that would too wait.
    Migrate,
}

/// What servers need to know of it.
#[cfg(any(feature = "mssql", feature = "mysql", feature = "postgres"))]
impl Purpose {
    /// The counters that are locked before anything else, as a list of SQL. Where there are several, all take
    /// them in the order of their names.
    pub(crate) fn locked(self) -> Option<&'static str> {
        match self {
            Self::Write => Some("'access', 'catalog'"),
            Self::Tokens => Some("'tokens'"),
            Self::Keys => Some("'keys'"),
            Self::Read | Self::Note | Self::Migrate => None,
        }
    }

    /// How long a statement may take.
    pub(crate) fn limit(self, options: &DatabaseOptions) -> std::time::Duration {
        match self {
            Self::Read | Self::Migrate => options.load_timeout,
            Self::Write | Self::Tokens | Self::Keys | Self::Note => options.statement_timeout,
        }
    }
}

/// A database, with connections that are kept.
#[async_trait]
pub(crate) trait Database: std::fmt::Debug + Send + Sync {
    fn dialect(&self) -> Dialect;

    /// Runs one statement by itself. Comes back with its rows.
    async fn rows(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>>;

    /// Begins a transaction. Unless it is committed, nothing of it stays.
    async fn begin(&self, purpose: Purpose) -> Result<Box<dyn Transaction>>;

    /// Waits until the database says that something changed; for ever, where it does not say.
    async fn changed(&self) {
        std::future::pending::<()>().await;
    }

    /// Makes ready what a registry needs besides tables, before the first are made.
    async fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// Brings all that was written to where somebody would copy it from, if that is not there by itself.
    async fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Whether this is still the database that was opened.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// A transaction. Dropped, it is rolled back.
#[async_trait]
pub(crate) trait Transaction: Send {
    /// Runs one statement. Comes back with its rows.
    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>>;

    /// Runs many statements without values, as a migration is.
    async fn script(&mut self, sql: &str) -> Result<()>;

    async fn commit(self: Box<Self>) -> Result<()>;
}

/// A statement for a database that numbers its values: with `$`, each `?` becomes `$1`, `$2` and so on.
#[cfg(any(feature = "mssql", feature = "postgres"))]
pub(crate) fn numbered(sql: &str, mark: &str) -> String {
    let mut parts = sql.split('?');
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    for (number, part) in (1_usize..).zip(parts) {
        numbered.extend([mark, &number.to_string(), part]);
    }
    numbered
}

#[cfg(all(test, any(feature = "mssql", feature = "postgres")))]
mod tests {
    use super::numbered;

    #[test]
    fn values_are_numbered_in_order() {
        assert_eq!(numbered("SELECT 1", "$"), "SELECT 1");
        assert_eq!(numbered("a = ? AND b IN (?, ?)", "@P"), "a = @P1 AND b IN (@P2, @P3)");
    }
}
