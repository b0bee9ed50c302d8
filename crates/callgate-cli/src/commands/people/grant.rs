//! `callgate grant list|set`

use std::collections::HashMap;

use anyhow::Result;
use callgate::Mask;
use callgate_registry::{AccessRows, GrantHolder, GrantRow, SectionRow, SqlStore, Store as _};
use serde_json::{Value, json};

use crate::cli::{GrantArgs, GrantCommand, GrantSet, ListArgs, mask_name};
use crate::config::Config;
use crate::{printer, registry};

pub(crate) async fn run(config: &Config, grant: GrantArgs) -> Result<()> {
    let store = registry::open(config).await?;
    match (grant.command, grant.set) {
        (Some(GrantCommand::List(ListArgs { json })), _) => {
            list(&store.access_rows().await?, &store.sections().await?, json);
            Ok(())
        }
        (Some(GrantCommand::Set(set)), _) | (None, Some(set)) => set_mask(&store, &set).await,
        (None, None) => anyhow::bail!("expected `--user USER` or `--role ROLE`"),
    }
}

fn list(access: &AccessRows, sections: &[SectionRow], as_json: bool) {
    let sections: HashMap<i64, &str> =
        sections.iter().map(|section| (section.id, section.ident.as_str())).collect();
    let users: HashMap<i64, &str> =
        access.users.iter().map(|user| (user.id, user.login.as_str())).collect();
    let roles: HashMap<i64, &str> =
        access.roles.iter().map(|role| (role.id, role.caption.as_str())).collect();
    let row = |grant: &GrantRow, holders: &HashMap<i64, &str>| -> Option<(Value, Value, Value)> {
        let (holder, section) = (holders.get(&grant.id_holder)?, sections.get(&grant.id_section)?);
        let mask = Mask::granted(grant.value.trim().parse().ok()?);
        Some((json!(holder), json!(section), json!(mask_name(mask))))
    };
    let users = access.user_grants.iter().filter_map(|grant| row(grant, &users));
    let roles = access.role_grants.iter().filter_map(|grant| row(grant, &roles));
    let rows = users
        .map(|(user, section, mask)| [user, Value::Null, section, mask])
        .chain(roles.map(|(role, section, mask)| [Value::Null, role, section, mask]));
    let columns = [("user", "USER"), ("role", "ROLE"), ("section", "SECTION"), ("mask", "MASK")];
    printer::list(as_json, columns, rows);
}

async fn set_mask(store: &SqlStore, grant: &GrantSet) -> Result<()> {
    let (holder, name) = match (&grant.user, &grant.role) {
        (Some(user), _) => {
            (GrantHolder::User(store.user(user).await?.id), format!("user `{user}`"))
        }
        (None, Some(role)) => {
            (GrantHolder::Role(store.role(role).await?.id), format!("role `{role}`"))
        }
        (None, None) => anyhow::bail!("expected `--user USER` or `--role ROLE`"),
    };
    store.grant(holder, &grant.section, grant.mask).await?;
    printer::message(format_args!("{name} has {} on `{}`", grant.mask, grant.section));
    Ok(())
}
