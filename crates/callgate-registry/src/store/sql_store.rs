//! A registry in a SQL database.
//!
//! Statements are templates, see `db/dialect.rs`.

use std::sync::Arc;

use crate::db::connect::{DatabaseOptions, OpenMode, connect};
use crate::db::database::Value;
use crate::db::dialect::Dialect;
use crate::db::error::{self as db, OpenError};
use crate::db::migrate::{self, PendingMigration};
use crate::db::pool::Pool;
use crate::db::table_names::TableNames;
use crate::db::transaction::Transaction;
use crate::db::url::DatabaseUrl;
use crate::festi::attached::Attached;
use crate::store::Result;

/// Maximum number of rows that are changed in one transaction. The limit keeps the waiting time of other writers short.
pub(super) const MAX_CHANGED: usize = 500;

/// A registry in a database.
#[derive(Debug, Clone)]
pub struct SqlStore {
    pub(super) database: Arc<Pool>,
    /// Attached Festi database.
    pub(super) festi: Option<Arc<Attached>>,
}

impl SqlStore {
    /// Opens an existing registry. If `tables` is given, it must equal the stored table names.
    pub async fn open(
        url: &DatabaseUrl,
        options: &DatabaseOptions,
        tables: Option<&TableNames>,
    ) -> Result<Self, OpenError> {
        let mut database = connect(url, options, OpenMode::Existing).await?;
        let display_url =
            url.path().map_or_else(|| url.to_string(), |path| path.display().to_string());
        database.tables = migrate::registry_tables(&database, &display_url, tables).await?;
        Ok(Self { database: Arc::new(database), festi: None })
    }

    /// Opens a registry. Creates or migrates it if necessary. Returns the names of the applied migrations.
    pub async fn migrate(
        url: &DatabaseUrl,
        options: &DatabaseOptions,
        tables: Option<&TableNames>,
    ) -> Result<(Self, Vec<&'static str>), OpenError> {
        let (database, applied) = migrate::migrate(url, options, tables).await?;
        Ok((Self { database: Arc::new(database), festi: None }, applied))
    }

    /// Returns the migrations that [`Self::migrate`] would apply.
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

    /// Returns the registry without its attached database.
    #[must_use]
    pub fn without_festi(&self) -> Self {
        Self { festi: None, ..self.clone() }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.database.dialect()
    }
}

impl Transaction<'_> {
    /// Increments a counter and returns its new value. Other writers of the counter wait.
    pub(super) async fn next_number(&mut self, counter: &str) -> db::Result<i64> {
        let update = "UPDATE callgate_revisions SET value = value + 1 WHERE name = ?";
        self.run(update, &[counter.into()]).await?;
        self.change_counter(counter).await
    }

    pub(super) async fn change_counter(&mut self, counter: &str) -> db::Result<i64> {
        let sql = "SELECT value FROM callgate_revisions WHERE name = ?";
        self.number(sql, &[counter.into()]).await
    }
}

/// Returns the placeholders and values of an `IN` list.
pub(super) fn in_list(ids: impl Iterator<Item = i64>) -> (String, Vec<Value<'static>>) {
    let ids: Vec<_> = ids.map(Value::from).collect();
    (vec!["?"; ids.len()].join(", "), ids)
}
