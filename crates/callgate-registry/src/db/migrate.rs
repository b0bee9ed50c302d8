//! Migrations: steps that are numbered from 1, each applied once and never changed after a release.
//!
//! `callgate_migrations` states which were applied. It is made first of all, so whoever sees it sees a
//! registry, or one that is being made. Where the making of tables cannot be taken back (MySQL), a step
//! that was interrupted is run again: its statements allow for that.

use crate::db::connect::{DatabaseOptions, Wanted, connect};
use crate::db::database::{Dialect, Purpose};
use crate::db::error::{OpenError, Result};
use crate::db::pool::{Pool, PoolTransaction};
use crate::db::schema;
use crate::db::table_names::TableNames;
use crate::db::url::DatabaseUrl;

/// Name of the registry's note of its table names.
const TABLES: &str = "tables";

/// Number of attempts where others migrate at the same time.
const MAX_TRIES: usize = 5;

struct Step {
    version: i64,
    name: &'static str,
    sql: fn(Dialect) -> String,
}

const STEPS: [Step; 1] = [Step { version: NEWEST, name: "registry", sql: schema::script }];
/// Version of a registry that is up to date.
const NEWEST: i64 = 1;
/// Before the first release SQLite had several steps, of which this was the second.
const UNRELEASED: (i64, &str) = (2, "sessions");

/// A step as it would be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingMigration {
    /// Its number.
    pub version: i64,
    /// Its name.
    pub name: &'static str,
    /// Its SQL, with the tables' names and with the note that it was applied.
    pub sql: String,
}

/// State of a database.
struct Found {
    /// The newest migration that it has; 0 where it has none.
    version: i64,
    /// Whether anybody began to make a registry there.
    is_begun: bool,
    /// Names of its tables, also if they are not there yet.
    tables: TableNames,
}

impl Found {
    /// Returns the steps that are missing.
    fn pending(&self, dialect: Dialect) -> Vec<PendingMigration> {
        let missing = STEPS.iter().filter(|step| step.version > self.version);
        missing.map(|step| self.with_notes(step, dialect)).collect()
    }

    /// Returns a step with the notes about it. A registry knows the names of its tables before it counts as
    /// made.
    fn with_notes(&self, step: &Step, dialect: Dialect) -> PendingMigration {
        let Step { version, name, sql } = *step;
        let mut parts = vec![format!("-- {version}: {name}")];
        if version == 1 && !self.is_begun {
            parts.push(schema::MIGRATIONS.script(dialect));
        }
        parts.push(self.tables.expand(sql(dialect).trim_end()));
        if version == 1 {
            let noted = serde_json::to_string(&self.tables).unwrap_or_default().replace('\'', "''");
            parts.push(format!(
                "DELETE FROM callgate_meta WHERE name = '{TABLES}';\n\
                 INSERT INTO callgate_meta (name, value) VALUES ('{TABLES}', '{noted}');"
            ));
        }
        parts.push(dialect.expand(&format!(
            "INSERT INTO callgate_migrations (version, name, applied_at) VALUES ({version}, '{name}', {{now}});\n"
        )));
        PendingMigration { version, name, sql: parts.join(dialect.between_batches()) }
    }
}

/// Returns the table names of a registry that must be there, and up to date.
pub(crate) async fn tables_of(
    database: &Pool,
    shown: &str,
    tables: Option<&TableNames>,
) -> Result<TableNames, OpenError> {
    let mut moment = database.begin(Purpose::Read).await?;
    let found = find(&mut moment, database.dialect(), tables).await?;
    match found.version {
        0 => Err(OpenError::Missing(shown.to_owned())),
        NEWEST => Ok(found.tables),
        version => Err(OpenError::Older { found: version, needed: NEWEST }),
    }
}

/// Brings a registry up to date, making it first if it is not there. Returns the names of its tables and of
/// the migrations that were applied.
pub(crate) async fn migrate(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    tables: Option<&TableNames>,
) -> Result<(TableNames, Vec<&'static str>), OpenError> {
    for _ in 1..MAX_TRIES {
        match try_migrate(url, options, tables).await {
            // Of two who make the first table there, one waits for the other and is then refused.
            Err(OpenError::Database(error))
                if error.is_busy() && url.dialect() == Dialect::SqlServer => {}
            done => return done,
        }
    }
    try_migrate(url, options, tables).await
}

