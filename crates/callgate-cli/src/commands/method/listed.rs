//! Whether the service behind a method lists it for a caller, where that decides.

use std::sync::Arc;

use anyhow::Context as _;
use callgate::Caller;
use callgate::access::Decision;
use callgate::upstream::{CallerMethods, Upstream as _};
use callgate_registry::{MethodRow, SqlStore, UserCredentials};

use crate::config::{Config, Maker};

/// What is said of a caller and a method.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) is_allowed: bool,
    pub(super) words: String,
}

/// Asks the service with the caller's own credential; `None` where it has no say in it.
pub(super) async fn decide(
    config: &Config,
    store: &Arc<SqlStore>,
    row: &MethodRow,
    caller: &Caller,
    granted: &Decision,
) -> anyhow::Result<Option<Said>> {
    let (name, upstreams) = (row.upstream_name(), store.upstreams().await?);
    if !config.upstreams.limits_callers(name, &upstreams)? {
        return Ok(None);
    }
    // An authorization server may replace a refresh token, which must not be lost.
    let credentials = UserCredentials::stored_in(Arc::clone(store) as _);
    credentials.set(&store.credentials().await?);
    let maker = Maker { call_timeout: config.call_timeout, credentials };
    let forward = config.upstreams.forward(name, &upstreams, &maker)?;
    let Some(lists) = forward.as_ref().and_then(|forward| forward.method_lister()) else {
        return Ok(None);
    };
    let asked =
        || format!("the service `{name}` does not say what it lists for `{}`", caller.name());
    let user = caller.name();
    if lists.identity(caller).await.map_err(anyhow::Error::from_boxed)?.is_none() {
        let words = format!(
            "denied: `{user}` has no credential for the service `{name}`; `callgate credential set {user} \
             {name}` sets it"
        );
        return Ok(Some(Said { is_allowed: false, words }));
    }
    let methods =
        lists.methods(caller).await.map_err(anyhow::Error::from_boxed).with_context(asked)?;
    let (is_allowed, words) = match methods {
        CallerMethods::Refused(reason) => {
            (false, format!("denied: the service `{name}` refuses `{user}` its list: {reason}"))
        }
        CallerMethods::Listed(ids) if ids.contains(&row.rpc_method) => {
            (true, format!("{granted}; the service `{name}` lists it for `{user}`"))
        }
        CallerMethods::Listed(_) => {
            (false, format!("denied: the service `{name}` does not list it for `{user}`"))
        }
    };
    Ok(Some(Said { is_allowed, words }))
}
