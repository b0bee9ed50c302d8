//! Data that servers share: keys, sessions, messages.

use callgate_registry::{NewKey, SessionRow, Store as _};

use crate::databases::Registry;

pub(crate) async fn a_key_is_added_only_if_there_is_none_or_the_newest_is_old_enough(
    registry: Registry,
) {
    let store = &registry.store;
    assert!(store.keys("session").await.unwrap().is_empty());
    let add = async |purpose: &str, secret: &str, min_age| {
        let (purpose, secret) = (purpose.to_owned(), secret.to_owned());
        store.add_key(&NewKey { purpose, secret, active_in: 10, min_age }).await.unwrap()
    };
    assert!(add("session", "aa", None).await);
    assert!(!add("session", "bb", None).await);
    assert!(add("other", "cc", None).await);
    let keys = store.keys("session").await.unwrap();
    assert_eq!(keys.iter().map(|key| key.secret.as_str()).collect::<Vec<_>>(), ["aa"]);
    assert!(keys.iter().all(|key| key.active_from <= key.created_at), "signs at once");
    // A new key is added when the newest one is old enough.
    assert!(!add("session", "bb", Some(3600)).await);
    let before = store.change_counters().await.unwrap();
    assert!(add("session", "bb", Some(0)).await);
    assert_ne!(store.change_counters().await.unwrap().keys, before.keys);
    let keys = store.keys("session").await.unwrap();
    let [newer, older] = keys.as_slice() else { panic!("{keys:?}") };
    assert_eq!((newer.secret.as_str(), older.secret.as_str()), ("bb", "aa"));
    assert_eq!(newer.active_from, newer.created_at + 10);
    store.remove_keys_before("session", newer.id).await.unwrap();
    assert_eq!(store.keys("session").await.unwrap(), std::slice::from_ref(newer));
    assert_eq!(store.keys("other").await.unwrap().len(), 1);
}

pub(crate) async fn only_one_of_several_concurrent_servers_adds_a_key(registry: Registry) {
    let store = &registry.store;
    let key = |number| NewKey {
        purpose: "session".to_owned(),
        secret: format!("{number:02}"),
        active_in: 10,
        min_age: Some(3600),
    };
    let (first, second, third) = (key(1), key(2), key(3));
    let (first, second, third) =
        tokio::join!(store.add_key(&first), store.add_key(&second), store.add_key(&third));
    let added = [first, second, third].into_iter().filter(|added| *added.as_ref().unwrap()).count();
    assert_eq!((added, store.keys("session").await.unwrap().len()), (1, 1));
}

pub(crate) async fn sessions_are_read_in_the_order_of_their_changes(registry: Registry) {
    let store = &registry.store;
    let change = async |nonce: &str, is_end: bool, ends_at| {
        let change = |row: &mut SessionRow| {
            row.ended = is_end;
            row.subscriptions = Some(r#"["a:b"]"#.to_owned());
        };
        store.update_session(nonce, ends_at, &change).await.unwrap()
    };
    let before = store.change_counters().await.unwrap();
    for (nonce, is_end, ends_at) in [("a", false, 10), ("b", true, 20), ("a", true, 10)] {
        change(nonce, is_end, ends_at).await;
    }
    let now = change("a", false, 10).await;
    assert_eq!((now.nonce.as_str(), now.ended, now.ends_at), ("a", true, 10));
    let after = store.change_counters().await.unwrap();
    assert_eq!((after.catalog, after.access), (before.catalog, before.access), "no reload");
    assert_eq!(after.sessions, now.number);
    let rows = store.sessions_after(0).await.unwrap();
    let sessions: Vec<(&str, bool)> =
        rows.iter().map(|row| (row.nonce.as_str(), row.ended)).collect();
    assert_eq!(sessions, [("b", true), ("a", true)], "ended sessions stay ended");
    let (older, newer) = rows.split_first().unwrap();
    assert_eq!(store.sessions_after(older.number).await.unwrap(), newer);
    store.delete_sessions(10, 10).await.unwrap();
    assert_eq!(store.sessions_after(0).await.unwrap(), std::slice::from_ref(older), "expired");
    change("c", true, 20).await;
    store.delete_sessions(10, 1).await.unwrap();
    let remaining = store.sessions_after(0).await.unwrap();
    assert_eq!(
        remaining.iter().map(|row| row.nonce.as_str()).collect::<Vec<_>>(),
        ["c"],
        "the newest"
    );
    assert!(
        remaining.iter().all(|row| newer.iter().all(|old| row.number > old.number)),
        "new numbers"
    );
}

pub(crate) async fn concurrent_changes_of_a_session_are_all_stored(registry: Registry) {
    let store = &registry.store;
    let level = |row: &mut SessionRow| row.log_level = Some("error".to_owned());
    let subscribe = |row: &mut SessionRow| row.subscriptions = Some(r#"["a:b"]"#.to_owned());
    let end = |row: &mut SessionRow| row.ended = true;
    let (first, second, third) = tokio::join!(
        store.update_session("a", 10, &level),
        store.update_session("a", 10, &subscribe),
        store.update_session("a", 10, &end),
    );
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    let rows = store.sessions_after(0).await.unwrap();
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    let level = row.log_level.as_deref();
    assert_eq!((level, row.subscriptions.is_some(), row.ended), (Some("error"), true, true));
}

pub(crate) async fn messages_are_read_in_order_and_deleted_by_age(registry: Registry) {
    let store = &registry.store;
    let before = store.change_counters().await.unwrap();
    let long = format!("{{\"ł\":\"{}\"}}", "🚀".repeat(registry.database.scale().letters));
    for (session, message) in [("aa", "1"), ("bb", &long), ("aa", "3")] {
        store.post_message(session, message).await.unwrap();
    }
    let after = store.change_counters().await.unwrap();
    assert_eq!((after.catalog, after.access), (before.catalog, before.access), "no reload");
    let rows = store.messages_after(before.messages).await.unwrap();
    let messages: Vec<_> =
        rows.iter().map(|row| (row.session.as_str(), row.message.as_str())).collect();
    assert_eq!(messages, [("aa", "1"), ("bb", &long), ("aa", "3")]);
    assert_eq!(rows.last().map(|row| row.number), Some(after.messages));
    assert!(store.messages_after(after.messages).await.unwrap().is_empty());
    store.delete_messages(3600).await.unwrap();
    assert_eq!(store.messages_after(0).await.unwrap().len(), 3, "they are recent");
    store.delete_messages(-3600).await.unwrap();
    assert!(store.messages_after(0).await.unwrap().is_empty());
}
