//! Upstreams in the registry. They have the keys of `[upstreams.NAME]` as JSON.

use std::sync::Arc;

use anyhow::Context as _;
use callgate::upstream::Upstream;
use callgate_registry::{UpstreamFactory, UpstreamRow};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::secrets::{ExternalValue, Secrets};
use super::table::{UpstreamTable, without_query};
use super::{ForwardFactory, RowLimits};
use crate::error_hints::hinted;

pub(super) const SOURCE: &str = "the registry";

/// Prefix of variables that are keys of the configuration. The configuration rejects unknown variables with this
/// prefix.
const RESERVED_PREFIX: &str = "CALLGATE_";

pub(crate) fn keys(row: &UpstreamRow) -> anyhow::Result<Map<String, Value>> {
    serde_json::from_str(&row.config).ok().context("its `config` is not a JSON object")
}

pub(super) fn table(row: &UpstreamRow, limits: &Arc<RowLimits>) -> anyhow::Result<UpstreamTable> {
    let keys = keys(row)?;
    UpstreamTable::check_keys(&row.name, &keys, SOURCE)?;
    let table = UpstreamTable::parse(keys)?;
    let variable =
        table.external().find_map(|it| it.variable().filter(|it| it.starts_with(RESERVED_PREFIX)));
    if let Some(variable) = variable {
        let problem = format!(
            "the environment variable `{variable}` begins with `{RESERVED_PREFIX}`, which is reserved for configuration keys"
        );
        return Err(hinted(problem, "choose another name for the variable"));
    }
    table.with_limits(limits)
}

impl UpstreamFactory for ForwardFactory {
    fn build(&self, row: &UpstreamRow) -> Result<Arc<dyn Upstream>, String> {
        let table = table(row, &self.row_limits);
        let forward = table.and_then(|table| self.forward(&row.name, &table, Secrets::Read));
        forward.map(|forward| Arc::new(forward) as _).map_err(|error| format!("{error:#}"))
    }
}

/// Replaces the values that may be secrets, for output.
pub(crate) fn redacted(mut keys: Map<String, Value>) -> Value {
    let hide_query = |url: Option<&mut Value>| {
        if let Some(Value::String(url)) = url {
            *url = without_query(url);
        }
    };
    hide_query(keys.get_mut("url"));
    hide_query(keys.get_mut("oauth").and_then(|oauth| oauth.get_mut("token_url")));
    for secret in secrets(&mut keys).into_iter().filter(|it| !is_external(it)) {
        *secret = "…".into();
    }
    Value::Object(keys)
}

/// Returns `true` if a value contains a secret itself, instead of the name of a variable or a file.
pub(crate) fn has_secret(keys: &mut Map<String, Value>) -> bool {
    fn has_text(value: &Value) -> bool {
        match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => items.iter().any(has_text),
            Value::Object(members) => !is_external(value) && members.values().any(has_text),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    let has_query = keys.get("url").and_then(Value::as_str).is_some_and(|url| url.contains('?'));
    has_query || secrets(keys).into_iter().any(|secret| has_text(secret))
}

/// Returns the values that may be secrets.
fn secrets(keys: &mut Map<String, Value>) -> Vec<&mut Value> {
    let mut secrets = Vec::new();
    for (key, value) in keys {
        match (key.as_str(), value) {
            ("headers" | "members" | "first_params", Value::Array(items)) => secrets.extend(items),
            ("headers" | "members" | "first_params", Value::Object(members)) => {
                secrets.extend(members.values_mut());
            }
            ("oauth", Value::Object(members)) => {
                let is_secret = |key: &str| matches!(key, "client_secret" | "refresh_token");
                let values = members.iter_mut().filter(|(key, _)| is_secret(key));
                secrets.extend(values.map(|(_, value)| value));
            }
            ("login", Value::Object(members)) => match members.get_mut("params") {
                Some(Value::Array(items)) => secrets.extend(items),
                Some(Value::Object(params)) => secrets.extend(params.values_mut()),
                other => secrets.extend(other),
            },
            (
                "headers" | "members" | "first_params" | "oauth" | "login" | "basic_password",
                value,
            ) => {
                secrets.push(value);
            }
            _ => {}
        }
    }
    secrets
}

fn is_external(value: &Value) -> bool {
    ExternalValue::deserialize(value).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keys(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_inline_value_with_a_key_env_is_hidden() {
        let inline = json!({"env": "production", "password": "s3cret"});
        let external = json!({"env": "PASSWORD"});
        let login = keys(json!({"login": {"params": {"a": inline, "b": external}}}));
        assert!(has_secret(&mut login.clone()));
        let expected = json!({"login": {"params": {"a": "…", "b": external}}});
        assert_eq!(redacted(login), expected);
        let external = json!({"login": {"params": {"b": external}}});
        assert!(!has_secret(&mut keys(external)));
    }
}
