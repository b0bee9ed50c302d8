//! A gateway in front of a service whose list depends on the caller. The clock is paused.

mod listing_service;
mod model;
mod unavailable;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;

use self::listing_service::{ListingService, caller, gateway, run_pending_tasks, visible_ids};
use super::method_list_cache::{MAX_CALLERS, MAX_REQUESTS, RETRY_INTERVAL};
use crate::access::Caller;
use crate::upstream::CallError;
use crate::upstream::Upstream;

const MAX_AGE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn a_caller_sees_methods_that_the_grants_allow_and_the_service_lists() {
    let (service, gateway) = gateway();
    service.list(1, &["open", "read", "unheard.of"]);
    service.list(2, &["open", "write"]);
    let (ada, bob) = (caller(1), caller(2));
    assert_eq!(visible_ids(&gateway, &ada).await, ["local", "open", "read"]);
    // Bob may only read, whatever the service lists.
    assert_eq!(visible_ids(&gateway, &bob).await, ["local", "open"]);
    assert_eq!(
        visible_ids(&gateway, &caller(3)).await,
        ["local"],
        "the service lists nothing for 3"
    );

    let ada = gateway.prepare(ada).await;
    assert!(gateway.describe(&ada, "read").is_ok());
    assert!(gateway.describe(&ada, "read2").is_err());
    let document: Value = serde_json::from_slice(&gateway.open_rpc(&ada).unwrap()).unwrap();
    let names: Vec<_> =
        document["methods"].as_array().unwrap().iter().map(|method| &method["name"]).collect();
    assert_eq!(names, ["local", "open", "read"]);
    for (id, is_visible) in [("read", true), ("open", true), ("read2", false), ("nothing", false)] {
        let result = gateway.as_caller(ada.clone()).call(id, ()).await;
        match result {
            Ok(_) => assert!(is_visible, "{id}"),
            Err(CallError::NotFound(error)) => {
                assert!(!is_visible, "{id}");
                assert_eq!(error.to_string(), format!("Tool '{id}' not found or access denied"));
            }
            Err(other) => panic!("{id}: {other}"),
        }
    }
    assert_eq!(
        service.calls(),
        ["read", "open"],
        "calls of methods that are not listed are not sent"
    );
}

#[tokio::test(start_paused = true)]
async fn unprepared_caller_sees_no_methods_of_the_service() {
    let (service, gateway) = gateway();
    service.list(1, &["open", "read"]);
    assert_eq!(gateway.as_caller(caller(1)).methods(), ["local"]);
    assert!(gateway.describe(&caller(1), "open").is_err());
}

