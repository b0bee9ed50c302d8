//! `callgate token create|list|revoke`

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use callgate_registry::{NewToken, Token as Secret, TokenRow};
use serde_json::json;

use super::{json_line, or_dash, plain_name, timestamp};
use crate::cli::Token;
use crate::config::Config;
use crate::printer::Printer;
use crate::registry;

pub(crate) async fn run(
    config: &Config,
    token: Token,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let store = match token {
        // Also while the attached database is away.
        Token::Revoke { .. } => registry::open_own(config).await?,
        Token::Create { .. } | Token::List { .. } => registry::open(config).await?,
    };
    match token {
        Token::Create { user, name, expires_in } => {
            plain_name("token", &name)?;
            let user = store.user(&user).await?;
            let expires_at = expires_in
                .map(|duration| {
                    let end = SystemTime::now().checked_add(duration)?;
                    i64::try_from(end.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
                })
                .map(|end| end.context("the token would end too far in the future"))
                .transpose()?;
            let secret = Secret::generate()?;
            let digest = secret.stored_digest();
            let id =
                store.add_token(&NewToken { id_user: user.id, name, digest, expires_at }).await?;
            printer.data(secret.expose());
            printer.talk(format_args!("token {id} for `{}`; it is not shown again", user.login));
        }
        Token::List { json } => list(&store.tokens().await?, json, printer)?,
        Token::Revoke { id } => {
            store.revoke_token(id).await?;
            printer.talk(format_args!("revoked token {id}"));
        }
    }
    Ok(())
}

fn list(tokens: &[TokenRow], json: bool, printer: &mut Printer) -> anyhow::Result<()> {
    if json {
        for token in tokens {
            let line = json!({
                "id": token.id,
                "user": token.login,
                "name": token.name,
                "created_at": timestamp(token.created_at),
                "expires_at": token.expires_at.map(timestamp),
                "last_used_at": token.last_used_at.map(timestamp),
            });
            printer.data(json_line(&line)?);
        }
        return Ok(());
    }
    let time = |seconds: Option<i64>| or_dash(seconds.map(timestamp).as_deref());
    let rows: Vec<_> = tokens
        .iter()
        .map(|token| {
            vec![
                token.id.to_string(),
                or_dash(token.login.as_deref()),
                token.name.clone(),
                timestamp(token.created_at),
                time(token.expires_at),
                time(token.last_used_at),
            ]
        })
        .collect();
    printer.table(&["ID", "USER", "NAME", "CREATED", "EXPIRES", "LAST USED"], &rows);
    Ok(())
}
