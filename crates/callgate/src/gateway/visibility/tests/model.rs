//! Whatever the service replies, no caller sees or calls more than the grants and the last list of the service allow.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::listing_service::{ListingService, caller, gateway, run_pending_tasks, visible_ids};
use crate::gateway::Gateway;

const METHODS: [&str; 4] = ["open", "read", "read2", "write"];

#[derive(Debug, Clone)]
enum Step {
    SetList { user: i64, methods: u8 },
    SetUnavailable(bool),
    Deny(usize),
    Credential(i64, Option<u8>),
    Wait(u64),
    CheckVisible(i64),
    Call(i64, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let user = 1..4_i64;
    prop_oneof![
        (user.clone(), 0..16_u8).prop_map(|(user, methods)| Step::SetList { user, methods }),
        any::<bool>().prop_map(Step::SetUnavailable),
        (0..METHODS.len()).prop_map(Step::Deny),
        (user.clone(), proptest::option::of(0..3_u8)).prop_map(|(u, c)| Step::Credential(u, c)),
        prop_oneof![0..10_u64, 20..70_u64, 800..1000_u64].prop_map(Step::Wait),
        user.clone().prop_map(Step::CheckVisible),
        (user, 0..METHODS.len()).prop_map(|(user, method)| Step::Call(user, method)),
    ]
}

fn is_granted(user: i64, id: &str) -> bool {
    id != "write" || user == 1
}

async fn run(
    step: &Step,
    service: &ListingService,
    gateway: &Gateway,
) -> Result<(), TestCaseError> {
    match step {
        Step::SetList { user, methods } => {
            let ids = METHODS.iter().enumerate().filter(|(at, _)| methods >> at & 1 == 1);
            let ids: Vec<&str> = ids.map(|(_, id)| *id).collect();
            service.list(*user, &ids);
        }
        Step::SetUnavailable(is_unavailable) => service.set_unavailable(*is_unavailable),
        Step::Deny(method) => service.deny(METHODS[*method]),
        Step::Credential(user, credential) => {
            let credential = credential.map(|number| number.to_string());
            service.set_credential(*user, credential.as_deref());
        }
        Step::Wait(seconds) => tokio::time::advance(Duration::from_secs(*seconds)).await,
        Step::CheckVisible(user) => {
            for id in visible_ids(gateway, &caller(*user)).await {
                let is_allowed = ["local", "more"].contains(&id.as_str())
                    || (is_granted(*user, &id) && service.last_reply(&caller(*user)).contains(&id));
                prop_assert!(is_allowed, "user {} sees {}", user, id);
            }
        }
        Step::Call(user, method) => {
            let id = METHODS[*method];
            let calls_before = service.calls().len();
            let _ = gateway.as_caller(caller(*user)).call(id, ()).await;
            let has_run = service.calls().len() > calls_before;
            let is_allowed = is_granted(*user, id)
                && service.last_reply(&caller(*user)).iter().any(|listed_id| listed_id == id);
            prop_assert!(!has_run || is_allowed, "user {} called {}", user, id);
        }
    }
    run_pending_tasks().await;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn callers_never_exceed_their_grants_and_the_last_list_of_the_service(
        steps in vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (service, gateway) = gateway();
            // Removes other services, so that no other reply arrives between a check and its use.
            gateway.set_dynamic_upstreams([]);
            for step in &steps {
                run(step, &service, &gateway).await?;
            }
            Ok::<_, TestCaseError>(())
        })?;
    }
}
