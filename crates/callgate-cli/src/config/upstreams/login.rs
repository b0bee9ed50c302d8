//! `[upstreams.NAME.login]`: the login whose cookie or token is sent with all calls.

use std::collections::BTreeMap;

use anyhow::Context as _;
use callgate::forward::Login;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::secrets::{ExternalValue, Secrets, Sourced};
use super::table::credential_location;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoginTable {
    method: Option<String>,
    path: Option<String>,
    #[serde(default)]
    params: LoginParams,
    header: Option<String>,
    #[serde(default)]
    first_param: bool,
    member: Option<String>,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    token: String,
    #[serde(default)]
    refusals: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a list or a table of parameters")]
enum LoginParams {
    List(Vec<Sourced<Value>>),
    Named(BTreeMap<String, Sourced<Value>>),
}

impl Default for LoginParams {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl LoginTable {
    /// Returns the parameters whose values are in variables and files.
    pub(super) fn external(&self) -> impl Iterator<Item = &ExternalValue> {
        let (list, named) = match &self.params {
            LoginParams::List(list) => (Some(list), None),
            LoginParams::Named(named) => (None, Some(named)),
        };
        let values = list.into_iter().flatten().chain(named.into_iter().flat_map(BTreeMap::values));
        values.filter_map(Sourced::external)
    }

    pub(super) fn login(&self, secrets: Secrets) -> anyhow::Result<Login> {
        let read = |value: &Sourced<Value>| value.read("login.params", secrets);
        let params = match &self.params {
            LoginParams::List(list) => {
                Value::Array(list.iter().map(read).collect::<anyhow::Result<_>>()?)
            }
            LoginParams::Named(named) => {
                let named = named.iter().map(|(name, value)| Ok((name.clone(), read(value)?)));
                Value::Object(named.collect::<anyhow::Result<Map<_, _>>>()?)
            }
        };
        let keys = (self.header.as_deref(), self.first_param, self.member.as_ref());
        let location = match keys {
            (None, false, None) => None,
            _ => Some(credential_location(keys).context("`login`")?),
        };
        Ok(Login {
            method: self.method.clone(),
            path: self.path.clone(),
            location,
            prefix: self.prefix.clone(),
            token: self.token.clone(),
            refusals: self.refusals.clone(),
            params,
        })
    }
}
