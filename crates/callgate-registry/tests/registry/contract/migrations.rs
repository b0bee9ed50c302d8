//! Creating and migrating a registry.

use std::sync::Arc;

use callgate::Mask;
use callgate_registry::{
    DatabaseOptions, Dialect, OpenError, SqlStore, TableNames, install_script,
};

use crate::databases::Kind;
use crate::emulator;

pub(crate) async fn migrations_are_applied_once_by_four_concurrent_programs(kind: Kind) {
    let database = Arc::new(kind.database().await);
    let pending =
        SqlStore::pending(&database.url, &DatabaseOptions::default(), None).await.unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let database = Arc::clone(&database);
            tokio::spawn(async move { database.migrate(None).await.map(|result| result.1) })
        })
        .collect();
    let mut applied = Vec::new();
    for task in tasks {
        applied.extend(task.await.unwrap().unwrap());
    }
    assert!(!applied.is_empty());
    assert_eq!(applied, pending.iter().map(|migration| migration.name).collect::<Vec<_>>());
}

pub(crate) async fn a_registry_stores_its_table_names_and_refuses_others(kind: Kind) {
    let festi = TableNames::with_prefix("festi_").unwrap();
    let registry = kind.registry_with(Some(festi)).await;
    let store = registry.database.open(None).await.unwrap();
    store.add_section("s", "S", Mask::Read).await.unwrap();
    registry.database.sql("DELETE FROM festi_sections").await;
    assert!(registry.store.sections().await.unwrap().is_empty());
    let other = TableNames::default();
    let error = registry.database.open(Some(&other)).await.unwrap_err();
    assert!(matches!(error, OpenError::OtherTables));
    assert!(matches!(registry.database.migrate(Some(&other)).await, Err(OpenError::OtherTables)));
}

pub(crate) async fn missing_and_newer_registries_are_different_errors(kind: Kind) {
    let database = kind.database().await;
    assert!(matches!(database.open(None).await, Err(OpenError::Missing(_))));
    let registry = kind.registry().await;
    let (database, now) = (&registry.database, registry.database.now());
    database.sql(&format!("INSERT INTO callgate_migrations VALUES (99, 'future', {now})")).await;
    let error = database.open(None).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("the registry has version 99, this program supports up to "),
        "{text}"
    );
    assert!(matches!(database.migrate(None).await, Err(OpenError::Newer { .. })));
}

pub(crate) async fn a_registry_of_an_earlier_build_is_refused(kind: Kind) {
    let database = kind.registry().await.database;
    database.sql("UPDATE callgate_migrations SET name = 'registry'").await;
    assert!(matches!(database.open(None).await, Err(OpenError::Unreleased)));
    assert!(matches!(database.migrate(None).await, Err(OpenError::Unreleased)));
}

pub(crate) async fn a_database_with_an_unrelated_table_of_the_same_name_is_refused(kind: Kind) {
    let database = kind.database().await;
    database.sql("CREATE TABLE users (name VARCHAR(10))").await;
    let error = database.migrate(None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the database has a table `users` that does not belong to a registry"
    );
    // No table of the registry was created.
    database.sql("CREATE TABLE callgate_meta (name VARCHAR(10))").await;
    let names = TableNames::default().users("our_users").unwrap();
    let error = database.migrate(Some(&names)).await.unwrap_err();
    assert!(matches!(&error, OpenError::TableExists(name) if name == "callgate_meta"), "{error}");
    assert!(matches!(database.open(None).await, Err(OpenError::Missing(_))));
}

pub(crate) async fn pending_migrations_are_reported_and_not_applied(kind: Kind) {
    let database = kind.database().await;
    let names = TableNames::with_prefix("festi_").unwrap();
    let options = DatabaseOptions::default();
    let pending = SqlStore::pending(&database.url, &options, Some(&names)).await.unwrap();
    assert!(pending[0].sql.contains("festi_sections_user_permission"));
    assert!(!pending[0].sql.contains("{sections"));
    assert!(matches!(database.open(None).await, Err(OpenError::Missing(_))));
    database.migrate(Some(&names)).await.unwrap();
    assert_eq!(SqlStore::pending(&database.url, &options, None).await.unwrap(), []);
}

pub(crate) async fn the_install_script_creates_a_registry(kind: Kind) {
    let database = kind.database().await;
    let names = TableNames::with_prefix("festi_").unwrap();
    database.sql(&install_script(database.url.dialect(), &names)).await;
    if kind == Kind::SqlServer {
        database.sql(&emulator::triggers(&names)).await;
    }
    let (store, applied) = database.migrate(None).await.unwrap();
    assert_eq!(applied, Vec::<&str>::new());
    store.add_section("s", "S", Mask::Read).await.unwrap();
    assert_eq!(database.open(Some(&names)).await.unwrap().sections().await.unwrap().len(), 1);
}