async fn try_migrate(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    tables: Option<&TableNames>,
) -> Result<(TableNames, Vec<&'static str>), OpenError> {
    let database = connect(url, options, Wanted::Made).await?;
    let dialect = database.dialect();
    let mut look = database.begin(Purpose::Migrate).await?;
    let found = find_place(&mut look, dialect, tables).await?;
    if found.version == NEWEST {
        return Ok((found.tables, Vec::new()));
    }
    drop(look);
    database.driver.prepare().await?;
    let mut transaction = database.begin(Purpose::Migrate).await?;
    // Another process may have made it meanwhile.
    let found = find_place(&mut transaction, dialect, tables).await?;
    let mut applied = Vec::new();
    for step in found.pending(dialect) {
        transaction.script(&step.sql).await?;
        applied.push(step.name);
    }
    transaction.commit().await?;
    Ok((found.tables, applied))
}

/// Returns the migrations that [`migrate`] would apply. Nothing is made.
pub(crate) async fn pending(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    tables: Option<&TableNames>,
) -> Result<Vec<PendingMigration>, OpenError> {
    let dialect = url.dialect();
    let found = match connect(url, options, Wanted::There).await {
        Ok(database) => {
            find_place(&mut database.begin(Purpose::Read).await?, dialect, tables).await?
        }
        Err(OpenError::Missing(_)) => {
            Found { version: 0, is_begun: false, tables: tables.cloned().unwrap_or_default() }
        }
        Err(error) => return Err(error),
    };
    Ok(found.pending(dialect))
}

/// Returns all of a registry as one script, for the database's own tools; it makes the same as the program.
pub fn install_script(dialect: Dialect, tables: &TableNames) -> String {
    let nothing = Found { version: 0, is_begun: false, tables: tables.clone() };
    let steps: Vec<String> = nothing.pending(dialect).into_iter().map(|step| step.sql).collect();
    steps.join(dialect.between_batches())
}

/// Finds out the state of a database that a registry is to be made in. Fails if it has tables of its own
/// under the names of ours.
async fn find_place(
    transaction: &mut PoolTransaction,
    dialect: Dialect,
    tables: Option<&TableNames>,
) -> Result<Found, OpenError> {
    let found = find(transaction, dialect, tables).await?;
    for name in found.tables.all() {
        if !found.is_begun && is_there(transaction, dialect, &name).await? {
            return Err(OpenError::TableExists(name));
        }
    }
    Ok(found)
}

async fn find(
    transaction: &mut PoolTransaction,
    dialect: Dialect,
    tables: Option<&TableNames>,
) -> Result<Found, OpenError> {
    let is_begun = is_there(transaction, dialect, schema::MIGRATIONS.name).await?;
    let version = if is_begun { applied_version(transaction).await? } else { 0 };
    let noted = if version > 0 { noted_tables(transaction).await? } else { None };
    let tables = match (noted, tables) {
        (Some(noted), Some(tables)) if noted != *tables => return Err(OpenError::OtherTables),
        (Some(noted), _) => noted,
        (None, tables) => tables.cloned().unwrap_or_default(),
    };
    Ok(Found { version, is_begun, tables })
}

async fn is_there(
    transaction: &mut PoolTransaction,
    dialect: Dialect,
    table: &str,
) -> Result<bool> {
    Ok(!transaction.rows(dialect.table_there(), &[table.into()]).await?.is_empty())
}

async fn applied_version(transaction: &mut PoolTransaction) -> Result<i64, OpenError> {
    let sql = "SELECT version, name FROM callgate_migrations ORDER BY version";
    let mut newest = 0;
    for mut row in transaction.rows(sql, &[]).await? {
        newest = row.int()?;
        if newest == UNRELEASED.0 && row.text() == UNRELEASED.1 {
            return Err(OpenError::Unreleased);
        }
    }
    if newest > NEWEST {
        return Err(OpenError::Newer { found: newest, supported: NEWEST });
    }
    Ok(newest)
}

async fn noted_tables(transaction: &mut PoolTransaction) -> Result<Option<TableNames>> {
    let sql = "SELECT value FROM callgate_meta WHERE name = ?";
    let rows = transaction.rows(sql, &[TABLES.into()]).await?;
    let noted = rows.into_iter().next().map(|mut row| row.text());
    Ok(noted.and_then(|noted| serde_json::from_str(&noted).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_up_from_one() {
        for (version, step) in (1..).zip(&STEPS) {
            assert_eq!(step.version, version, "{}", step.name);
        }
        assert_eq!(STEPS.last().unwrap().version, NEWEST);
    }
}
