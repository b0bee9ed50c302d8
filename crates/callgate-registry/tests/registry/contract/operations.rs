//! The operations of a store.

use callgate::{Caller, Mask, Secret, User};
use callgate_registry::{
    GrantHolder, Import, ImportAccess, ImportChange, ImportGrant, ImportRow, MethodRow, NewKey,
    NewToken, RoleRow, SectionRow, Store as _, StoreError, Token, TypeRow, UpstreamRow,
    UserCredentials, UserRow, access,
};

use crate::databases::Registry;

fn row(id: &str) -> MethodRow {
    MethodRow { rpc_method: id.to_owned(), ..MethodRow::default() }
}

fn token(id_user: i64, secret: &Token, expires_at: Option<i64>) -> NewToken {
    NewToken { id_user, name: "t".to_owned(), digest: secret.stored_digest(), expires_at }
}

pub(crate) async fn a_method_is_added_changed_and_removed_with_its_actions(registry: Registry) {
    let store = &registry.store;
    store.add_section("content", "Content", Mask::Execute).await.unwrap();
    let full = MethodRow {
        title: Some("Title — ünï".to_owned()),
        params: Some(r#"["int $id"]"#.to_owned()),
        exposed: Some("1".to_owned()),
        upstream: Some("php".to_owned()),
        ..row("a.b")
    };
    store.add_method(&full, &[("content".to_owned(), Mask::Write)]).await.unwrap();
    let read = store.methods_with_id("a.b").await.unwrap().remove(0);
    assert_eq!(MethodRow { id: 0, ..read.clone() }, full);
    let rows = store.catalog_rows().await.unwrap();
    assert_eq!((rows.actions[0].plugin.as_str(), rows.actions[0].mask.as_str()), ("php", "4"));
    let changed = MethodRow { title: None, ..read.clone() };
    store.update_method(&read, &changed, Some(&[])).await.unwrap();
    let rows = store.catalog_rows().await.unwrap();
    assert_eq!((rows.methods[0].title.as_deref(), rows.actions.len()), (None, 0));
    let needs = [("content".to_owned(), Mask::Read)];
    store.update_method(&changed, &changed, Some(&needs)).await.unwrap();
    store.remove_method("a.b").await.unwrap();
    let rows = store.catalog_rows().await.unwrap();
    assert_eq!((rows.methods.len(), rows.actions.len()), (0, 0), "no action is left behind");
}

pub(crate) async fn actions_are_kept_when_the_key_of_a_method_changes_or_an_alias_is_removed(
    registry: Registry,
) {
    let store = &registry.store;
    store.add_section("secret", "Secret", Mask::Execute).await.unwrap();
    let needs = [("secret".to_owned(), Mask::Execute)];
    store.add_method(&row("x"), &needs).await.unwrap();
    let x = store.methods_with_id("x").await.unwrap().remove(0);
    let moved = MethodRow { upstream: Some("legacy".to_owned()), ..x.clone() };
    store.update_method(&x, &moved, None).await.unwrap();
    let keys = async || {
        let rows = store.catalog_rows().await.unwrap();
        rows.actions.into_iter().map(|action| (action.plugin, action.method)).collect::<Vec<_>>()
    };
    assert!(keys().await.contains(&("legacy".to_owned(), "x".to_owned())));
    // Two ids for the same method of the application.
    let alias = |id: &str| MethodRow {
        plugin: Some("P".to_owned()),
        method: Some("wipe".to_owned()),
        ..row(id)
    };
    store.add_method(&alias("alias1"), &needs).await.unwrap();
    // Adding another id removes nothing.
    store.add_method(&alias("alias2"), &[]).await.unwrap();
    let wipe = ("P".to_owned(), "wipe".to_owned());
    assert!(keys().await.contains(&wipe));
    assert_eq!(store.remove_method("alias1").await.unwrap(), 1);
    assert!(keys().await.contains(&wipe));
    store.remove_method("alias2").await.unwrap();
    assert!(!keys().await.contains(&wipe));
}

pub(crate) async fn methods_with_the_same_function_cannot_lower_each_others_masks(
    registry: Registry,
) {
    let store = &registry.store;
    store.add_section("s", "S", Mask::Execute).await.unwrap();
    let method_of = |id: &str, plugin: &str| MethodRow {
        plugin: Some(plugin.to_owned()),
        method: Some("run".to_owned()),
        ..row(id)
    };
    let needs = |mask| [("s".to_owned(), mask)];
    store.add_method(&method_of("a", "K"), &needs(Mask::Write)).await.unwrap();
    store.add_method(&method_of("b", "L"), &needs(Mask::Execute)).await.unwrap();
    let error = store.add_method(&method_of("c", "k"), &needs(Mask::Read)).await.unwrap_err();
    assert!(matches!(&error, StoreError::SharedActions { other, .. } if other == "a"), "{error}");
    let masks = async || {
        let rows = store.catalog_rows().await.unwrap();
        let masks = rows.actions.into_iter().map(|action| (action.plugin, action.mask));
        masks.collect::<std::collections::BTreeMap<_, _>>()["K"].clone()
    };
    // An import keeps the highest mask: the one in the registry, or one of the imported methods.
    let write = |id: &str, mask| ImportChange::Write {
        row: Box::new(method_of(id, "K")),
        needs: Some(needs(mask).into()),
        note: ImportRow {
            upstream: String::new(),
            rpc_method: id.to_owned(),
            source: "test".to_owned(),
            written: "{}".to_owned(),
        },
    };
    let import = async |changes: Vec<ImportChange>| {
        let change_counter = store.catalog_rows().await.unwrap().change_counter;
        store.import(&Import { change_counter, changes, ..Import::default() }).await.unwrap();
    };
    import(vec![write("c", Mask::Read)]).await;
    assert_eq!(masks().await, "4");
    // If a method moves to the function of another one, the higher of the two masks applies.
    let b = store.methods_with_id("b").await.unwrap().remove(0);
    store.update_method(&b, &MethodRow { id: b.id, ..method_of("b", "K") }, None).await.unwrap();
    assert_eq!(masks().await, "6");
    import(vec![write("d", Mask::Execute), write("e", Mask::Read)]).await;
    assert_eq!(masks().await, "6");
}

pub(crate) async fn concurrent_changes_of_a_method_are_merged_and_those_of_an_upstream_conflict(
    registry: Registry,
) {
    let store = &registry.store;
    store.add_method(&row("m"), &[]).await.unwrap();
    let read = store.methods_with_id("m").await.unwrap().remove(0);
    let titled = MethodRow { title: Some("Title".to_owned()), ..read.clone() };
    let described = MethodRow { description: Some("Words.".to_owned()), ..read.clone() };
    store.update_method(&read, &titled, None).await.unwrap();
    store.update_method(&read, &described, None).await.unwrap();
    let now = store.methods_with_id("m").await.unwrap().remove(0);
    assert_eq!((now.title, now.description), (titled.title, described.description));
    let upstream = |config: &str| UpstreamRow { name: "u".to_owned(), config: config.to_owned() };
    let [read, first, second] = ["{}", r#"{"a":1}"#, r#"{"b":2}"#].map(upstream);
    store.set_upstream(None, &read).await.unwrap();
    store.set_upstream(Some(&read), &first).await.unwrap();
    for before in [Some(&read), None] {
        let refused = store.set_upstream(before, &second).await.unwrap_err();
        assert!(matches!(refused, StoreError::Conflict), "{refused:?}");
    }
    assert_eq!(store.upstreams().await.unwrap(), [first]);
}

pub(crate) async fn existing_and_missing_names_are_errors_and_nothing_changes(registry: Registry) {
    let store = &registry.store;
    store.add_method(&row("m"), &[]).await.unwrap();
    store.add_user("ada", Some("admins")).await.unwrap();
    store.add_section("s", "S", Mask::Execute).await.unwrap();
    let before = store.change_counters().await.unwrap();
    let errors = [
        store.add_method(&row("m"), &[]).await.unwrap_err(),
        store.add_method(&row("n"), &[("gone".to_owned(), Mask::Read)]).await.unwrap_err(),
        store.remove_method("n").await.map(|_| ()).unwrap_err(),
        store.update_method(&row("n"), &row("n"), None).await.unwrap_err(),
        store.add_user("ada", Some("newrole")).await.map(|_| ()).unwrap_err(),
        store.add_section("s", "S", Mask::Execute).await.unwrap_err(),
        store.grant(GrantHolder::User(1), "gone", Mask::Read).await.unwrap_err(),
        store.revoke_token(7).await.unwrap_err(),
        store.user("bob").await.map(|_| ()).unwrap_err(),
        store.role("newrole").await.map(|_| ()).unwrap_err(),
    ];
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    insta::assert_debug_snapshot!("existing_and_missing_names", errors);
    assert_eq!(store.change_counters().await.unwrap(), before);
}

pub(crate) async fn grants_of_users_and_roles_determine_access(registry: Registry) {
    let store = &registry.store;
    for section in ["content", "system"] {
        store.add_section(section, section, Mask::Execute).await.unwrap();
    }
    let ada = store.add_user("ada", Some("editors")).await.unwrap();
    store.add_user("bob", Some("editors")).await.unwrap();
    store.add_user("eve", None).await.unwrap();
    store.add_user("nobody", Some("Anonymous")).await.unwrap();
    let editors = store.role("editors").await.unwrap().id;
    let anonymous = store.role("Anonymous").await.unwrap().id;
    store.grant(GrantHolder::Role(editors), "content", Mask::Read).await.unwrap();
    store.grant(GrantHolder::Role(editors), "content", Mask::Write).await.unwrap();
    store.grant(GrantHolder::User(ada), "content", Mask::None).await.unwrap();
    store.grant(GrantHolder::User(ada), "system", Mask::Execute).await.unwrap();
    store.grant(GrantHolder::Role(anonymous), "content", Mask::Read).await.unwrap();
    let access = access(&store.access_rows().await.unwrap());
    let mask = |caller: &Caller, section: &str| caller.grants.mask(&section.into());
    let caller = |name| access.caller_named(name).unwrap();
    assert_eq!(mask(caller("bob"), "content"), Mask::Write, "the later grant replaces the first");
    assert_eq!(mask(caller("ada"), "content"), Mask::None, "a user's 0 denies");
    assert_eq!(mask(caller("ada"), "system"), Mask::Execute);
    assert_eq!(mask(caller("eve"), "content"), Mask::None);
    assert_eq!(mask(access.anonymous(), "content"), Mask::Read);
    assert_eq!(caller("ada").user.as_ref().unwrap().role.as_deref(), Some("editors"));
}

pub(crate) async fn tokens_are_found_by_digest_until_they_are_revoked_and_secrets_are_not_stored(
    registry: Registry,
) {
    let store = &registry.store;
    let ada = store.add_user("ada", None).await.unwrap();
    let (valid, expired) = (Token::generate().unwrap(), Token::generate().unwrap());
    let id = store.add_token(&token(ada, &valid, None)).await.unwrap();
    store.add_token(&token(ada, &expired, Some(1_000))).await.unwrap();
    let digests = [&valid, &expired, &Token::generate().unwrap()].map(Token::stored_digest);
    let mut found = store.tokens_by_digest(&digests).await.unwrap();
    found.sort_by_key(|row| row.id);
    let rows = found.iter().map(|row| (row.id_user, &row.digest, row.expires_at));
    let expected = [(ada, &digests[0], None), (ada, &digests[1], Some(1_000))];
    assert!(rows.eq(expected), "{found:?}");
    assert_eq!(store.tokens_by_digest(&[]).await.unwrap(), []);
    let list_len = registry.database.scale().list_len;
    let many: Vec<String> = (0..list_len).map(|number| format!("{number:064x}")).collect();
    assert_eq!(store.tokens_by_digest(&[&digests[..1], &many].concat()).await.unwrap().len(), 1);
    // The database does not contain the secret.
    let stored = format!("{:?}", store.tokens().await.unwrap());
    assert!(!stored.contains(valid.expose()) && !stored.contains(&valid.expose()[3..]));
    store.revoke_token(id).await.unwrap();
    assert_eq!(store.tokens_by_digest(&digests).await.unwrap().len(), 1);
    assert_eq!(store.revoke_tokens_named("t").await.unwrap(), 1);
}

pub(crate) async fn each_change_increments_its_counters_and_a_token_use_increments_none(
    registry: Registry,
) {
    let store = &registry.store;
    let mut last = store.change_counters().await.unwrap();
    let mut changed = async |operation: &str| {
        let now = store.change_counters().await.unwrap();
        let changed = (
            now.catalog != last.catalog,
            now.access != last.access,
            now.tokens != last.tokens,
            now.keys != last.keys,
        );
        last = now;
        (operation.to_owned(), changed)
    };
    let catalog = (true, false, false, false);
    let access = (false, true, false, false);
    let both = (true, true, false, false);
    let tokens = (false, false, true, false);
    let keys = (false, false, false, true);
    let none = (false, false, false, false);
    store.add_section("s", "S", Mask::Execute).await.unwrap();
    assert_eq!(changed("section").await.1, both);
    store.add_method(&row("m"), &[("s".to_owned(), Mask::Read)]).await.unwrap();
    assert_eq!(changed("method").await.1, catalog);
    let ada = store.add_user("ada", Some("role")).await.unwrap();
    assert_eq!(changed("user").await.1, access);
    store.grant(GrantHolder::User(ada), "s", Mask::Read).await.unwrap();
    assert_eq!(changed("grant").await.1, access);
    let role = store.role("role").await.unwrap().id;
    store.grant(GrantHolder::Role(role), "s", Mask::Read).await.unwrap();
    assert_eq!(changed("role grant").await.1, access);
    let id = store.add_token(&token(ada, &Token::generate().unwrap(), None)).await.unwrap();
    assert_eq!(changed("token").await.1, tokens);
    store.record_token_uses(&[(id, 123)]).await.unwrap();
    assert_eq!(changed("use").await.1, none);
    assert_eq!(store.tokens().await.unwrap()[0].last_used_at, Some(123));
    store.record_token_uses(&[(id, 100)]).await.unwrap();
    assert_eq!(store.tokens().await.unwrap()[0].last_used_at, Some(123), "never backwards");
    store.set_setting("mcp_server_name", "x").await.unwrap();
    assert_eq!(changed("setting").await.1, both);
    store.set_meta("a", "b").await.unwrap();
    assert_eq!(changed("meta").await.1, none);
    store.revoke_token(id).await.unwrap();
    assert_eq!(changed("revoke").await.1, tokens);
    store.add_key(&NewKey::first().unwrap()).await.unwrap();
    assert_eq!(changed("key").await.1, keys);
    store.set_credential(ada, "shop", &Secret::new("x").unwrap()).await.unwrap();
    assert_eq!(changed("credential").await.1, access);
    store.remove_credential(ada, "shop").await.unwrap();
    assert_eq!(changed("no credential").await.1, access);
    let shop = UpstreamRow { name: "shop".to_owned(), config: "{}".to_owned() };
    store.set_upstream(None, &shop).await.unwrap();
    assert_eq!(changed("upstream").await.1, catalog);
    store.remove_upstream("shop", false).await.unwrap();
    assert_eq!(changed("no upstream").await.1, catalog);
    store.remove_method("m").await.unwrap();
    assert_eq!(changed("remove").await.1, catalog);
}

pub(crate) async fn uses_of_many_tokens_take_few_statements_and_never_become_earlier(
    registry: Registry,
) {
    let (store, database) = (&registry.store, &registry.database);
    // More rows than are changed in one statement. The SQL Server emulator accepts no long statements.
    let count = if database.scale().list_len < 500 { 5 } else { 1_100 };
    let rows: Vec<String> =
        (0..count).map(|number| format!("(1, 't', '{number:064}', {})", database.now())).collect();
    for part in rows.chunks(200) {
        let columns = "callgate_tokens (id_user, name, digest, created_at)";
        database.sql(&format!("INSERT INTO {columns} VALUES {}", part.join(", "))).await;
    }
    let ids: Vec<i64> = store.tokens().await.unwrap().iter().map(|token| token.id).collect();
    assert_eq!(ids.len(), count);
    store.record_token_uses(&[(ids[1], 5_000)]).await.unwrap();
    let before = store.statements();
    // Not in order, with a duplicate and an id that no longer exists.
    let mut uses: Vec<(i64, i64)> = ids.iter().map(|id| (*id, 1_000 + id)).collect();
    uses.extend([(ids[0], 4_000), (i64::MAX, 1)]);
    uses.reverse();
    store.record_token_uses(&uses).await.unwrap();
    let statements = usize::try_from(store.statements() - before).unwrap();
    assert!(statements < 5 + count / 20, "{statements} statements");
    for token in store.tokens().await.unwrap() {
        let expected = match token.id {
            id if id == ids[0] => 4_000,
            id if id == ids[1] => 5_000,
            id => 1_000 + id,
        };
        assert_eq!(token.last_used_at, Some(expected));
    }
}

pub(crate) async fn presets_insert_only_missing_settings(registry: Registry) {
    let store = &registry.store;
    store.set_setting("mcp_server_name", "mine").await.unwrap();
    let preset = [("mcp_server_name", "festi-mcp"), ("mcp_server_version", "1.0.0")];
    store.add_missing_settings(&preset).await.unwrap();
    store.set_setting("mcp_server_version", "2").await.unwrap();
    let settings: Vec<(String, String)> =
        store.settings().await.unwrap().into_iter().map(|row| (row.name, row.value)).collect();
    let text = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(settings, [text("mcp_server_name", "mine"), text("mcp_server_version", "2")]);
}

pub(crate) async fn existing_tool_names_and_sections_are_not_overwritten(registry: Registry) {
    let store = &registry.store;
    store.add_method(&row("a.b"), &[]).await.unwrap();
    let id = store.methods_with_id("a.b").await.unwrap()[0].id;
    store.store_tool_names(&[(id, "a_b".to_owned())]).await.unwrap();
    let name = store.methods_with_id("a.b").await.unwrap().remove(0).tool_name;
    assert_eq!(name.as_deref(), Some("a_b"));
    store.store_tool_names(&[(id, "other".to_owned())]).await.unwrap();
    let name = store.methods_with_id("a.b").await.unwrap().remove(0).tool_name;
    assert_eq!(name.as_deref(), Some("a_b"), "existing names are kept");
    store.add_section("s", "Mine", Mask::Read).await.unwrap();
    store.ensure_sections(&["s".to_owned(), "t".to_owned()]).await.unwrap();
    let sections = store.sections().await.unwrap();
    assert_eq!((sections.len(), sections[0].caption.as_str()), (2, "Mine"));
}

pub(crate) async fn the_built_in_section_needs_no_row(registry: Registry) {
    let store = &registry.store;
    let login = || ("@authenticated".to_owned(), Mask::Read);
    store.add_method(&row("a"), &[login()]).await.unwrap();
    store.add_method(&row("b"), &[login()]).await.unwrap();
    let rows = store.catalog_rows().await.unwrap();
    assert_eq!((rows.actions.len(), rows.sections.len()), (2, 1));
}

fn note(id: &str, written: &str) -> ImportRow {
    ImportRow {
        upstream: "default".to_owned(),
        rpc_method: id.to_owned(),
        source: "test".to_owned(),
        written: written.to_owned(),
    }
}

pub(crate) async fn an_import_writes_everything_or_nothing(registry: Registry) {
    let store = &registry.store;
    let change_counter = async || store.change_counters().await.unwrap().catalog;
    let needs = vec![("new".to_owned(), Mask::Read)];
    let write = |row: MethodRow, needs: Option<Vec<(String, Mask)>>, written: &str| {
        let note = note(&row.rpc_method, written);
        ImportChange::Write { row: Box::new(row), needs, note }
    };
    let class = TypeRow { name: "User".to_owned(), fields: None, schema: Some("{}".to_owned()) };
    let import = Import {
        change_counter: change_counter().await,
        sections: vec!["new".to_owned()],
        types: vec![class.clone()],
        changes: vec![write(row("a"), Some(needs.clone()), "1"), write(row("b"), Some(needs), "1")],
        ..Import::default()
    };
    store.import(&import).await.unwrap();
    let rows = store.catalog_rows().await.unwrap();
    assert_eq!((rows.methods.len(), rows.actions.len(), rows.sections.len()), (2, 2, 1));
    assert_eq!(rows.types, [class]);
    assert_eq!(store.imports().await.unwrap(), [note("a", "1"), note("b", "1")]);
    // This import was computed from rows that have changed since.
    assert!(matches!(store.import(&import).await, Err(StoreError::Conflict)));
    let [a, b] = <[MethodRow; 2]>::try_from(rows.methods).unwrap();
    let titled = MethodRow { title: Some("B".to_owned()), ..b.clone() };
    let missing_section = Some(vec![("nowhere".to_owned(), Mask::Read)]);
    let invalid = Import {
        change_counter: change_counter().await,
        changes: vec![
            ImportChange::Remove(Box::new(a.clone())),
            write(titled.clone(), missing_section, "2"),
        ],
        ..Import::default()
    };
    assert!(matches!(store.import(&invalid).await, Err(StoreError::NotFound { .. })));
    assert_eq!(store.catalog_rows().await.unwrap().methods, [a.clone(), b]);
    let valid = Import {
        changes: vec![
            ImportChange::Remove(Box::new(a)),
            write(titled.clone(), None, "2"),
            ImportChange::Note(note("c", "3")),
        ],
        ..invalid
    };
    store.import(&valid).await.unwrap();
    let rows = store.catalog_rows().await.unwrap();
    assert_eq!((rows.methods, rows.actions.len()), (vec![titled], 1));
    assert_eq!(store.imports().await.unwrap(), [note("b", "2"), note("c", "3")]);
}

pub(crate) async fn an_import_of_many_methods_takes_few_statements_and_loses_none(
    registry: Registry,
) {
    let store = &registry.store;
    let is_large = registry.database.scale().list_len > 500;
    let count = if is_large { 250 } else { 20 };
    let last = format!("m{:03}", count - 1);
    let needs = |mask| Some(vec![("new".to_owned(), mask)]);
    let write = |row: MethodRow, mask| {
        let note = note(&row.rpc_method, "1");
        ImportChange::Write { row: Box::new(row), needs: needs(mask), note }
    };
    let row_with_title =
        |number| MethodRow { title: Some(format!("{number}")), ..row(&format!("m{number:03}")) };
    let mut changes: Vec<_> =
        (0..count).map(|number| write(row_with_title(number), Mask::Read)).collect();
    // A second row with the same id, which is quarantined later. Its required sections and its note exist only once.
    changes.push(write(row_with_title(count - 1), Mask::Execute));
    let import = Import {
        change_counter: store.change_counters().await.unwrap().catalog,
        sections: vec!["new".to_owned()],
        changes,
        ..Import::default()
    };
    let before = store.statements();
    store.import(&import).await.unwrap();
    let statements = store.statements() - before;
    assert!(!is_large || statements < 30, "{statements} statements");
    let rows = store.catalog_rows().await.unwrap();
    let mut expected: Vec<String> = (0..count).map(|number| format!("m{number:03}")).collect();
    let masks: Vec<(&str, &str)> =
        rows.actions.iter().map(|row| (row.method.as_str(), row.mask.as_str())).collect();
    let has_mask = |id: &String| masks.contains(&(id, if *id == last { "6" } else { "2" }));
    assert!(masks.len() == count && expected.iter().all(has_mask), "{masks:?}");
    let notes = store.imports().await.unwrap();
    assert!(notes.iter().map(|note| &note.rpc_method).eq(&expected));
    expected.push(last);
    assert!(rows.methods.iter().map(|row| &row.rpc_method).eq(&expected), "in order");
}

pub(crate) async fn a_credential_belongs_to_one_user_at_one_upstream(registry: Registry) {
    let store = &registry.store;
    let ada = store.add_user("ada", None).await.unwrap();
    let bob = store.add_user("bob", None).await.unwrap();
    let secret = |text| Secret::new(text).unwrap();
    store.set_credential(ada, "shop", &secret("old")).await.unwrap();
    store.set_credential(ada, "shop", &secret("of ada")).await.unwrap();
    store.set_credential(bob, "shop", &secret("of bob")).await.unwrap();
    store.set_credential(bob, "node", &secret("elsewhere")).await.unwrap();
    let credentials = UserCredentials::default();
    credentials.set(&store.access_rows().await.unwrap().credentials);
    let shop = credentials.for_upstream("shop");
    let secret_of = async |id: i64| {
        let user = User { id, name: "x".to_owned(), role: None };
        let caller = Caller::user(user, callgate::Grants::default());
        shop.of(&caller).await.unwrap().map(|secret| secret.expose().to_owned())
    };
    assert_eq!(secret_of(ada).await.as_deref(), Some("of ada"));
    assert_eq!(secret_of(bob).await.as_deref(), Some("of bob"));
    assert_eq!(secret_of(99).await, None);
    assert!(shop.of(&Caller::anonymous()).await.unwrap().is_none());
    let rows = store.credentials().await.unwrap();
    assert!(!format!("{rows:?}{credentials:?}").contains("of ada"));
    let logins: Vec<_> =
        rows.iter().map(|row| (row.upstream.as_str(), row.login.as_deref())).collect();
    assert_eq!(logins, [("node", Some("bob")), ("shop", Some("ada")), ("shop", Some("bob"))]);
    assert!(store.remove_credential(bob, "shop").await.unwrap());
    assert!(!store.remove_credential(bob, "shop").await.unwrap());
    credentials.set(&store.access_rows().await.unwrap().credentials);
    assert_eq!(secret_of(bob).await, None);
}

pub(crate) async fn a_credential_is_replaced_only_if_it_equals_the_old_value(registry: Registry) {
    let store = &registry.store;
    let ada = store.add_user("ada", None).await.unwrap();
    let secret = |text: &str| Secret::new(text).unwrap();
    let (old, new) = (secret("token-A"), secret(r#"{"refresh_token":"b"}"#));
    let replace = async |old: &Secret, new: &Secret| {
        store.replace_credential(ada, "shop", old, new).await.unwrap()
    };
    assert!(!replace(&old, &new).await, "no credential");
    store.set_credential(ada, "shop", &old).await.unwrap();
    store.set_credential(ada, "node", &old).await.unwrap();
    let before = store.change_counters().await.unwrap().access;
    assert!(!replace(&secret("token-a"), &new).await, "case counts");
    assert_eq!(store.change_counters().await.unwrap().access, before);
    assert!(replace(&old, &new).await);
    assert!(store.change_counters().await.unwrap().access > before);
    // A client that does not know whether its change was written may repeat it.
    assert!(replace(&old, &new).await);
    assert!(!replace(&old, &secret("c")).await);
    let rows = store.credentials().await.unwrap();
    let row_of = |upstream: &str| rows.iter().find(|row| row.upstream == upstream).unwrap();
    assert_eq!((&row_of("shop").secret, &row_of("node").secret), (&Some(new), &Some(old)));
}

pub(crate) async fn an_upstream_is_written_read_and_removed_by_name(registry: Registry) {
    let store = &registry.store;
    let row =
        |name: &str, config: &str| UpstreamRow { name: name.to_owned(), config: config.to_owned() };
    let shop = row("shop", r#"{"url":"http://localhost/s3cret"}"#);
    let first = row("shop", "{}");
    for (before, row) in [(None, &first), (Some(&first), &shop), (None, &row("node", "[]"))] {
        store.set_upstream(before, row).await.unwrap();
    }
    let all = [row("node", "[]"), shop];
    assert_eq!(store.upstreams().await.unwrap(), all);
    assert_eq!(store.catalog_rows().await.unwrap().upstreams, all);
    assert!(!format!("{all:?}").contains("s3cret"));
    for (user, upstream) in [(1, "node"), (2, "node"), (1, "shop")] {
        store.set_credential(user, upstream, &Secret::new("x").unwrap()).await.unwrap();
    }
    assert_eq!(store.remove_upstream("node", false).await.unwrap(), 2);
    let error = store.remove_upstream("node", false).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no upstream `node`");
    assert_eq!(store.upstreams().await.unwrap().len(), 1);
    assert_eq!(store.remove_upstream("shop", true).await.unwrap(), 0);
    let remaining = store.credentials().await.unwrap();
    assert_eq!((remaining.len(), remaining[0].upstream.as_str()), (1, "shop"));
}

pub(crate) async fn an_import_of_access_adds_its_rows_unless_access_has_changed(
    registry: Registry,
) {
    let store = &registry.store;
    let section = |caption: &str| SectionRow {
        id: 0,
        caption: caption.to_owned(),
        ident: "users".to_owned(),
        mask: "4".to_owned(),
    };
    let grant = |holder| ImportGrant { holder, section: "users".to_owned(), value: 4 };
    let access = ImportAccess {
        change_counter: Some(store.change_counters().await.unwrap().access),
        sections: vec![section("Users"), section("Twice")],
        roles: vec![RoleRow { id: 7, caption: "clerk".to_owned() }],
        users: vec![UserRow { id: 9, login: "ada".to_owned(), id_type: Some(7), role: None }],
        grants: vec![grant(GrantHolder::Role(7)), grant(GrantHolder::User(9))],
    };
    let change_counter = store.change_counters().await.unwrap().catalog;
    let import = Import { change_counter, access, ..Import::default() };
    store.import(&import).await.unwrap();
    let rows = store.access_rows().await.unwrap();
    assert_eq!((rows.sections.len(), rows.sections[0].caption.as_str()), (1, "Users"));
    assert_eq!((rows.users[0].id, rows.users[0].role.as_deref()), (9, Some("clerk")));
    assert_eq!((rows.role_grants.len(), rows.user_grants[0].value.as_str()), (1, "4"));
    // Another program granted a mask after the plan was made.
    let outdated =
        Import { change_counter: store.change_counters().await.unwrap().catalog, ..import };
    assert!(matches!(store.import(&outdated).await, Err(StoreError::Conflict)));
}

pub(crate) async fn leases_count_the_running_servers(registry: Registry) {
    let store = &registry.store;
    let change_counters = store.change_counters().await.unwrap();
    let renew = async |server, seconds| store.renew_lease(server, seconds).await.unwrap();
    assert_eq!(renew("a", 1_000).await, 1);
    assert_eq!(renew("b", 2_000).await, 2);
    assert_eq!(renew("a", 1_000).await, 2, "renewed");
    assert_eq!(renew("b", 0).await, 1, "ended");
    assert_eq!(renew("b", 2_000).await, 2);
    assert_eq!(renew("c", -1_000).await, 2, "expired");
    store.delete_leases().await.unwrap();
    // Fails if the row of `c` still exists.
    let copy = "INSERT INTO callgate_servers (server, expires_at)
                SELECT 'c', expires_at FROM callgate_servers WHERE server = 'a'";
    registry.database.sql(copy).await;
    assert_eq!(renew("a", 1_000).await, 3, "only expired ones were deleted");
    assert_eq!(
        store.change_counters().await.unwrap(),
        change_counters,
        "nobody else reads anything"
    );
}
