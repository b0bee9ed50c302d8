//! An upstream as an OAuth client, with a token endpoint and a service that check tokens.

mod configured;
mod failures;
mod renewal;
mod users;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use callgate::Secret;
use callgate::forward::{ForwardOptions, OAuthClient};
use serde_json::{Value, json};

use crate::forward::{ForwardApp, options};
use callgate_test_support::fake_service::{FakeResponse, FakeService, ReceivedRequest};

pub(crate) const SECRET: &str = "s3cret of/callgate";

/// Returns a secret that only the client knows.
pub(crate) fn secret(text: &str) -> Secret {
    Secret::new(text).unwrap()
}

/// Returns a token response.
pub(crate) fn token_response(token: &str, expires_in: u64) -> Value {
    json!({"token_type": "Bearer", "access_token": token, "expires_in": expires_in})
}

/// Returns a token response with a new refresh token.
pub(crate) fn rotated_response(token: &str, refresh_token: &str) -> Value {
    let mut response = token_response(token, 100);
    response["refresh_token"] = refresh_token.into();
    response
}

/// Returns a field of a form.
pub(crate) fn field(request: &ReceivedRequest, name: &str) -> Option<String> {
    let form = request.body.as_str()?;
    let mut pairs = form.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
}

/// Issues `token-1`, `token-2` and so on, each for 100 seconds.
pub(crate) async fn issuer() -> FakeService {
    FakeService::start(|request| {
        FakeResponse::json(200, token_response(&format!("token-{}", request.number + 1), 100))
    })
    .await
}

/// Returns the reply with this result, to a call or to each call of a batch.
fn result(received: &ReceivedRequest, result: Value) -> FakeResponse {
    let Some(batch) = received.body.as_array() else { return received.result(result) };
    let reply = |call: &Value| json!({"jsonrpc": "2.0", "result": result, "id": call["id"]});
    FakeResponse::json(200, batch.iter().map(reply).collect::<Value>())
}

/// Starts a service that returns the token with which it was called.
pub(crate) async fn service() -> FakeService {
    FakeService::start(|request| result(request, json!(request.headers.get("authorization")))).await
}

/// Starts a service that accepts only these tokens.
pub(crate) async fn service_that_accepts(accepted: Arc<Mutex<Vec<String>>>) -> FakeService {
    FakeService::start(move |request| {
        let sent = request.headers.get("authorization").cloned().unwrap_or_default();
        if accepted.lock().unwrap().iter().any(|token| sent == format!("Bearer {token}")) {
            result(request, json!(sent))
        } else {
            FakeResponse::text(401, "text/html", "<h1>Who are you?</h1>")
        }
    })
    .await
}

pub(crate) fn client(issuer: &FakeService) -> OAuthClient {
    OAuthClient::new(&format!("http://{}/token?tenant=1", issuer.address))
        .unwrap()
        .client("call gate", Some(secret(SECRET)))
}

pub(crate) fn with_oauth(issuer: &FakeService, service: &FakeService) -> ForwardOptions {
    options(&service.url("/rpc")).oauth(client(issuer))
}

/// Returns the data that the service received with a call.
pub(crate) async fn call(app: &ForwardApp) -> Value {
    let (status, body) = app.invoke("order.get", json!({"id": 1})).await;
    assert_eq!(status, 200, "{body}");
    body["result"].clone()
}

/// Returns the message of a call that fails.
pub(crate) async fn call_error(app: &ForwardApp) -> String {
    let (text, is_error) = app.text("order_get", json!({"id": 1})).await;
    assert!(is_error, "{text}");
    text
}

/// Advances the clock by this time. The clock continues to run.
pub(crate) async fn advance_clock(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}
