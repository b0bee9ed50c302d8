//! A service that does not reply, or whose replies are invalid.

use std::sync::Arc;
use std::time::Duration;

use super::site::{caller, gateway, listed, settle};
use super::{MAX_AGE, RETRY_INTERVAL};
use crate::gateway::visibility::FIRST_LIST_TIMEOUT;
use crate::gateway::visibility::method_list_cache::MAX_STALE;
use crate::mcp::{Event, Mcp, NotificationStream, SessionKey, Sessions};

#[tokio::test(start_paused = true)]
async fn while_nothing_is_known_nothing_is_shown_and_those_who_listen_are_told_later() {
    let (site, gateway) = gateway();
    site.list(1, &["open"]);
    let (gate, changes) = (site.hold(), gateway.changes());
    let started = tokio::time::Instant::now();
    assert_eq!(listed(&gateway, &caller(1)).await, ["local"]);
    assert_eq!(started.elapsed(), FIRST_LIST_TIMEOUT);
    let early = gateway.tools_hash(&gateway.prepare_at_once(caller(1)).await);
    assert!(!changes.has_changed().unwrap());
    gate.add_permits(1);
    settle().await;
    assert!(changes.has_changed().unwrap());
    let later = gateway.tools_hash(&gateway.prepare_at_once(caller(1)).await);
    assert_ne!(early, later);
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    assert_eq!(site.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_missed_wakes_nobody() {
    let (site, gateway) = gateway();
    site.list(1, &["open"]);
    let changes = gateway.changes();
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    tokio::time::advance(MAX_AGE / 2).await;
    listed(&gateway, &caller(1)).await;
    settle().await;
    assert_eq!(site.asked(), 2);
    assert!(!changes.has_changed().unwrap(), "the list did not change");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_away_leaves_what_it_listed_for_a_while_and_then_nothing() {
    let (site, gateway) = gateway();
    site.list(1, &["open"]);
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    site.set_away(true);
    tokio::time::advance(MAX_AGE).await;
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    assert!(gateway.as_caller(caller(1)).call("open", ()).await.is_ok());
    tokio::time::advance(MAX_STALE.saturating_sub(Duration::from_secs(1))).await;
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(listed(&gateway, &caller(1)).await, ["local"], "the list is too old");
    assert!(gateway.as_caller(caller(1)).call("open", ()).await.is_err());
    assert_eq!(listed(&gateway, &caller(2)).await, ["local"], "no earlier list for this caller");

    let changes = gateway.changes();
    site.set_away(false);
    tokio::time::advance(RETRY_INTERVAL).await;
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    assert!(changes.has_changed().unwrap(), "methods were hidden, so subscribers are notified");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_hangs_is_away() {
    let (site, gateway) = gateway();
    site.list(1, &["open"]);
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    let _gate = site.hold();
    tokio::time::advance(MAX_AGE).await;
    let started = tokio::time::Instant::now();
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    assert_eq!(started.elapsed(), FIRST_LIST_TIMEOUT);
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    assert_eq!(started.elapsed(), FIRST_LIST_TIMEOUT, "the second lookup does not wait again");
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_before_does_not_keep_what_is_too_old() {
    let (site, gateway) = gateway();
    site.list(1, &["open"]);
    listed(&gateway, &caller(1)).await;
    site.set_away(true);
    tokio::time::advance(MAX_AGE / 2).await;
    listed(&gateway, &caller(1)).await;
    settle().await;
    site.set_away(false);
    site.list(1, &[]);
    tokio::time::advance(MAX_AGE).await;
    assert_eq!(listed(&gateway, &caller(1)).await, ["local"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_service_is_left_alone_for_some_seconds() {
    let (site, gateway) = gateway();
    site.set_away(true);
    for _ in 0..100 {
        assert_eq!(listed(&gateway, &caller(1)).await, ["local"]);
    }
    assert_eq!(site.asked(), 1);
    tokio::time::advance(RETRY_INTERVAL).await;
    for _ in 0..100 {
        assert_eq!(listed(&gateway, &caller(1)).await, ["local"]);
    }
    assert_eq!(site.asked(), 2);
    site.set_away(false);
    site.list(1, &["open"]);
    tokio::time::advance(RETRY_INTERVAL).await;
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_asking_is_a_failure_and_not_the_end_of_asking() {
    let (site, gateway) = gateway();
    site.list(1, &["open"]);
    site.set_panics(true);
    assert_eq!(listed(&gateway, &caller(1)).await, ["local"]);
    site.set_panics(false);
    tokio::time::advance(RETRY_INTERVAL).await;
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_listens_hears_when_its_tools_are_known_and_when_they_shrink() {
    let (site, gateway) = gateway();
    site.list(1, &["open", "read"]);
    let gate = site.hold();
    let mcp = Arc::new(Mcp::new(Arc::clone(&gateway), Sessions::new([SessionKey::new(&[1; 32])])));
    let caller = caller(1);
    let early = gateway.prepare(caller.clone()).await;
    let mut listener = NotificationStream::legacy(&mcp, &early, Arc::new(caller));
    let changed = async |listener: &mut NotificationStream| loop {
        if let Event::Message(message) = listener.next().await.unwrap() {
            let bytes = message.into_slices().into_iter().flatten().collect();
            break String::from_utf8(bytes).unwrap();
        }
    };
    gate.add_permits(1);
    let told = changed(&mut listener).await;
    assert!(told.contains("notifications/tools/list_changed"), "{told}");
    site.release();
    site.list(1, &["open"]);
    // Only the open stream uses the list, which is enough for the list to be requested again.
    let started = tokio::time::Instant::now();
    let told = changed(&mut listener).await;
    assert!(told.contains("notifications/tools/list_changed"), "{told}");
    assert!(started.elapsed() <= MAX_AGE, "{:?}", started.elapsed());
}
