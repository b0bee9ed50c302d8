//! Values are read exactly as they were written.

use callgate::{Mask, Secret};
use callgate_registry::{
    DatabaseErrorKind, GrantHolder, Import, ImportChange, ImportRow, MethodRow, NewToken,
    Store as _, StoreError, TypeRow, UpstreamRow,
};

use crate::databases::Registry;

/// Text that looks like the syntax that drivers and dialects put into statements.
const AWKWARD: &str =
    "'; DROP TABLE users -- \"x\" \\ ? ?? $1 @P1 {now} {users} %s :a\r\n\t\u{1}é 漢 🦀";

fn method(id: &str) -> MethodRow {
    MethodRow { rpc_method: id.to_owned(), ..MethodRow::default() }
}

async fn read_back(registry: &Registry, row: &MethodRow) -> MethodRow {
    let found = registry.store.methods_with_id(&row.rpc_method).await.unwrap().remove(0);
    MethodRow { id: 0, ..found }
}

pub(crate) async fn each_column_of_a_method_keeps_its_text(registry: Registry) {
    let text = |name: &str| Some(format!("{name} {AWKWARD}"));
    let letters = registry.database.scale().letters;
    let full = MethodRow {
        id: 0,
        plugin: text("plugin"),
        method: text("method"),
        rpc_method: format!("id {AWKWARD}"),
        // The database must not change the order or the spaces.
        params: Some(r#"[ "int $b" ,  {"name" : "a", "default": 1.0}]"#.to_owned()),
        params_types: Some(r#"["?T\\U"]"#.to_owned()),
        description: Some("🦀".repeat(letters)),
        sections: text("sections"),
        return_type: text("return_type"),
        title: text("title"),
        safety: Some("read_only".to_owned()),
        annotations: Some("{\"z\": 1, \"a\":\t2, \"e\": \"\\u00e9\"}".to_owned()),
        exposed: Some("0".to_owned()),
        upstream: Some("php".to_owned()),
        tool_name: Some("id".to_owned()),
        remote_name: text("remote_name"),
        input_schema: Some(format!(r#"{{"description": "{}"}}"#, "é".repeat(letters))),
        output_schema: Some("true".to_owned()),
        defaults: Some("{}".to_owned()),
        params_by: Some("position".to_owned()),
        unreadable: None,
    };
    registry.store.add_method(&full, &[]).await.unwrap();
    assert_eq!(read_back(&registry, &full).await, full);
    assert_eq!(registry.store.catalog_rows().await.unwrap().methods.len(), 1);
}

pub(crate) async fn null_and_empty_text_are_distinct(registry: Registry) {
    let empty = MethodRow {
        title: Some(String::new()),
        description: Some(String::new()),
        sections: Some(" ".to_owned()),
        ..method("empty")
    };
    for row in [&method("nothing"), &empty] {
        registry.store.add_method(row, &[]).await.unwrap();
        assert_eq!(read_back(&registry, row).await, *row);
    }
    registry.store.set_setting("a", "").await.unwrap();
    assert_eq!(registry.store.settings().await.unwrap()[0].value, "");
    assert_eq!(registry.store.meta("a").await.unwrap(), None);
    registry.store.set_meta("a", "").await.unwrap();
    assert_eq!(registry.store.meta("a").await.unwrap().as_deref(), Some(""));
}

pub(crate) async fn names_that_differ_in_case_or_accents_are_distinct(registry: Registry) {
    let store = &registry.store;
    let names = ["ada", "Ada", "ädä", "äda", "adá", "ａｄａ", "straße", "strasse"];
    for name in names {
        store.add_method(&method(name), &[]).await.unwrap();
        store.add_section(name, name, Mask::Execute).await.unwrap();
        store.add_user(name, Some(name)).await.unwrap();
        store.set_setting(name, name).await.unwrap();
    }
    for name in names {
        assert_eq!(store.methods_with_id(name).await.unwrap().len(), 1, "{name}");
        assert_eq!(store.user(name).await.unwrap().role.as_deref(), Some(name));
        assert_eq!(store.role(name).await.unwrap().caption, name);
    }
    assert_eq!(store.sections().await.unwrap().len(), names.len());
    assert_eq!(store.settings().await.unwrap().len(), names.len());
    assert_eq!(store.remove_method("Ada").await.unwrap(), 1);
    assert_eq!(store.methods_with_id("ada").await.unwrap().len(), 1);
}

pub(crate) async fn actions_in_any_case_are_removed_with_the_last_method_of_their_key(
    registry: Registry,
) {
    let store = &registry.store;
    store.add_section("s", "S", Mask::Execute).await.unwrap();
    let row = |id: &str, name: &str| MethodRow {
        plugin: Some("Plugin".to_owned()),
        method: Some(name.to_owned()),
        ..method(id)
    };
    let needs = [("s".to_owned(), Mask::Read)];
    store.add_method(&row("a", "wipe"), &needs).await.unwrap();
    store.add_method(&row("b", "WIPE"), &needs).await.unwrap();
    // These letters are different for PHP and for Callgate, but equal for some databases.
    store.add_method(&row("c", "é"), &needs).await.unwrap();
    store.add_method(&row("d", "É"), &needs).await.unwrap();
    let actions = async || {
        let rows = store.catalog_rows().await.unwrap().actions;
        rows.into_iter().map(|row| row.method).collect::<Vec<_>>()
    };
    assert_eq!(actions().await, ["wipe", "WIPE", "é", "É"]);
    store.remove_method("a").await.unwrap();
    assert_eq!(actions().await.len(), 4, "`b` has both");
    store.remove_method("b").await.unwrap();
    store.remove_method("d").await.unwrap();
    assert_eq!(actions().await, ["é"]);
}

pub(crate) async fn names_may_have_255_characters(registry: Registry) {
    let store = &registry.store;
    let scale = registry.database.scale();
    let name = "é漢🦀".repeat(scale.name / 3);
    assert_eq!(name.chars().count(), scale.name);
    let row = MethodRow {
        plugin: Some(name.clone()),
        method: Some(name.clone()),
        upstream: Some(name.clone()),
        ..method(&name)
    };
    store.add_section(&name, &name, Mask::Execute).await.unwrap();
    store.add_method(&row, &[(name.clone(), Mask::Read)]).await.unwrap();
    assert_eq!(read_back(&registry, &row).await, row);
    let id = store.add_user(&name, Some(&name)).await.unwrap();
    store.grant(GrantHolder::User(id), &name, Mask::Write).await.unwrap();
    store.set_credential(id, &name, &Secret::new(AWKWARD.trim_end()).unwrap()).await.unwrap();
    let access = store.access_rows().await.unwrap();
    assert_eq!((access.users[0].login.as_str(), access.user_grants.len()), (name.as_str(), 1));
    let secret = access.credentials[0].secret.as_ref().unwrap();
    assert_eq!(secret.expose(), Secret::new(AWKWARD.trim_end()).unwrap().expose());
    store.set_setting(&name, AWKWARD).await.unwrap();
    assert_eq!(store.settings().await.unwrap()[0].value, AWKWARD);
    let config = format!(r#"{{"url": "http://localhost/{}"}}"#, "a".repeat(scale.letters));
    let upstream = UpstreamRow { name: name.clone(), config };
    store.set_upstream(None, &upstream).await.unwrap();
    assert_eq!(store.upstreams().await.unwrap(), [upstream]);
    let note = ImportRow {
        upstream: name.clone(),
        rpc_method: name.clone(),
        source: AWKWARD.to_owned(),
        written: format!(r#"{{"description": "{}"}}"#, "🦀".repeat(scale.letters)),
    };
    let class = TypeRow {
        name: name.clone(),
        fields: Some(r#"[{"name":  "id"}]"#.to_owned()),
        schema: None,
    };
    let import = Import {
        change_counter: store.change_counters().await.unwrap().catalog,
        types: vec![class.clone()],
        changes: vec![ImportChange::Note(note.clone())],
        ..Import::default()
    };
    store.import(&import).await.unwrap();
    assert_eq!(store.imports().await.unwrap(), [note]);
    assert_eq!(store.catalog_rows().await.unwrap().types, [class]);
}

/// A time after 2038.
const LATE: i64 = 4_102_444_801;

pub(crate) async fn times_are_stored_to_the_second_in_any_time_zone(registry: Registry) {
    let store = &registry.store;
    let digest = |digit: &str| digit.repeat(64);
    for (digit, expires_at) in [("a", None), ("b", Some(0)), ("c", Some(LATE))] {
        let name = digit.to_owned();
        let token = NewToken { id_user: 1, name, digest: digest(digit), expires_at };
        store.add_token(&token).await.unwrap();
    }
    let tokens = store.tokens().await.unwrap();
    let ends: Vec<_> = tokens.iter().map(|token| token.expires_at).collect();
    assert_eq!(ends, [None, Some(0), Some(LATE)]);
    // Writes like another program whose time zone differs from UTC.
    let update = format!("UPDATE callgate_tokens SET last_used_at = {}", registry.database.now());
    registry.database.sql(&format!("{}{update}", registry.database.set_other_time_zone())).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    for token in store.tokens().await.unwrap() {
        for at in [token.created_at, token.last_used_at.unwrap()] {
            assert!(at.abs_diff(i64::try_from(now.as_secs()).unwrap()) < 3_600, "{at}");
        }
    }
    store.update_session("ab", i64::MAX, &|_| ()).await.unwrap();
    let session = store.sessions_after(0).await.unwrap().remove(0);
    assert!(session.ends_at > LATE, "as late as the database can");
    assert_eq!((session.log_level, session.subscriptions, session.ended), (None, None, false));
}

pub(crate) async fn a_duplicate_token_is_refused_and_changes_nothing(registry: Registry) {
    let token =
        NewToken { id_user: 1, name: "t".to_owned(), digest: "d".repeat(64), expires_at: None };
    let first = registry.store.add_token(&token).await.unwrap();
    let before = registry.store.change_counters().await.unwrap();
    let StoreError::Database(error) = registry.store.add_token(&token).await.unwrap_err() else {
        panic!("expected a database error")
    };
    assert_eq!(error.kind, DatabaseErrorKind::Duplicate, "{error}");
    assert_eq!(registry.store.change_counters().await.unwrap(), before);
    assert_eq!(registry.store.tokens().await.unwrap()[0].id, first);
}
