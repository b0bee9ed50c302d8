//! Rows that other programs write with plain SQL.

use callgate::model::{LOCAL, Prefix};
use callgate::{Grants, Mask};
use callgate_registry::{
    Assembly, CatalogRows, Exposure, Import, ImportAccess, RoleRow, Store as _, TableNames,
    UserRow, access, assemble,
};

use crate::databases::{Kind, Registry};

/// Statements of a Festi application that add a section, an action and grants, and a statement that
/// inserts a method in the format of Festi's migrations.
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

async fn festi(kind: Kind) -> Registry {
    kind.registry_with(Some(TableNames::with_prefix("festi_").unwrap())).await
}

pub(crate) fn catalog(rows: &CatalogRows) -> callgate::catalog::Catalog {
    let assembly = Assembly {
        code: &[],
        exposure: Exposure::All,
        open_methods: None,
        prefix: Prefix::default(),
        upstreams: vec![LOCAL],
        previous: None,
    };
    assemble(rows, assembly).catalog
}

pub(crate) async fn inserts_written_for_festi_work_unchanged(kind: Kind) {
    let registry = festi(kind).await;
    registry.database.sql(FESTI).await;
    let store = &registry.store;
    let catalog = catalog(&store.catalog_rows().await.unwrap());
    assert_eq!(catalog.quarantined().len(), 0);
    let entry = catalog.by_id("deleteUser").unwrap();
    let tool: serde_json::Value = serde_json::from_slice(&catalog.tool(entry)).unwrap();
    insta::assert_json_snapshot!("tool_of_the_festi_inserts", tool);
    let requirement = catalog.requirement(entry);
    let grants = |mask| Grants::from_iter([("user_management", mask)]);
    assert!(requirement.allows(&grants(Mask::Execute)));
    assert!(!requirement.allows(&grants(Mask::Write)));
    // User 123 and type 1 need not exist. As soon as they exist, the rows apply.
    let user =
        |id, login: &str, id_type| UserRow { id, login: login.to_owned(), id_type, role: None };
    let access_rows = ImportAccess {
        roles: vec![RoleRow { id: 1, caption: "Admin".to_owned() }],
        users: vec![user(123, "one", None), user(5, "five", Some(1))],
        ..ImportAccess::default()
    };
    let change_counter = store.change_counters().await.unwrap().catalog;
    store
        .import(&Import { change_counter, access: access_rows, ..Import::default() })
        .await
        .unwrap();
    let access = access(&store.access_rows().await.unwrap());
    for name in ["one", "five"] {
        assert!(requirement.allows(&access.caller_named(name).unwrap().grants), "{name}");
    }
}

pub(crate) async fn settings_can_be_changed_with_plain_sql(kind: Kind) {
    let registry = festi(kind).await;
    registry
        .database
        .sql("INSERT INTO festi_settings (caption, name, value) VALUES ('Prefix', 'mcp_tools_prefix', 'X')")
        .await;
    let rows = registry.store.catalog_rows().await.unwrap();
    let (settings, _) =
        callgate_registry::settings(&rows.settings, &callgate::gateway::Settings::default());
    assert_eq!(settings.tools_prefix.as_str(), "X");
}

