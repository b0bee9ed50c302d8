//! The registry in a SQL database: each operation is written once, for all of them.
//!
//! `load.rs` and `edit.rs` have the operations, [`Work`] a transaction with what several of them do. The
//! statements are templates; `dialect.rs` says what is in them.

mod access;
mod contents;
mod copy;
mod edit;
mod import;
mod load;
mod methods;
mod read;
mod work;

use crate::connect::{DatabaseOptions, DatabaseUrl, Wanted, connect};
use crate::migrate::{self, PendingMigration};
use crate::sql::{Database, Dialect, Purpose, Row, Value};
use crate::store::{Result, Store};
use crate::tables::TableNames;
use work::Work;

pub(crate) use contents::{Kind, Width};
pub use copy::{Copied, CopiedTable, Copy, CopyError, copy};

/// So many rows are changed in one go, so that other writers need not wait for all of them.
const MAX_CHANGED: usize = 500;

/// A registry in a database.
#[derive(Debug)]
pub struct SqlStore {
    database: Box<dyn Database>,
    tables: TableNames,
}

impl Store for SqlStore {}

impl SqlStore {
    /// Opens a registry that is there. Its own note says what the tables are called; `tables`, if
    /// given, must agree.
    pub async fn open(
        url: &DatabaseUrl,
        options: &DatabaseOptions,
        tables: Option<&TableNames>,
    ) -> Result<Self> {
        let database = connect(url, options, Wanted::There).await?;
        let shown = url.path().map_or_else(|| url.to_string(), |path| path.display().to_string());
        let tables = migrate::tables_of(&*database, &shown, tables).await?;
        Ok(Self { database, tables })
    }

    /// Opens a registry and brings it up to date, making it first if it is not there. Comes back
    /// with the names of the migrations that were applied.
    pub async fn migrate(
        url: &DatabaseUrl,
        options: &DatabaseOptions,
        tables: Option<&TableNames>,
    ) -> Result<(Self, Vec<&'static str>)> {
        let (tables, applied) = migrate::migrate(url, options, tables).await?;
        let database = connect(url, options, Wanted::There).await?;
        Ok((Self { database, tables }, applied))
    }

    /// What [`Self::migrate`] would apply. Nothing is made.
    pub async fn pending(
        url: &DatabaseUrl,
        options: &DatabaseOptions,
        tables: Option<&TableNames>,
    ) -> Result<Vec<PendingMigration>> {
        migrate::pending(url, options, tables).await
    }

    fn dialect(&self) -> Dialect {
        self.database.dialect()
    }

    /// A template as SQL of this database, with the tables' names in it.
    fn sql(&self, template: &str) -> String {
        self.tables.expand(&self.dialect().expand(template))
    }

    /// Runs one statement by itself.
    async fn rows(&self, template: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.database.rows(&self.sql(template), values).await
    }

    async fn begin(&self, purpose: Purpose) -> Result<Work<'_>> {
        Ok(Work::new(self, self.database.begin(purpose).await?))
    }
}
