//! Token requests (RFC 6749, sections 4.4.2 and 6).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use form_urlencoded::{Serializer, byte_serialize};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request};
use http_body_util::Full;
use tokio::time::timeout;

use super::answer::{self, Granted};
use super::error::TokenError;
use super::{ClientAuth, ClientId, OAuthClient};
use crate::http_client::connector::Connector;
use crate::http_client::endpoint::Endpoint;
use crate::http_client::send_error::{SendError, SendErrorKind};
use crate::http_client::tls::{NoTls, client_config};
use crate::http_client::{BodyError, Pool, pool_builder, text};
use crate::secret::Secret;
use crate::upstream::forward::client::connect_limit;
use crate::upstream::forward::options::ForwardOptions;

/// Maximum size of an answer in bytes.
const MAX_ANSWER: usize = 64 * 1024;

const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A token endpoint, and the client that asks it.
#[derive(Debug)]
pub(super) struct TokenEndpoint {
    url: Endpoint,
    client: Option<ClientId>,
    client_auth: ClientAuth,
    scope: Option<String>,
    /// Connections are not kept: token requests are rare, and one on a connection that the server is
    /// about to close could be lost together with a rotated refresh token.
    pool: Pool,
    time_limit: Duration,
}

impl TokenEndpoint {
    pub(super) fn new(client: &OAuthClient, options: &ForwardOptions) -> Result<Self, NoTls> {
        let tls = client_config(Some(&client.token_url), &options.roots, "`ca_file`")?;
        let connector = Connector::with_http2(&tls, connect_limit(options.limits));
        Ok(Self {
            url: client.token_url.clone(),
            client: client.client.clone(),
            client_auth: client.client_auth,
            scope: client.scope.clone(),
            pool: pool_builder(0).build(connector),
            // A call that waits for a token needs time for itself.
            time_limit: options.limits.timeout / 2,
        })
    }

    /// Where it is, without the query.
    pub(super) fn url(&self) -> &Endpoint {
        &self.url
    }

    /// Requests a token within the time limit: with a refresh token, or else with the credentials of the
    /// client, which is that of the upstream unless it is a user's own. Logs what the server says of an
    /// error.
    pub(super) async fn request(
        &self,
        own_client: Option<&ClientId>,
        refresh_token: Option<&Secret>,
    ) -> Result<Granted, TokenError> {
        let client = own_client.or(self.client.as_ref()).ok_or(TokenError::InvalidClient)?;
        let refresh_token = refresh_token.map(Secret::expose);
        let request = self.form(client, refresh_token);
        let answered = timeout(self.time_limit, self.send(request)).await;
        let (status, body) = answered.map_err(|_| TokenError::TimedOut)??;
        let granted = answer::read(status, &body, refresh_token.is_some());
        if let Err(error) = &granted {
            let secret = client.secret.as_ref().map(Secret::expose);
            let sent: Vec<&str> = secret.into_iter().chain(refresh_token).collect();
            if let Some(said) = answer::description(&body, &sent) {
                tracing::warn!(token_url = %self.url, %error, said, "a token request was refused");
            }
        }
        granted
    }

    fn form(&self, client: &ClientId, refresh_token: Option<&str>) -> Request<Full<Bytes>> {
        let mut form = Serializer::new(String::new());
        match refresh_token {
            Some(token) => {
                form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", token)
            }
            None => form.append_pair("grant_type", "client_credentials"),
        };
        if let Some(scope) = &self.scope {
            form.append_pair("scope", scope);
        }
        let mut basic = None;
        match (&client.secret, self.client_auth) {
            (Some(secret), ClientAuth::Basic) => basic = Some(basic_pair(&client.id, secret)),
            (Some(secret), ClientAuth::Post) => {
                form.append_pair("client_id", &client.id);
                form.append_pair("client_secret", secret.expose());
            }
            (None, _) => {
                form.append_pair("client_id", &client.id);
            }
        }
        let mut request = Request::new(Full::new(Bytes::from(form.finish())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.uri().clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, FORM);
        headers.insert(ACCEPT, JSON);
        // Base64 fits into a header.
        if let Some(Ok(mut value)) = basic.map(|pair| HeaderValue::from_str(&pair)) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        request
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(http::StatusCode, String), TokenError> {
        let response = self.pool.request(request).await.map_err(|error| {
            let SendError { kind, words } = SendError::of(&error);
            match kind {
                SendErrorKind::Untrusted | SendErrorKind::NoTls => TokenError::Untrusted(words),
                SendErrorKind::NoHttp => TokenError::Malformed("not HTTP"),
                _ => TokenError::Unreachable(words),
            }
        })?;
        let (head, body) = response.into_parts();
        let body = text(body, MAX_ANSWER).await.map_err(|error| match error {
            BodyError::TooLong(_) => TokenError::Malformed("it is longer than 64 KiB"),
            BodyError::NotText => TokenError::Malformed("it is not UTF-8"),
            BodyError::Broken(words) => TokenError::Unreachable(words),
        })?;
        Ok((head.status, body))
    }
}

/// Both are form-encoded before they are joined (RFC 6749, section 2.3.1).
fn basic_pair(id: &str, secret: &Secret) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.expose()));
    format!("Basic {}", STANDARD.encode(pair))
}
