//! Counts the allocations of a call through `#[method]`, in addition to those of the function itself.
#![expect(clippy::unused_async, reason = "the function has the form that is measured")]

use std::alloc::System;
use std::sync::Mutex;

use callgate::gateway::CallRequest;
use callgate::{Caller, Callgate, Context, Error, Grants, Mask, User, method, methods};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The allocator counts for all threads, so the tests run one after the other.
static SERIAL: Mutex<()> = Mutex::new(());

/// Maximum number of allocations.
const BUDGET: usize = 30;

#[derive(Serialize, JsonSchema)]
struct Person {
    id: i64,
    name: String,
    email: Option<String>,
}

/// Looks up a user.
#[method(id = "user.get", section("user_management", read), read_only)]
async fn get_user(
    _ctx: &Context,
    /// The user's numeric id.
    id_user: i64,
    /// Also return e-mail and roles.
    #[default(false)]
    include_details: bool,
) -> Result<Person, Error> {
    let email = include_details.then(|| "ada@example.com".to_owned());
    Ok(Person { id: id_user, name: "Ada".to_owned(), email })
}

#[test]
fn preparing_a_caller_without_upstream_visibility_does_not_allocate() {
    let _serial = SERIAL.lock();
    let gateway = Callgate::builder().methods(methods![get_user]).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let prepared = runtime.block_on(async {
        let caller = Caller::anonymous();
        let region = Region::new(ALLOCATOR);
        let caller = gateway.gateway().prepare(caller).await;
        let stats = region.change();
        drop(caller);
        stats.allocations + stats.reallocations
    });
    assert_eq!(prepared, 0);
}

/// Allocations of the function alone: the name, and the e-mail if it is requested.
const FUNCTION_ALLOCATIONS: [usize; 2] = [1, 2];

#[test]
fn a_call_through_the_attribute_stays_within_its_allocation_budget() {
    let _serial = SERIAL.lock();
    let gateway = Callgate::builder().methods(methods![get_user]).build().unwrap();
    let user = User { id: 1, name: "ada".to_owned(), role: None };
    let ada = Caller::user(user, Grants::from_iter([("user_management", Mask::Read)]));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let texts = [r#"{"id_user":7}"#, r#"{"id_user":7,"include_details":true}"#];
    for (text, baseline) in texts.into_iter().zip(FUNCTION_ALLOCATIONS) {
        let arguments: Box<RawValue> = serde_json::from_str(text).unwrap();
        let request = CallRequest { id: "user.get", arguments: Some(&arguments), read_only: false };
        let call = || runtime.block_on(gateway.gateway().call(&ada, request)).unwrap();
        // Runs once before counting, so that values created on first use exist.
        drop(call());
        let region = Region::new(ALLOCATOR);
        drop(call());
        let stats = region.change();
        let additional = stats.allocations + stats.reallocations - baseline;
        eprintln!("{text}: {additional} allocations over the function's own {baseline}");
        assert!(
            additional <= BUDGET,
            "{text}: {additional} allocations over the function's own {baseline}"
        );
    }
}
