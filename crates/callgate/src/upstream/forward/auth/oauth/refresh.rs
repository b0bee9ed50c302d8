//! Requests access tokens with refresh tokens. A rotated refresh token is stored before the new access token is used.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};

use super::refresh_token_store::RefreshTokenStore;
use super::token_error::TokenError;
use super::token_response::{TokenResponse, token};
use super::token_source::{FetchedToken, TokenSource};
use super::token_state::AccessToken;
use crate::secret::Secret;
use crate::upstream::credentials::ReplaceStatus;

/// Maximum number of attempts if the stored credential is replaced while a token is requested.
const MAX_ATTEMPTS: usize = 3;

/// Maximum time to wait for a different credential after the stored one was refused.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum lifetime of an access token that another server stored.
const MAX_SHARED_LIFETIME: Duration = Duration::from_hours(24);

/// A stored credential: a refresh token, optionally with the access token of the same response. If the access token is
/// stored, all servers with the same registry use this access token. Otherwise, each server would request its own, and
/// some authorization servers revoke the previous access token at each renewal.
pub(crate) struct StoredGrant {
    refresh_token: Secret,
    shared: Option<(Secret, u64)>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    refresh_token: String,
    access_token: String,
    /// Expiry in seconds since 1970, by the clock of another machine.
    expires_at: u64,
}

impl StoredGrant {
    pub(crate) fn parse(stored: &Secret) -> Self {
        let parsed: Option<Stored> = serde_json::from_str(stored.expose()).ok();
        let pair = parsed.and_then(|parsed| {
            let access_token = token(&parsed.access_token.into())?;
            Some((Secret::new(&parsed.refresh_token)?, (access_token, parsed.expires_at)))
        });
        match pair {
            Some((refresh_token, shared)) => Self { refresh_token, shared: Some(shared) },
            None => Self { refresh_token: stored.clone(), shared: None },
        }
    }

    /// Returns the access token that is stored with the refresh token, unless it has expired.
    pub(crate) fn access_token(self, now: Instant) -> Option<AccessToken> {
        let (secret, expires_at) = self.shared?;
        let lifetime = Duration::from_secs(expires_at).checked_sub(unix_time())?;
        (!lifetime.is_zero())
            .then(|| AccessToken::new(secret, lifetime.min(MAX_SHARED_LIFETIME), now))
    }
}

fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The credential that could not be replaced, and the response that contains the rotated refresh token.
pub(crate) type Unstored = (Secret, TokenResponse);

impl TokenSource {
    pub(crate) async fn refresh(
        &self,
        store: &dyn RefreshTokenStore,
        credential: Option<Secret>,
        mut unstored: Option<Unstored>,
    ) -> FetchedToken {
        let mut stored = match (&unstored, credential) {
            (Some((old, _)), _) => old.clone(),
            (None, Some(credential)) => credential,
            (None, None) => match load(store).await {
                Ok(stored) => stored,
                Err(error) => return FetchedToken::token_only(Err(error)),
            },
        };
        let original = stored.clone();
        for _ in 0..MAX_ATTEMPTS {
            let result = match unstored.take() {
                Some((_, response)) => Ok(response),
                None => {
                    let refresh_token = StoredGrant::parse(&stored).refresh_token;
                    self.endpoint.request(None, Some(&refresh_token)).await
                }
            };
            let error = match result {
                Ok(response) => match self.store_rotated(store, &stored, &response).await {
                    Ok(Some(current)) => {
                        let stored = (current != original).then_some((current, original));
                        return FetchedToken {
                            stored,
                            ..FetchedToken::token_only(Ok(response.into()))
                        };
                    }
                    Ok(None) => TokenError::Replaced,
                    Err(error) => {
                        let unstored = Some((stored, response));
                        return FetchedToken { unstored, ..FetchedToken::token_only(Err(error)) };
                    }
                },
                Err(TokenError::InvalidGrant) => TokenError::InvalidGrant,
                Err(error) => return FetchedToken::token_only(Err(error)),
            };
            // Another server or an administrator may have replaced the credential.
            match wait_for_change(store, &stored).await {
                Some(other) => stored = other,
                None => return FetchedToken::token_only(Err(error)),
            }
            if let Some(token) = StoredGrant::parse(&stored).access_token(Instant::now()) {
                return FetchedToken {
                    stored: Some((stored, original)),
                    ..FetchedToken::token_only(Ok(token))
                };
            }
        }
        FetchedToken::token_only(Err(TokenError::Replaced))
    }

