//! The registry in a SQL database: each operation is written once, for all of them.
//!
//! `follow.rs` has the operations of a running gateway, `load.rs` and `edit.rs` those of administration, [`Work`] a
//! transaction with what several of them do. The statements are templates; `dialect.rs` says what is in them.

use std::sync::Arc;

use super::Work;
use crate::db::connect::{DatabaseOptions, Wanted, connect};
use crate::db::database::{Dialect, Purpose, Row, Value};
use crate::db::error::OpenError;
use crate::db::migrate::{self, PendingMigration};
use crate::db::pool::Pool;
use crate::db::table_names::TableNames;
use crate::db::url::DatabaseUrl;
use crate::festi::attached::Attached;
use crate::store::Result;

/// So many rows are changed in one go, so that other writers need not wait for all of them.
pub(super) const MAX_CHANGED: usize = 500;

/// A registry in a database.
#[derive(Debug, Clone)]
pub struct SqlStore {
    pub(super) database: Arc<Pool>,
    pub(super) tables: TableNames,
    /// The Festi database that is attached to it, if one is.
    pub(super) festi: Option<Arc<Attached>>,
}

impl SqlStore {
    /// Opens a registry that is there. Its own note says what the tables are called; `tables`, if
    /// given, must agree.
    pub async fn open(
        url: &DatabaseUrl,
        options: &DatabaseOptions,
        tables: Option<&TableNames>,
    ) -> Result<Self, OpenError> {
        let database = connect(url, options, Wanted::There).await?;
        let shown = url.path().map_or_else(|| url.to_string(), |path| path.display().to_string());
        let tables = migrate::tables_of(&database, &shown, tables).await?;
        Ok(Self { database: Arc::new(database), tables, festi: None })
    }

    /// Opens a registry and brings it up to date, making it first if it is not there. Returns
    /// the names of the migrations that were applied.
    pub async fn migrate(
        url: &DatabaseUrl,
        options: &DatabaseOptions,
        tables: Option<&TableNames>,
    ) -> Result<(Self, Vec<&'static str>), OpenError> {
        let (tables, applied) = migrate::migrate(url, options, tables).await?;
        let database = Arc::new(connect(url, options, Wanted::There).await?);
        Ok((Self { database, tables, festi: None }, applied))
    }

    /// What [`Self::migrate`] would apply. Nothing is made.
    pub async fn pending(
        url: &DatabaseUrl,
        options: &DatabaseOptions,
        tables: Option<&TableNames>,
    ) -> Result<Vec<PendingMigration>, OpenError> {
        migrate::pending(url, options, tables).await
    }

    pub(crate) fn with_festi(&self, festi: Attached) -> Self {
        Self { festi: Some(Arc::new(festi)), ..self.clone() }
    }

    /// Returns the registry without the Festi database that is attached to it.
    #[must_use]
    pub fn own(&self) -> Self {
        Self { festi: None, ..self.clone() }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.database.dialect()
    }

    /// A template as SQL of this database, with the tables' names in it.
    pub(super) fn sql(&self, template: &str) -> String {
        self.tables.expand(&self.dialect().expand(template))
    }

    /// Runs one statement by itself.
    pub(super) async fn rows(&self, template: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        Ok(self.database.rows(&self.sql(template), values).await?)
    }

    pub(super) async fn begin(&self, purpose: Purpose) -> Result<Work<'_>> {
        Ok(Work::new(self, self.database.begin(purpose).await?))
    }
}

/// Numbers as the list of a statement, and its values.
pub(super) fn listed(ids: impl Iterator<Item = i64>) -> (String, Vec<Value<'static>>) {
    let ids: Vec<_> = ids.map(Value::from).collect();
    (vec!["?"; ids.len()].join(", "), ids)
}