pub(crate) async fn the_install_file_and_the_migrations_create_the_same_schema(kind: Kind) {
    let installed = kind.database().await;
    let dialect = installed.url.dialect();
    installed.sql(&std::fs::read_to_string(crate::install::path(dialect)).unwrap()).await;
    let (_, applied) = installed.migrate(None).await.unwrap();
    assert_eq!(applied, Vec::<&str>::new(), "the installed registry is up to date");
    let migrated = kind.registry().await.database;
    let queries = schema(dialect).iter().chain(METADATA_QUERIES);
    for query in queries {
        let (installed, migrated) = (installed.query(query).await, migrated.query(query).await);
        assert_eq!(installed, migrated, "{query}");
        assert!(!migrated.is_empty(), "{query}");
    }
}

/// MariaDB cannot roll back the creation of tables. Runs the statements up to some point, as if the process had been
/// killed there.
#[tokio::test]
async fn an_interrupted_migration_is_completed_on_mariadb() {
    let kind = Kind::MariaDb;
    let migrated = kind.registry().await.database;
    let script = install_script(Dialect::MySql, &TableNames::default());
    let statements: Vec<&str> = script.split_inclusive(";\n").collect();
    for part in 1..4 {
        let database = kind.database().await;
        database.sql(&statements[..statements.len() * part / 4].concat()).await;
        assert!(matches!(database.open(None).await, Err(OpenError::Missing(_))));
        let (_, applied) = database.migrate(None).await.unwrap();
        assert_eq!(applied, ["tables"]);
        for query in schema(Dialect::MySql).iter().chain(METADATA_QUERIES) {
            assert_eq!(database.query(query).await, migrated.query(query).await, "{part}: {query}");
        }
    }
}

/// Queries of the data that a registry stores about itself.
const METADATA_QUERIES: &[&str] = &[
    "SELECT name FROM callgate_migrations ORDER BY version",
    "SELECT value FROM callgate_meta ORDER BY name",
    "SELECT value FROM callgate_revisions ORDER BY name",
];

/// Queries of the schema: columns, types, whether null is allowed, defaults, indexes, constraints, triggers.
fn schema(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Sqlite => {
            &["SELECT type || ' ' || name || ' ' || tbl_name || ' ' || COALESCE(sql, '')
               FROM sqlite_master ORDER BY name"]
        }
        Dialect::Postgres => &[
            "SELECT table_name, column_name, data_type, character_maximum_length, datetime_precision,
                 is_nullable, column_default, is_identity, collation_name
             FROM information_schema.columns WHERE table_schema = current_schema()
             ORDER BY table_name, column_name",
            "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY indexname",
            "SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint
             WHERE connamespace = current_schema()::regnamespace ORDER BY conname",
            "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1",
            "SELECT proname, prosrc, proconfig FROM pg_proc
             WHERE pronamespace = current_schema()::regnamespace ORDER BY proname",
        ],
        Dialect::MySql => &[
            "SELECT table_name, column_name, column_type, is_nullable, column_default, extra,
                 collation_name
             FROM information_schema.columns WHERE table_schema = DATABASE()
             ORDER BY table_name, column_name",
            "SELECT table_name, index_name, seq_in_index, column_name, non_unique
             FROM information_schema.statistics WHERE table_schema = DATABASE()
             ORDER BY table_name, index_name, seq_in_index",
            "SELECT constraint_name, check_clause FROM information_schema.check_constraints
             WHERE constraint_schema = DATABASE() ORDER BY constraint_name, check_clause",
            "SELECT trigger_name, event_object_table, event_manipulation, action_statement
             FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY trigger_name",
        ],
        Dialect::SqlServer => &[
            "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, IS_NULLABLE, CHARACTER_MAXIMUM_LENGTH, COLUMN_DEFAULT
             FROM INFORMATION_SCHEMA.COLUMNS ORDER BY TABLE_NAME, COLUMN_NAME",
            "SELECT TABLE_NAME, CONSTRAINT_NAME, CONSTRAINT_TYPE
             FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS ORDER BY TABLE_NAME, CONSTRAINT_NAME",
            "SELECT CONSTRAINT_NAME, CHECK_CLAUSE FROM INFORMATION_SCHEMA.CHECK_CONSTRAINTS
             ORDER BY CONSTRAINT_NAME",
            "SELECT name, is_unique FROM sys.indexes ORDER BY name",
            "SELECT name FROM sys.triggers ORDER BY name",
        ],
    }
}
