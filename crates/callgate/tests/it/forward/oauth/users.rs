//! Access tokens of users, requested with their stored credentials.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use callgate::forward::{
    CallOutcome, CredentialLocation, CredentialOptions, ForwardOptions, MissingCredential,
    UserGrant, header_name,
};
use callgate::upstream::{BoxFuture, CredentialError, Credentials, ReplaceStatus};
use callgate::{Caller, Secret};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{
    advance_clock, client, field, issuer, rotated_response, secret, service, token_response,
};
use crate::forward::credentials::user;
use crate::forward::{ForwardApp, options, without_error_id};
use callgate_test_support::fake_service::{FakeResponse, FakeService};

/// Credentials that can be replaced.
#[derive(Debug, Default)]
struct CredentialStore {
    stored: Mutex<HashMap<i64, Secret>>,
    /// Number of replacements that fail.
    failures: AtomicUsize,
}

impl CredentialStore {
    fn with(stored: &[(i64, &str)]) -> Arc<Self> {
        let store = Self::default();
        for (id, text) in stored {
            store.put(*id, text);
        }
        Arc::new(store)
    }

    fn put(&self, id: i64, text: &str) {
        self.stored.lock().unwrap().insert(id, secret(text));
    }

    fn get(&self, id: i64) -> String {
        self.stored.lock().unwrap()[&id].expose().to_owned()
    }
}

impl Credentials for CredentialStore {
    fn of<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>> {
        let stored = self.stored.lock().unwrap();
        let secret = caller.user.as_ref().and_then(|user| stored.get(&user.id)).cloned();
        Box::pin(std::future::ready(Ok(secret)))
    }

    fn replace<'a>(
        &'a self,
        caller: &'a Caller,
        old: &'a Secret,
        new: &'a Secret,
    ) -> BoxFuture<'a, Result<ReplaceStatus, CredentialError>> {
        Box::pin(async move {
            let fails = self
                .failures
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if fails.is_ok() {
                return Err("the vault is away".into());
            }
            let mut stored = self.stored.lock().unwrap();
            let current = stored.get_mut(&caller.user.as_ref().unwrap().id).unwrap();
            if current != old {
                return Ok(ReplaceStatus::Conflict);
            }
            *current = new.clone();
            Ok(ReplaceStatus::Stored)
        })
    }
}

fn credential_options(oauth: UserGrant, missing: MissingCredential) -> CredentialOptions {
    CredentialOptions {
        location: CredentialLocation::Header(header_name("Authorization").unwrap()),
        prefix: "Bearer ".to_owned(),
        missing,
        oauth: Some(oauth),
    }
}

fn options_of(
    issuer: &FakeService,
    service: &FakeService,
    grant: UserGrant,
    credentials: Arc<dyn Credentials>,
) -> ForwardOptions {
    let store = credentials;
    let credential = credential_options(grant, MissingCredential::Refuse);
    options(&service.url("/rpc")).oauth(client(issuer)).credential(credential, store).unwrap()
}

fn app_of(
    issuer: &FakeService,
    service: &FakeService,
    grant: UserGrant,
    store: &Arc<CredentialStore>,
) -> ForwardApp {
    app_with(issuer, service, grant, Arc::clone(store) as _)
}

fn app_with(
    issuer: &FakeService,
    service: &FakeService,
    grant: UserGrant,
    credentials: Arc<dyn Credentials>,
) -> ForwardApp {
    ForwardApp::with(options_of(issuer, service, grant, credentials))
}

async fn call_as(app: &ForwardApp, id: i64) -> Result<Value, String> {
    let caller = app.gateway.as_caller(user(id, "somebody"));
    let result = caller.call("order.get", json!({"id": 1})).await;
    result.map_err(|error| without_error_id(&error.to_string()))
}

