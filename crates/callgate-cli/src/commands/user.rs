//! `callgate user add|list`

use serde_json::json;

use super::{json_line, or_dash, plain_name};
use crate::cli::User;
use crate::config::Config;
use crate::printer::Printer;
use crate::registry;

pub(crate) async fn run(config: &Config, user: User, printer: &mut Printer) -> anyhow::Result<()> {
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
        User::List { json } => {
            let users = store.users().await?;
            if json {
                for user in users {
                    let line = json!({"id": user.id, "name": user.login, "role": user.role});
                    printer.data(json_line(&line)?);
                }
                return Ok(());
            }
            let rows: Vec<_> = users
                .iter()
                .map(|user| {
                    vec![user.id.to_string(), user.login.clone(), or_dash(user.role.as_deref())]
                })
                .collect();
            printer.table(&["ID", "NAME", "ROLE"], &rows);
        }
    }
    Ok(())
}
