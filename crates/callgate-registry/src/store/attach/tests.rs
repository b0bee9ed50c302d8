//! A Festi database in a file, attached to a registry.

use std::time::Duration;

use callgate::Mask;
use callgate::access::TokenDigest;
use tempfile::TempDir;

use super::*;
use crate::auth::build_access::access;
use crate::festi::merge::Overlay;
use crate::hex::to_hex;
use crate::rows::{GrantHolder, MethodRow};
use crate::store::Store as _;

const TABLES: &str = concat!(
    include_str!("../../../tests/festi/sqlite.sql"),
    include_str!("../../../tests/festi/application.sql"),
    "INSERT INTO users_types VALUES (1, 'admin'), (2, 'reader');
     INSERT INTO users VALUES (7, 1, 'root', 's3cret', 'of root'), (123, 2, 'ada', 's3cret', 'of ada');"
);

struct AttachedRegistry {
    directory: TempDir,
    store: SqlStore,
}

impl AttachedRegistry {
    async fn new(overlay: Overlay) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = DatabaseOptions::default();
        let url = |name: &str| DatabaseUrl::sqlite(directory.path().join(name));
        sql(&url("festi.db"), TABLES).await;
        let (registry, _) = SqlStore::migrate(&url("own.db"), &options, None).await.unwrap();
        let tables = TableNames::with_prefix("festi_").unwrap();
        let attach_options =
            AttachOptions { upstream: "php".to_owned(), output_schemas: false, overlay };
        // Without automatic polls.
        let intervals =
            PollIntervals { access: Duration::from_hours(1), methods: Duration::from_hours(1) };
        let festi = url("festi.db");
        let store =
            registry.attach((&festi, &options), &tables, attach_options, intervals).await.unwrap();
        Self { directory, store }
    }

    async fn sql(&self, text: &str) {
        sql(&DatabaseUrl::sqlite(self.directory.path().join("festi.db")), text).await;
    }

    async fn method(&self, id: &str) -> MethodRow {
        self.store.methods_with_id(id).await.unwrap().remove(0)
    }

    async fn update(&self, row: &MethodRow) -> Result<()> {
        self.store.update_method(&self.method(&row.rpc_method).await, row, None).await
    }

    async fn counters(&self) -> (i64, i64, i64) {
        self.store.poll_attached().await.unwrap();
        let now = self.store.change_counters().await.unwrap();
        (now.catalog, now.access, now.tokens)
    }
}

async fn sql(url: &DatabaseUrl, text: &str) {
    use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(url.path().unwrap())
        .create_if_missing(true);
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    connection.execute(sqlx::raw_sql(AssertSqlSafe(text.to_owned()))).await.unwrap();
    connection.close().await.unwrap();
}

fn method_row(id: &str) -> MethodRow {
    MethodRow { rpc_method: id.to_owned(), ..MethodRow::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "columns are optional")]
fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test]
async fn columns_come_from_the_registry_then_the_file_then_festi() {
    let file =
        MethodRow { title: some("file"), safety: some("read_only"), ..method_row("getUserInfo") };
    let overlay = Overlay { methods: vec![file, method_row("gone")], types: Vec::new() };
    let attached = AttachedRegistry::new(overlay).await;
    assert_eq!(attached.store.unused_overlays().await.unwrap(), ["gone"]);
    let registry_row =
        MethodRow { title: some("own"), upstream: some("other"), ..method_row("getUserInfo") };
    attached.store.without_festi().add_method(&registry_row, &[]).await.unwrap();
    let row = attached.method("getUserInfo").await;
    assert_eq!(
        [&row.title, &row.safety, &row.description, &row.upstream, &row.return_type],
        [&some("own"), &some("read_only"), &some("Looks up a user."), &some("other"), &None]
    );
    assert_eq!(
        (row.plugin, attached.method("deleteUser").await.upstream),
        (some("MyPlugin"), some("php"))
    );
    let ids = attached.store.catalog_rows().await.unwrap().methods;
    let ids: Vec<String> = ids.into_iter().map(|row| row.rpc_method).collect();
    assert_eq!(ids, ["getUserInfo", "deleteUser", "getProjects"], "methods of MCP are left out");
}

