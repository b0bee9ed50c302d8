//! A service that does not reply, or whose replies are invalid.

use std::sync::Arc;
use std::time::Duration;

use super::listing_service::{caller, gateway, run_pending_tasks, visible_ids};
use super::{MAX_AGE, RETRY_INTERVAL};
use crate::gateway::visibility::FIRST_LIST_TIMEOUT;
use crate::gateway::visibility::method_list_cache::MAX_STALE;
use crate::mcp::{Event, Mcp, NotificationStream, SessionKey, Sessions};

#[tokio::test(start_paused = true)]
async fn methods_are_hidden_until_the_first_list_arrives_and_subscribers_are_notified() {
    let (service, gateway) = gateway();
    service.list(1, &["open"]);
    let (permits, changes) = (service.hold_replies(), gateway.changes());
    let started = tokio::time::Instant::now();
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local"]);
    assert_eq!(started.elapsed(), FIRST_LIST_TIMEOUT);
    let hash_before = gateway.tools_hash(&gateway.prepare_at_once(caller(1)).await);
    assert!(!changes.has_changed().unwrap());
    permits.add_permits(1);
    run_pending_tasks().await;
    assert!(changes.has_changed().unwrap());
    let hash_after = gateway.tools_hash(&gateway.prepare_at_once(caller(1)).await);
    assert_ne!(hash_before, hash_after);
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    assert_eq!(service.request_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_list_notifies_no_subscriber() {
    let (service, gateway) = gateway();
    service.list(1, &["open"]);
    let changes = gateway.changes();
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    tokio::time::advance(MAX_AGE / 2).await;
    visible_ids(&gateway, &caller(1)).await;
    run_pending_tasks().await;
    assert_eq!(service.request_count(), 2);
    assert!(!changes.has_changed().unwrap(), "the list did not change");
}

#[tokio::test(start_paused = true)]
async fn an_expired_list_is_used_up_to_max_stale_while_the_service_is_unavailable() {
    let (service, gateway) = gateway();
    service.list(1, &["open"]);
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    service.set_unavailable(true);
    tokio::time::advance(MAX_AGE).await;
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    assert!(gateway.as_caller(caller(1)).call("open", ()).await.is_ok());
    tokio::time::advance(MAX_STALE.saturating_sub(Duration::from_secs(1))).await;
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local"], "the list is too old");
    assert!(gateway.as_caller(caller(1)).call("open", ()).await.is_err());
    assert_eq!(
        visible_ids(&gateway, &caller(2)).await,
        ["local"],
        "no earlier list for this caller"
    );

    let changes = gateway.changes();
    service.set_unavailable(false);
    tokio::time::advance(RETRY_INTERVAL).await;
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    assert!(changes.has_changed().unwrap(), "methods were hidden, so subscribers are notified");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_does_not_reply_counts_as_unavailable() {
    let (service, gateway) = gateway();
    service.list(1, &["open"]);
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    let _permits = service.hold_replies();
    tokio::time::advance(MAX_AGE).await;
    let started = tokio::time::Instant::now();
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    assert_eq!(started.elapsed(), FIRST_LIST_TIMEOUT);
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    assert_eq!(started.elapsed(), FIRST_LIST_TIMEOUT, "the second lookup does not wait again");
}

#[tokio::test(start_paused = true)]
async fn an_earlier_failure_does_not_prolong_the_use_of_an_expired_list() {
    let (service, gateway) = gateway();
    service.list(1, &["open"]);
    visible_ids(&gateway, &caller(1)).await;
    service.set_unavailable(true);
    tokio::time::advance(MAX_AGE / 2).await;
    visible_ids(&gateway, &caller(1)).await;
    run_pending_tasks().await;
    service.set_unavailable(false);
    service.list(1, &[]);
    tokio::time::advance(MAX_AGE).await;
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_service_is_requested_once_per_retry_interval() {
    let (service, gateway) = gateway();
    service.set_unavailable(true);
    for _ in 0..100 {
        assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local"]);
    }
    assert_eq!(service.request_count(), 1);
    tokio::time::advance(RETRY_INTERVAL).await;
    for _ in 0..100 {
        assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local"]);
    }
    assert_eq!(service.request_count(), 2);
    service.set_unavailable(false);
    service.list(1, &["open"]);
    tokio::time::advance(RETRY_INTERVAL).await;
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_during_a_list_request_is_a_failure_and_the_request_is_retried() {
    let (service, gateway) = gateway();
    service.list(1, &["open"]);
    service.set_panics(true);
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local"]);
    service.set_panics(false);
    tokio::time::advance(RETRY_INTERVAL).await;
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
}

#[tokio::test(start_paused = true)]
async fn a_notification_stream_reports_the_first_list_and_a_shorter_list() {
    let (service, gateway) = gateway();
    service.list(1, &["open", "read"]);
    let permits = service.hold_replies();
    let mcp = Arc::new(Mcp::new(Arc::clone(&gateway), Sessions::new([SessionKey::new(&[1; 32])])));
    let caller = caller(1);
    let prepared = gateway.prepare(caller.clone()).await;
    let mut stream = NotificationStream::legacy(&mcp, &prepared, Arc::new(caller));
    let next_message = async |stream: &mut NotificationStream| loop {
        if let Event::Message(message) = stream.next().await.unwrap() {
            let bytes = message.into_slices().into_iter().flatten().collect();
            break String::from_utf8(bytes).unwrap();
        }
    };
    permits.add_permits(1);
    let notification = next_message(&mut stream).await;
    assert!(notification.contains("notifications/tools/list_changed"), "{notification}");
    service.release_replies();
    service.list(1, &["open"]);
    // Only the open stream uses the list, which is enough for the list to be requested again.
    let started = tokio::time::Instant::now();
    let notification = next_message(&mut stream).await;
    assert!(notification.contains("notifications/tools/list_changed"), "{notification}");
    assert!(started.elapsed() <= MAX_AGE, "{:?}", started.elapsed());
}
