#![allow(unused_variables)]

use callgate::{Response, prompt, resource};

#[prompt(id = "review", section(users, read))]
fn review(response: &mut Response, #[serde(rename = "Code")] code: String) {}

#[resource(name = "stock")]
fn stock() -> String {
    String::new()
}

#[resource(uri = "products")]
fn no_address() -> String {
    String::new()
}

#[resource(uri = "shop://products/{id}/{part}")]
fn product(id: Option<i64>, colour: String) -> String {
    String::new()
}

#[resource(uri = "shop://{a}{b}")]
fn adjacent(a: String, b: String) -> String {
    String::new()
}

fn main() {}
