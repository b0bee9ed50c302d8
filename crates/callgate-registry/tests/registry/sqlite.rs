//! What is SQLite's own: plain SQL by other programs, migrations, files.

use std::sync::Arc;

use callgate::{Grants, LOCAL, Mask, Prefix};
use callgate_registry::{
    Assembly, CatalogRows, Edit as _, Exposure, Load as _, SqliteStore, StoreError, TableNames,
    access, assemble,
};

use super::{Registry, registry, registry_with};

/// The four INSERTs of the seed, and one into `rpc_methods` as Festi's migrations write them.
const FESTI: &str = r#"
INSERT INTO festi_sections (caption, ident, mask)
VALUES ('User Management', 'user_management', '6');

INSERT INTO festi_section_actions (id_section, plugin, method, mask, comment)
VALUES (
    (SELECT id FROM festi_sections WHERE ident = 'user_management'),
    'MyPlugin',
    'deleteUser',
    '6',  -- Execute permission required
    'Delete user action'
);

-- For a specific user type
INSERT INTO festi_sections_user_types_permission (id_section, id_user_type, value)
VALUES (
    (SELECT id FROM festi_sections WHERE ident = 'user_management'),
    1,  -- Admin user type
    6   -- Execute permission
);

-- For a specific user (overrides user type permissions)
INSERT INTO festi_sections_user_permission (id_section, id_user, value)
VALUES (
    (SELECT id FROM festi_sections WHERE ident = 'user_management'),
    123,  -- User ID
    6     -- Execute permission
);

INSERT INTO rpc_methods
    (plugin, method, rpc_method, params, description, sections, return_type, params_types)
VALUES (
    'MyPlugin', 'deleteUser', 'deleteUser', '["int $idUser"]', 'Deletes a user.',
    'user_management', 'bool', '["int"]'
);
"#;

async fn festi() -> Registry {
    registry_with(Some(TableNames::with_prefix("festi_").unwrap())).await
}

fn catalog(rows: &CatalogRows) -> callgate::Catalog {
    let assembly = Assembly {
        code: &[],
        exposure: Exposure::All,
        prefix: Prefix::default(),
        upstreams: vec![LOCAL],
        previous: None,
    };
    assemble(rows, assembly).catalog
}

#[tokio::test]
async fn b63_the_seeds_inserts_work_as_written() {
    let registry = festi().await;
    registry.sql(FESTI).await;
    let catalog = catalog(&registry.store.catalog_rows().await.unwrap());
    assert_eq!(catalog.quarantined().len(), 0);
    let entry = catalog.by_id("deleteUser").unwrap();
    let tool: serde_json::Value = serde_json::from_slice(&catalog.tool(entry)).unwrap();
    insta::assert_json_snapshot!(tool);
    let requirement = catalog.requirement(entry);
    let grants = |mask| Grants::from_iter([("user_management", mask)]);
    assert!(requirement.allows(&grants(Mask::Execute)));
    assert!(!requirement.allows(&grants(Mask::Write)));
    // User 123 and type 1 need not exist; once they do, the rows count.
    registry
        .sql(
            "INSERT INTO users_types (id, caption) VALUES (1, 'Admin');
             INSERT INTO users (id, login, id_type) VALUES (123, 'one', NULL), (5, 'five', 1);",
        )
        .await;
    let access = access(&registry.store.access_rows().await.unwrap());
    for name in ["one", "five"] {
        assert!(requirement.allows(&access.caller_named(name).unwrap().grants), "{name}");
    }
}

#[tokio::test]
async fn b40_settings_are_changed_in_the_database() {
    let registry = festi().await;
    registry
        .sql("INSERT INTO festi_settings (caption, name, value) VALUES ('Prefix', 'mcp_tools_prefix', 'X')")
        .await;
    let rows = registry.store.catalog_rows().await.unwrap();
    let (settings, _) = callgate_registry::settings(&rows.settings, &callgate::Settings::default());
    assert_eq!(settings.tools_prefix.as_str(), "X");
}

#[tokio::test]
async fn d13_plain_sql_on_every_table_raises_a_revision() {
    let registry = festi().await;
    registry.sql(FESTI).await;
    for (sql, catalog, access) in [
        ("UPDATE rpc_methods SET title = 'x'", true, false),
        ("DELETE FROM rpc_methods", true, false),
        ("UPDATE festi_section_actions SET mask = 4", true, false),
        ("DELETE FROM festi_section_actions", true, false),
        ("INSERT INTO callgate_types (name) VALUES ('A')", true, false),
        ("UPDATE callgate_types SET schema = '{}'", true, false),
        ("DELETE FROM callgate_types", true, false),
        ("UPDATE festi_sections SET ident = 'renamed'", true, true),
        ("UPDATE festi_sections_user_permission SET value = 0", false, true),
        ("DELETE FROM festi_sections_user_permission", false, true),
        ("UPDATE festi_sections_user_types_permission SET value = 0", false, true),
        ("DELETE FROM festi_sections_user_types_permission", false, true),
        ("DELETE FROM festi_sections", true, true),
        ("INSERT INTO festi_settings (name, value) VALUES ('a', 'b')", true, true),
        ("UPDATE festi_settings SET value = 'c'", true, true),
        ("DELETE FROM festi_settings", true, true),
        ("INSERT INTO users_types (caption) VALUES ('t')", false, true),
        ("UPDATE users_types SET caption = 'u'", false, true),
        ("INSERT INTO users (login) VALUES ('l')", false, true),
        ("UPDATE users SET id_type = 1", false, true),
        ("DELETE FROM users", false, true),
        ("DELETE FROM users_types", false, true),
        (
            "INSERT INTO callgate_tokens (id_user, name, digest, created_at) VALUES (1, 'a', 'b', 0)",
            false,
            true,
        ),
        ("UPDATE callgate_tokens SET last_used_at = 5", false, false),
        ("UPDATE callgate_tokens SET expires_at = 5", false, true),
        ("DELETE FROM callgate_tokens", false, true),
        ("INSERT INTO callgate_upstreams VALUES ('a', '{}')", true, false),
        ("UPDATE callgate_upstreams SET config = ''", true, false),
        ("DELETE FROM callgate_upstreams", true, false),
        ("INSERT INTO callgate_credentials VALUES (1, 'a', 'b', 0)", false, true),
        ("UPDATE callgate_credentials SET secret = 'c'", false, true),
        ("DELETE FROM callgate_credentials", false, true),
    ] {
        let before = registry.store.revisions().await.unwrap();
        registry.sql(sql).await;
        let after = registry.store.revisions().await.unwrap();
        let raised = (after.catalog > before.catalog, after.access > before.access);
        assert_eq!(raised, (catalog, access), "{sql}");
    }
}

