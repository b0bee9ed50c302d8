//! Asks a service which methods it lists for a caller.

use std::collections::HashSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::credential::{Authentication, MissingCredential};
use super::description::{self, MAX_IDS, NotListed};
use super::failure::Failure;
use super::oauth::UserGrant;
use super::reply::ServiceResponse;
use super::request::RequestId;
use super::stats::Outcome;
use super::{Forward, Ids, Ordering, request};
use crate::access::Caller;
use crate::model::arguments::ParamStyle;
use crate::model::method::Safety;
use crate::upstream::budget::BudgetReservation;
use crate::upstream::client::Client;
use crate::upstream::{BoxFuture, Call};
use crate::upstream::{CallerMethods, Identity, ListError, MethodLister};

/// Maximum number of bytes of a description, all pages together.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Maximum number of pages of tools.
const MAX_PAGES: usize = 1_000;

/// Shows each caller only those methods that the service lists for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamVisibility {
    /// What lists the methods.
    pub described_by: DescribedBy,
    /// How long an answer counts.
    pub max_age: Duration,
}

/// What lists the methods of a service for who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum DescribedBy {
    /// The OpenRPC document that the method `rpc.discover` gives.
    #[default]
    #[serde(rename = "openrpc")]
    OpenRpc,
    /// `GET /mcp/tools/list` of Drupal's module `jsonrpc_mcp`, beside the service's `/jsonrpc`.
    #[serde(rename = "jsonrpc_mcp")]
    JsonRpcMcp,
}

impl MethodLister for Forward {
    fn max_age(&self) -> Duration {
        self.options.visibility.map_or(Duration::ZERO, |visibility| visibility.max_age)
    }

    fn identity<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Identity>, ListError>> {
        Box::pin(async move {
            let secret = match &self.options.credential {
                None => None,
                Some(mapped) => match mapped.known.of(caller).await? {
                    None if mapped.how.missing == MissingCredential::Refuse => return Ok(None),
                    secret => secret,
                },
            };
            let passed = &self.options.pass_caller;
            let is_passed = passed.names().next().is_some();
            Ok(Some(match &caller.user {
                Some(user) if secret.is_some() || is_passed => {
                    // A refresh token becomes another with each use, and is the same user's.
                    let grant =
                        self.options.credential.as_ref().and_then(|mapped| mapped.how.oauth);
                    let secret = secret.as_ref().filter(|_| grant != Some(UserGrant::RefreshToken));
                    let secret = secret.map_or("", |secret| secret.expose());
                    let role = passed.role.as_ref().and(user.role.as_deref()).unwrap_or("");
                    let token = passed.token.as_ref().and(caller.token());
                    let token = token.map_or("", |token| token.expose());
                    Identity::user(user.id, &[secret, role, token])
                }
                // All whom the service cannot tell apart.
                _ => Identity::ANONYMOUS,
            }))
        })
    }

    fn methods<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<CallerMethods, ListError>> {
        Box::pin(async move {
            let limit = self.options.limits.timeout;
            let listed = timeout(limit, self.list_for(caller)).await;
            match listed.unwrap_or(Err(Failure::TimedOut(limit).into())) {
                Ok(ids) => Ok(CallerMethods::Listed(ids)),
                Err(NotListed::Denied) => {
                    Ok(CallerMethods::Refused("it denies the caller `rpc.discover`".to_owned()))
                }
                Err(NotListed::Failure(failure)) if self.refuses_caller(&failure) => {
                    Ok(CallerMethods::Refused(failure.to_string()))
                }
                Err(NotListed::Failure(failure)) => {
                    Err(format!("upstream `{}`: {failure}", self.name).into())
                }
                Err(other) => Err(other.to_string().into()),
            }
        })
    }
}