/// The counters that a statement increments: catalog, access, tokens, keys.
const INCREMENTED: &[(&str, [bool; 4])] = {
    const CATALOG: [bool; 4] = [true, false, false, false];
    const ACCESS: [bool; 4] = [false, true, false, false];
    const BOTH: [bool; 4] = [true, true, false, false];
    const TOKENS: [bool; 4] = [false, false, true, false];
    const KEYS: [bool; 4] = [false, false, false, true];
    const NONE: [bool; 4] = [false; 4];
    &[
        ("INSERT INTO rpc_methods (rpc_method) VALUES ('another')", CATALOG),
        ("UPDATE rpc_methods SET title = 'x'", CATALOG),
        ("DELETE FROM rpc_methods", CATALOG),
        (
            "INSERT INTO festi_section_actions (id_section, plugin, method, mask) \
             VALUES (1, 'P', 'm', 6)",
            CATALOG,
        ),
        ("UPDATE festi_section_actions SET mask = 4", CATALOG),
        ("DELETE FROM festi_section_actions", CATALOG),
        ("INSERT INTO callgate_types (name) VALUES ('A')", CATALOG),
        ("UPDATE callgate_types SET fields = '[]'", CATALOG),
        ("DELETE FROM callgate_types", CATALOG),
        ("INSERT INTO festi_sections (caption, ident) VALUES ('Another', 'another')", BOTH),
        ("UPDATE festi_sections SET caption = 'renamed'", BOTH),
        (
            "INSERT INTO festi_sections_user_permission (id_section, id_user, value) \
             VALUES (1, 124, 6)",
            ACCESS,
        ),
        ("UPDATE festi_sections_user_permission SET value = 0", ACCESS),
        ("DELETE FROM festi_sections_user_permission", ACCESS),
        (
            "INSERT INTO festi_sections_user_types_permission (id_section, id_user_type, value) \
             VALUES (1, 2, 6)",
            ACCESS,
        ),
        ("UPDATE festi_sections_user_types_permission SET value = 0", ACCESS),
        ("DELETE FROM festi_sections_user_types_permission", ACCESS),
        ("DELETE FROM festi_sections", BOTH),
        ("INSERT INTO festi_settings (name, value) VALUES ('a', 'b')", BOTH),
        ("UPDATE festi_settings SET value = 'c'", BOTH),
        ("DELETE FROM festi_settings", BOTH),
        ("INSERT INTO users_types (caption) VALUES ('t')", ACCESS),
        ("UPDATE users_types SET caption = 'u'", ACCESS),
        ("INSERT INTO users (login) VALUES ('l')", ACCESS),
        ("UPDATE users SET id_type = 1", ACCESS),
        ("DELETE FROM users", ACCESS),
        ("DELETE FROM users_types", ACCESS),
        (
            "INSERT INTO callgate_tokens (id_user, name, digest, created_at) VALUES (1, 'a', \
             '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', {now})",
            TOKENS,
        ),
        ("UPDATE callgate_tokens SET last_used_at = {now}", NONE),
        ("UPDATE callgate_tokens SET expires_at = {now}", TOKENS),
        ("DELETE FROM callgate_tokens", TOKENS),
        ("INSERT INTO callgate_upstreams (name, config) VALUES ('a', '{}')", CATALOG),
        ("UPDATE callgate_upstreams SET config = '[]'", CATALOG),
        ("DELETE FROM callgate_upstreams", CATALOG),
        (
            "INSERT INTO callgate_credentials (id_user, upstream, secret, set_at) \
             VALUES (1, 'a', 'b', {now})",
            ACCESS,
        ),
        ("UPDATE callgate_credentials SET secret = 'c'", ACCESS),
        ("DELETE FROM callgate_credentials", ACCESS),
        ("INSERT INTO callgate_keys (purpose, secret, created_at) VALUES ('p', 'aa', {now})", KEYS),
        ("UPDATE callgate_keys SET secret = 'bb'", KEYS),
        ("DELETE FROM callgate_keys", KEYS),
    ]
};

pub(crate) async fn plain_sql_on_each_table_increments_its_counters(kind: Kind) {
    let registry = festi(kind).await;
    registry.database.sql(FESTI).await;
    for (sql, expected) in INCREMENTED {
        let sql = sql.replace("{now}", registry.database.now());
        assert_eq!(incremented(&registry, &sql).await, *expected, "{sql}");
        // In PostgreSQL, truncating a table is noticed.
        if kind == Kind::Postgres
            && let Some(table) = sql.strip_prefix("DELETE FROM ")
        {
            let sql = format!("TRUNCATE {table}");
            assert_eq!(incremented(&registry, &sql).await, *expected, "{sql}");
        }
    }
}

async fn incremented(registry: &Registry, sql: &str) -> [bool; 4] {
    let before = registry.store.change_counters().await.unwrap();
    registry.database.sql(sql).await;
    let after = registry.store.change_counters().await.unwrap();
    [
        after.catalog > before.catalog,
        after.access > before.access,
        after.tokens > before.tokens,
        after.keys > before.keys,
    ]
}