/// Replies to the refresh token `NAME-1` with an access token and `NAME-2`. Refuses earlier refresh tokens.
async fn rotating_issuer() -> FakeService {
    let latest = Mutex::new(HashMap::new());
    FakeService::start(move |request| {
        let refresh = field(request, "refresh_token").unwrap();
        let (name, number) = refresh.split_once('-').unwrap();
        let number: u32 = number.parse().unwrap();
        let mut latest = latest.lock().unwrap();
        let current = latest.entry(name.to_owned()).or_insert(number);
        if *current != number {
            return FakeResponse::json(400, json!({"error": "invalid_grant"}));
        }
        *current += 1;
        FakeResponse::json(
            200,
            rotated_response(&format!("{name}-token-{current}"), &format!("{name}-{current}")),
        )
    })
    .await
}

fn stored(text: &str) -> (Value, Value) {
    let stored: Value = serde_json::from_str(text).unwrap();
    (stored["refresh_token"].clone(), stored["access_token"].clone())
}

#[tokio::test]
async fn two_users_never_share_a_token() {
    let (issuer, service) = (rotating_issuer().await, service().await);
    let store = CredentialStore::with(&[(7, "ada-1"), (8, "bob-1")]);
    let plain = options_of(&issuer, &service, UserGrant::RefreshToken, Arc::clone(&store) as _);
    let batch =
        options_of(&issuer, &service, UserGrant::RefreshToken, Arc::clone(&store) as _).batch();
    for options in [plain, batch] {
        let app = ForwardApp::with(options);
        let calls = (0..40).map(|number| call_as(&app, 7 + number % 2));
        for (number, sent) in join_all(calls).await.into_iter().enumerate() {
            let name = if number % 2 == 0 { "ada" } else { "bob" };
            assert_eq!(sent.unwrap(), format!("Bearer {name}-token-2"));
        }
    }
    // The second gateway used the tokens that the first one stored.
    assert_eq!(issuer.log.requests().len(), 2);
}

#[tokio::test]
async fn tokens_are_requested_with_a_users_own_client() {
    let (issuer, service) = (issuer().await, service().await);
    let store = CredentialStore::with(&[(7, "ada:s3cret"), (8, "nonsense")]);
    let app = app_of(&issuer, &service, UserGrant::ClientCredentials, &store);
    assert_eq!(call_as(&app, 7).await.unwrap(), "Bearer token-1");
    let requests = issuer.log.requests();
    assert_eq!(requests[0].headers["authorization"], "Basic YWRhOnMzY3JldA==");
    assert_eq!(requests[0].body, "grant_type=client_credentials");
    insta::assert_snapshot!(call_as(&app, 8).await.unwrap_err());
    // A replaced credential is used at once.
    store.put(7, "ada:other");
    assert_eq!(call_as(&app, 7).await.unwrap(), "Bearer token-2");
}

#[tokio::test]
async fn a_user_without_a_credential_does_not_get_the_upstreams_token() {
    let (issuer, service) = (issuer().await, service().await);
    let store = CredentialStore::with(&[]);
    let app = app_of(&issuer, &service, UserGrant::RefreshToken, &store);
    call_as(&app, 9).await.unwrap_err();
    assert_eq!(app.count(CallOutcome::NoCredential), 1);
    let credential = credential_options(UserGrant::RefreshToken, MissingCredential::Anonymous);
    let options = options(&service.url("/rpc")).oauth(client(&issuer));
    let app = ForwardApp::with(options.credential(credential, store).unwrap());
    assert_eq!(call_as(&app, 9).await.unwrap(), Value::Null);
    assert_eq!(issuer.log.requests().len(), 0);
}

#[tokio::test]
async fn a_credential_in_another_header_is_sent_beside_the_upstreams_token() {
    let issuer = issuer().await;
    let service = FakeService::start(|request| {
        request.result(json!([
            request.headers.get("authorization"),
            request.headers.get("x-user-key")
        ]))
    })
    .await;
    let credential = CredentialOptions {
        location: CredentialLocation::Header(header_name("X-User-Key").unwrap()),
        prefix: String::new(),
        missing: MissingCredential::Refuse,
        oauth: None,
    };
    let options = options(&service.url("/rpc")).oauth(client(&issuer));
    let app = ForwardApp::with(
        options.credential(credential, CredentialStore::with(&[(7, "key")])).unwrap(),
    );
    assert_eq!(call_as(&app, 7).await.unwrap(), json!(["Bearer token-1", "key"]));
}

