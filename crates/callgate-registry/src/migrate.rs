//! Migrations: one directory per dialect, numbered from 1, each applied once and never changed.
//!
//! `callgate_migrations` says which were applied. It is made first of all, so whoever sees it sees a
//! registry, or one that is being made. Where the making of tables cannot be taken back (MySQL), a step
//! that was interrupted is run again: its statements allow for that.

use crate::connect::{DatabaseOptions, DatabaseUrl, Wanted, connect};
use crate::pool::{Pool, PoolTransaction};
use crate::sql::{Dialect, Purpose};
use crate::store::{Result, StoreError};
use crate::tables::TableNames;

/// The registry's note of what its tables are called.
const TABLES: &str = "tables";

/// So often is it tried, where others do the same at that moment.
const MAX_TRIES: usize = 5;

/// One step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// The steps for SQLite.
const SQLITE: &[Migration] = &[
    Migration {
        version: 1,
        name: "registry",
        sql: include_str!("../migrations/sqlite/0001_registry.sql"),
    },
    Migration {
        version: 2,
        name: "sessions",
        sql: include_str!("../migrations/sqlite/0002_sessions.sql"),
    },
    Migration {
        version: 3,
        name: "subscriptions",
        sql: include_str!("../migrations/sqlite/0003_subscriptions.sql"),
    },
    Migration {
        version: 4,
        name: "imports",
        sql: include_str!("../migrations/sqlite/0004_imports.sql"),
    },
    Migration {
        version: 5,
        name: "upstreams",
        sql: include_str!("../migrations/sqlite/0005_upstreams.sql"),
    },
    Migration {
        version: 6,
        name: "replicas",
        sql: include_str!("../migrations/sqlite/0006_replicas.sql"),
    },
];

/// The steps for PostgreSQL.
const POSTGRES: &[Migration] = &[Migration {
    version: 1,
    name: "registry",
    sql: include_str!("../migrations/postgres/0001_registry.sql"),
}];
/// The steps for MySQL and MariaDB.
const MYSQL: &[Migration] = &[Migration {
    version: 1,
    name: "registry",
    sql: include_str!("../migrations/mysql/0001_registry.sql"),
}];
/// The steps for SQL Server.
const SQL_SERVER: &[Migration] = &[Migration {
    version: 1,
    name: "registry",
    sql: include_str!("../migrations/mssql/0001_registry.sql"),
}];

impl Dialect {
    fn migrations(self) -> &'static [Migration] {
        match self {
            Self::Sqlite => SQLITE,
            Self::Postgres => POSTGRES,
            Self::MySql => MYSQL,
            Self::SqlServer => SQL_SERVER,
        }
    }

    fn newest_version(self) -> i64 {
        self.migrations().last().map_or(0, |migration| migration.version)
    }
}

/// A step as it would be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingMigration {
    /// Its number.
    pub version: i64,
    /// What it is called.
    pub name: &'static str,
    /// Its SQL, with the tables' names and with the note that it was applied.
    pub sql: String,
}

/// What a database has.
struct Found {
    /// The newest migration that it has; 0 where it has none.
    version: i64,
    /// Whether anybody began to make a registry there.
    is_begun: bool,
    /// What its tables are called, or would be.
    tables: TableNames,
}

/// What the tables of a registry are called that must be there, and up to date.
pub(crate) async fn tables_of(
    database: &Pool,
    shown: &str,
    tables: Option<&TableNames>,
) -> Result<TableNames> {
    let dialect = database.dialect();
    let mut moment = database.begin(Purpose::Read).await?;
    let found = find(&mut moment, dialect, tables).await?;
    if found.version == 0 {
        return Err(StoreError::Missing(shown.to_owned()));
    }
    let needed = dialect.newest_version();
    if found.version < needed {
        return Err(StoreError::Older { found: found.version, needed });
    }
    Ok(found.tables)
}

/// Brings a registry up to date, making it first if it is not there. Comes back with the names of its
/// tables and of the migrations that were applied.
pub(crate) async fn migrate(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    tables: Option<&TableNames>,
) -> Result<(TableNames, Vec<&'static str>)> {
    for _ in 1..MAX_TRIES {
        match try_migrate(url, options, tables).await {
            // Of two who make the first table there, one waits for the other and is then refused.
            Err(error) if error.is_busy() && url.dialect() == Dialect::SqlServer => {}
            done => return done,
        }
    }
    try_migrate(url, options, tables).await
}

async fn try_migrate(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    tables: Option<&TableNames>,
) -> Result<(TableNames, Vec<&'static str>)> {
    let database = connect(url, options, Wanted::Made).await?;
    let dialect = database.dialect();
    let mut look = database.begin(Purpose::Migrate).await?;
    let found = find(&mut look, dialect, tables).await?;
    if found.version == dialect.newest_version() {
        return Ok((found.tables, Vec::new()));
    }
    refuse_foreign_tables(&mut look, dialect, &found).await?;
    drop(look);
    database.driver.prepare().await?;
    let mut transaction = database.begin(Purpose::Migrate).await?;
    // Another process may have made it meanwhile.
    let found = find(&mut transaction, dialect, tables).await?;
    refuse_foreign_tables(&mut transaction, dialect, &found).await?;
    let applied = apply(&mut transaction, dialect, &found).await?;
    transaction.commit().await?;
    Ok((found.tables, applied))
}

