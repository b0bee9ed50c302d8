#![allow(unused_variables)]

use callgate::{Context, Response, method};

#[method(read_only)]
fn generic<T>(value: T) {}

#[method(read_only)]
fn borrowed(name: &str, context: &mut Context, response: &Response) {}

#[method(read_only)]
fn owned(ctx: Context) {}

#[method(read_only)]
fn no_names((a, b): (i64, i64), _: String, any: impl ToString) {}

#[method(read_only)]
fn of_a_type(&self) {}

#[method(read_only)]
fn defaults(
    #[default = 3] a: i64,
    #[default(1)]
    #[default(2)]
    b: i64,
    #[default()] c: i64,
    #[serde(default)] d: i64,
    #[serde(rename = "x", skip)] e: i64,
    #[cfg(unix)] f: i64,
) {
}

fn main() {}
