//! Token requests (RFC 6749, sections 4.4.2 and 6).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use form_urlencoded::{Serializer, byte_serialize};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use tokio::time::timeout;

use super::token_error::TokenError;
use super::token_response::{self, TokenResponse};
use super::{ClientAuth, ClientCredentials, OAuthClient};
use crate::http_client::body::{BodyError, text};
use crate::http_client::connector::Connector;
use crate::http_client::endpoint::Endpoint;
use crate::http_client::send_error::{SendError, SendErrorKind};
use crate::http_client::tls::{TlsSetupError, client_config};
use crate::http_client::{Pool, pool_builder, send, sensitive};
use crate::secret::Secret;
use crate::upstream::forward::ForwardOptions;
use crate::upstream::forward::service::connect_limit;

const MAX_RESPONSE: usize = 64 * 1024;

const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[derive(Debug)]
pub(crate) struct TokenEndpoint {
    client: OAuthClient,
    /// Has no idle connections, because a server may close an idle connection at the moment when a request is sent.
    /// The response could then be lost, together with the rotated refresh token in it.
    pool: Pool,
    time_limit: Duration,
}

impl TokenEndpoint {
    pub(crate) fn new(
        client: &OAuthClient,
        options: &ForwardOptions,
    ) -> Result<Self, TlsSetupError> {
        let tls = client_config(Some(&client.token_url), &options.roots, "`ca_file`")?;
        let connector = Connector::with_http2(&tls, connect_limit(options.limits));
        Ok(Self {
            client: client.clone(),
            pool: pool_builder(0).build(connector),
            // The other half of the time is left for the call that waits for the token.
            time_limit: options.limits.timeout / 2,
        })
    }

    pub(crate) fn url(&self) -> &Endpoint {
        &self.client.token_url
    }

    /// Requests an access token with a refresh token, or with the credentials of the client. If `user_client` is
    /// set, the user's client is used instead of the upstream's. Logs the server's description of an error.
    pub(crate) async fn request(
        &self,
        user_client: Option<&ClientCredentials>,
        refresh_token: Option<&Secret>,
    ) -> Result<TokenResponse, TokenError> {
        let client =
            user_client.or(self.client.client.as_ref()).ok_or(TokenError::InvalidClient)?;
        let refresh_token = refresh_token.map(Secret::expose);
        let (headers, form) = self.token_request(client, refresh_token);
        let response = timeout(self.time_limit, self.send(headers, form)).await;
        let (status, body) = response.map_err(|_| TokenError::TimedOut)??;
        let result = token_response::read(status, &body, refresh_token.is_some());
        if let Err(error) = &result {
            let secret = client.secret.as_ref().map(Secret::expose);
            let secrets: Vec<&str> = secret.into_iter().chain(refresh_token).collect();
            if let Some(description) = token_response::description(&body, &secrets) {
                let token_url = self.url();
                tracing::warn!(%token_url, %error, description, "token request failed");
            }
        }
        result
    }

    /// Returns the headers and the body of a request.
    fn token_request(
        &self,
        client: &ClientCredentials,
        refresh_token: Option<&str>,
    ) -> (HeaderMap, String) {
        let mut form = Serializer::new(String::new());
        match refresh_token {
            Some(token) => {
                form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", token)
            }
            None => form.append_pair("grant_type", "client_credentials"),
        };
        if let Some(scope) = &self.client.scope {
            form.append_pair("scope", scope);
        }
        let mut basic = None;
        match (&client.secret, self.client.client_auth) {
            (Some(secret), ClientAuth::Basic) => basic = Some(basic_pair(&client.id, secret)),
            (Some(secret), ClientAuth::Post) => {
                form.append_pair("client_id", &client.id);
                form.append_pair("client_secret", secret.expose());
            }
            (None, _) => {
                form.append_pair("client_id", &client.id);
            }
        }
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, FORM), (ACCEPT, JSON)]);
        // Base64 is valid in a header, so this cannot fail.
        if let Some(Ok(value)) = basic.map(|pair| sensitive(&pair)) {
            headers.insert(AUTHORIZATION, value);
        }
        (headers, form.finish())
    }

    async fn send(
        &self,
        headers: HeaderMap,
        form: String,
    ) -> Result<(StatusCode, String), TokenError> {
        let uri = self.url().uri().clone();
        let response = send(&self.pool, Method::POST, uri, headers, form.into()).await;
        let response = response.map_err(|SendError { kind, message }| match kind {
            SendErrorKind::Untrusted | SendErrorKind::NotTls => TokenError::Untrusted(message),
            SendErrorKind::NotHttp => TokenError::Malformed("not HTTP"),
            _ => TokenError::Unreachable(message),
        })?;
        let (head, body) = response.into_parts();
        let body = text(body, MAX_RESPONSE).await.map_err(|error| match error {
            BodyError::TooLong(_) => TokenError::Malformed("longer than 64 KiB"),
            BodyError::NotText => TokenError::Malformed("not UTF-8"),
            BodyError::Broken(message) => TokenError::Unreachable(message),
        })?;
        Ok((head.status, body))
    }
}

/// Form-encodes the id and the secret (RFC 6749, section 2.3.1).
fn basic_pair(id: &str, secret: &Secret) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.expose()));
    format!("Basic {}", STANDARD.encode(pair))
}
