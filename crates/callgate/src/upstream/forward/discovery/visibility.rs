//! Reads the methods that a service lists for a caller.

use std::collections::HashSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::access::Caller;
use crate::model::arguments::ParamStyle;
use crate::model::method::Safety;
use crate::upstream::client::Client;
use crate::upstream::forward::discovery::method_list::{self, MAX_IDS, MethodListError};
use crate::upstream::forward::{
    CallOutcome, Failure, Forward, ForwardedCall, MissingCredential, Ordering, ServiceResponse,
    UserGrant,
};
use crate::upstream::memory_budget::BudgetReservation;
use crate::upstream::{BoxFuture, Call, CallerMethods, Identity, ListError, MethodLister};

/// Maximum total size of all pages of a list, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

const MAX_PAGES: usize = 1_000;

/// Restricts each caller to the methods that the service lists for them.
///
/// Value of [`ForwardOptions::visibility`](crate::upstream::forward::ForwardOptions::visibility).
/// [`ForwardOptions`](crate::upstream::forward::ForwardOptions) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamVisibility {
    /// Source of the list.
    pub source: MethodListSource,
    /// Time for which a list is cached.
    pub max_age: Duration,
}

/// Where a service lists the methods of a caller.
///
/// Value of [`UpstreamVisibility::source`]. [`ForwardOptions`](crate::upstream::forward::ForwardOptions) has an
/// example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum MethodListSource {
    /// The OpenRPC document that the method `rpc.discover` returns.
    #[default]
    #[serde(rename = "openrpc")]
    OpenRpc,
    /// `GET /mcp/tools/list` of Drupal's module `jsonrpc_mcp`, beside the service's `/jsonrpc`.
    #[serde(rename = "jsonrpc_mcp")]
    JsonRpcMcp,
}

impl MethodLister for Forward {
    fn max_age(&self) -> Duration {
        self.options().visibility.map_or(Duration::ZERO, |visibility| visibility.max_age)
    }

    fn identity<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Identity>, ListError>> {
        Box::pin(async move {
            let options = self.options();
            let secret = match &options.credential {
                None => None,
                Some(credentials) => match credentials.source.of(caller).await? {
                    None if credentials.options.missing == MissingCredential::Refuse => {
                        return Ok(None);
                    }
                    secret => secret,
                },
            };
            let caller_headers = &options.caller_headers;
            let passes_caller = caller_headers.names().next().is_some();
            Ok(Some(match &caller.user {
                Some(user) if secret.is_some() || passes_caller => {
                    // A refresh token changes with each use, but the user stays the same.
                    let is_refresh = options.user_grant() == Some(UserGrant::RefreshToken);
                    let secret = secret.as_ref().filter(|_| !is_refresh);
                    let secret = secret.map_or("", |secret| secret.expose());
                    let role = caller_headers.role.as_ref().and(user.role.as_deref()).unwrap_or("");
                    let token = caller_headers.token.as_ref().and(caller.token());
                    let token = token.map_or("", |token| token.expose());
                    Identity::user(user.id, &[secret, role, token])
                }
                // The service cannot distinguish these callers.
                _ => Identity::ANONYMOUS,
            }))
        })
    }

    fn methods<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<CallerMethods, ListError>> {
        Box::pin(async move {
            let limit = self.options().limits.timeout;
            let listed = timeout(limit, self.list_for(caller)).await;
            match listed.unwrap_or(Err(Failure::TimedOut(limit).into())) {
                Ok(ids) => Ok(CallerMethods::Listed(ids)),
                Err(MethodListError::Denied) => Ok(CallerMethods::Refused(
                    "the service denies `rpc.discover` to the caller".to_owned(),
                )),
                Err(MethodListError::Failure(failure)) if self.refuses_caller(&failure) => {
                    Ok(CallerMethods::Refused(failure.to_string()))
                }
                Err(MethodListError::Failure(failure)) => {
                    Err(format!("upstream `{}`: {failure}", self.service.name).into())
                }
                Err(other) => Err(other.to_string().into()),
            }
        })
    }
}

