//! The recording of a Drupal site in `tests/drupal`.

use std::sync::LazyLock;

use serde_json::Value;

/// Each exchange with `label`, `request` and `response`. The body of a request is JSON if possible.
pub(super) static EXCHANGES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let lines = include_str!("../../drupal/exchanges.jsonl").lines();
    let exchanges = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let with_body = |mut exchange: Value| {
        let body = exchange["request"]["body"].as_str().unwrap_or_default();
        exchange["request"]["body"] = serde_json::from_str(body).unwrap_or_default();
        exchange
    };
    exchanges.map(with_body).collect()
});

/// Returns the JSON that a user got from a path, as text.
pub(super) fn json_of(path: &str, token: &str) -> String {
    let is_match = |exchange: &&Value| {
        exchange["request"]["path"] == path && exchange["request"]["as"] == token
    };
    EXCHANGES.iter().find(is_match).unwrap()["response"]["json"].to_string()
}
