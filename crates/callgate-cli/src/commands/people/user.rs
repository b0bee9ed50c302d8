//! `callgate user add|list`

use anyhow::Result;
use serde_json::json;

use crate::cli::{ListArgs, UserCommand};
use crate::commands::check_name;
use crate::config::Config;
use crate::{printer, registry};

pub(crate) async fn run(config: &Config, user: UserCommand) -> Result<()> {
    let store = registry::open(config).await?;
    match user {
        UserCommand::Add { name, role } => {
            check_name("user", &name)?;
            if let Some(role) = &role {
                check_name("role", role)?;
            }
            let id = store.add_user(&name, role.as_deref()).await?;
            printer::message(format_args!("added user `{name}`, number {id}"));
        }
        UserCommand::List(ListArgs { json }) => {
            let users = store.users().await?.into_iter();
            let rows = users.map(|user| [json!(user.id), json!(user.login), json!(user.role)]);
            printer::list(json, [("id", "ID"), ("name", "NAME"), ("role", "ROLE")], rows);
        }
    }
    Ok(())
}
