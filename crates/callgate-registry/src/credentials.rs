//! What users are known by at services, from the rows in force.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use callgate::{BoxFuture, Caller, CredentialError, Credentials, Secret};

use crate::rows::CredentialRow;

/// The credentials of all users, as the registry has them now.
#[derive(Debug, Clone, Default)]
pub struct UserCredentials(Arc<ArcSwap<ByUpstream>>);

/// By the upstream's name and the user's number.
type ByUpstream = HashMap<String, HashMap<i64, Secret>>;

impl UserCredentials {
    /// Puts others in force.
    pub fn set(&self, rows: &[CredentialRow]) {
        let mut all = ByUpstream::new();
        for row in rows {
            // One that is empty is none.
            if let Some(secret) = &row.secret {
                all.entry(row.upstream.clone()).or_default().insert(row.id_user, secret.clone());
            }
        }
        self.0.store(Arc::new(all));
    }

    /// Those for one upstream, now and later.
    pub fn for_upstream(&self, name: impl Into<String>) -> Arc<dyn Credentials> {
        Arc::new(OfUpstream { name: name.into(), all: self.clone() })
    }
}

/// Those for one upstream.
#[derive(Debug)]
struct OfUpstream {
    name: String,
    all: UserCredentials,
}

impl Credentials for OfUpstream {
    fn of<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>> {
        let all = self.all.0.load();
        let users = all.get(&self.name);
        let secret = caller.user.as_ref().and_then(|user| users?.get(&user.id)).cloned();
        Box::pin(std::future::ready(Ok(secret)))
    }
}
