//! A registry of its own for each test, in each kind of database.

use callgate_registry::{DatabaseOptions, DatabaseUrl, Dialect, SqlStore, TableNames};
use tempfile::TempDir;

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
}

/// An empty database, gone at the end.
pub(crate) struct Place {
    pub(crate) url: DatabaseUrl,
    _kept: TempDir,
}

impl Kind {
    /// A database that has nothing yet.
    pub(crate) async fn place(self) -> Place {
        match self {
            Self::Sqlite => {
                let directory = tempfile::tempdir().unwrap();
                let url = DatabaseUrl::sqlite(directory.path().join("registry.db"));
                Place { url, _kept: directory }
            }
        }
    }

    pub(crate) async fn registry(self) -> Registry {
        self.registry_with(None).await
    }

    pub(crate) async fn registry_with(self, tables: Option<TableNames>) -> Registry {
        let place = self.place().await;
        let (store, _) = place.migrate(tables.as_ref()).await.unwrap();
        Registry { store, place }
    }
}

impl Place {
    pub(crate) async fn open(
        &self,
        tables: Option<&TableNames>,
    ) -> callgate_registry::Result<SqlStore> {
        SqlStore::open(&self.url, &DatabaseOptions::default(), tables).await
    }

    pub(crate) async fn migrate(
        &self,
        tables: Option<&TableNames>,
    ) -> callgate_registry::Result<(SqlStore, Vec<&'static str>)> {
        SqlStore::migrate(&self.url, &DatabaseOptions::default(), tables).await
    }

    /// Runs plain SQL on a connection of its own, as another program would.
    pub(crate) async fn sql(&self, sql: &str) {
        match self.url.dialect() {
            Dialect::Sqlite => sqlite(&self.url, sql).await,
            other => panic!("no door to {other:?}"),
        }
    }

    /// The time by the database's clock, in plain SQL.
    pub(crate) fn now(&self) -> &'static str {
        match self.url.dialect() {
            Dialect::Sqlite => "unixepoch()",
            Dialect::Postgres => "CURRENT_TIMESTAMP",
            Dialect::MySql => "UTC_TIMESTAMP()",
            Dialect::SqlServer => "SYSUTCDATETIME()",
        }
    }
}

async fn sqlite(url: &DatabaseUrl, sql: &str) {
    use sqlx::{Connection as _, Executor as _};
    let path = url.path().unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()))).await.unwrap();
    connection.close().await.unwrap();
}

/// A registry, and where it is.
pub(crate) struct Registry {
    pub(crate) store: SqlStore,
    pub(crate) place: Place,
}
