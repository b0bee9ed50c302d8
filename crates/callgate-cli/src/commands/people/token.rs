//! `callgate token add|list|remove`

use std::time::UNIX_EPOCH;

use anyhow::Result;
use callgate_registry::{NewToken, SqlStore, Token};
use serde_json::json;

use crate::cli::{ListArgs, TokenCommand};
use crate::commands::{check_name, timestamp};
use crate::config::Config;
use crate::error_hints::hinted;
use crate::{printer, registry};

pub(crate) async fn run(config: &Config, token: TokenCommand) -> Result<()> {
    let store = match token {
        // Revoking a token must work while the attached database is unavailable.
        TokenCommand::Remove { .. } => registry::open_without_festi(config).await?,
        _ => registry::open(config).await?,
    };
    match token {
        TokenCommand::Add { user, name, expires_in } => {
            check_name("token", &name)?;
            let user = store.user(&user).await?;
            let expires_at = match expires_in {
                Some(end) => Some(i64::try_from(end.duration_since(UNIX_EPOCH)?.as_secs())?),
                None => None,
            };
            let secret = Token::generate()?;
            let digest = secret.stored_digest();
            let id =
                store.add_token(&NewToken { id_user: user.id, name, digest, expires_at }).await?;
            printer::data(secret.expose());
            let expiry = expires_at.map_or_else(
                || "does not expire".to_owned(),
                |end| format!("expires at {}", timestamp(end)),
            );
            printer::message(format_args!(
                "created token {id} for `{}`; the token {expiry}, and cannot be shown again",
                user.login
            ));
        }
        TokenCommand::List { user, list } => {
            print_list(&store, user.as_deref(), &list).await?;
        }
        TokenCommand::Remove { id } => {
            let Ok(id) = id.parse() else { return Err(invalid_token_id(&store, &id).await?) };
            store.revoke_token(id).await?;
            printer::message(format_args!("revoked token {id}"));
        }
    }
    Ok(())
}

async fn print_list(store: &SqlStore, user: Option<&str>, list: &ListArgs) -> Result<()> {
    let mut tokens = store.tokens().await?;
    if let Some(user) = user {
        let login = store.user(user).await?.login;
        tokens.retain(|token| token.login.as_ref() == Some(&login));
    }
    let columns = [
        ("id", "ID"),
        ("user", "USER"),
        ("name", "NAME"),
        ("created_at", "CREATED"),
        ("expires_at", "EXPIRES"),
        ("last_used_at", "LAST USED"),
    ];
    let rows = tokens.into_iter().map(|token| {
        [
            json!(token.id),
            json!(token.login),
            json!(token.name),
            json!(timestamp(token.created_at)),
            json!(token.expires_at.map(timestamp)),
            json!(token.last_used_at.map(timestamp)),
        ]
    });
    printer::list(list.json, columns, rows);
    Ok(())
}

/// Returns the error for an argument that is not the number of a token. If the argument is a user name, the hint lists
/// the user's tokens.
async fn invalid_token_id(store: &SqlStore, argument: &str) -> Result<anyhow::Error> {
    let tokens =
        store.tokens().await?.into_iter().filter(|token| token.login.as_deref() == Some(argument));
    let ids: Vec<String> = tokens.map(|token| token.id.to_string()).collect();
    let hint = match ids.as_slice() {
        [] => "`callgate token list` shows the tokens with their numbers".to_owned(),
        ids => format!(
            "the tokens of `{argument}` are {}; `callgate token list` describes them",
            ids.join(", ")
        ),
    };
    Ok(hinted(format!("`{}` is not the number of a token", argument.escape_debug()), hint))
}