#[tokio::test]
async fn a_rotated_refresh_token_is_stored_before_the_access_token_is_used() {
    let (issuer, store) = (rotating_issuer().await, CredentialStore::with(&[(7, "ada-1")]));
    let shared_store = Arc::clone(&store);
    let service = FakeService::start(move |request| request.result(shared_store.get(7))).await;
    let app = app_of(&issuer, &service, UserGrant::RefreshToken, &store);
    for number in [2, 3] {
        let result = call_as(&app, 7).await.unwrap();
        let (refresh, access) = stored(result.as_str().unwrap());
        assert_eq!(refresh, format!("ada-{number}"));
        assert_eq!(access, format!("ada-token-{number}"));
        advance_clock(95).await;
    }
}

#[tokio::test]
async fn a_rotated_refresh_token_that_cannot_be_stored_is_not_lost() {
    let (issuer, service) = (rotating_issuer().await, service().await);
    let store = CredentialStore::with(&[(7, "ada-1")]);
    store.failures.store(1, Ordering::SeqCst);
    let app = app_of(&issuer, &service, UserGrant::RefreshToken, &store);
    insta::assert_snapshot!(call_as(&app, 7).await.unwrap_err());
    assert_eq!(service.log.requests().len(), 0);
    advance_clock(2).await;
    assert_eq!(call_as(&app, 7).await.unwrap(), "Bearer ada-token-2");
    assert_eq!(stored(&store.get(7)).0, "ada-2");
    assert_eq!(issuer.log.requests().len(), 1);
}

#[tokio::test]
async fn a_dropped_call_does_not_lose_the_new_refresh_token() {
    let permits = Arc::new(Semaphore::new(0));
    let shared_permits = Arc::clone(&permits);
    let issuer = FakeService::start(move |_| {
        FakeResponse::json(200, rotated_response("token", "ada-2")).after(&shared_permits)
    })
    .await;
    let (service, store) = (service().await, CredentialStore::with(&[(7, "ada-1")]));
    let app = app_of(&issuer, &service, UserGrant::RefreshToken, &store);
    tokio::select! {
        _ = call_as(&app, 7) => panic!("there is no token yet"),
        () = issuer.log.wait_for_requests(1) => {}
    }
    permits.add_permits(1);
    assert_eq!(call_as(&app, 7).await.unwrap(), "Bearer token");
    assert_eq!(stored(&store.get(7)).0, "ada-2");
    assert_eq!(issuer.log.requests().len(), 1);
}

#[tokio::test]
async fn a_credential_that_was_replaced_meanwhile_is_not_overwritten() {
    let service = service().await;
    let store = CredentialStore::with(&[(7, "ada-1")]);
    let shared_store = Arc::clone(&store);
    let issuer = FakeService::start(move |request| {
        let refresh = field(request, "refresh_token").unwrap();
        if request.number == 0 {
            shared_store.put(7, "new");
        }
        FakeResponse::json(
            200,
            rotated_response(&format!("token-of-{refresh}"), &format!("{refresh}-2")),
        )
    })
    .await;
    let app = app_of(&issuer, &service, UserGrant::RefreshToken, &store);
    assert_eq!(call_as(&app, 7).await.unwrap(), "Bearer token-of-new");
    assert_eq!(stored(&store.get(7)).0, "new-2");
}

