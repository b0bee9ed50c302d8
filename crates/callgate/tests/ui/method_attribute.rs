#![allow(unused_variables)]

use callgate::method;

/// Says nothing of safety.
#[method(id = "a")]
fn unsaid() {}

/// Nothing at all.
#[method]
fn nothing() {}

/// Says both.
#[method(read_only, destructive)]
fn both() {}

/// Everything is wrong here, and told at once.
#[method(
    id = "rpc.mine",
    name = "get",
    title = 3,
    tool_name = "get user",
    section("users"),
    section("users", admin),
    read_only = true,
    idempotent = 1,
    annotations(readOnlyHint = false, category = some_function(), priority = 1, priority = 2)
)]
fn everything() {}

#[method(id = "", id = "a b ", id = "c", read_only)]
fn ids() {}

#[method(read_only,, destructive)]
fn unreadable() {}

#[method(read_only)]
struct NotAFunction;

fn main() {}
