//! Whatever the service replies, no caller sees or calls more than its last list and the grants allow.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::site::{Site, caller, gateway, listed, settle};
use crate::gateway::Gateway;

const METHODS: [&str; 4] = ["open", "read", "read2", "write"];

#[derive(Debug, Clone)]
enum Step {
    List { user: i64, methods: u8 },
    Away(bool),
    Deny(usize),
    Credential(i64, Option<u8>),
    Wait(u64),
    Look(i64),
    Call(i64, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let user = 1..4_i64;
    prop_oneof![
        (user.clone(), 0..16_u8).prop_map(|(user, methods)| Step::List { user, methods }),
        any::<bool>().prop_map(Step::Away),
        (0..METHODS.len()).prop_map(Step::Deny),
        (user.clone(), proptest::option::of(0..3_u8)).prop_map(|(u, c)| Step::Credential(u, c)),
        prop_oneof![0..10_u64, 20..70_u64, 800..1000_u64].prop_map(Step::Wait),
        user.clone().prop_map(Step::Look),
        (user, 0..METHODS.len()).prop_map(|(user, method)| Step::Call(user, method)),
    ]
}

fn is_granted(user: i64, id: &str) -> bool {
    id != "write" || user == 1
}

async fn run(step: &Step, site: &Site, gateway: &Gateway) -> Result<(), TestCaseError> {
    match step {
        Step::List { user, methods } => {
            let ids = METHODS.iter().enumerate().filter(|(at, _)| methods >> at & 1 == 1);
            let ids: Vec<&str> = ids.map(|(_, id)| *id).collect();
            site.list(*user, &ids);
        }
        Step::Away(is_away) => site.set_away(*is_away),
        Step::Deny(method) => site.deny(METHODS[*method]),
        Step::Credential(user, credential) => {
            let credential = credential.map(|number| number.to_string());
            site.set_credential(*user, credential.as_deref());
        }
        Step::Wait(seconds) => tokio::time::advance(Duration::from_secs(*seconds)).await,
        Step::Look(user) => {
            for id in listed(gateway, &caller(*user)).await {
                let is_fine = ["local", "more"].contains(&id.as_str())
                    || (is_granted(*user, &id) && site.answered(&caller(*user)).contains(&id));
                prop_assert!(is_fine, "user {} sees {}", user, id);
            }
        }
        Step::Call(user, method) => {
            let id = METHODS[*method];
            let before = site.calls().len();
            let _ = gateway.as_caller(caller(*user)).call(id, ()).await;
            let ran = site.calls().len() > before;
            let may =
                is_granted(*user, id) && site.answered(&caller(*user)).iter().any(|one| one == id);
            prop_assert!(!ran || may, "user {} called {}", user, id);
        }
    }
    settle().await;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn nobody_has_more_than_their_grants_and_the_last_good_answer(steps in vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (site, gateway) = gateway();
            // Removes other services, so that no other reply arrives between a check and its use.
            gateway.set_dynamic_upstreams([]);
            for step in &steps {
                run(step, &site, &gateway).await?;
            }
            Ok::<_, TestCaseError>(())
        })?;
    }
}
