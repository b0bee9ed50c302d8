//! `[upstreams.NAME.oauth]`: the OAuth 2.0 client that requests access tokens.

use std::sync::Arc;

use anyhow::Context as _;
use callgate::Secret;
use callgate::forward::{
    ClientAuth, InMemoryRefreshToken, OAuthClient, RefreshTokenFile, RefreshTokenStore,
};
use serde::Deserialize;

use super::secrets::{Secrets, Text};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OAuthTable {
    pub(super) token_url: Text,
    client_id: Option<Text>,
    client_secret: Option<Text>,
    scope: Option<String>,
    refresh_token: Option<Text>,
    #[serde(default)]
    client_auth: ClientAuth,
}

impl OAuthTable {
    /// Returns the values that can be in variables and files.
    pub(super) fn texts(&self) -> impl Iterator<Item = &Text> {
        let optional = [&self.client_id, &self.client_secret, &self.refresh_token];
        [&self.token_url].into_iter().chain(optional.into_iter().flatten())
    }

    /// Returns the client, which sends requests to `token_url`. The client of an upstream in the
    /// registry does not write to files.
    pub(super) fn client(
        &self,
        token_url: &str,
        secrets: Secrets,
        is_row: bool,
    ) -> anyhow::Result<OAuthClient> {
        let client = OAuthClient::new(token_url).context("`token_url`")?;
        let mut client = client.client_auth(self.client_auth);
        match (&self.client_id, &self.client_secret, &self.refresh_token) {
            (None, Some(_), _) => anyhow::bail!("`client_secret` needs `client_id`"),
            (None, None, Some(_)) => anyhow::bail!("`refresh_token` needs `client_id`"),
            (None, None, None) => {}
            (Some(id), secret, token) => {
                let secret = secret.as_ref().map(|it| read_secret("client_secret", it, secrets));
                let id = read_secret("client_id", id, secrets)?;
                client = client.client(id.expose(), secret.transpose()?);
                if self.client_secret.is_none() && token.is_none() {
                    anyhow::bail!("`client_id` needs `client_secret`, or a `refresh_token`");
                }
            }
        }
        if let Some(scope) = &self.scope {
            client = client.scope(scope);
        }
        if let Some(token) = &self.refresh_token {
            client = client.refresh_token(token_store(token, secrets, is_row)?);
        }
        Ok(client)
    }
}

fn read_secret(key: &str, text: &Text, secrets: Secrets) -> anyhow::Result<Secret> {
    Secret::new(&text.read(key, secrets)?).with_context(|| format!("`{key}` is empty"))
}

/// Returns the store of the refresh token. If the token is in a file, the file is read for each request, and
/// replaced when the authorization server rotates the token. But for an upstream in the registry (`is_row`), the
/// file is read only once and never replaced, because its authorization server must not be able to write to files.
fn token_store(
    token: &Text,
    secrets: Secrets,
    is_row: bool,
) -> anyhow::Result<Arc<dyn RefreshTokenStore>> {
    let initial = read_secret("refresh_token", token, secrets)?;
    let file = token.external().and_then(|external| external.file_without_prefix());
    Ok(match file.filter(|_| !is_row) {
        Some(file) => Arc::new(RefreshTokenFile::new(file)),
        None => Arc::new(InMemoryRefreshToken::new(initial)),
    })
}