/// The migrations that [`migrate`] would apply. Nothing is made.
pub(crate) async fn pending(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    tables: Option<&TableNames>,
) -> Result<Vec<PendingMigration>> {
    let dialect = url.dialect();
    let found = match connect(url, options, Wanted::There).await {
        Ok(database) => {
            let mut moment = database.begin(Purpose::Read).await?;
            let found = find(&mut moment, dialect, tables).await?;
            refuse_foreign_tables(&mut moment, dialect, &found).await?;
            found
        }
        Err(StoreError::Missing(_)) => {
            Found { version: 0, is_begun: false, tables: tables.cloned().unwrap_or_default() }
        }
        Err(error) => return Err(error),
    };
    let missing = dialect.migrations().iter().filter(|one| one.version > found.version);
    Ok(missing.map(|one| step(dialect, one, &found.tables, found.is_begun)).collect())
}

/// All of a registry as one script, for the database's own tools; what it makes is what the program
/// would have made.
pub fn install_script(dialect: Dialect, tables: &TableNames) -> String {
    let steps = dialect.migrations().iter().map(|one| step(dialect, one, tables, false).sql);
    steps.collect::<Vec<_>>().join(dialect.between_batches())
}

/// A step with what is noted about it.
fn step(
    dialect: Dialect,
    one: &Migration,
    tables: &TableNames,
    is_begun: bool,
) -> PendingMigration {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let Migration { version, name, sql } = *one;
    let mut parts = vec![format!("-- {version}: {name}")];
    if version == 1 && !is_begun {
        parts.push(dialect.migrations_table().to_owned());
    }
    parts.push(tables.expand(sql).trim_end().to_owned());
    if version == 1 {
        let noted = [quoted(TABLES), quoted(&written(tables))].join(", ");
        parts.push(format!("INSERT INTO callgate_meta (name, value) VALUES ({noted});"));
    }
    let note = "INSERT INTO callgate_migrations (version, name, applied_at) VALUES";
    let note = format!("{note} ({version}, {}, {{now}});", quoted(name));
    parts.push(dialect.expand(&note));
    let mut sql = parts.join(dialect.between_batches());
    sql.push('\n');
    PendingMigration { version, name, sql }
}

async fn find(
    transaction: &mut PoolTransaction,
    dialect: Dialect,
    tables: Option<&TableNames>,
) -> Result<Found> {
    let is_begun = is_there(transaction, dialect, "callgate_migrations").await?;
    let version = if is_begun { applied_version(transaction).await? } else { 0 };
    let known = dialect.newest_version();
    if version > known {
        return Err(StoreError::Newer { found: version, known });
    }
    let noted = if version > 0 { noted_tables(transaction).await? } else { None };
    let tables = match (noted, tables) {
        (Some(noted), Some(tables)) if noted != *tables => return Err(StoreError::OtherTables),
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

async fn applied_version(transaction: &mut PoolTransaction) -> Result<i64> {
    let rows = transaction.rows("SELECT MAX(version) FROM callgate_migrations", &[]).await?;
    rows.into_iter().next().map_or(Ok(0), |mut row| row.int())
}

async fn noted_tables(transaction: &mut PoolTransaction) -> Result<Option<TableNames>> {
    let sql = "SELECT value FROM callgate_meta WHERE name = ?";
    let rows = transaction.rows(sql, &[TABLES.into()]).await?;
    let noted = rows.into_iter().next().map(|mut row| row.text());
    Ok(noted.and_then(|noted| serde_json::from_str(&noted).ok()))
}

async fn refuse_foreign_tables(
    transaction: &mut PoolTransaction,
    dialect: Dialect,
    found: &Found,
) -> Result<()> {
    if found.is_begun {
        return Ok(());
    }
    for name in found.tables.all() {
        if is_there(transaction, dialect, &name).await? {
            return Err(StoreError::TableTaken(name));
        }
    }
    Ok(())
}

/// Applies what is missing.
async fn apply(
    transaction: &mut PoolTransaction,
    dialect: Dialect,
    found: &Found,
) -> Result<Vec<&'static str>> {
    if !found.is_begun {
        transaction.script(dialect.migrations_table()).await?;
    }
    let note = "INSERT INTO callgate_migrations (version, name, applied_at) VALUES (?, ?, {now})";
    let note = dialect.expand(note);
    let mut applied = Vec::new();
    for one in dialect.migrations().iter().filter(|one| one.version > found.version) {
        transaction.script(&found.tables.expand(one.sql)).await?;
        if one.version == 1 {
            note_tables(transaction, &found.tables).await?;
        }
        transaction.rows(&note, &[one.version.into(), one.name.into()]).await?;
        applied.push(one.name);
    }
    Ok(applied)
}

/// Before the step itself is noted: a registry always knows what its tables are called.
async fn note_tables(transaction: &mut PoolTransaction, tables: &TableNames) -> Result<()> {
    let noted = written(tables);
    transaction.rows("DELETE FROM callgate_meta WHERE name = ?", &[TABLES.into()]).await?;
    let sql = "INSERT INTO callgate_meta (name, value) VALUES (?, ?)";
    transaction.rows(sql, &[TABLES.into(), (&noted).into()]).await?;
    Ok(())
}

fn written(tables: &TableNames) -> String {
    serde_json::to_string(tables).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_up_from_one() {
        for dialect in [Dialect::Sqlite, Dialect::Postgres, Dialect::MySql, Dialect::SqlServer] {
            for (version, migration) in (1..).zip(dialect.migrations()) {
                assert_eq!(migration.version, version, "{dialect:?} {}", migration.name);
            }
        }
    }
}
