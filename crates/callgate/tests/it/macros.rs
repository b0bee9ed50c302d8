//! `#[method]`, `#[prompt]`, `#[resource]`, plugins and the builder, as an application uses them.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::unused_async,
    reason = "tests panic on failure, and the forms of the functions are tested"
)]

mod by_hand;
mod calls;
mod immediate;
mod prompts_and_resources;
mod questions;
mod schemas;
mod serving;

use callgate::{Caller, Callgate, Grants, Mask, User};
use serde_json::Value;

fn caller(name: &str, grants: &[(&str, Mask)]) -> Caller {
    let user = User { id: 7, name: name.to_owned(), role: None };
    Caller::user(user, grants.iter().copied().collect::<Grants>())
}

fn anonymous() -> Caller {
    Caller::anonymous()
}

/// Returns the tool of a method as clients see it.
fn tool(gateway: &Callgate, id: &str) -> Value {
    gateway.as_caller(anonymous()).describe(id).unwrap()
}
