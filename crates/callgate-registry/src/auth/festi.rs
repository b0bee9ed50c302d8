//! Tokens where Festi's clients put them.

use std::sync::Arc;

use callgate::access::Caller;
use callgate::http::{Authenticate, AuthenticateError, Parts, bearer_token};
use callgate::upstream::BoxFuture;

use crate::auth::authenticator::TokenAuthenticator;

/// What Festi's clients send their token in, alone.
const HEADER: &str = "x-authorization";

/// Knows callers by a token in `Authorization: Bearer` and, where that is not there, in
/// `X-Authorization`, as Festi's clients send it. Not in the URL: those are logged everywhere.
///
/// The second header counts also beside an `Authorization` that is for somebody else, such as the `Basic`
/// of a site that is not open yet.
#[derive(Debug, Clone)]
pub struct FestiAuthenticator(Arc<TokenAuthenticator>);

impl FestiAuthenticator {
    /// Callers are those of the tokens that this one knows.
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

/// Whether what is in `Authorization` is something else than a token.
fn has_other_scheme(request: &Parts) -> bool {
    let mut values = request.headers.get_all("authorization").iter();
    values.all(|value| {
        let scheme = value.to_str().ok().and_then(|value| value.split(' ').next());
        scheme.is_some_and(|scheme| !scheme.eq_ignore_ascii_case("bearer"))
    })
}
