//! `callgate token add|list|remove`

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use callgate_registry::{NewToken, Token as Secret};
use serde_json::json;

use crate::cli::{ListArgs, TokenCommand};
use crate::commands::{check_name, timestamp};
use crate::config::Config;
use crate::printer::Printer;
use crate::registry;

pub(crate) async fn run(config: &Config, token: TokenCommand, printer: &mut Printer) -> Result<()> {
    let store = match token {
        // Works while the attached database is unavailable.
        TokenCommand::Remove { .. } => registry::open_own(config).await?,
        _ => registry::open(config).await?,
    };
    match token {
        TokenCommand::Add { user, name, expires_in } => {
            check_name("token", &name)?;
            let user = store.user(&user).await?;
            let expires_at = expires_in
                .map(|duration| {
                    let end = SystemTime::now().checked_add(duration)?;
                    i64::try_from(end.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
                })
                .map(|end| end.context("the token would expire too far in the future"))
                .transpose()?;
            let secret = Secret::generate()?;
            let digest = secret.stored_digest();
            let id =
                store.add_token(&NewToken { id_user: user.id, name, digest, expires_at }).await?;
            printer.data(secret.expose());
            printer.talk(format_args!(
                "created token {id} for `{}`; it cannot be shown again",
                user.login
            ));
        }
        TokenCommand::List(ListArgs { json }) => {
            let columns = [
                ("id", "ID"),
                ("user", "USER"),
                ("name", "NAME"),
                ("created_at", "CREATED"),
                ("expires_at", "EXPIRES"),
                ("last_used_at", "LAST USED"),
            ];
            let rows = store.tokens().await?.into_iter().map(|token| {
                [
                    json!(token.id),
                    json!(token.login),
                    json!(token.name),
                    json!(timestamp(token.created_at)),
                    json!(token.expires_at.map(timestamp)),
                    json!(token.last_used_at.map(timestamp)),
                ]
            });
            printer.list(json, columns, rows);
        }
        TokenCommand::Remove { id } => {
            store.revoke_token(id).await?;
            printer.talk(format_args!("revoked token {id}"));
        }
    }
    Ok(())
}
