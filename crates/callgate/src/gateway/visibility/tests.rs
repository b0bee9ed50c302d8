//! A gateway in front of a service whose list depends on the caller. The clock is paused.

mod away;
mod model;
mod site;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;

use self::site::{Site, caller, gateway, listed, settle};
use super::method_list_cache::{MAX_CALLERS, MAX_REQUESTS, RETRY_INTERVAL};
use crate::access::Caller;
use crate::upstream::CallError;
use crate::upstream::Upstream;

const MAX_AGE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn a_caller_sees_what_their_grants_allow_and_the_service_lists() {
    let (site, gateway) = gateway();
    site.list(1, &["open", "read", "unheard.of"]);
    site.list(2, &["open", "write"]);
    let (ada, bob) = (caller(1), caller(2));
    assert_eq!(listed(&gateway, &ada).await, ["local", "open", "read"]);
    // Bob may only read, whatever the service lists.
    assert_eq!(listed(&gateway, &bob).await, ["local", "open"]);
    assert_eq!(listed(&gateway, &caller(3)).await, ["local"], "the service lists nothing for 3");

    let ada = gateway.prepare(ada).await;
    assert!(gateway.describe(&ada, "read").is_ok());
    assert!(gateway.describe(&ada, "read2").is_err());
    let document: Value = serde_json::from_slice(&gateway.open_rpc(&ada).unwrap()).unwrap();
    let names: Vec<_> =
        document["methods"].as_array().unwrap().iter().map(|m| &m["name"]).collect();
    assert_eq!(names, ["local", "open", "read"]);
    for (id, is_there) in [("read", true), ("open", true), ("read2", false), ("nothing", false)] {
        let called = gateway.as_caller(ada.clone()).call(id, ()).await;
        match called {
            Ok(_) => assert!(is_there, "{id}"),
            Err(CallError::NotFound(hidden)) => {
                assert!(!is_there, "{id}");
                assert_eq!(hidden.to_string(), format!("Tool '{id}' not found or access denied"));
            }
            Err(other) => panic!("{id}: {other}"),
        }
    }
    assert_eq!(site.calls(), ["read", "open"], "calls of methods that are not listed are not sent");
}

#[tokio::test(start_paused = true)]
async fn unprepared_caller_sees_no_methods_of_the_service() {
    let (site, gateway) = gateway();
    site.list(1, &["open", "read"]);
    assert_eq!(gateway.as_caller(caller(1)).methods(), ["local"]);
    assert!(gateway.describe(&caller(1), "open").is_err());
}

