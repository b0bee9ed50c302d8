//! Users' credentials at upstreams.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use callgate::upstream::{BoxFuture, CredentialError, Credentials, ReplaceStatus};
use callgate::{Caller, Secret};

use crate::rows::CredentialRow;
use crate::store::Store;

/// The credentials of all users.
#[derive(Debug, Clone, Default)]
pub struct UserCredentials {
    current: Arc<ArcSwap<ByUpstream>>,
    /// Store for new credentials that an authorization server issues in place of old ones.
    store: Option<Arc<dyn Store>>,
}

/// Credentials by upstream and user id.
type ByUpstream = HashMap<String, HashMap<i64, Secret>>;

impl UserCredentials {
    /// Creates empty credentials. If an authorization server replaces a credential, the new one is written to
    /// `store`.
    pub fn stored_in(store: Arc<dyn Store>) -> Self {
        Self { current: Arc::default(), store: Some(store) }
    }

    /// Replaces all credentials.
    pub fn set(&self, rows: &[CredentialRow]) {
        let mut all = ByUpstream::new();
        for row in rows {
            // Empty secrets are ignored.
            if let Some(secret) = &row.secret {
                all.entry(row.upstream.clone()).or_default().insert(row.id_user, secret.clone());
            }
        }
        self.current.store(Arc::new(all));
    }

    /// Returns the credentials for one upstream. The returned object reflects later changes.
    pub fn for_upstream(&self, name: impl Into<String>) -> Arc<dyn Credentials> {
        Arc::new(UpstreamCredentials { name: name.into(), all: self.clone() })
    }
}

/// Credentials for one upstream.
#[derive(Debug)]
struct UpstreamCredentials {
    name: String,
    all: UserCredentials,
}

impl Credentials for UpstreamCredentials {
    fn of<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>> {
        let all = self.all.current.load();
        let users = all.get(&self.name);
        let secret = caller.user.as_ref().and_then(|user| users?.get(&user.id)).cloned();
        Box::pin(std::future::ready(Ok(secret)))
    }

    fn replace<'a>(
        &'a self,
        caller: &'a Caller,
        old: &'a Secret,
        new: &'a Secret,
    ) -> BoxFuture<'a, Result<ReplaceStatus, CredentialError>> {
        Box::pin(async move {
            let (Some(store), Some(user)) = (&self.all.store, &caller.user) else {
                return Ok(ReplaceStatus::NotDurable);
            };
            let is_replaced = store.replace_credential(user.id, &self.name, old, new).await?;
            // The follower reads the new credential later.
            Ok(if is_replaced { ReplaceStatus::Stored } else { ReplaceStatus::Conflict })
        })
    }
}