#[tokio::test(start_paused = true)]
async fn methods_that_the_service_no_longer_lists_are_hidden_within_max_age() {
    let (service, gateway) = gateway();
    service.list(1, &["open", "read"]);
    let changes = gateway.changes();
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open", "read"]);
    service.list(1, &["open"]);
    tokio::time::advance(MAX_AGE / 2).await;
    assert_eq!(
        visible_ids(&gateway, &caller(1)).await,
        ["local", "open", "read"],
        "not yet updated"
    );
    run_pending_tasks().await;
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    assert!(changes.has_changed().unwrap(), "subscribers are notified");
    assert_eq!(service.request_count(), 2);

    service.list(1, &[]);
    tokio::time::advance(MAX_AGE).await;
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local"], "an expired list is not used");
    assert_eq!(service.request_count(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_list_starts_when_its_request_is_sent() {
    let (service, gateway) = gateway();
    service.list(1, &["open"]);
    let permits = service.hold_replies();
    let first = tokio::spawn({
        let gateway = Arc::clone(&gateway);
        async move { visible_ids(&gateway, &caller(1)).await }
    });
    run_pending_tasks().await;
    tokio::time::advance(Duration::from_secs(1)).await;
    permits.add_permits(1);
    assert_eq!(first.await.unwrap(), ["local", "open"]);
    service.release_replies();
    service.list(1, &[]);
    tokio::time::advance(MAX_AGE.saturating_sub(Duration::from_secs(1))).await;
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local"]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_first_lookups_of_one_caller_send_one_request() {
    let (service, gateway) = gateway();
    service.list(1, &["open"]);
    let permits = service.hold_replies();
    let ada = caller(1);
    let all = join_all((0..100).map(|_| visible_ids(&gateway, &ada)));
    let (all, ()) = tokio::join!(all, async {
        run_pending_tasks().await;
        permits.add_permits(1);
    });
    assert!(all.iter().all(|ids| *ids == ["local", "open"]));
    assert_eq!(service.request_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_concurrent_list_requests_is_limited() {
    let (service, gateway) = gateway();
    let permits = service.hold_replies();
    let callers: Vec<Caller> = (0..50).map(caller).collect();
    let all = join_all(callers.iter().map(|caller| visible_ids(&gateway, caller)));
    let ((), _) = tokio::join!(
        async {
            run_pending_tasks().await;
            assert_eq!(service.request_count(), MAX_REQUESTS);
            permits.add_permits(1000);
        },
        all
    );
    assert_eq!(service.request_count(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_many_credentials_leaves_a_request_for_other_callers() {
    let (service, gateway) = gateway();
    service.list(2, &["open"]);
    let permits = service.hold_replies();
    let list = |user| {
        let gateway = Arc::clone(&gateway);
        tokio::spawn(async move { visible_ids(&gateway, &caller(user)).await })
    };
    for number in 0..10 {
        service.set_credential(1, Some(&format!("credential {number}")));
        list(1);
        run_pending_tasks().await;
    }
    let other = list(2);
    run_pending_tasks().await;
    permits.add_permits(MAX_REQUESTS);
    run_pending_tasks().await;
    assert!(other.is_finished());
    assert_eq!(other.await.unwrap(), ["local", "open"]);
}

#[tokio::test(start_paused = true)]
async fn a_method_that_the_service_denies_is_hidden_at_once() {
    let (service, gateway) = gateway();
    service.list(1, &["open", "read"]);
    let changes = gateway.changes();
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open", "read"]);
    service.deny("read");
    let result = gateway.as_caller(caller(1)).call("read", ()).await;
    assert!(matches!(result, Err(CallError::Denied { .. })), "the service's own words: {result:?}");
    assert!(changes.has_changed().unwrap());
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    let second_result = gateway.as_caller(caller(1)).call("read", ()).await;
    assert!(matches!(second_result, Err(CallError::NotFound(_))), "{second_result:?}");
    assert_eq!((service.calls().len(), service.request_count()), (1, 1));

    // The list is requested again before it expires, but not immediately.
    service.list(1, &["open"]);
    tokio::time::advance(RETRY_INTERVAL).await;
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    run_pending_tasks().await;
    assert_eq!(service.request_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_denial_overrides_the_reply_to_an_earlier_list_request() {
    let (service, gateway) = gateway();
    service.list(1, &["open", "read"]);
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open", "read"]);
    tokio::time::advance(MAX_AGE / 2).await;
    let permits = service.hold_replies();
    visible_ids(&gateway, &caller(1)).await;
    run_pending_tasks().await;
    service.deny("read");
    assert!(gateway.as_caller(caller(1)).call("read", ()).await.is_err());
    permits.add_permits(1);
    run_pending_tasks().await;
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    assert_eq!(service.request_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_replaced_credential_triggers_a_request_and_a_missing_credential_does_not() {
    let (service, gateway) = gateway();
    service.list(1, &["open", "read"]);
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open", "read"]);
    service.list(1, &["open"]);
    service.set_credential(1, Some("another"));
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open"]);
    assert_eq!(service.request_count(), 2);
    service.set_credential(1, None);
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local"]);
    assert_eq!(service.request_count(), 2);
    assert_eq!(visible_ids(&gateway, &Caller::anonymous()).await, ["local"]);
    assert_eq!(service.request_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn callers_with_the_same_identity_share_one_list() {
    let (service, gateway) = gateway();
    service.accept_anonymous();
    service.list(0, &["open", "read"]);
    service.set_credential(1, None);
    assert_eq!(visible_ids(&gateway, &Caller::anonymous()).await, ["local", "open"]);
    assert_eq!(
        visible_ids(&gateway, &caller(1)).await,
        ["local", "open", "read"],
        "by their grants"
    );
    assert_eq!(service.request_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_denial_hides_nothing_from_other_callers_with_the_anonymous_identity() {
    let (service, gateway) = gateway();
    service.accept_anonymous();
    service.list(0, &["open", "read"]);
    service.set_credential(1, None);
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open", "read"]);
    service.deny("open");
    for _ in 0..3 {
        let result = gateway.as_caller(Caller::anonymous()).call("open", ()).await;
        assert!(matches!(result, Err(CallError::Denied { .. })), "{result:?}");
        assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open", "read"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_method_stays_listed_and_the_list_is_requested_again() {
    let (service, gateway) = gateway();
    service.list(1, &["open", "read"]);
    assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open", "read"]);
    service.forbid("read");
    for _ in 0..2 {
        let result = gateway.as_caller(caller(1)).call("read", ()).await;
        assert!(matches!(result, Err(CallError::Forbidden(..))), "{result:?}");
        assert_eq!(visible_ids(&gateway, &caller(1)).await, ["local", "open", "read"]);
    }
    tokio::time::advance(RETRY_INTERVAL).await;
    visible_ids(&gateway, &caller(1)).await;
    tokio::task::yield_now().await;
    assert_eq!(service.request_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn equal_method_sets_are_shared_and_the_number_of_callers_is_limited() {
    let (service, gateway) = gateway();
    for number in 0..1000 {
        let ids: &[&str] = if number % 2 == 0 { &["open"] } else { &["open", "read"] };
        service.list(number, ids);
        visible_ids(&gateway, &caller(number)).await;
    }
    let (callers, sets) = gateway.snapshot.load().visibility.sizes("service");
    assert_eq!((callers, sets), (1000, 3), "two sets, and the empty one");
    for number in 1000..12_000 {
        visible_ids(&gateway, &caller(number)).await;
    }
    assert!(gateway.snapshot.load().visibility.sizes("service").0 <= MAX_CALLERS);
}

#[tokio::test(start_paused = true)]
async fn cached_lists_are_kept_while_the_upstream_is_unchanged() {
    let (service, gateway) = gateway();
    service.list(1, &["open"]);
    let (more, other) = (Arc::new(ListingService::default()), Arc::new(ListingService::default()));
    more.list(1, &[]);
    let set_upstream = |more: &Arc<ListingService>| {
        let more = Arc::clone(more) as Arc<dyn Upstream>;
        gateway.set_dynamic_upstreams([("more".into(), more)]);
    };
    set_upstream(&more);
    visible_ids(&gateway, &caller(1)).await;
    assert_eq!((service.request_count(), more.request_count()), (1, 1));
    set_upstream(&more);
    visible_ids(&gateway, &caller(1)).await;
    assert_eq!((service.request_count(), more.request_count()), (1, 1));
    // The caller was prepared with the previous state, so new methods are hidden.
    let ada = gateway.prepare(caller(1)).await;
    set_upstream(&other);
    assert_eq!(gateway.as_caller(ada).methods(), ["local", "open"]);
    visible_ids(&gateway, &caller(1)).await;
    assert_eq!((service.request_count(), other.request_count()), (1, 1));
    gateway.set_dynamic_upstreams([]);
    let ids = visible_ids(&gateway, &caller(1)).await;
    assert_eq!(ids, ["local", "more", "open"], "no service restricts `more` any more");
}
