//! A Festi database in a file, attached to a registry.

use std::time::Duration;

use callgate::Mask;
use callgate::access::TokenDigest;
use tempfile::TempDir;

use super::*;
use crate::auth::access::access;
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

struct Place {
    directory: TempDir,
    store: SqlStore,
}

impl Place {
    async fn new(overlay: Overlay) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = DatabaseOptions::default();
        let url = |name: &str| DatabaseUrl::sqlite(directory.path().join(name));
        sql(&url("festi.db"), TABLES).await;
        let (own, _) = SqlStore::migrate(&url("own.db"), &options, None).await.unwrap();
        let tables = TableNames::with_prefix("festi_").unwrap();
        let taken = AttachOptions { upstream: "php".to_owned(), output_schemas: false, overlay };
        // Without automatic polls.
        let every =
            PollIntervals { access: Duration::from_hours(1), methods: Duration::from_hours(1) };
        let festi = url("festi.db");
        let store = own.attach((&festi, &options), &tables, taken, every).await.unwrap();
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

    async fn numbers(&self) -> (i64, i64, i64) {
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

fn said(id: &str) -> MethodRow {
    MethodRow { rpc_method: id.to_owned(), ..MethodRow::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "columns are optional")]
fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test]
async fn columns_come_from_ours_then_the_file_then_festi() {
    let file = MethodRow { title: some("file"), safety: some("read_only"), ..said("getUserInfo") };
    let overlay = Overlay { methods: vec![file, said("gone")], types: Vec::new() };
    let place = Place::new(overlay).await;
    assert_eq!(place.store.unused_overlays().await.unwrap(), ["gone"]);
    let own = MethodRow { title: some("own"), upstream: some("other"), ..said("getUserInfo") };
    place.store.own().add_method(&own, &[]).await.unwrap();
    let row = place.method("getUserInfo").await;
    assert_eq!(
        [&row.title, &row.safety, &row.description, &row.upstream, &row.return_type],
        [&some("own"), &some("read_only"), &some("Looks up a user."), &some("other"), &None]
    );
    assert_eq!(
        (row.plugin, place.method("deleteUser").await.upstream),
        (some("MyPlugin"), some("php"))
    );
    let ids = place.store.catalog_rows().await.unwrap().methods;
    let ids: Vec<String> = ids.into_iter().map(|row| row.rpc_method).collect();
    assert_eq!(ids, ["getUserInfo", "deleteUser", "getProjects"], "methods of MCP are left out");
}

#[tokio::test]
async fn only_what_is_changed_is_written_beside_and_festi_goes_on_to_say_the_rest() {
    let place = Place::new(Overlay::default()).await;
    let mut row = place.method("getUserInfo").await;
    row.title = some("Look up");
    place.update(&row).await.unwrap();
    let own = place.store.own().methods_with_id("getUserInfo").await.unwrap().remove(0);
    assert_eq!(
        (own.title, own.description, own.params, own.plugin),
        (some("Look up"), None, None, None)
    );
    place.sql("UPDATE rpc_methods SET description = 'Finds.'").await;
    assert_eq!(place.method("getUserInfo").await.description, some("Finds."));
    // If the overlay sets parameters, it sets all of them.
    let mut row = place.method("deleteUser").await;
    (row.params, row.params_types) = (some(r#"["string $login"]"#), None);
    place.update(&row).await.unwrap();
    let row = place.method("deleteUser").await;
    assert_eq!((row.params, row.params_types), (some(r#"["string $login"]"#), None));
}

#[tokio::test]
async fn types_are_a_column_by_themselves_and_go_with_parameters_that_are_given() {
    let place = Place::new(Overlay::default()).await;
    // The element type of `array` can be set without repeating the parameters.
    let types = some(r#"["int","bool"]"#);
    let mut row = place.method("getUserInfo").await;
    row.params_types.clone_from(&types);
    place.update(&row).await.unwrap();
    let own = place.store.own().methods_with_id("getUserInfo").await.unwrap().remove(0);
    assert_eq!((&own.params_types, &own.params), (&types, &None));
    let row = place.method("getUserInfo").await;
    assert_eq!((&row.params_types, &row.params.is_some()), (&types, &true));
    // With different parameters, columns that equal Festi's are also written, because the parameters would otherwise
    // clear them.
    let mut row = place.method("deleteUser").await;
    let types = row.params_types.clone();
    row.params = some(r#"["int $idOther"]"#);
    place.update(&row).await.unwrap();
    let row = place.method("deleteUser").await;
    assert_eq!((row.params, row.params_types), (some(r#"["int $idOther"]"#), types));
}

#[tokio::test]
async fn what_festi_says_cannot_be_emptied_here_and_what_we_say_can() {
    let place = Place::new(Overlay::default()).await;
    let emptied = async |column: fn(&mut MethodRow) -> &mut Option<String>| {
        let mut row = place.method("getUserInfo").await;
        *column(&mut row) = some(" ");
        place.update(&row).await
    };
    let error = emptied(|row| &mut row.description).await.unwrap_err().to_string();
    assert!(error.starts_with("the `description` of `getUserInfo` is in Festi's"), "{error}");
    let mut row = place.method("getUserInfo").await;
    row.title = some("Look up");
    place.update(&row).await.unwrap();
    emptied(|row| &mut row.title).await.unwrap();
}

#[tokio::test]
async fn statements_are_counted_in_both_databases() {
    let place = Place::new(Overlay::default()).await;
    let before = (place.store.statements(), place.store.own().statements());
    place.store.poll_attached().await.unwrap();
    assert!(place.store.statements() > before.0);
    assert_eq!(place.store.own().statements(), before.1);
    place.store.own().upstreams().await.unwrap();
    assert!(place.store.statements() > before.0 + 1);
}

#[tokio::test]
async fn users_with_keys_that_are_no_numbers_are_refused() {
    let place = Place::new(Overlay::default()).await;
    place
        .sql(
            "ALTER TABLE users RENAME TO numbered;
             CREATE TABLE users AS SELECT 'u' || id AS id, login, id_type, access_token FROM numbered",
        )
        .await;
    let asked = [to_hex(TokenDigest::of("of ada").as_bytes())];
    assert!(place.store.tokens_by_digest(&asked).await.is_err());
    let error = place.store.access_rows().await.unwrap_err().to_string();
    assert!(error.contains("in `id` of the table `users` is not a number"), "{error}");
    assert!(place.store.poll_attached().await.is_err());
}

#[tokio::test]
async fn names_of_tools_are_remembered_beside() {
    let place = Place::new(Overlay::default()).await;
    let id = place.method("getProjects").await.id;
    let other = place.method("deleteUser").await.id;
    assert!(id < 0);
    for names in
        [vec![(id, "projects".to_owned())], vec![(id, "x".to_owned()), (other, "y".to_owned())]]
    {
        place.store.store_tool_names(&names).await.unwrap();
    }
    assert_eq!(place.method("getProjects").await.tool_name, some("projects"));
    assert_eq!(place.method("deleteUser").await.tool_name, some("y"));
}

#[tokio::test]
async fn each_table_raises_what_is_made_from_it_and_only_that() {
    let place = Place::new(Overlay::default()).await;
    place.store.access_rows().await.unwrap();
    place.store.catalog_rows().await.unwrap();
    let mut before = place.numbers().await;
    assert_eq!(place.numbers().await, before, "nothing changed");
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
        place.sql(statement).await;
        let now = place.numbers().await;
        let raised = (now.0 > before.0, now.1 > before.1, now.2 > before.2);
        assert_eq!(raised, (catalog, access, tokens), "{statement}");
        before = now;
    }
}

#[tokio::test]
async fn rows_that_were_read_have_the_revision_that_is_asked_for() {
    let place = Place::new(Overlay::default()).await;
    for text in ["a", "b"] {
        place.sql(&format!("UPDATE rpc_methods SET description = '{text}'")).await;
        place.sql(&format!("UPDATE users SET login = '{text}' WHERE id = 7")).await;
        let catalog = place.store.catalog_rows().await.unwrap().change_counter;
        let access = place.store.access_rows().await.unwrap().change_counter;
        let (now_catalog, now_access, _) = place.numbers().await;
        assert_eq!((catalog, access), (now_catalog, now_access));
    }
}

#[tokio::test]
async fn a_festi_token_is_found_by_its_digest_and_never_an_empty_one() {
    let place = Place::new(Overlay::default()).await;
    let digest = |token: &str| to_hex(TokenDigest::of(token).as_bytes());
    place.sql("UPDATE users SET access_token = '  ' WHERE id = 7").await;
    place.numbers().await;
    let asked = ["of ada", "of root", "", "  "].map(digest);
    let found = place.store.tokens_by_digest(&asked).await.unwrap();
    let found: Vec<(i64, i64)> = found.iter().map(|row| (row.id_user, row.id)).collect();
    assert_eq!(found, [(123, !123)]);
    // Uses of these tokens are not recorded.
    place.store.record_token_uses(&[(!123, 1)]).await.unwrap();
}

#[tokio::test]
async fn grants_are_festis_and_ours_only_on_sections_of_our_own() {
    let place = Place::new(Overlay::default()).await;
    place.sql("INSERT INTO festi_sections VALUES (1, 'A', 'a', '2')").await;
    place.sql("INSERT INTO festi_sections_user_types_permission VALUES (1, 1, 2, 2)").await;
    let own = place.store.own();
    own.ensure_sections(&["a".to_owned(), "b".to_owned()]).await.unwrap();
    // A row that was written with plain SQL, or by a program without support for Festi.
    own.grant(GrantHolder::User(123), "a", Mask::Execute).await.unwrap();
    place.store.grant(GrantHolder::User(123), "b", Mask::Write).await.unwrap();
    assert!(place.store.grant(GrantHolder::User(123), "a", Mask::Execute).await.is_err());
    let access = access(&place.store.access_rows().await.unwrap());
    let ada = access.caller_named("ada").unwrap();
    let has = |section: &str| ada.grants.mask(&section.into());
    assert_eq!((has("a"), has("b")), (Mask::Read, Mask::Write));
    assert_eq!(ada.user.as_ref().unwrap().role.as_deref(), Some("reader"));
}
