//! `/healthz` and `/readyz`.

use std::net::IpAddr;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use serde_json::{Value, json};

use crate::access::Caller;
use crate::transport::http::readiness::{Degraded, ReadinessState, ReadinessStatus};
use crate::transport::http::{EndpointSet, SharedState, authenticate, origin, response};

/// `GET /healthz`
pub(crate) fn healthz() -> Response {
    response::json(StatusCode::OK, &json!({"status": "ok"}))
}

/// `GET /readyz`: 503 until the first catalog is loaded, then 200.
///
/// The status stays 200 while the registry or an upstream cannot be reached, because the server can still answer
/// requests. With 503, the load balancer would remove every replica when their shared database is down. The status is
/// 503 again if every caller needs a credential and credentials can no longer be verified, because another replica may
/// still be able to serve the callers.
///
/// Details are shown to callers with a valid credential if the service has all endpoints. Otherwise they are shown only
/// at the address for operations.
pub(crate) async fn readyz(state: &SharedState, parts: &Parts, client: Option<IpAddr>) -> Response {
    let has_details = match state.options.endpoints {
        EndpointSet::All => has_user(state, parts, client).await,
        EndpointSet::Public => false,
        // With DNS rebinding, a page of another site could reach this address.
        EndpointSet::Operations => {
            origin::check(&parts.headers, &parts.uri, &state.options).is_ok()
        }
    };
    let (status, mut body) = readiness(state);
    if !has_details {
        body.retain(|(name, _)| *name == "status");
    }
    response::json(status, &body.into_iter().collect::<Value>())
}

/// Returns `true` if the request has a valid credential. A request above the rate limit of its client counts as a
/// request without a credential.
async fn has_user(state: &SharedState, parts: &Parts, client: Option<IpAddr>) -> bool {
    let client = client.map_or_else(Caller::anonymous, |it| Caller::anonymous().with_address(it));
    state.gateway.count_unauthenticated(&client).is_ok()
        && authenticate::caller(state, parts).await.is_ok_and(|caller| caller.user.is_some())
}

fn readiness(state: &SharedState) -> (StatusCode, Vec<(&'static str, Value)>) {
    let ReadinessState { status, check } = state.readiness.state();
    let degraded = check.and_then(|check| check.degraded());
    let (status, mut body) = match (status, degraded) {
        (ReadinessStatus::Starting, _) => {
            return (StatusCode::SERVICE_UNAVAILABLE, vec![("status", "starting".into())]);
        }
        (_, Some(Degraded { reason, details, credentials_accepted_for: Some(remaining) })) => {
            stale(&reason, details, remaining, state.options.require_auth)
        }
        (ReadinessStatus::Ready, None) => (StatusCode::OK, vec![("status", "ready".into())]),
        (ReadinessStatus::Ready, Some(degraded)) => {
            let reason = degraded.reason.into();
            (StatusCode::OK, vec![("status", "degraded".into()), ("reason", reason)])
        }
        (ReadinessStatus::Stale(reason), _) => {
            (StatusCode::OK, vec![("status", "stale".into()), ("reason", reason.into())])
        }
    };
    let (catalog, down) = (state.gateway.catalog(), state.gateway.upstreams_down());
    body.push(("tools", catalog.len().into()));
    body.push(("quarantined", catalog.quarantined().len().into()));
    if !down.is_empty() {
        let down = down.iter().map(AsRef::as_ref).collect::<Vec<&str>>();
        body.push(("upstreams_down", down.into()));
    }
    (status, body)
}

fn stale(
    reason: &str,
    details: Vec<(&'static str, u64)>,
    accepted_for: Duration,
    require_auth: bool,
) -> (StatusCode, Vec<(&'static str, Value)>) {
    let remaining = accepted_for.as_secs();
    let (status, tokens) = match (accepted_for.is_zero(), require_auth) {
        (false, _) => (
            StatusCode::OK,
            format!("tokens that were verified before are accepted for {remaining} s more"),
        ),
        (true, true) => (StatusCode::SERVICE_UNAVAILABLE, "all callers are refused".to_owned()),
        (true, false) => (StatusCode::OK, "callers with a token are refused".to_owned()),
    };
    let mut body =
        vec![("status", "stale".into()), ("reason", format!("{reason}; {tokens}").into())];
    body.extend(details.into_iter().map(|(name, value)| (name, value.into())));
    body.push(("token_grace_remaining_seconds", remaining.into()));
    (status, body)
}
