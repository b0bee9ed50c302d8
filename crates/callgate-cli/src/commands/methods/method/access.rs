//! Checks whether the upstream of a method lists the method for a caller.

use std::sync::Arc;

use anyhow::Context as _;
use callgate::Caller;
use callgate::access::Decision;
use callgate::upstream::{CallerMethods, Upstream as _};
use callgate_registry::{MethodRow, SqlStore, UserCredentials};

use crate::config::Config;

/// A decision about a caller and a method, and the reason.
#[derive(Debug)]
pub(super) struct ExplainedDecision {
    pub(super) is_allowed: bool,
    pub(super) reason: String,
}

/// Asks the service, with the caller's credential, which methods the caller may see. Returns `None`
/// if the upstream does not restrict which methods callers see.
pub(super) async fn decide(
    config: &Config,
    store: &Arc<SqlStore>,
    row: &MethodRow,
    caller: &Caller,
    grant_decision: &Decision,
) -> anyhow::Result<Option<ExplainedDecision>> {
    let (name, user) = (row.upstream_name(), caller.name());
    let upstreams = store.upstreams().await?;
    if !config.upstreams.limits_callers(name, &upstreams)? {
        return Ok(None);
    }
    // The credentials need the store, because an authorization server may replace a refresh token.
    let credentials = UserCredentials::stored_in(Arc::clone(store) as _);
    credentials.set(&store.credentials().await?);
    let factory = config.upstreams.factory(config.call_timeout, credentials);
    let forward = config.upstreams.forward(name, &upstreams, &factory)?;
    let Some(lister) = forward.as_ref().and_then(|forward| forward.method_lister()) else {
        return Ok(None);
    };
    if lister.identity(caller).await.map_err(anyhow::Error::from_boxed)?.is_none() {
        let reason = format!(
            "denied: `{user}` has no credential for the service `{name}`; `callgate credential set {user} \
             {name}` sets it"
        );
        return Ok(Some(ExplainedDecision { is_allowed: false, reason }));
    }
    let methods = lister.methods(caller).await.map_err(anyhow::Error::from_boxed);
    let methods = methods
        .with_context(|| format!("cannot read what the service `{name}` lists for `{user}`"))?;
    let (is_allowed, reason) = match methods {
        CallerMethods::Refused(reason) => (
            false,
            format!("denied: the service `{name}` refuses to list methods for `{user}`: {reason}"),
        ),
        CallerMethods::Listed(ids) if ids.contains(&row.rpc_method) => {
            (true, format!("{grant_decision}; the service `{name}` lists the method for `{user}`"))
        }
        CallerMethods::Listed(_) => {
            (false, format!("denied: the service `{name}` does not list the method for `{user}`"))
        }
    };
    Ok(Some(ExplainedDecision { is_allowed, reason }))
}