impl Forward {
    /// Returns `true` if the service refuses the caller. The caller then sees no methods.
    fn refuses_caller(&self, failure: &Failure) -> bool {
        match failure {
            Failure::CredentialLookup(..) => false,
            // The access token may have just expired, and a new one is not requested immediately.
            other if other.is_unauthorized() && self.options().oauth.is_some() => false,
            Failure::NoToken(no_token) => no_token.is_of_user(),
            other => matches!(other.outcome(), CallOutcome::NoCredential | CallOutcome::Refused),
        }
    }

    async fn list_for(&self, caller: &Caller) -> Result<Vec<String>, MethodListError> {
        let id = format!("mcp_list_{}", self.last_id.fetch_add(1, Ordering::Relaxed));
        let is_named = matches!(self.options().style, None | Some(ParamStyle::Named));
        let params = if is_named { "{}" } else { "[]" };
        let params = serde_json::from_str(params).unwrap_or(RawValue::NULL);
        let call = Call {
            id: &id,
            method: "rpc.discover",
            remote_name: "rpc.discover",
            params,
            safety: Safety::ReadOnly,
            caller,
            client: &Client::default(),
            reservation: &BudgetReservation::default(),
        };
        let mut listing = ForwardedCall::new(self, &call, None);
        if self.options().target.is_websocket() {
            return read_document(listing.run().await);
        }
        listing.authenticate().await?;
        let listed = self.list_with(&listing).await;
        match listed {
            Err(MethodListError::Failure(failure))
                if failure.is_unauthorized() && listing.renew(&failure).await? =>
            {
                self.list_with(&listing).await
            }
            listed => listed,
        }
    }

    /// Reads the result of `rpc.discover`, or all pages of `/mcp/tools/list`.
    async fn list_with(&self, listing: &ForwardedCall<'_>) -> Result<Vec<String>, MethodListError> {
        if !self.options().is_described_over_http() {
            let sending = listing.send_once(MAX_BYTES);
            return read_document(listing.read(self.through_breaker(sending).await));
        }
        let target = &self.options().target;
        let path = method_list::tools_path(target.path());
        let (mut ids, mut cursors, mut remaining) = (Vec::new(), HashSet::new(), MAX_BYTES);
        let mut next = target.with_path(&path);
        loop {
            let page = next.map_err(|_| MethodListError::Pages(MAX_PAGES))?;
            let sending = self.service.get(page.uri(), listing.headers(), remaining);
            let page = self.through_breaker(sending).await?.into_text()?;
            remaining =
                remaining.checked_sub(page.len()).ok_or(MethodListError::TooLarge(MAX_BYTES))?;
            let Some(cursor) = method_list::tools(&page, &mut ids)? else { return Ok(ids) };
            next = target.with_parameter(&path, "cursor", &cursor);
            if cursors.len() + 1 >= MAX_PAGES || ids.len() > MAX_IDS || !cursors.insert(cursor) {
                return Err(MethodListError::Pages(MAX_PAGES));
            }
        }
    }

    /// Sends a request, unless the circuit breaker is open. Records the result in the breaker.
    async fn through_breaker(
        &self,
        sending: impl Future<Output = Result<ServiceResponse, Failure>>,
    ) -> Result<ServiceResponse, Failure> {
        let mut attempt = self.breaker.attempt().ok_or(Failure::Down)?;
        let response = sending.await;
        attempt.settle(response.as_ref().is_err_and(Failure::is_connection_failure));
        response
    }
}

fn read_document(result: Result<Box<RawValue>, Failure>) -> Result<Vec<String>, MethodListError> {
    match result {
        Ok(document) => method_list::open_rpc(document.get()),
        Err(Failure::Denied(_)) => Err(MethodListError::Denied),
        Err(Failure::Error(error)) => Err(MethodListError::Rpc(error.code)),
        Err(failure) => Err(failure.into()),
    }
}
