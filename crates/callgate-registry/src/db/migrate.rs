//! Migrations. They are numbered from 1, applied once, and not changed after a release.
//!
//! `callgate_migrations` records the applied migrations. It is created first, so it exists in every registry. MySQL
//! cannot roll back schema changes, so an interrupted migration is run again. Its statements must therefore be
//! repeatable.

use crate::db::connect::{DatabaseOptions, OpenMode, connect};
use crate::db::database::Purpose;
use crate::db::dialect::Dialect;
use crate::db::error::{DatabaseError, OpenError, Result};
use crate::db::pool::{Pool, retry};
use crate::db::schema;
use crate::db::table_names::TableNames;
use crate::db::transaction::Transaction;
use crate::db::url::DatabaseUrl;

/// Name of the row in `callgate_meta` that contains the table names.
const TABLE_NAMES_KEY: &str = "tables";

/// Maximum number of attempts to migrate in SQL Server while other programs migrate.
const MAX_ATTEMPTS: usize = 5;

struct Step {
    version: i64,
    name: &'static str,
    sql: fn(Dialect) -> String,
}

/// The migrations. Before the first release, a change of the first migration also changes its name, so that registries
/// of earlier builds are recognised.
const STEPS: [Step; 1] = [Step { version: NEWEST, name: "tables", sql: schema::script }];
/// Version of the newest migration.
const NEWEST: i64 = 1;

/// A migration that has not been applied yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingMigration {
    /// Number of the migration.
    pub version: i64,
    /// Name of the migration.
    pub name: &'static str,
    /// SQL, with all table names filled in. Also inserts the row that records the migration.
    pub sql: String,
}

/// State of a database.
struct DatabaseState {
    /// Newest applied migration, or 0.
    version: i64,
    /// Whether `callgate_migrations` exists.
    has_migrations_table: bool,
    /// Names of the tables, which may not exist yet.
    tables: TableNames,
}

impl DatabaseState {
    /// Returns the migrations that are not applied.
    fn pending(&self, dialect: Dialect) -> Vec<PendingMigration> {
        let steps = STEPS.iter().filter(|step| step.version > self.version);
        steps.map(|step| self.pending_migration(step, dialect)).collect()
    }

    /// Returns the SQL of a migration, with the statements that record the migration and the table names.
    fn pending_migration(&self, step: &Step, dialect: Dialect) -> PendingMigration {
        let Step { version, name, sql } = *step;
        let mut parts = vec![format!("-- {version}: {name}")];
        if version == 1 && !self.has_migrations_table {
            parts.push(schema::MIGRATIONS.script(dialect));
        }
        parts.push(self.tables.expand(sql(dialect).trim_end()));
        if version == 1 {
            let tables_json =
                serde_json::to_string(&self.tables).unwrap_or_default().replace('\'', "''");
            parts.push(format!(
                "DELETE FROM callgate_meta WHERE name = '{TABLE_NAMES_KEY}';\n\
                 INSERT INTO callgate_meta (name, value) VALUES ('{TABLE_NAMES_KEY}', '{tables_json}');"
            ));
        }
        parts.push(dialect.expand(&format!(
            "INSERT INTO callgate_migrations (version, name, applied_at) VALUES ({version}, '{name}', {{now}});\n"
        )));
        PendingMigration { version, name, sql: parts.join(dialect.batch_separator()) }
    }
}

/// Returns the table names of an existing registry with the current version.
pub(crate) async fn registry_tables(
    database: &Pool,
    url: &str,
    tables: Option<&TableNames>,
) -> Result<TableNames, OpenError> {
    let mut transaction = database.begin(Purpose::Read).await?;
    let state = read_state(&mut transaction, database.dialect(), tables).await?;
    match state.version {
        0 => Err(OpenError::Missing(url.to_owned())),
        NEWEST => Ok(state.tables),
        version => Err(OpenError::Older { found: version, needed: NEWEST }),
    }
}

/// Creates or migrates a registry. Returns it with the names of the applied migrations.
pub(crate) async fn migrate(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    tables: Option<&TableNames>,
) -> Result<(Pool, Vec<&'static str>), OpenError> {
    // If two programs create the first table at the same time, SQL Server refuses the statement of one program.
    let is_refused = |error: &OpenError| {
        url.dialect() == Dialect::SqlServer && error.database().is_some_and(DatabaseError::is_busy)
    };
    retry(MAX_ATTEMPTS, is_refused, || try_migrate(url, options, tables)).await
}