#[tokio::test]
async fn values_of_any_kind_are_read_and_what_makes_no_sense_is_quarantined_or_nothing() {
    let registry = registry().await;
    registry
        .sql(
            "INSERT INTO rpc_methods (rpc_method, description, exposed) VALUES ('ok', 7, '1');
             INSERT INTO rpc_methods (rpc_method, title) VALUES ('bad', CAST(x'ff00' AS TEXT));
             INSERT INTO rpc_methods (rpc_method, title) VALUES ('blob', x'ff00');
             INSERT INTO rpc_methods (rpc_method, params) VALUES ('json', '{');
             INSERT INTO rpc_methods (rpc_method) VALUES (x'');
             INSERT INTO sections (ident) VALUES ('s');
             INSERT INTO users (login) VALUES ('u');
             INSERT INTO sections_user_permission (id_section, id_user, value) VALUES (1, 1, 'lots');
             INSERT INTO callgate_tokens (id_user, name, digest, created_at, expires_at)
                VALUES (1, x'ff', 'zz', 'never', 'soon');",
        )
        .await;
    let catalog = catalog(&registry.store.catalog_rows().await.unwrap());
    assert_eq!((catalog.len(), catalog.quarantined().len()), (1, 4));
    assert!(catalog.by_id("ok").is_some());
    let access = access(&registry.store.access_rows().await.unwrap());
    assert_eq!(access.caller_named("u").unwrap().grants.mask(&"s".into()), Mask::None);
}

#[tokio::test]
async fn migrations_are_applied_once_also_by_two_at_the_same_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = Arc::new(directory.path().join("r.db"));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let path = Arc::clone(&path);
            tokio::spawn(async move { SqliteStore::migrate(&path, None).await.map(|done| done.1) })
        })
        .collect();
    let mut applied = Vec::new();
    for task in tasks {
        applied.extend(task.await.unwrap().unwrap());
    }
    assert_eq!(
        applied,
        ["registry", "sessions", "subscriptions", "imports", "upstreams", "replicas"]
    );
}

#[tokio::test]
async fn a_registry_knows_the_names_of_its_tables() {
    let registry = festi().await;
    let store = SqliteStore::open(&registry.path, None).await.unwrap();
    store.add_section("s", "S", Mask::Read).await.unwrap();
    registry.sql("SELECT * FROM festi_sections").await;
    let other = TableNames::default();
    let error = SqliteStore::open(&registry.path, Some(&other)).await.unwrap_err();
    assert!(matches!(error, StoreError::OtherTables));
    assert!(SqliteStore::migrate(&registry.path, Some(&other)).await.is_err());
}

#[tokio::test]
async fn a_missing_a_foreign_and_a_newer_file_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("none.db");
    assert!(matches!(SqliteStore::open(&missing, None).await, Err(StoreError::Missing(_))));
    assert!(!missing.exists(), "nothing is made by looking");
    let text = directory.path().join("text.db");
    std::fs::write(
        &text,
        "this is not a database, but it is long enough to be looked at".repeat(9),
    )
    .unwrap();
    let error = SqliteStore::open(&text, None).await.unwrap_err();
    assert_eq!(error.to_string(), "file is not a database");
    assert!(error.advice().is_some());
    let registry = registry().await;
    registry.sql("INSERT INTO callgate_migrations VALUES (99, 'future', 0)").await;
    let error = SqliteStore::open(&registry.path, None).await.unwrap_err();
    assert_eq!(error.to_string(), "the registry has version 99, this program knows up to 6");
    assert!(matches!(
        SqliteStore::migrate(&registry.path, None).await,
        Err(StoreError::Newer { .. })
    ));
}

#[tokio::test]
async fn a_database_with_tables_of_its_own_is_refused_and_not_touched() {
    let registry = registry().await;
    let path = registry.path.with_file_name("other.db");
    let other = Registry { path: path.clone(), ..registry };
    std::fs::write(&path, "").unwrap();
    other.sql("CREATE TABLE Users (name TEXT)").await;
    let before = std::fs::read(&path).unwrap();
    let error = SqliteStore::migrate(&path, None).await.unwrap_err();
    assert_eq!(error.to_string(), "the database has a table `users` of its own");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(!path.with_extension("db-wal").exists());
}

#[tokio::test]
async fn a_file_that_was_replaced_is_noticed() {
    let registry = registry().await;
    registry.store.revisions().await.unwrap();
    std::fs::rename(&registry.path, registry.path.with_extension("away")).unwrap();
    assert!(matches!(registry.store.revisions().await, Err(StoreError::Replaced(_))));
    SqliteStore::migrate(&registry.path, None).await.unwrap();
    assert!(matches!(registry.store.revisions().await, Err(StoreError::Replaced(_))));
}
