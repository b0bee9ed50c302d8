//! The caller of a local connection: the user of `CALLGATE_TOKEN`, or an anonymous caller.

use std::sync::Arc;

use callgate::gateway::Gateway;
use callgate::http::AuthenticateError;
use callgate::mcp::{Identify, IdentifyError};
use callgate::upstream::BoxFuture;
use callgate::{Caller, Callgate, Secret};
use callgate_registry::{Registry, TokenAuthenticator};

use crate::config::{Config, TOKEN_VARIABLE};
use crate::error_hints::hinted;

/// Identifies the caller again for each request, so that a revoked token is noticed.
pub(crate) struct TokenCaller {
    gateway: Arc<Gateway>,
    authenticator: Arc<TokenAuthenticator>,
    token: Option<Secret>,
    require_auth: bool,
    /// Remedy for a missing or invalid token.
    hint: String,
}

impl TokenCaller {
    pub(crate) fn new(
        config: &Config,
        registry: &Registry,
        gateway: &Callgate,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            hint: hint.into(),
            gateway: Arc::clone(gateway.gateway()),
            authenticator: registry.authenticator(),
            token: config.token.clone(),
            require_auth: config.http.require_auth,
        }
    }

    /// Identifies the caller. If the token is refused or missing, the error has a hint.
    pub(crate) async fn caller(&self) -> anyhow::Result<Caller> {
        self.identify().await.map_err(|error| match error {
            IdentifyError::Unavailable => error.into(),
            IdentifyError::Refused => hinted(self.problem(), self.hint.clone()),
        })
    }

    fn problem(&self) -> String {
        match &self.token {
            Some(_) => format!("the token in `{TOKEN_VARIABLE}` is unknown, revoked or expired"),
            None => format!("callers must have a token, and `{TOKEN_VARIABLE}` is not set"),
        }
    }
}

impl Identify for TokenCaller {
    fn identify(&self) -> BoxFuture<'_, Result<Caller, IdentifyError>> {
        Box::pin(async {
            let token = self.token.as_ref().map(Secret::expose);
            let caller =
                self.authenticator.caller_of(token).await.map_err(|error| match error {
                    AuthenticateError::Unavailable(_) => IdentifyError::Unavailable,
                    _ => IdentifyError::Refused,
                })?;
            let caller = self.gateway.with_token(caller, || token);
            let is_accepted = caller.user.is_some() || !self.require_auth;
            is_accepted.then_some(caller).ok_or(IdentifyError::Refused)
        })
    }

    fn refusal(&self) -> String {
        format!("{}; {}", self.problem(), self.hint)
    }
}
