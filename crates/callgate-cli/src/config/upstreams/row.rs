//! Upstreams that are rows of the registry: the same keys, as JSON.

use std::sync::Arc;

use anyhow::Context as _;
use callgate::upstream::Upstream;
use callgate_registry::{UpstreamFactory, UpstreamRow};
use serde_json::{Map, Value};

use super::Maker;
use super::described::{Described, place_of};
use super::secrets::Reading;
use crate::errors::hinted;

/// Where rows are.
pub(super) const SOURCE: &str = "the registry";

/// Variables that begin so are keys of the configuration, which does not know what rows name.
const RESERVED: &str = "CALLGATE_";

/// What a row says.
pub(crate) fn keys(row: &UpstreamRow) -> anyhow::Result<Map<String, Value>> {
    serde_json::from_str(&row.config).ok().context("its `config` is no JSON object")
}

/// What a row describes.
pub(super) fn described(row: &UpstreamRow) -> anyhow::Result<Described> {
    let keys = keys(row)?;
    Described::check_keys(&row.name, &keys, SOURCE)?;
    let described = Described::of(keys)?;
    let variable =
        described.elsewhere().find_map(|it| it.variable().filter(|it| it.starts_with(RESERVED)));
    if let Some(variable) = variable {
        let problem = format!("`{variable}` begins like a key of the configuration");
        return Err(hinted(problem, "choose another name for the variable"));
    }
    Ok(described)
}

/// Whether a row that is about to be written describes an upstream, whatever its secrets are.
pub(crate) fn check(row: &UpstreamRow) -> anyhow::Result<()> {
    Maker::default().forward(&row.name, &described(row)?, Reading::Assumed).map(drop)
}

impl UpstreamFactory for Maker {
    fn make(&self, row: &UpstreamRow) -> Result<Arc<dyn Upstream>, String> {
        let made = described(row).and_then(|it| self.forward(&row.name, &it, Reading::Real));
        made.map(|forward| Arc::new(forward) as _).map_err(|error| format!("{error:#}"))
    }
}

/// What a row says, without what may be a secret in it.
pub(crate) fn shown(mut keys: Map<String, Value>) -> Value {
    let hide_query = |url: Option<&mut Value>| {
        if let Some(Value::String(url)) = url {
            *url = place_of(url);
        }
    };
    hide_query(keys.get_mut("url"));
    hide_query(keys.get_mut("oauth").and_then(|oauth| oauth.get_mut("token_url")));
    for secret in secrets(&mut keys).into_iter().filter(|it| !is_elsewhere(it)) {
        *secret = "…".into();
    }
    Value::Object(keys)
}

/// Whether a key has a secret itself, not where it is.
pub(crate) fn has_secret(keys: &mut Map<String, Value>) -> bool {
    fn has_text(value: &Value) -> bool {
        match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => items.iter().any(has_text),
            Value::Object(members) => !is_elsewhere(value) && members.values().any(has_text),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    let query = keys.get("url").and_then(Value::as_str).is_some_and(|url| url.contains('?'));
    query || secrets(keys).into_iter().any(|secret| has_text(secret))
}

/// The values that may be secrets.
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
                let found = members.iter_mut().filter(|(key, _)| is_secret(key));
                secrets.extend(found.map(|(_, value)| value));
            }
            ("headers" | "members" | "first_params" | "oauth" | "basic_password", value) => {
                secrets.push(value);
            }
            _ => {}
        }
    }
    secrets
}

/// Whether it says where a secret is.
fn is_elsewhere(value: &Value) -> bool {
    value.get("env").or(value.get("file")).is_some()
}