#[tokio::test(start_paused = true)]
async fn rights_that_shrink_are_noticed_within_the_time_that_is_said() {
    let (site, gateway) = gateway();
    site.list(1, &["open", "read"]);
    let changes = gateway.changes();
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open", "read"]);
    site.list(1, &["open"]);
    tokio::time::advance(MAX_AGE / 2).await;
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open", "read"], "not yet updated");
    settle().await;
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    assert!(changes.has_changed().unwrap(), "subscribers are notified");
    assert_eq!(site.asked(), 2);

    site.list(1, &[]);
    tokio::time::advance(MAX_AGE).await;
    assert_eq!(listed(&gateway, &caller(1)).await, ["local"], "an expired list is not used");
    assert_eq!(site.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_from_when_its_question_was_sent() {
    let (site, gateway) = gateway();
    site.list(1, &["open"]);
    let gate = site.hold();
    let first = tokio::spawn({
        let gateway = Arc::clone(&gateway);
        async move { listed(&gateway, &caller(1)).await }
    });
    settle().await;
    tokio::time::advance(Duration::from_secs(1)).await;
    gate.add_permits(1);
    assert_eq!(first.await.unwrap(), ["local", "open"]);
    site.release();
    site.list(1, &[]);
    tokio::time::advance(MAX_AGE.saturating_sub(Duration::from_secs(1))).await;
    assert_eq!(listed(&gateway, &caller(1)).await, ["local"]);
}

#[tokio::test(start_paused = true)]
async fn many_first_lists_of_one_caller_are_one_question() {
    let (site, gateway) = gateway();
    site.list(1, &["open"]);
    let gate = site.hold();
    let ada = caller(1);
    let all = join_all((0..100).map(|_| listed(&gateway, &ada)));
    let (all, ()) = tokio::join!(all, async {
        settle().await;
        gate.add_permits(1);
    });
    assert!(all.iter().all(|one| *one == ["local", "open"]));
    assert_eq!(site.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_a_few_questions_are_under_way_at_once() {
    let (site, gateway) = gateway();
    let gate = site.hold();
    let callers: Vec<Caller> = (0..50).map(caller).collect();
    let all = join_all(callers.iter().map(|one| listed(&gateway, one)));
    let ((), _) = tokio::join!(
        async {
            settle().await;
            assert_eq!(site.asked(), MAX_REQUESTS);
            gate.add_permits(1000);
        },
        all
    );
    assert_eq!(site.asked(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_many_credentials_leaves_a_request_to_others() {
    let (site, gateway) = gateway();
    site.list(2, &["open"]);
    let gate = site.hold();
    let list = |user| {
        let gateway = Arc::clone(&gateway);
        tokio::spawn(async move { listed(&gateway, &caller(user)).await })
    };
    for number in 0..10 {
        site.set_credential(1, Some(&format!("credential {number}")));
        list(1);
        settle().await;
    }
    let other = list(2);
    settle().await;
    gate.add_permits(MAX_REQUESTS);
    settle().await;
    assert!(other.is_finished());
    assert_eq!(other.await.unwrap(), ["local", "open"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_service_denies_is_gone_at_once() {
    let (site, gateway) = gateway();
    site.list(1, &["open", "read"]);
    let changes = gateway.changes();
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open", "read"]);
    site.deny("read");
    let told = gateway.as_caller(caller(1)).call("read", ()).await;
    assert!(matches!(told, Err(CallError::Denied { .. })), "the service's own words: {told:?}");
    assert!(changes.has_changed().unwrap());
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    let again = gateway.as_caller(caller(1)).call("read", ()).await;
    assert!(matches!(again, Err(CallError::NotFound(_))), "{again:?}");
    assert_eq!((site.calls().len(), site.asked()), (1, 1));

    // The list is requested again before it expires, but not immediately.
    site.list(1, &["open"]);
    tokio::time::advance(RETRY_INTERVAL).await;
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    settle().await;
    assert_eq!(site.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_denial_counts_more_than_an_answer_to_a_question_of_before() {
    let (site, gateway) = gateway();
    site.list(1, &["open", "read"]);
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open", "read"]);
    tokio::time::advance(MAX_AGE / 2).await;
    let gate = site.hold();
    listed(&gateway, &caller(1)).await;
    settle().await;
    site.deny("read");
    assert!(gateway.as_caller(caller(1)).call("read", ()).await.is_err());
    gate.add_permits(1);
    settle().await;
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    assert_eq!(site.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_replaced_credential_asks_anew_and_who_has_none_is_not_asked_for() {
    let (site, gateway) = gateway();
    site.list(1, &["open", "read"]);
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open", "read"]);
    site.list(1, &["open"]);
    site.set_credential(1, Some("another"));
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open"]);
    assert_eq!(site.asked(), 2);
    site.set_credential(1, None);
    assert_eq!(listed(&gateway, &caller(1)).await, ["local"]);
    assert_eq!(site.asked(), 2);
    assert_eq!(listed(&gateway, &Caller::anonymous()).await, ["local"]);
    assert_eq!(site.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn all_whom_the_service_cannot_tell_apart_are_one() {
    let (site, gateway) = gateway();
    site.take_anonymous();
    site.list(0, &["open", "read"]);
    site.set_credential(1, None);
    assert_eq!(listed(&gateway, &Caller::anonymous()).await, ["local", "open"]);
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open", "read"], "by their grants");
    assert_eq!(site.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_denial_takes_nothing_from_others_of_the_same_identity() {
    let (site, gateway) = gateway();
    site.take_anonymous();
    site.list(0, &["open", "read"]);
    site.set_credential(1, None);
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open", "read"]);
    site.deny("open");
    for _ in 0..3 {
        let told = gateway.as_caller(Caller::anonymous()).call("open", ()).await;
        assert!(matches!(told, Err(CallError::Denied { .. })), "{told:?}");
        assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open", "read"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_that_is_forbidden_stays_listed_and_the_service_is_asked_again() {
    let (site, gateway) = gateway();
    site.list(1, &["open", "read"]);
    assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open", "read"]);
    site.forbid("read");
    for _ in 0..2 {
        let told = gateway.as_caller(caller(1)).call("read", ()).await;
        assert!(matches!(told, Err(CallError::Forbidden(..))), "{told:?}");
        assert_eq!(listed(&gateway, &caller(1)).await, ["local", "open", "read"]);
    }
    tokio::time::advance(RETRY_INTERVAL).await;
    listed(&gateway, &caller(1)).await;
    tokio::task::yield_now().await;
    assert_eq!(site.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn equal_method_sets_are_shared_and_the_number_of_callers_is_limited() {
    let (site, gateway) = gateway();
    for number in 0..1000 {
        let own: &[&str] = if number % 2 == 0 { &["open"] } else { &["open", "read"] };
        site.list(number, own);
        listed(&gateway, &caller(number)).await;
    }
    let (callers, sets) = gateway.snapshot.load().visibility.sizes("site");
    assert_eq!((callers, sets), (1000, 3), "two sets, and the empty one");
    for number in 1000..12_000 {
        listed(&gateway, &caller(number)).await;
    }
    assert!(gateway.snapshot.load().visibility.sizes("site").0 <= MAX_CALLERS);
}

#[tokio::test(start_paused = true)]
async fn cached_lists_are_kept_while_the_upstream_is_unchanged() {
    let (site, gateway) = gateway();
    site.list(1, &["open"]);
    let (more, other) = (Arc::new(Site::default()), Arc::new(Site::default()));
    more.list(1, &[]);
    let put = |more: &Arc<Site>| {
        let more = Arc::clone(more) as Arc<dyn Upstream>;
        gateway.set_dynamic_upstreams([("more".into(), more)]);
    };
    put(&more);
    listed(&gateway, &caller(1)).await;
    assert_eq!((site.asked(), more.asked()), (1, 1));
    put(&more);
    listed(&gateway, &caller(1)).await;
    assert_eq!((site.asked(), more.asked()), (1, 1));
    // The caller was prepared with the previous state, so new methods are hidden.
    let ada = gateway.prepare(caller(1)).await;
    put(&other);
    assert_eq!(gateway.as_caller(ada).methods(), ["local", "open"]);
    listed(&gateway, &caller(1)).await;
    assert_eq!((site.asked(), other.asked()), (1, 1));
    gateway.set_dynamic_upstreams([]);
    let seen = listed(&gateway, &caller(1)).await;
    assert_eq!(seen, ["local", "more", "open"], "no service restricts `more` any more");
}
