//! Invisible characters in tools: models read them, but the people who approve the tools do not see them.

use std::fmt::Write as _;

use serde_json::Value;

use crate::wire::invisible::{escape_invisible, invisible_characters};

/// Returns the places in a tool that have invisible characters, each with its first such character.
pub(super) fn find_in(tool: &Value) -> Vec<(String, char)> {
    let mut found = Vec::new();
    collect(tool, &mut String::new(), &mut found);
    found
}

fn collect(value: &Value, pointer: &mut String, found: &mut Vec<(String, char)>) {
    let length = pointer.len();
    match value {
        Value::String(text) => report(text, pointer, found),
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                let _ = write!(pointer, "/{number}");
                collect(item, pointer, found);
                pointer.truncate(length);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                pointer.push('/');
                pointer.push_str(name);
                report(name, pointer, found);
                collect(member, pointer, found);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

fn report(text: &str, pointer: &str, found: &mut Vec<(String, char)>) {
    if let Some((_, c)) = invisible_characters(text).next() {
        found.push((escape_invisible(pointer).into_owned(), c));
    }
}
