//! MySQL and MariaDB as databases of the registry.

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _};
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlRow, MySqlValueRef};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, MySql, MySqlConnection, Row as _,
    TypeInfo as _, ValueRef as _,
};
use url::Url;

use crate::db::connect::{DatabaseOptions, Wanted};
use crate::db::database::{Cell, Database, Dialect, Purpose, Row, Transaction, Value};
use crate::db::driver::sqlx_pool::{self, Frame, IDLE_IN_TRANSACTION, Pooled, Talk};
use crate::db::error::{DatabaseError, DatabaseErrorKind, OpenError, Result};

/// What a URL may say behind its question mark.
const PARAMETERS: &[&str] =
    &["ssl-mode", "sslmode", "ssl-ca", "sslca", "ssl-cert", "ssl-key", "socket"];
/// The same on each server, whatever it is configured with: what does not fit is an error, and the number 0
/// is one.
const MODE: &str = "ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION,\
     NO_ZERO_DATE,NO_ZERO_IN_DATE,ONLY_FULL_GROUP_BY,STRICT_ALL_TABLES,STRICT_TRANS_TABLES";

/// Whose server it is: they call things differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    MySql,
    MariaDb,
}

/// A server of MySQL or MariaDB.
#[derive(Debug)]
struct MySqlServer {
    pooled: Pooled<MySql>,
    maker: Maker,
    options: DatabaseOptions,
}

/// Connects to a server.
pub(crate) async fn connect(
    url: &Url,
    options: &DatabaseOptions,
    wanted: Wanted,
) -> Result<Box<dyn Database>, OpenError> {
    sqlx_pool::check_parameters(url, PARAMETERS)?;
    let connect = MySqlConnectOptions::from_url(url)
        .map_err(DatabaseError::from)?
        .disable_statement_logging();
    let mut first = sqlx_pool::first::<MySql>(&connect, options).await?;
    let mut version = <MySql as Talk>::rows(&mut first, "SELECT VERSION()", &[]).await?;
    let version = version.pop().map(|mut row| row.text()).unwrap_or_default();
    first.close().await.map_err(DatabaseError::from)?;
    let maker = if version.contains("MariaDB") { Maker::MariaDb } else { Maker::MySql };
    let pooled = Pooled::new(connect, maker.session(options, wanted), options);
    Ok(Box::new(MySqlServer { pooled, maker, options: options.clone() }))
}

impl Maker {
    /// What each connection begins with.
    fn session(self, options: &DatabaseOptions, wanted: Wanted) -> String {
        let limit = self.time_limit(options, Purpose::Write);
        // Less than the limit of a statement, to hear that another is in the way.
        let lock = (options.statement_timeout * 9 / 10).as_secs().max(1);
        let idle = IDLE_IN_TRANSACTION.as_secs();
        let only_read =
            if wanted.is_only_to_read() { "; SET SESSION TRANSACTION READ ONLY" } else { "" };
        let idle = match self {
            Self::MariaDb => format!("idle_transaction_timeout = {idle}"),
            // It has none of its own. Longer than the pool keeps a connection. What it knows of its tables
            // is as of now.
            Self::MySql => {
                "wait_timeout = 60, SESSION information_schema_stats_expiry = 0".to_owned()
            }
        };
        format!(
            "SET SESSION sql_mode = '{MODE}', SESSION innodb_lock_wait_timeout = {lock}, \
             SESSION {idle}; {limit}{only_read}"
        )
    }

    /// Sets how long a statement may take; with MySQL, one that reads.
    fn time_limit(self, options: &DatabaseOptions, purpose: Purpose) -> String {
        let limit = purpose.limit(options);
        match self {
            Self::MySql => format!("SET SESSION max_execution_time = {}", limit.as_millis()),
            Self::MariaDb => format!("SET SESSION max_statement_time = {}", limit.as_secs_f64()),
        }
    }
}

#[async_trait]
impl Database for MySqlServer {
    fn dialect(&self) -> Dialect {
        Dialect::MySql
    }

    async fn rows(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.pooled.rows(sql, values).await
    }

