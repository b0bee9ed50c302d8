//! `callgate user add|list`

use anyhow::Result;
use serde_json::json;

use super::plain_name;
use crate::cli::{List, User};
use crate::config::Config;
use crate::printer::Printer;
use crate::registry;

pub(super) async fn run(config: &Config, user: User, printer: &mut Printer) -> Result<()> {
    let store = registry::open(config).await?;
    match user {
        User::Add { name, role } => {
            plain_name("user", &name)?;
            if let Some(role) = &role {
                plain_name("role", role)?;
            }
            let id = store.add_user(&name, role.as_deref()).await?;
            printer.talk(format_args!("added user `{name}`, number {id}"));
        }
        User::List(List { json }) => {
            let users = store.users().await?.into_iter();
            let rows = users.map(|user| [json!(user.id), json!(user.login), json!(user.role)]);
            printer.list(json, [("id", "ID"), ("name", "NAME"), ("role", "ROLE")], rows);
        }
    }
    Ok(())
}
