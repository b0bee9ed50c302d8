//! The registry on a real database: the contract that every store keeps, and SQLite's own.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod contract;
mod sqlite;

use std::path::PathBuf;

use callgate_registry::{SqliteStore, TableNames};
use tempfile::TempDir;

/// A registry in a directory of its own, gone at the end.
struct Registry {
    store: SqliteStore,
    path: PathBuf,
    _directory: TempDir,
}

async fn registry() -> Registry {
    registry_with(None).await
}

async fn registry_with(tables: Option<TableNames>) -> Registry {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("registry.db");
    let (store, _) = SqliteStore::migrate(&path, tables.as_ref()).await.unwrap();
    Registry { store, path, _directory: directory }
}

impl Registry {
    /// Runs plain SQL on a connection of its own, as another program would.
    async fn sql(&self, sql: &'static str) {
        use sqlx::{Connection as _, Executor as _};
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&self.path);
        let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        connection.execute(sqlx::raw_sql(sql)).await.unwrap();
        connection.close().await.unwrap();
    }
}