async fn try_migrate(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    tables: Option<&TableNames>,
) -> Result<(Pool, Vec<&'static str>), OpenError> {
    let mut database = connect(url, options, OpenMode::Create).await?;
    let dialect = database.dialect();
    // Reads without the lock, because a long import of another process may hold the lock.
    let mut read_transaction = database.begin(Purpose::Read).await?;
    let state = read_checked_state(&mut read_transaction, dialect, tables).await?;
    drop(read_transaction);
    if state.version == NEWEST {
        database.tables = state.tables;
        return Ok((database, Vec::new()));
    }
    database.driver.prepare().await?;
    let mut transaction = database.begin(Purpose::Migrate).await?;
    // Another process may have migrated the registry meanwhile.
    let state = read_checked_state(&mut transaction, dialect, tables).await?;
    let mut applied = Vec::new();
    for step in state.pending(dialect) {
        transaction.script(&step.sql).await?;
        applied.push(step.name);
    }
    transaction.commit().await?;
    database.tables = state.tables;
    Ok((database, applied))
}

/// Returns the migrations that [`migrate`] would apply.
pub(crate) async fn pending(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    tables: Option<&TableNames>,
) -> Result<Vec<PendingMigration>, OpenError> {
    let dialect = url.dialect();
    let state = match connect(url, options, OpenMode::Existing).await {
        Ok(database) => {
            read_checked_state(&mut database.begin(Purpose::Read).await?, dialect, tables).await?
        }
        Err(OpenError::Missing(_)) => DatabaseState {
            version: 0,
            has_migrations_table: false,
            tables: tables.cloned().unwrap_or_default(),
        },
        Err(error) => return Err(error),
    };
    Ok(state.pending(dialect))
}

/// Returns a script with which the database's own tools can create a registry.
pub fn install_script(dialect: Dialect, tables: &TableNames) -> String {
    let empty = DatabaseState { version: 0, has_migrations_table: false, tables: tables.clone() };
    let steps: Vec<String> = empty.pending(dialect).into_iter().map(|step| step.sql).collect();
    steps.join(dialect.batch_separator())
}

/// Reads the state of a database. Fails if it has unrelated tables with the names of the registry's tables.
async fn read_checked_state(
    transaction: &mut Transaction<'_>,
    dialect: Dialect,
    tables: Option<&TableNames>,
) -> Result<DatabaseState, OpenError> {
    let state = read_state(transaction, dialect, tables).await?;
    for name in state.tables.all() {
        if !state.has_migrations_table && table_exists(transaction, dialect, &name).await? {
            return Err(OpenError::TableExists(name));
        }
    }
    Ok(state)
}

async fn read_state(
    transaction: &mut Transaction<'_>,
    dialect: Dialect,
    tables: Option<&TableNames>,
) -> Result<DatabaseState, OpenError> {
    let has_migrations_table = table_exists(transaction, dialect, schema::MIGRATIONS.name).await?;
    let version = if has_migrations_table { applied_version(transaction).await? } else { 0 };
    let recorded = if version > 0 { recorded_tables(transaction).await? } else { None };
    let tables = match (recorded, tables) {
        (Some(recorded), Some(tables)) if recorded != *tables => {
            return Err(OpenError::OtherTables);
        }
        (Some(recorded), _) => recorded,
        (None, tables) => tables.cloned().unwrap_or_default(),
    };
    Ok(DatabaseState { version, has_migrations_table, tables })
}

async fn table_exists(
    transaction: &mut Transaction<'_>,
    dialect: Dialect,
    table: &str,
) -> Result<bool> {
    Ok(!transaction.rows(dialect.table_exists_query(), &[table.into()]).await?.is_empty())
}

async fn applied_version(transaction: &mut Transaction<'_>) -> Result<i64, OpenError> {
    let sql = "SELECT version, name FROM callgate_migrations ORDER BY version";
    let mut newest = 0;
    for mut row in transaction.rows(sql, &[]).await? {
        newest = row.int()?;
        let name = row.text();
        if STEPS.iter().any(|step| step.version == newest && step.name != name) {
            return Err(OpenError::Unreleased);
        }
    }
    if newest > NEWEST {
        return Err(OpenError::Newer { found: newest, supported: NEWEST });
    }
    Ok(newest)
}

async fn recorded_tables(transaction: &mut Transaction<'_>) -> Result<Option<TableNames>> {
    let sql = "SELECT value FROM callgate_meta WHERE name = ?";
    let rows = transaction.rows(sql, &[TABLE_NAMES_KEY.into()]).await?;
    let recorded = rows.into_iter().next().map(|mut row| row.text());
    Ok(recorded.and_then(|recorded| serde_json::from_str(&recorded).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migration_versions_start_at_one_without_gaps() {
        for (version, step) in (1..).zip(&STEPS) {
            assert_eq!(step.version, version, "{}", step.name);
        }
        assert_eq!(STEPS.last().unwrap().version, NEWEST);
    }
}