#[tokio::test]
async fn an_overlay_stores_only_changed_columns_and_other_columns_follow_festi() {
    let attached = AttachedRegistry::new(Overlay::default()).await;
    let mut row = attached.method("getUserInfo").await;
    row.title = some("Look up");
    attached.update(&row).await.unwrap();
    let registry_row =
        attached.store.without_festi().methods_with_id("getUserInfo").await.unwrap().remove(0);
    assert_eq!(
        (registry_row.title, registry_row.description, registry_row.params, registry_row.plugin),
        (some("Look up"), None, None, None)
    );
    attached.sql("UPDATE rpc_methods SET description = 'Finds.'").await;
    assert_eq!(attached.method("getUserInfo").await.description, some("Finds."));
    // If the overlay sets parameters, it sets all of them.
    let mut row = attached.method("deleteUser").await;
    (row.params, row.params_types) = (some(r#"["string $login"]"#), None);
    attached.update(&row).await.unwrap();
    let row = attached.method("deleteUser").await;
    assert_eq!((row.params, row.params_types), (some(r#"["string $login"]"#), None));
}

#[tokio::test]
async fn overlays_can_set_types_alone_and_store_types_with_changed_parameters() {
    let attached = AttachedRegistry::new(Overlay::default()).await;
    // The element type of `array` can be set without repeating the parameters.
    let types = some(r#"["int","bool"]"#);
    let mut row = attached.method("getUserInfo").await;
    row.params_types.clone_from(&types);
    attached.update(&row).await.unwrap();
    let registry_row =
        attached.store.without_festi().methods_with_id("getUserInfo").await.unwrap().remove(0);
    assert_eq!((&registry_row.params_types, &registry_row.params), (&types, &None));
    let row = attached.method("getUserInfo").await;
    assert_eq!((&row.params_types, &row.params.is_some()), (&types, &true));
    // With different parameters, columns that equal Festi's are also written, because the parameters would otherwise
    // clear them.
    let mut row = attached.method("deleteUser").await;
    let types = row.params_types.clone();
    row.params = some(r#"["int $idOther"]"#);
    attached.update(&row).await.unwrap();
    let row = attached.method("deleteUser").await;
    assert_eq!((row.params, row.params_types), (some(r#"["int $idOther"]"#), types));
}

#[tokio::test]
async fn columns_of_festi_cannot_be_cleared_and_columns_of_the_overlay_can() {
    let attached = AttachedRegistry::new(Overlay::default()).await;
    let clear = async |column: fn(&mut MethodRow) -> &mut Option<String>| {
        let mut row = attached.method("getUserInfo").await;
        *column(&mut row) = some(" ");
        attached.update(&row).await
    };
    let error = clear(|row| &mut row.description).await.unwrap_err().to_string();
    assert!(error.starts_with("the `description` of `getUserInfo` is in Festi's"), "{error}");
    let mut row = attached.method("getUserInfo").await;
    row.title = some("Look up");
    attached.update(&row).await.unwrap();
    clear(|row| &mut row.title).await.unwrap();
}

#[tokio::test]
async fn statements_are_counted_in_both_databases() {
    let attached = AttachedRegistry::new(Overlay::default()).await;
    let before = (attached.store.statements(), attached.store.without_festi().statements());
    attached.store.poll_attached().await.unwrap();
    assert!(attached.store.statements() > before.0);
    assert_eq!(attached.store.without_festi().statements(), before.1);
    attached.store.without_festi().upstreams().await.unwrap();
    assert!(attached.store.statements() > before.0 + 1);
}

#[tokio::test]
async fn users_whose_ids_are_not_numbers_are_an_error() {
    let attached = AttachedRegistry::new(Overlay::default()).await;
    attached
        .sql(
            "ALTER TABLE users RENAME TO numbered;
             CREATE TABLE users AS SELECT 'u' || id AS id, login, id_type, access_token FROM numbered",
        )
        .await;
    let digests = [to_hex(TokenDigest::of("of ada").as_bytes())];
    assert!(attached.store.tokens_by_digest(&digests).await.is_err());
    let error = attached.store.access_rows().await.unwrap_err().to_string();
    assert!(error.contains("in `id` of the table `users` is not a number"), "{error}");
    assert!(attached.store.poll_attached().await.is_err());
}

#[tokio::test]
async fn tool_names_of_festis_methods_are_stored_in_the_registry() {
    let attached = AttachedRegistry::new(Overlay::default()).await;
    let id = attached.method("getProjects").await.id;
    let other = attached.method("deleteUser").await.id;
    assert!(id < 0);
    for names in
        [vec![(id, "projects".to_owned())], vec![(id, "x".to_owned()), (other, "y".to_owned())]]
    {
        attached.store.store_tool_names(&names).await.unwrap();
    }
    assert_eq!(attached.method("getProjects").await.tool_name, some("projects"));
    assert_eq!(attached.method("deleteUser").await.tool_name, some("y"));
}

#[tokio::test]
async fn a_changed_festi_table_increments_exactly_the_counters_that_depend_on_it() {
    let attached = AttachedRegistry::new(Overlay::default()).await;
    attached.store.access_rows().await.unwrap();
    attached.store.catalog_rows().await.unwrap();
    let mut before = attached.counters().await;
    assert_eq!(attached.counters().await, before, "nothing changed");
    for (statement, catalog, access, tokens) in [
        ("UPDATE rpc_methods SET description = 'x' WHERE id = 1", true, false, false),
        (
            "INSERT INTO festi_sections VALUES (1, 'A', 'a', '2'), (2, 'B', 'b', '4')",
            true,
            true,
            false,
        ),
        (
            "UPDATE festi_sections SET mask = CASE mask WHEN '2' THEN '4' ELSE '2' END",
            true,
            true,
            false,
        ),
        ("INSERT INTO festi_section_actions VALUES (1, 1, 'P', 'm', '2', '')", true, false, false),
        ("INSERT INTO festi_sections_user_permission VALUES (1, 1, 7, 2)", false, true, false),
        (
            "INSERT INTO festi_sections_user_types_permission VALUES (1, 1, 1, 2)",
            false,
            true,
            false,
        ),
        ("UPDATE users_types SET caption = 'boss' WHERE id = 1", false, true, false),
        ("UPDATE users SET id_type = 1 WHERE id = 123", false, true, false),
        ("UPDATE users SET access_token = 'new' WHERE id = 123", false, false, true),
        ("UPDATE users SET access_token = '' WHERE id = 123", false, false, true),
        ("UPDATE users SET access_token = NULL WHERE id = 123", false, false, true),
        ("UPDATE users SET password = 'new'", false, false, false),
        ("UPDATE festi_settings SET value = 'x' WHERE name = 'mcp_server_name'", true, true, false),
        ("UPDATE festi_settings SET value = 'x' WHERE name = 'mail_password'", false, false, false),
    ] {
        attached.sql(statement).await;
        let now = attached.counters().await;
        let changed = (now.0 > before.0, now.1 > before.1, now.2 > before.2);
        assert_eq!(changed, (catalog, access, tokens), "{statement}");
        before = now;
    }
}

#[tokio::test]
async fn rows_have_the_change_counters_that_the_next_poll_reports() {
    let attached = AttachedRegistry::new(Overlay::default()).await;
    for text in ["a", "b"] {
        attached.sql(&format!("UPDATE rpc_methods SET description = '{text}'")).await;
        attached.sql(&format!("UPDATE users SET login = '{text}' WHERE id = 7")).await;
        let catalog = attached.store.catalog_rows().await.unwrap().change_counter;
        let access = attached.store.access_rows().await.unwrap().change_counter;
        let (now_catalog, now_access, _) = attached.counters().await;
        assert_eq!((catalog, access), (now_catalog, now_access));
    }
}

#[tokio::test]
async fn festi_tokens_are_found_by_digest_except_blank_ones() {
    let attached = AttachedRegistry::new(Overlay::default()).await;
    let digest = |token: &str| to_hex(TokenDigest::of(token).as_bytes());
    attached.sql("UPDATE users SET access_token = '  ' WHERE id = 7").await;
    attached.counters().await;
    let digests = ["of ada", "of root", "", "  "].map(digest);
    let found = attached.store.tokens_by_digest(&digests).await.unwrap();
    let found: Vec<(i64, i64)> = found.iter().map(|row| (row.id_user, row.id)).collect();
    assert_eq!(found, [(123, !123)]);
    // Uses of these tokens are not recorded.
    attached.store.record_token_uses(&[(!123, 1)]).await.unwrap();
}

#[tokio::test]
async fn grants_of_the_registry_apply_only_to_sections_that_festi_does_not_have() {
    let attached = AttachedRegistry::new(Overlay::default()).await;
    attached.sql("INSERT INTO festi_sections VALUES (1, 'A', 'a', '2')").await;
    attached.sql("INSERT INTO festi_sections_user_types_permission VALUES (1, 1, 2, 2)").await;
    let registry = attached.store.without_festi();
    registry.ensure_sections(&["a".to_owned(), "b".to_owned()]).await.unwrap();
    // A row that was written with plain SQL, or by a program without support for Festi.
    registry.grant(GrantHolder::User(123), "a", Mask::Execute).await.unwrap();
    attached.store.grant(GrantHolder::User(123), "b", Mask::Write).await.unwrap();
    assert!(attached.store.grant(GrantHolder::User(123), "a", Mask::Execute).await.is_err());
    let access = access(&attached.store.access_rows().await.unwrap());
    let ada = access.caller_named("ada").unwrap();
    let has = |section: &str| ada.grants.mask(&section.into());
    assert_eq!((has("a"), has("b")), (Mask::Read, Mask::Write));
    assert_eq!(ada.user.as_ref().unwrap().role.as_deref(), Some("reader"));
}
