//! Who is asking: a credential becomes a [`Caller`] before anything else happens.

use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use thiserror::Error;

use super::Shared;
use super::error::Refusal;
use crate::access::Caller;
use crate::upstream::BoxFuture;

/// Turns a request's credential into a caller.
pub trait Authenticate: Send + Sync + std::fmt::Debug {
    /// The caller, anonymous where the request has no credential.
    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>>;

    /// The token that a request has, for upstreams that are told it; as a bearer, unless said otherwise.
    fn token<'a>(&self, request: &'a Parts) -> Result<Option<&'a str>, AuthenticateError> {
        bearer_token(&request.headers)
    }
}

/// One that others have too.
impl<T: Authenticate> Authenticate for Arc<T> {
    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        T::authenticate(self, request)
    }

    fn token<'a>(&self, request: &'a Parts) -> Result<Option<&'a str>, AuthenticateError> {
        T::token(self, request)
    }
}

/// A credential that is there and leads to no caller.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AuthenticateError {
    /// Unknown, revoked or expired.
    #[error("the access token is invalid or expired")]
    InvalidToken,
    /// Not of the form `Bearer TOKEN`.
    #[error("the Authorization header must be `Bearer` and a token")]
    Malformed,
    /// Whether it is good cannot be found out just now; why, in words for the caller.
    #[error("{0}")]
    Unavailable(&'static str),
}

/// Everybody is anonymous.
#[derive(Debug, Clone, Copy)]
pub struct Anonymous;

impl Authenticate for Anonymous {
    fn authenticate<'a>(
        &'a self,
        _: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        Box::pin(async { Ok(Caller::anonymous()) })
    }
}

/// The token of an `Authorization: Bearer` header, or `None` where there is no such header.
pub fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, AuthenticateError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let value = value.to_str().map_err(|_| AuthenticateError::Malformed)?;
    let (scheme, token) = value.split_once(' ').ok_or(AuthenticateError::Malformed)?;
    let token = token.trim();
    if values.next().is_some() || !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        return Err(AuthenticateError::Malformed);
    }
    Ok(Some(token))
}

/// Who sends a request. A [`Caller`] in the request's extensions was put there by a layer of the
/// embedder's, which has looked at the credential.
pub(super) async fn caller(shared: &Shared, parts: &Parts) -> Result<Caller, Refusal> {
    let caller = match parts.extensions.get::<Caller>() {
        Some(caller) => caller.clone(),
        None => match shared.authenticate.authenticate(parts).await {
            Ok(caller) => {
                let token = shared.authenticate.token(parts).ok().flatten();
                shared.gateway.with_token(caller, token)
            }
            Err(AuthenticateError::Unavailable(why)) => return Err(Refusal::Unavailable(why)),
            Err(error) => return Err(Refusal::Credential(error)),
        },
    };
    let is_open = parts.method == Method::OPTIONS || caller.user.is_some();
    if shared.options.require_auth && !is_open {
        return Err(Refusal::NoCredential);
    }
    Ok(caller)
}
