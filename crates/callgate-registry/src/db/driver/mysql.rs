//! Driver for MySQL and MariaDB.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::mysql::{MySqlConnectOptions, MySqlRow, MySqlSslMode};
use sqlx::{ConnectOptions as _, Connection as _, MySql, Row as _};
use url::Url;

use crate::db::connect::{DatabaseOptions, OpenMode};
use crate::db::database::{Cell, Connection, Database, Purpose, Row, TransactionEnd, Value};
use crate::db::dialect::Dialect;
use crate::db::driver::sqlx_driver::{SqlxDriver, impl_sqlx_driver};
use crate::db::driver::sqlx_pool::{self, IDLE_IN_TRANSACTION_TIMEOUT, ServerPool, lock_counters};
use crate::db::error::{DatabaseError, DatabaseErrorKind, OpenError, Result};

/// Supported query parameters of the URL.
const PARAMETERS: &[&str] =
    &["ssl-mode", "sslmode", "ssl-ca", "sslca", "ssl-cert", "ssl-key", "socket"];
/// SQL mode of each connection. Values that do not fit are errors, and 0 is a valid id.
const SQL_MODE: &str = "ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION,\
     NO_ZERO_DATE,NO_ZERO_IN_DATE,ONLY_FULL_GROUP_BY,STRICT_ALL_TABLES,STRICT_TRANS_TABLES";

/// Name of the lock for migrations.
const MIGRATION_LOCK: &str = "CONCAT('callgate ', MD5(DATABASE()))";

/// Vendor of the server. Some settings have different names in MySQL and in MariaDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vendor {
    MySql,
    MariaDb,
}

#[derive(Debug)]
struct MySqlServer {
    pool: ServerPool<MySql>,
    vendor: Vendor,
}

pub(crate) async fn connect(
    url: &Url,
    options: &DatabaseOptions,
    mode: OpenMode,
) -> Result<Box<dyn Database>, OpenError> {
    sqlx_pool::check_parameters(url, PARAMETERS)?;
    let mut connect_options = MySqlConnectOptions::from_url(url)
        .map_err(DatabaseError::from)?
        .disable_statement_logging();
    if sqlx_pool::must_verify(url, (connect_options.get_host(), connect_options.get_socket())) {
        connect_options = connect_options.ssl_mode(MySqlSslMode::VerifyIdentity);
    }
    let mut connection = sqlx_pool::connect_first::<MySql>(&connect_options, options).await?;
    let mut version = <MySql as SqlxDriver>::rows(&mut connection, "SELECT VERSION()", &[]).await?;
    let version = version.pop().map(|mut row| row.text()).unwrap_or_default();
    connection.close().await.map_err(DatabaseError::from)?;
    let vendor = if version.contains("MariaDB") { Vendor::MariaDb } else { Vendor::MySql };
    let pool = ServerPool::new(connect_options, vendor.session(options, mode), options);
    Ok(Box::new(MySqlServer { pool, vendor }))
}

impl Vendor {
    /// Returns the statements that initialize a connection.
    fn session(self, options: &DatabaseOptions, mode: OpenMode) -> String {
        let limit = self.time_limit(options, Purpose::Write);
        // Shorter than the statement timeout, so that the error mentions the lock.
        let lock = (options.statement_timeout * 9 / 10).as_secs().max(1);
        let idle = IDLE_IN_TRANSACTION_TIMEOUT.as_secs();
        let read_only =
            if mode.is_read_only() { "; SET SESSION TRANSACTION READ ONLY" } else { "" };
        let idle = match self {
            Self::MariaDb => format!("idle_transaction_timeout = {idle}"),
            // MySQL has no idle timeout for transactions, so `wait_timeout` is used. It is longer than the idle timeout
            // of the pool. The second variable turns off the cache of table statistics, so that the statistics are up
            // to date.
            Self::MySql => {
                "wait_timeout = 60, SESSION information_schema_stats_expiry = 0".to_owned()
            }
        };
        format!(
            "SET SESSION sql_mode = '{SQL_MODE}', SESSION innodb_lock_wait_timeout = {lock}, \
             SESSION {idle}; {limit}{read_only}"
        )
    }

    /// Returns the statement that sets the time limit of statements. In MySQL, the limit applies only to reads.
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

    async fn acquire(&self, limit: Duration) -> Result<Box<dyn Connection>> {
        self.pool.acquire(limit).await
    }

    async fn begin(
        &self,
        connection: &mut dyn Connection,
        purpose: Purpose,
    ) -> Result<TransactionEnd> {
        let options = &self.pool.options;
        let (limit, reset) = match purpose {
            Purpose::Read | Purpose::Migrate => (
                format!("{}; ", self.vendor.time_limit(options, purpose)),
                format!("; {}", self.vendor.time_limit(options, Purpose::Write)),
            ),
            _ => (String::new(), String::new()),
        };
        let begin = match purpose {
            Purpose::Read => {
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
                 START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
            }
            _ => "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION",
        };
        connection.script(&format!("{limit}{begin}{}", lock_counters(purpose))).await?;
        if purpose == Purpose::Migrate {
            self.lock_migrations(connection).await?;
            let commit = format!("COMMIT; DO RELEASE_LOCK({MIGRATION_LOCK}){reset}");
            return Ok(TransactionEnd { commit, rollback: None });
        }
        let (commit, rollback) = (format!("COMMIT{reset}"), Some(format!("ROLLBACK{reset}")));
        Ok(TransactionEnd { commit, rollback })
    }
}

impl MySqlServer {
    /// Takes a named lock. Row locks would be released, because DDL statements commit.
    async fn lock_migrations(&self, connection: &mut dyn Connection) -> Result<()> {
        let seconds = self.pool.options.load_timeout.as_secs();
        let sql = format!("SELECT GET_LOCK({MIGRATION_LOCK}, {seconds})");
        let mut rows = connection.rows(&sql, &[]).await?;
        if rows.pop().map_or(Ok(0), |mut row| row.int())? == 1 {
            return Ok(());
        }
        let message = "another program is migrating the database";
        Err(DatabaseError::new(DatabaseErrorKind::Busy, message))
    }
}

impl_sqlx_driver!(MySql, str::to_owned, std::convert::identity, cell);

fn cell(row: &MySqlRow, index: usize, type_name: &str) -> Result<Cell> {
    if type_name == "BOOLEAN" || type_name.contains("INT") {
        return Ok(Cell::Int(row.try_get_unchecked(index)?));
    }
    if matches!(type_name, "FLOAT" | "DOUBLE") {
        return Ok(Cell::Text(row.try_get_unchecked::<f64, _>(index)?.to_string()));
    }
    if matches!(type_name, "TIMESTAMP" | "DATE" | "TIME" | "DATETIME" | "YEAR" | "BIT" | "GEOMETRY")
    {
        return Err(DatabaseError::unsupported_type(type_name));
    }
    // The driver reports text with a binary collation as bytes.
    Ok(Cell::from_bytes(row.try_get_unchecked(index)?))
}
