//! Driver for PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::encode::{Encode, IsNull};
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgConnectOptions, PgRow, PgSslMode, PgTypeInfo, Postgres};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, Type};
use url::Url;

use super::postgres_listener::Listener;
use crate::db::connect::{DatabaseOptions, OpenMode};
use crate::db::database::{
    Cell, Connection, Database, Purpose, Row, TransactionEnd, Value, number_placeholders,
};
use crate::db::dialect::Dialect;
use crate::db::driver::sqlx_driver::impl_sqlx_driver;
use crate::db::driver::sqlx_pool::{self, IDLE_IN_TRANSACTION_TIMEOUT, ServerPool, lock_counters};
use crate::db::error::{DatabaseError, OpenError, Result};

/// Supported query parameters of the URL.
const PARAMETERS: &[&str] =
    &["sslmode", "sslrootcert", "sslcert", "sslkey", "host", "application_name"];
/// Key of the advisory lock for migrations.
const MIGRATION_LOCK: i64 = 0x6361_6c6c_6761_7465;
/// OID of the type `json`.
const JSON: Oid = Oid(114);

#[derive(Debug)]
struct PostgresServer {
    pool: ServerPool<Postgres>,
    listener: Listener,
}

pub(crate) async fn connect(
    url: &Url,
    options: &DatabaseOptions,
    mode: OpenMode,
) -> Result<Box<dyn Database>, OpenError> {
    sqlx_pool::check_parameters(url, PARAMETERS)?;
    let mut connect_options =
        PgConnectOptions::from_url(url).map_err(DatabaseError::from)?.disable_statement_logging();
    if sqlx_pool::must_verify(url, (connect_options.get_host(), connect_options.get_socket())) {
        connect_options = connect_options.ssl_mode(PgSslMode::VerifyFull);
    }
    if connect_options.get_application_name().is_none() {
        connect_options = connect_options.application_name("callgate");
    }
    sqlx_pool::connect_first::<Postgres>(&connect_options, options)
        .await?
        .close()
        .await
        .map_err(DatabaseError::from)?;
    let pool = ServerPool::new(connect_options.clone(), session(options, mode), options);
    let listener = Listener::new(connect_options, options.connect_timeout);
    Ok(Box::new(PostgresServer { pool, listener }))
}

/// Returns the statements that initialize a connection.
fn session(options: &DatabaseOptions, mode: OpenMode) -> String {
    let limit = options.statement_timeout.as_millis();
    // Shorter than the statement timeout, so that the error mentions the lock.
    let lock = (limit * 9 / 10).max(1);
    let idle = IDLE_IN_TRANSACTION_TIMEOUT.as_millis();
    let read_only =
        if mode.is_read_only() { "; SET default_transaction_read_only = on" } else { "" };
    format!(
        "SET statement_timeout = {limit}; SET lock_timeout = {lock}; \
         SET idle_in_transaction_session_timeout = {idle}; SET client_min_messages = warning{read_only}"
    )
}

/// Returns the statements that begin a transaction. The locks on counters are added separately.
fn begin_statements(purpose: Purpose, options: &DatabaseOptions) -> String {
    let limit = purpose.limit(options).as_millis();
    match purpose {
        Purpose::Read => format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {limit}"
        ),
        Purpose::Migrate => format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {limit}; \
             SET LOCAL lock_timeout = {limit}; SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"
        ),
        Purpose::Write | Purpose::Tokens | Purpose::Keys | Purpose::WriteUnlocked => {
            "BEGIN ISOLATION LEVEL READ COMMITTED".to_owned()
        }
    }
}

#[async_trait]
impl Database for PostgresServer {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn acquire(&self, limit: Duration) -> Result<Box<dyn Connection>> {
        self.pool.acquire(limit).await
    }

    async fn begin(
        &self,
        connection: &mut dyn Connection,
        purpose: Purpose,
    ) -> Result<TransactionEnd> {
        let begin = begin_statements(purpose, &self.pool.options) + &lock_counters(purpose);
        connection.script(&begin).await?;
        let (commit, rollback) = ("COMMIT".to_owned(), Some("ROLLBACK".to_owned()));
        Ok(TransactionEnd { commit, rollback })
    }

    async fn changed(&self) {
        self.listener.changed().await;
    }
}

impl_sqlx_driver!(Postgres, |sql| number_placeholders(sql, "$"), JsonText, cell);

/// Text that is bound unchanged, with the type `json`.
struct JsonText<'a>(&'a str);

impl Type<Postgres> for JsonText<'_> {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(JSON)
    }
}

impl Encode<'_, Postgres> for JsonText<'_> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
}

fn cell(row: &PgRow, index: usize, type_name: &str) -> Result<Cell> {
    Ok(match type_name {
        "TEXT" | "VARCHAR" | "JSON" | "CHAR" | "NAME" => Cell::Text(row.try_get_unchecked(index)?),
        "INT8" | "INT4" | "INT2" => Cell::Int(row.try_get_unchecked(index)?),
        "BOOL" => Cell::Int(row.try_get_unchecked::<bool, _>(index)?.into()),
        "FLOAT8" => Cell::Text(row.try_get_unchecked::<f64, _>(index)?.to_string()),
        type_name => return Err(DatabaseError::unsupported_type(type_name)),
    })
}