    async fn begin(&self, purpose: Purpose) -> Result<Box<dyn Transaction>> {
        let longer = self.maker.time_limit(&self.options, purpose);
        let again = format!("; {}", self.maker.time_limit(&self.options, Purpose::Write));
        let writing = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION";
        let (mut begin, end) = match purpose {
            Purpose::Read => {
                let reading = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
                               START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";
                (format!("{longer}; {reading}"), again)
            }
            Purpose::Write | Purpose::Tokens | Purpose::Keys | Purpose::Note => {
                (writing.to_owned(), String::new())
            }
            Purpose::Migrate => (format!("{longer}; {writing}"), again),
        };
        if let Some(counters) = purpose.locked() {
            begin.extend([
                "; SELECT 1 FROM callgate_revisions WHERE name IN (",
                counters,
                ") ORDER BY name FOR UPDATE",
            ]);
        }
        // The lock of those who make tables is let go with the connection.
        let frame = Frame { begin, end, is_kept: purpose != Purpose::Migrate };
        let mut transaction = self.pooled.begin(purpose, frame).await?;
        if purpose == Purpose::Migrate {
            self.lock_tables(&mut transaction).await?;
        }
        Ok(Box::new(transaction))
    }
}

impl MySqlServer {
    /// What makes tables also commits, which lets go of the locks on rows.
    async fn lock_tables(&self, transaction: &mut dyn Transaction) -> Result<()> {
        let sql = "SELECT GET_LOCK(CONCAT('callgate ', MD5(DATABASE())), ?)";
        let patience = i64::try_from(self.options.load_timeout.as_secs()).unwrap_or(i64::MAX);
        let mut rows = transaction.rows(sql, &[patience.into()]).await?;
        if rows.pop().map_or(Ok(0), |mut row| row.int())? == 1 {
            return Ok(());
        }
        let message = "somebody else is making tables in the database";
        Err(DatabaseError::new(DatabaseErrorKind::Busy, message))
    }
}

#[async_trait]
impl Talk for MySql {
    async fn rows(
        connection: &mut MySqlConnection,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>> {
        let mut query = sqlx::query::<MySql>(AssertSqlSafe(sql.to_owned()));
        for value in values {
            query = bind(query, *value);
        }
        query.fetch(connection).map(|found| row(&found?)).try_collect().await
    }

    async fn run(connection: &mut MySqlConnection, sql: &str) -> Result<()> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await?;
        Ok(())
    }
}

type Query<'q> = sqlx::query::Query<'q, MySql, MySqlArguments>;

fn bind<'q>(query: Query<'q>, value: Value<'q>) -> Query<'q> {
    match value {
        Value::Int(number) | Value::Time(number) => query.bind(number),
        Value::Text(text) | Value::Json(text) => query.bind(text),
        Value::Flag(flag) => query.bind(flag),
    }
}

fn row(row: &MySqlRow) -> Result<Row> {
    let cells: Result<Vec<Cell>> = (0..row.len()).map(|index| cell(row, index)).collect();
    Ok(Row::new(cells?))
}

fn cell(row: &MySqlRow, index: usize) -> Result<Cell> {
    let value: MySqlValueRef<'_> = row.try_get_raw(index)?;
    if value.is_null() {
        return Ok(Cell::Null);
    }
    let kind = value.type_info();
    let kind = kind.name();
    if kind == "BOOLEAN" || kind.contains("INT") {
        return Ok(Cell::Int(row.try_get_unchecked(index)?));
    }
    if matches!(kind, "FLOAT" | "DOUBLE") {
        return Ok(Cell::Text(row.try_get_unchecked::<f64, _>(index)?.to_string()));
    }
    if matches!(kind, "TIMESTAMP" | "DATE" | "TIME" | "DATETIME" | "YEAR" | "BIT" | "GEOMETRY") {
        return Err(DatabaseError::unsupported_type(kind));
    }
    // Text with a binary collation is said to be bytes.
    let bytes: &[u8] = row.try_get_unchecked(index)?;
    Ok(match std::str::from_utf8(bytes) {
        Ok(text) => Cell::Text(text.to_owned()),
        Err(_) => Cell::Broken(String::from_utf8_lossy(bytes).into_owned()),
    })
}
