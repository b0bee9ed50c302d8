//! Authentication: converts a credential to a [`Caller`]. The reply to a refused credential is in `error.rs`.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use futures_util::future::poll_immediate;
use thiserror::Error;

use super::SharedState;
use super::error::HttpError;
use crate::access::{Caller, Principal};
use crate::upstream::BoxFuture;

/// Authenticates requests.
///
/// Argument of [`Builder::authenticate`](crate::Builder::authenticate).
///
/// ```
/// use std::collections::HashMap;
/// use callgate::access::TokenDigest;
/// use callgate::http::{Authenticate, AuthenticateError, Parts, bearer_token};
/// use callgate::upstream::BoxFuture;
/// use callgate::{Callgate, Caller};
///
/// /// Callers by the digests of their tokens. A real application has them in a database.
/// #[derive(Debug, Default)]
/// struct Tokens(HashMap<TokenDigest, Caller>);
///
/// impl Authenticate for Tokens {
///     fn authenticate<'a>(
///         &'a self,
///         request: &'a Parts,
///     ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
///         Box::pin(async {
///             let Some(token) = bearer_token(&request.headers)? else {
///                 return Ok(Caller::anonymous());
///             };
///             let caller = self.0.get(&TokenDigest::of(token)).cloned();
///             caller.ok_or(AuthenticateError::InvalidToken)
///         })
///     }
/// }
///
/// let server = Callgate::builder().authenticate(Tokens::default()).require_auth().build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Authenticate: Send + Sync + std::fmt::Debug {
    /// Returns the caller if this is possible without waiting. If this function returns `None`,
    /// [`authenticate`](Self::authenticate) is called. The default implementation returns `None`.
    fn known_caller(&self, _request: &Parts) -> Option<Result<Caller, AuthenticateError>> {
        None
    }

    /// Returns the caller. If the request has no credential, the caller is anonymous.
    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>>;

    /// Returns the token of a request, for upstreams to which the token is forwarded. The default reads a bearer token.
    fn token<'a>(&self, request: &'a Parts) -> Result<Option<&'a str>, AuthenticateError> {
        bearer_token(&request.headers)
    }
}

impl<T: Authenticate> Authenticate for Arc<T> {
    fn known_caller(&self, request: &Parts) -> Option<Result<Caller, AuthenticateError>> {
        T::known_caller(self, request)
    }

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

/// A credential that does not identify a caller.
///
/// Error of [`Authenticate::authenticate`]. [`Authenticate`] has an example.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AuthenticateError {
    /// The token is unknown, revoked or expired.
    #[error("the access token is invalid or expired")]
    InvalidToken,
    /// The header does not have the form `Bearer TOKEN`.
    #[error("the Authorization header must have the form `Bearer TOKEN`")]
    Malformed,
    /// The credential cannot be verified at the moment. The text is the reason.
    #[error("{0}")]
    Unavailable(&'static str),
}

/// Treats all callers as anonymous.
///
/// The default of [`Builder::authenticate`](crate::Builder::authenticate). [`serve`](super::serve) has an example.
#[derive(Debug, Clone, Copy)]
pub struct Anonymous;

impl Authenticate for Anonymous {
    fn known_caller(&self, _: &Parts) -> Option<Result<Caller, AuthenticateError>> {
        Some(Ok(Caller::anonymous()))
    }

    fn authenticate<'a>(
        &'a self,
        _: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        Box::pin(async { Ok(Caller::anonymous()) })
    }
}

/// Returns the token of the header `Authorization: Bearer`, or `None` if the header is missing.
///
/// [`Authenticate`] has an example.
pub fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, AuthenticateError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let (scheme, token) =
        value.as_bytes().split_first_chunk::<7>().ok_or(AuthenticateError::Malformed)?;
    let token = token.trim_ascii();
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer ");
    if values.next().is_some() || !is_bearer || token.is_empty() || !token.is_ascii() {
        return Err(AuthenticateError::Malformed);
    }
    // `HeaderValue::to_str` would check the characters one by one.
    str::from_utf8(token).map(Some).map_err(|_| AuthenticateError::Malformed)
}

const TOO_MANY_LOOKUPS: &str = "too many tokens from your address are being checked; try again";

/// Returns the caller of a request from this address. The number of credential lookups that wait, for example for the
/// database, is limited. Each address gets a share of this limit, because the user is not known yet.
pub(super) async fn caller_at(
    state: &SharedState,
    parts: &Parts,
    address: Option<IpAddr>,
) -> Result<Caller, HttpError> {
    let mut caller = pin!(caller(state, parts));
    if let Some(result) = poll_immediate(caller.as_mut()).await {
        return result;
    }
    let principal = address.map_or(Principal::Unknown, Principal::address);
    let share = state.lookups.try_acquire(principal, 1);
    let _share = share.map_err(|_| HttpError::Unavailable(TOO_MANY_LOOKUPS))?;
    caller.await
}

/// Returns the caller of a request. If the request's extensions contain a [`Caller`], returns that one, because a layer
/// of the embedding program has already authenticated the request.
pub(super) async fn caller(state: &SharedState, parts: &Parts) -> Result<Caller, HttpError> {
    let caller = match parts.extensions.get::<Caller>() {
        Some(caller) => caller.clone(),
        None => {
            let authenticated = match state.authenticate.known_caller(parts) {
                Some(result) => result,
                None => state.authenticate.authenticate(parts).await,
            };
            let caller = authenticated.map_err(|error| match error {
                AuthenticateError::Unavailable(reason) => HttpError::Unavailable(reason),
                error => HttpError::Credential(error),
            })?;
            let token = || state.authenticate.token(parts).ok().flatten();
            state.gateway.with_token(caller, token)
        }
    };
    let is_admitted = parts.method == Method::OPTIONS || caller.user.is_some();
    if state.options.require_auth && !is_admitted {
        return Err(HttpError::NoCredential);
    }
    Ok(caller)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_bearer_token_must_be_ascii_and_follow_the_scheme() {
        let token = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
            bearer_token(&headers).map(|token| token.map(str::to_owned))
        };
        for value in ["Bearer abc", "bearer abc", "BEARER  abc\t "] {
            assert_eq!(token(value.as_bytes()), Ok(Some("abc".to_owned())), "{value:?}");
        }
        for value in
            [&b"abc"[..], b"Basic abc", b"Bearer ", "Bearer \u{e9}".as_bytes(), b"Bearer \xff"]
        {
            assert_eq!(token(value), Err(AuthenticateError::Malformed), "{value:?}");
        }
        assert_eq!(bearer_token(&HeaderMap::new()), Ok(None));
    }
}
