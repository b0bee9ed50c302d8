//! Upstreams that are rows of the registry: the same keys, as JSON.

use std::sync::Arc;

use anyhow::Context as _;
use callgate::Upstream;
use callgate_registry::{MakeUpstream, UpstreamRow};
use serde_json::{Map, Value};

use super::described::{Described, place_of};
use super::secrets::Reading;
use super::{Maker, oauth};
use crate::errors::hinted;

/// Where it is said.
const SOURCE: &str = "the registry";

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

impl MakeUpstream for Maker {
    fn make(&self, row: &UpstreamRow) -> Result<Arc<dyn Upstream>, String> {
        let made = described(row).and_then(|it| self.forward(&row.name, &it, Reading::Real));
        made.map(|forward| Arc::new(forward) as _).map_err(|error| format!("{error:#}"))
    }
}

/// What a row says, without what may be a secret in it.
pub(crate) fn shown(keys: Map<String, Value>) -> Value {
    let hidden = |(key, value): (String, Value)| {
        let value = match (key.as_str(), value) {
            ("url", Value::String(url)) => place_of(&url).into(),
            ("headers" | "members" | "first_params", value) => without_leaves(value),
            ("basic_password", value) => without_text(value),
            ("oauth", value) => oauth::shown(value),
            (_, value) => value,
        };
        (key, value)
    };
    Value::Object(keys.into_iter().map(hidden).collect())
}

/// The values of a table or a list.
fn without_leaves(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_text).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(key, value)| (key, without_text(value))).collect()
        }
        other => without_text(other),
    }
}

/// Something stands for it, unless it only says where the text is.
pub(super) fn without_text(value: Value) -> Value {
    let is_elsewhere = value.get("env").or(value.get("file")).is_some();
    if is_elsewhere { value } else { "…".into() }
}
