#![allow(unused_variables)]

use callgate::method;

/// Without `read_only` or `destructive`.
#[method(id = "a")]
fn neither() {}

/// Without arguments.
#[method]
fn nothing() {}

/// With both.
#[method(read_only, destructive)]
fn both() {}

/// Every argument is wrong.
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