impl Forward {
    /// Whether it is the caller who is refused: then nothing is listed for them.
    fn refuses_caller(&self, failure: &Failure) -> bool {
        match failure {
            Failure::CredentialLookup(..) => false,
            // The access token may have expired just now, and another is not requested at once.
            other if other.is_unauthorized() && self.options.oauth.is_some() => false,
            Failure::NoToken(no_token) => no_token.is_of_user(),
            other => matches!(other.outcome(), Outcome::NoCredential | Outcome::Refused),
        }
    }

    async fn list_for(&self, caller: &Caller) -> Result<Vec<String>, NotListed> {
        let number = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let text = format!("mcp_list_{number}");
        let params = if self.options.style == ParamStyle::Positional { "[]" } else { "{}" };
        let params = serde_json::from_str(params).unwrap_or(RawValue::NULL);
        let call = Call {
            id: &text,
            method: "rpc.discover",
            params,
            safety: Safety::ReadOnly,
            caller,
            client: &Client::default(),
            reservation: &BudgetReservation::default(),
        };
        if self.options.target.is_websocket() {
            return read_document(self.answer(&call, None, &mut Authentication::default()).await);
        }
        let id = &match self.options.ids {
            Ids::Text => RequestId::Text(text.as_str().into()),
            Ids::Number => RequestId::Number(number),
        };
        let auth = self.authentication(&call).await?;
        let listed = self.list_with(&call, id, &auth).await;
        // The access token may have been revoked.
        if matches!(&listed, Err(NotListed::Failure(failure)) if failure.is_unauthorized())
            && let Some(auth) = auth.renewed(&call, self.options.credential.as_ref()).await?
        {
            return self.list_with(&call, id, &auth).await;
        }
        listed
    }

    /// Reads `rpc.discover`, or all pages of `/mcp/tools/list`.
    async fn list_with(
        &self,
        call: &Call<'_>,
        id: &RequestId<'_>,
        auth: &Authentication,
    ) -> Result<Vec<String>, NotListed> {
        let headers = || request::headers(&self.options, call.caller, auth);
        if !self.options.is_described_over_http() {
            let body = request::body(&self.options, call, id, auth);
            let asking = self.client.post(None, headers(), body, MAX_BYTES, call.reservation);
            return read_document(self.counted(asking).await?.read(id));
        }
        let target = &self.options.target;
        let path = description::tools_path(target.path());
        let (mut ids, mut seen, mut left) = (Vec::new(), HashSet::new(), MAX_BYTES);
        let mut next = target.with_path(&path);
        loop {
            let place = next.map_err(|_| NotListed::Pages(MAX_PAGES))?;
            let reading = self.client.get(place.uri().clone(), headers(), left);
            let page = self.counted(reading).await?.into_text()?;
            left = left.checked_sub(page.len()).ok_or(NotListed::TooLarge(MAX_BYTES))?;
            let Some(cursor) = description::tools(&page, &mut ids)? else { return Ok(ids) };
            next = target.with_parameter(&path, "cursor", &cursor);
            if seen.len() + 1 >= MAX_PAGES || ids.len() > MAX_IDS || !seen.insert(cursor) {
                return Err(NotListed::Pages(MAX_PAGES));
            }
        }
    }

    /// Returns a response, counted by the breaker.
    async fn counted(
        &self,
        asking: impl Future<Output = Result<ServiceResponse, Failure>>,
    ) -> Result<ServiceResponse, Failure> {
        let mut attempt = self.breaker.attempt().ok_or(Failure::Down)?;
        let response = asking.await;
        attempt.settle(response.as_ref().is_err_and(Failure::found_no_connection));
        response
    }
}

/// Returns the ids in the reply to `rpc.discover`.
fn read_document(replied: Result<Box<RawValue>, Failure>) -> Result<Vec<String>, NotListed> {
    match replied {
        Ok(document) => description::open_rpc(document.get()),
        Err(Failure::Denied(_)) => Err(NotListed::Denied),
        Err(Failure::Error(error)) => Err(NotListed::Rpc(error.code)),
        Err(failure) => Err(failure.into()),
    }
}
