//! The demo: a small application in this process, two users, and tokens that are new on each start.

mod application;

use anyhow::Context as _;
use callgate::Mask;
use callgate::access::Need;
use callgate::local::Local;
use callgate::model::LOCAL;
use callgate_registry::{MethodRow, NewToken, Principal, SqlStore, Store as _, StoreError, Token};

use crate::errors::hinted;

pub(crate) use application::application;

/// The registry's note that the demo made it.
const MADE_BY_DEMO: &str = "demo";
/// What the note says until everything is there.
const BEGUN: &str = "begun";
/// What the demo's tokens are called.
const TOKEN_NAME: &str = "demo";

/// A user of the demo, their role, and what the role has.
struct DemoUser {
    login: &'static str,
    role: &'static str,
    grants: &'static [(&'static str, Mask)],
}

const USERS: [DemoUser; 2] = [
    DemoUser {
        login: "admin",
        role: "administrator",
        grants: &[
            ("content", Mask::Execute),
            ("user_management", Mask::Execute),
            ("system", Mask::Execute),
        ],
    },
    DemoUser { login: "reader", role: "reader", grants: &[("content", Mask::Read)] },
];

/// Fills an empty registry, or takes one that the demo filled before.
pub(crate) async fn prepare(store: &SqlStore, local: &Local, database: &str) -> anyhow::Result<()> {
    if store.meta(MADE_BY_DEMO).await?.is_none() {
        if !is_empty(store).await? {
            return Err(hinted(
                format!("`{database}` holds a registry that the demo did not make"),
                "name another with `--database sqlite:PATH`, or serve this one without `--demo`",
            ));
        }
        // First, so that a start that was cut off can be finished by the next.
        store.set_meta(MADE_BY_DEMO, BEGUN).await?;
    }
    if store.meta(MADE_BY_DEMO).await?.as_deref() == Some(BEGUN) {
        fill(store, local).await.context("cannot fill the demo's registry")?;
        store.set_meta(MADE_BY_DEMO, "1").await?;
    }
    Ok(())
}

/// A new token for each user, in place of those of the last start.
pub(crate) async fn new_tokens(store: &SqlStore) -> anyhow::Result<Vec<(&'static str, Token)>> {
    store.revoke_tokens_named(TOKEN_NAME).await?;
    let mut tokens = Vec::new();
    for DemoUser { login, .. } in USERS {
        let user = match store.user(login).await {
            Ok(user) => user,
            // Somebody removed them; that is their wish.
            Err(StoreError::NotFound { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let token = Token::generate()?;
        let (name, digest) = (TOKEN_NAME.to_owned(), token.stored_digest());
        store.add_token(&NewToken { id_user: user.id, name, digest, expires_at: None }).await?;
        tokens.push((login, token));
    }
    Ok(tokens)
}

async fn is_empty(store: &SqlStore) -> anyhow::Result<bool> {
    Ok(store.users().await?.is_empty()
        && store.sections().await?.is_empty()
        && store.catalog_rows().await?.methods.is_empty())
}

async fn fill(store: &SqlStore, local: &Local) -> anyhow::Result<()> {
    for (ident, caption) in
        [("content", "Content"), ("user_management", "User management"), ("system", "System")]
    {
        unless_exists(store.add_section(ident, caption, Mask::Execute).await)?;
    }
    for DemoUser { login, role, grants } in USERS {
        unless_exists(store.add_user(login, Some(role)).await)?;
        let role = store.role(role).await?;
        for (section, mask) in grants {
            store.grant(Principal::Role(role.id), section, *mask).await?;
        }
    }
    // Code needs no rows; with them, titles, masks and exposure can be changed while it runs.
    for method in local.methods() {
        let id = method.id().to_string();
        let row = MethodRow {
            plugin: Some(LOCAL.to_owned()),
            method: Some(id.clone()),
            rpc_method: id,
            upstream: Some(LOCAL.to_owned()),
            ..MethodRow::default()
        };
        let needs = method.requirement().needs().iter();
        let needs: Vec<(String, Mask)> = needs
            .filter_map(|(section, need)| match need {
                Need::AtLeast(mask) => Some((section.to_string(), *mask)),
                Need::Closed => None,
            })
            .collect();
        unless_exists(store.add_method(&row, &needs).await)?;
    }
    Ok(())
}

/// What is there already stays.
fn unless_exists<T>(added: Result<T, StoreError>) -> Result<(), StoreError> {
    match added {
        Ok(_) | Err(StoreError::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
