//! Measures the cost of a call through `#[method]` compared with calling the function: `cargo bench -p callgate --bench
//! method`.
#![expect(
    clippy::unused_async,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark may stop, and is not read"
)]

use std::hint::black_box;

use callgate::gateway::CallRequest;
use callgate::{Caller, Callgate, Context, Error, Grants, Mask, User, method, methods};
use criterion::{Criterion, criterion_group, criterion_main};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

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
    person(id_user, include_details).await
}

async fn person(id: i64, details: bool) -> Result<Person, Error> {
    let email = details.then(|| "ada@example.com".to_owned());
    Ok(Person { id, name: "Ada".to_owned(), email })
}

fn calls(criterion: &mut Criterion) {
    let gateway = Callgate::builder().methods(methods![get_user]).build().unwrap();
    let user = User { id: 1, name: "ada".to_owned(), role: None };
    let ada = Caller::user(user, Grants::from_iter([("user_management", Mask::Read)]));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut group = criterion.benchmark_group("method");
    group.bench_function("function", |bencher| {
        bencher.iter(|| runtime.block_on(person(black_box(7), black_box(true))).unwrap());
    });
    for (name, text) in [
        ("gateway, all arguments", r#"{"id_user":7,"include_details":true}"#),
        ("gateway, a default", r#"{"id_user":7}"#),
    ] {
        let arguments: Box<RawValue> = serde_json::from_str(text).unwrap();
        let request = CallRequest { id: "user.get", arguments: Some(&arguments), read_only: false };
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                runtime.block_on(gateway.gateway().call(&ada, black_box(request))).unwrap()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
