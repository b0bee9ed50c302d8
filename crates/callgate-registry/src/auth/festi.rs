//! Reads tokens from the header that Festi's clients use.

use std::sync::Arc;

use callgate::access::Caller;
use callgate::http::{Authenticate, AuthenticateError, Parts, bearer_token};
use callgate::upstream::BoxFuture;

use crate::auth::authenticator::TokenAuthenticator;

/// Header in which Festi's clients send the token, without a scheme.
const HEADER: &str = "x-authorization";

/// Accepts a token in `Authorization: Bearer` or, without one, in `X-Authorization` as Festi's clients send it.
/// Tokens in the URL are not accepted, since URLs are logged.
///
/// `X-Authorization` also applies next to an `Authorization` header of another scheme, such as `Basic` for a
/// site that is not public yet.
#[derive(Debug, Clone)]
pub struct FestiAuthenticator(Arc<TokenAuthenticator>);

impl FestiAuthenticator {
    /// Creates an authenticator that looks tokens up in `tokens`.
    pub fn new(tokens: Arc<TokenAuthenticator>) -> Self {
        Self(tokens)
    }
}

impl Authenticate for FestiAuthenticator {
    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        Box::pin(async move { self.0.caller_of(self.token(request)?).await })
    }

    fn token<'a>(&self, request: &'a Parts) -> Result<Option<&'a str>, AuthenticateError> {
        let is_elsewhere = request.headers.contains_key(HEADER) && has_other_scheme(request);
        if !is_elsewhere && let Some(token) = bearer_token(&request.headers)? {
            return Ok(Some(token));
        }
        let mut values = request.headers.get_all(HEADER).iter();
        let Some(value) = values.next() else { return Ok(None) };
        let token = value.to_str().map_err(|_| AuthenticateError::Malformed)?.trim();
        if values.next().is_some() || token.is_empty() {
            return Err(AuthenticateError::Malformed);
        }
        Ok(Some(token))
    }
}

/// Returns `true` if no `Authorization` header has the `Bearer` scheme.
fn has_other_scheme(request: &Parts) -> bool {
    let mut values = request.headers.get_all("authorization").iter();
    values.all(|value| {
        let scheme = value.to_str().ok().and_then(|value| value.split(' ').next());
        scheme.is_some_and(|scheme| !scheme.eq_ignore_ascii_case("bearer"))
    })
}
