//! Asks a service which methods it lists for a caller.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::timeout;

use super::credential::{Authentication, MissingCredential, NoCredential};
use super::description::{self, MAX_IDS, NotListed};
use super::failure::{Failure, Logged};
use super::oauth::UserGrant;
use super::reply::{Reply, Whole};
use super::request::RequestId;
use super::send_failure::SendFailure;
use super::stats::Outcome;
use super::{Forward, Ids, Ordering, request};
use crate::access::Caller;
use crate::arguments::ParamStyle;
use crate::budget::Hold;
use crate::client::Client;
use crate::method::Safety;
use crate::upstream::{BoxFuture, Call};
use crate::visibility::{CallerMethods, Identity, ListError, ListsMethods};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DescribedBy {
    /// The OpenRPC document that the method `rpc.discover` gives.
    #[default]
    OpenRpc,
    /// `GET /mcp/tools/list` of Drupal's module `jsonrpc_mcp`, beside the service's `/jsonrpc`.
    JsonRpcMcp,
}

impl ListsMethods for Forward {
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
                _ => Identity::ANYBODY,
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
                    Err(Logged { upstream: self.name.clone(), failure }.into())
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
            Failure::NoCredential(NoCredential::Unknown(..)) => false,
            // The access token may have expired just now, and another is not requested at once.
            other if other.is_unauthorized() && self.options.oauth.is_some() => false,
            Failure::NoToken(no_token) => no_token.is_of_user(),
            other => matches!(other.outcome(), Outcome::NoCredential | Outcome::Refused),
        }
    }

    async fn list_for(&self, caller: &Caller) -> Result<Vec<String>, NotListed> {
        let number = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let text = format!("mcp_list_{number}");
        let by_position = self.options.style == ParamStyle::Positional;
        let call = Call {
            id: &text,
            method: "rpc.discover",
            params: if by_position { empty_list() } else { empty_object() },
            safety: Safety::ReadOnly,
            caller,
            client: &Client::default(),
            hold: &Hold::default(),
        };
        #[cfg(feature = "websocket")]
        if matches!(self.wire, super::Wire::WebSocket(_)) {
            return read_document(self.answer(&call, None).await?);
        }
        let id = match self.options.ids {
            Ids::Text => RequestId::Text(&text),
            Ids::Number => RequestId::Number(number),
        };
        let auth = self.authentication(&call).await?;
        match (Question { forward: self, call: &call, auth: &auth }).ask(id).await {
            Err(NotListed::Failure(failure)) if failure.is_unauthorized() => {
                // The access token may have been revoked.
                let Some(auth) = auth.renewed(&call, self.options.credential.as_ref()).await?
                else {
                    return Err(failure.into());
                };
                Question { forward: self, call: &call, auth: &auth }.ask(id).await
            }
            listed => listed,
        }
    }
}

/// A question on a caller's behalf.
struct Question<'a> {
    forward: &'a Forward,
    call: &'a Call<'a>,
    auth: &'a Authentication,
}

impl Question<'_> {
    async fn ask(&self, id: RequestId<'_>) -> Result<Vec<String>, NotListed> {
        if self.forward.options.is_described_over_http() {
            self.tools().await
        } else {
            self.document(id).await
        }
    }

    /// `rpc.discover`
    async fn document(&self, id: RequestId<'_>) -> Result<Vec<String>, NotListed> {
        let body = request::body(&self.forward.options, self.call, id, self.auth.own.as_ref());
        let client = self.forward.wire.client();
        let asking = client.ask(self.headers(), body, MAX_BYTES, self.call.hold);
        read_document(self.answered(asking).await?.read(&id)?)
    }

    /// All pages of `/mcp/tools/list`.
    async fn tools(&self) -> Result<Vec<String>, NotListed> {
        let target = &self.forward.options.target;
        let path = description::tools_path(target.path());
        let (mut ids, mut seen, mut left) = (Vec::new(), HashSet::new(), MAX_BYTES);
        let mut next = target.with_path(&path);
        loop {
            let place = next.map_err(|_| NotListed::Pages(MAX_PAGES))?;
            let client = self.forward.wire.client();
            let reading = client.get_at(place.uri().clone(), self.headers(), left);
            let page = self.answered(reading).await?.into_text()?;
            left = left.checked_sub(page.len()).ok_or(NotListed::TooLarge(MAX_BYTES))?;
            let Some(cursor) = description::tools(&page, &mut ids)? else { return Ok(ids) };
            next = target.with_parameter(&path, "cursor", &cursor);
            if seen.len() + 1 >= MAX_PAGES || ids.len() > MAX_IDS || !seen.insert(cursor) {
                return Err(NotListed::Pages(MAX_PAGES));
            }
        }
    }

    fn headers(&self) -> http::HeaderMap {
        self.forward.headers(self.call, self.auth)
    }

    /// An answer, counted by the breaker.
    async fn answered(
        &self,
        asking: impl Future<Output = Result<Whole, SendFailure>>,
    ) -> Result<Whole, Failure> {
        let mut attempt = self.forward.breaker.attempt().ok_or(Failure::Down)?;
        let answered = asking.await;
        match &answered {
            Err(failure) if failure.found_no_connection() => attempt.failed(),
            _ => attempt.reached(),
        }
        answered.map_err(SendFailure::into_failure)
    }
}

/// The ids in the reply to `rpc.discover`.
fn read_document(replied: super::Replied) -> Result<Vec<String>, NotListed> {
    match replied {
        Ok(document) => description::open_rpc(document.get()),
        Err(Reply::Denied(_)) => Err(NotListed::Denied),
        Err(Reply::Error(error)) => Err(NotListed::Rpc(error.code)),
    }
}

fn empty_list() -> &'static RawValue {
    serde_json::from_str("[]").unwrap_or(RawValue::NULL)
}

fn empty_object() -> &'static RawValue {
    serde_json::from_str("{}").unwrap_or(RawValue::NULL)
}