    /// Stores the rotated refresh token in place of the old one, if the response contains a new refresh token. Returns
    /// the credential that is now stored, or `None` if another process has replaced the credential meanwhile.
    async fn store_rotated(
        &self,
        store: &dyn RefreshTokenStore,
        old: &Secret,
        response: &TokenResponse,
    ) -> Result<Option<Secret>, TokenError> {
        let Some(new) = &response.refresh_token else { return Ok(Some(old.clone())) };
        if *new == StoredGrant::parse(old).refresh_token {
            return Ok(Some(old.clone()));
        }
        let new = if store.keeps_access_tokens() {
            with_access_token(new, response)
        } else {
            new.clone()
        };
        match timeout(STORE_TIMEOUT, store.replace(old, &new)).await {
            Ok(Ok(ReplaceStatus::Stored)) => Ok(Some(new)),
            Ok(Ok(ReplaceStatus::Conflict)) => Ok(None),
            Ok(Ok(ReplaceStatus::NotDurable)) => {
                self.warn_not_durable();
                Ok(Some(new))
            }
            Ok(Err(error)) => Err(TokenError::NotStored(error.to_string())),
            Err(_) => Err(TokenError::NotStored("timed out".to_owned())),
        }
    }
}

fn with_access_token(refresh_token: &Secret, response: &TokenResponse) -> Secret {
    let stored = Stored {
        refresh_token: refresh_token.expose().to_owned(),
        access_token: response.access_token.expose().to_owned(),
        expires_at: (unix_time() + response.lifetime).as_secs(),
    };
    let text = serde_json::to_string(&stored).ok().and_then(|text| Secret::new(&text));
    text.unwrap_or_else(|| refresh_token.clone())
}

async fn load(store: &dyn RefreshTokenStore) -> Result<Secret, TokenError> {
    match store.load().await {
        Ok(Some(stored)) => Ok(stored),
        Ok(None) => Err(TokenError::NoRefreshToken),
        Err(error) => Err(TokenError::NotRead(error.to_string())),
    }
}

/// Waits until a credential other than `old` is stored.
async fn wait_for_change(store: &dyn RefreshTokenStore, old: &Secret) -> Option<Secret> {
    if !store.is_shared() {
        return None;
    }
    let waiting = async {
        loop {
            match store.load().await {
                Ok(Some(stored)) if stored != *old => return Some(stored),
                Ok(None) => return None,
                _ => sleep(POLL_INTERVAL).await,
            }
        }
    };
    timeout(CHANGE_TIMEOUT, waiting).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text).unwrap()
    }

    #[test]
    fn a_stored_credential_has_a_refresh_token_and_optionally_an_access_token() {
        let response = TokenResponse {
            access_token: secret("access"),
            lifetime: Duration::from_hours(1),
            received_at: Instant::now(),
            refresh_token: None,
        };
        let now = Instant::now();
        let stored = StoredGrant::parse(&with_access_token(&secret("refresh"), &response));
        assert_eq!(stored.refresh_token, secret("refresh"));
        assert_eq!(stored.access_token(now).unwrap().secret, secret("access"));
        for plain in ["refresh", "{\"a\":1}", "{", "7", "\"x\""] {
            let stored = StoredGrant::parse(&secret(plain));
            assert_eq!(stored.refresh_token, secret(plain));
            assert!(stored.access_token(now).is_none());
        }
        let expired = r#"{"refresh_token":"r","access_token":"a","expires_at":7}"#;
        let stored = StoredGrant::parse(&secret(expired));
        assert_eq!(stored.refresh_token, secret("r"));
        assert!(stored.access_token(now).is_none());
    }
}
