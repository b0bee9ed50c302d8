//! `callgate serve --demo`: a sample application, two users, and new tokens on each start.

mod application;

use anyhow::Context as _;
use callgate::Mask;
use callgate::access::SectionRequirement;
use callgate::local::Local;
use callgate::model::LOCAL;
use callgate_registry::{
    GrantHolder, MethodRow, NewToken, SqlStore, Store as _, StoreError, Token,
};

use crate::error_hints::hinted;

pub(crate) use application::application;

/// Key of the metadata that marks a registry which the demo created.
const CREATED_BY_DEMO: &str = "demo";
/// Value of the metadata until the registry is complete.
const INCOMPLETE: &str = "begun";
/// Name of the demo's tokens.
const TOKEN_NAME: &str = "demo";

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

/// Fills an empty registry. Accepts a registry that the demo filled before, and refuses any other
/// registry.
pub(crate) async fn prepare(store: &SqlStore, local: &Local, database: &str) -> anyhow::Result<()> {
    if store.meta(CREATED_BY_DEMO).await?.is_none() {
        if !is_empty(store).await? {
            return Err(hinted(
                format!("`{database}` is a registry that the demo did not create"),
                "use another registry with `--database sqlite:PATH`, or serve this one without `--demo`",
            ));
        }
        // Set before the registry is filled. If this start is interrupted, the next start fills the
        // rest.
        store.set_meta(CREATED_BY_DEMO, INCOMPLETE).await?;
    }
    if store.meta(CREATED_BY_DEMO).await?.as_deref() == Some(INCOMPLETE) {
        fill(store, local).await.context("cannot fill the demo's registry")?;
        store.set_meta(CREATED_BY_DEMO, "1").await?;
    }
    Ok(())
}

/// Replaces the tokens of the previous start.
pub(crate) async fn new_tokens(store: &SqlStore) -> anyhow::Result<Vec<(&'static str, Token)>> {
    store.revoke_tokens_named(TOKEN_NAME).await?;
    let mut tokens = Vec::new();
    for DemoUser { login, .. } in USERS {
        let user = match store.user(login).await {
            Ok(user) => user,
            // The user was removed on purpose.
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
        ignore_existing(store.add_section(ident, caption, Mask::Execute).await)?;
    }
    for DemoUser { login, role, grants } in USERS {
        ignore_existing(store.add_user(login, Some(role)).await)?;
        let role = store.role(role).await?;
        for (section, mask) in grants {
            store.grant(GrantHolder::Role(role.id), section, *mask).await?;
        }
    }
    // Methods in code need no rows. The rows allow changing titles, masks and exposure at run time.
    for method in local.methods() {
        let id = method.id().to_string();
        let row = MethodRow {
            plugin: Some(LOCAL.to_owned()),
            method: Some(id.clone()),
            rpc_method: id,
            upstream: Some(LOCAL.to_owned()),
            ..MethodRow::default()
        };
        let requirements = method.requirement().sections().iter();
        let requirements: Vec<(String, Mask)> = requirements
            .filter_map(|(section, requirement)| match requirement {
                SectionRequirement::AtLeast(mask) => Some((section.to_string(), *mask)),
                SectionRequirement::Closed => None,
            })
            .collect();
        ignore_existing(store.add_method(&row, &requirements).await)?;
    }
    Ok(())
}

/// Ignores the error that a row already exists.
fn ignore_existing<T>(result: Result<T, StoreError>) -> Result<(), StoreError> {
    match result {
        Ok(_) | Err(StoreError::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