#[tokio::test]
async fn a_refresh_token_that_another_gateway_rotated_is_read_again() {
    let service = service().await;
    let store = CredentialStore::with(&[(7, "ada-1")]);
    let shared_store = Arc::clone(&store);
    let issuer = FakeService::start(move |request| {
        if request.number == 0 {
            shared_store.put(7, "ada-2");
            return FakeResponse::json(400, json!({"error": "invalid_grant"}));
        }
        assert_eq!(field(request, "refresh_token").unwrap(), "ada-2");
        FakeResponse::json(200, token_response("token", 100))
    })
    .await;
    let app = app_of(&issuer, &service, UserGrant::RefreshToken, &store);
    assert_eq!(call_as(&app, 7).await.unwrap(), "Bearer token");
    assert_eq!(issuer.log.requests().len(), 2);
}

#[tokio::test]
async fn gateways_with_a_shared_credential_store_do_not_invalidate_each_others_tokens() {
    let (issuer, service) = (rotating_issuer().await, service().await);
    let store = CredentialStore::with(&[(7, "ada-1")]);
    let first = app_of(&issuer, &service, UserGrant::RefreshToken, &store);
    let second = app_of(&issuer, &service, UserGrant::RefreshToken, &store);
    for _ in 0..5 {
        assert_eq!(call_as(&first, 7).await.unwrap(), "Bearer ada-token-2");
        assert_eq!(call_as(&second, 7).await.unwrap(), "Bearer ada-token-2");
    }
    assert_eq!(issuer.log.requests().len(), 1);
}

#[tokio::test]
async fn an_expired_credential_is_reported_to_its_user() {
    let issuer = FakeService::start(|_| {
        // The error of league/oauth2-server 8.
        FakeResponse::json(
            401,
            json!({"error": "invalid_request", "hint": "Token has been revoked"}),
        )
    })
    .await;
    let (service, store) = (service().await, CredentialStore::with(&[(7, "ada-1")]));
    let app = app_of(&issuer, &service, UserGrant::RefreshToken, &store);
    insta::assert_snapshot!(call_as(&app, 7).await.unwrap_err());
    // A credential that is set meanwhile is used at once, without a pause.
    store.put(7, "ada-9");
    call_as(&app, 7).await.unwrap_err();
    let sent: Vec<_> =
        issuer.log.requests().iter().map(|request| field(request, "refresh_token")).collect();
    assert_eq!(sent, [Some("ada-1".to_owned()), Some("ada-9".to_owned())]);
}

/// Stores replaced credentials, but still returns the first one, like a follower that lags behind.
#[derive(Debug)]
struct LaggingStore(Arc<CredentialStore>, Secret);

impl Credentials for LaggingStore {
    fn of<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>> {
        Box::pin(std::future::ready(Ok(Some(self.1.clone()))))
    }

    fn replace<'a>(
        &'a self,
        caller: &'a Caller,
        old: &'a Secret,
        new: &'a Secret,
    ) -> BoxFuture<'a, Result<ReplaceStatus, CredentialError>> {
        self.0.replace(caller, old, new)
    }
}

#[tokio::test]
async fn a_used_refresh_token_is_not_sent_again_while_the_store_lags_behind() {
    let (issuer, store) = (rotating_issuer().await, CredentialStore::with(&[(7, "ada-1")]));
    let refused = AtomicUsize::new(1);
    let service = FakeService::start(move |request| {
        if refused.swap(0, Ordering::SeqCst) > 0 {
            return FakeResponse::text(401, "text/html", "<h1>Who are you?</h1>");
        }
        request.result(json!(request.headers.get("authorization")))
    })
    .await;
    let lagging = Arc::new(LaggingStore(Arc::clone(&store), secret("ada-1")));
    let app = app_with(&issuer, &service, UserGrant::RefreshToken, lagging);
    for _ in 0..3 {
        assert_eq!(call_as(&app, 7).await.unwrap(), "Bearer ada-token-3");
    }
    let sent: Vec<_> =
        issuer.log.requests().iter().map(|request| field(request, "refresh_token")).collect();
    assert_eq!(sent, [Some("ada-1".to_owned()), Some("ada-2".to_owned())]);
}
