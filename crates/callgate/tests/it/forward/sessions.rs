//! Logins whose cookie or token is sent with all calls, for services such as Deluge, Zabbix and Transmission.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use callgate::forward::{
    CallOutcome, CredentialLocation, Forward, ForwardLimits, ForwardOptions, Login, OAuthClient,
    header_name,
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::forward::{ForwardApp, limits, options};
use crate::log::capture_logs;
use callgate_test_support::fake_service::{FakeResponse, FakeService, ReceivedRequest};

const PASSWORD: &str = "s3cret-password";

fn with_login(fake: &FakeService, login: Login, params: &Value) -> ForwardOptions {
    options(&fake.url("/json")).login(Login { params: params.clone(), ..login }).unwrap()
}

fn method(name: &str) -> Login {
    Login { method: Some(name.to_owned()), ..Login::default() }
}

fn header(name: &str) -> CredentialLocation {
    CredentialLocation::Header(header_name(name).unwrap())
}

/// Returns a reply in the format of JSON-RPC 1.x.
fn reply(request: &ReceivedRequest, result: &Value, error: &Value) -> FakeResponse {
    FakeResponse::json(200, json!({"result": result, "error": error, "id": request.body["id"]}))
}

/// Starts a service with a cookie. Only the cookie of the last login is valid.
async fn deluge(logins: &Arc<AtomicUsize>) -> FakeService {
    let logins = Arc::clone(logins);
    FakeService::start(move |request| {
        let cookie = |number: usize| format!("_session_id=session-{number}");
        if request.method() == "auth.login" && request.body["params"] == json!([PASSWORD]) {
            let number = logins.fetch_add(1, Ordering::SeqCst) + 1;
            let cookie = format!("{}; Expires=Tue, 17 Nov 2026; Path=/json", cookie(number));
            reply(request, &json!(true), &Value::Null).with("Set-Cookie", cookie)
        } else if request.method() == "auth.login" {
            reply(request, &json!(false), &Value::Null)
        } else if request.header("cookie") == Some(&*cookie(logins.load(Ordering::SeqCst))) {
            reply(request, &request.body["params"]["id"], &Value::Null)
        } else {
            reply(request, &Value::Null, &json!({"message": "Not authenticated", "code": 1}))
        }
    })
    .await
}

#[tokio::test]
async fn concurrent_calls_log_in_once_and_send_the_cookie() {
    let fake = deluge(&Arc::default()).await;
    let app = ForwardApp::with(with_login(&fake, method("auth.login"), &json!([PASSWORD])));
    let calls = (0..10).map(|id| app.invoke("order.get", json!({"id": id})));
    let results: Vec<Value> = join_all(calls).await.into_iter().map(|(_, it)| it).collect();
    let expected: Vec<Value> = (0..10).map(|id| json!({"result": id})).collect();
    assert_eq!(results, expected);
    assert_eq!(fake.log.requests_for("auth.login").len(), 1);
}

#[tokio::test]
async fn a_session_that_has_ended_is_renewed_and_the_call_runs_once() {
    let logins = Arc::default();
    let fake = deluge(&logins).await;
    let app = ForwardApp::with(with_login(&fake, method("auth.login"), &json!([PASSWORD])));
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.0, 200);
    // The session of the gateway is no longer the last one.
    logins.fetch_add(1, Ordering::SeqCst);
    let calls = (0..5).map(|id| app.invoke("order.delete", json!({"id": id})));
    assert!(join_all(calls).await.iter().all(|(status, _)| *status == 200));
    assert_eq!(fake.log.requests_for("auth.login").len(), 2);
    let deletions = fake.log.requests_for("order.delete");
    let accepted =
        deletions.iter().filter(|it| it.header("cookie") == Some("_session_id=session-3"));
    assert_eq!((deletions.len(), accepted.count()), (10, 5));
    assert_eq!(app.retries(), 5);
}

#[tokio::test(flavor = "current_thread")]
async fn a_refused_login_is_reported_and_not_repeated_for_each_call() {
    let (log, _guard) = capture_logs();
    let fake = deluge(&Arc::default()).await;
    let app = ForwardApp::with(with_login(&fake, method("auth.login"), &json!(["wr0ng-password"])));
    let mut message = String::new();
    for _ in 0..30 {
        message = app.text("order_delete", json!({"id": 1})).await.0;
    }
    insta::assert_snapshot!(message, @"The service behind this tool does not accept Callgate's login. Nothing was run; an administrator has to fix it. (error id ID)");
    assert!(fake.log.requests_for("order.delete").is_empty());
    assert_eq!(app.count(CallOutcome::NoToken), 30);
    // There is more than one login only if the calls take seconds.
    let (logins, log) = (fake.log.requests().len(), log.text());
    assert!(logins < 15, "{logins}");
    let reports = log.lines().filter(|it| it.contains(" WARN ") && it.contains("failed to log in"));
    assert_eq!(reports.count(), logins, "{log}");
    assert!(log.contains("failed to log in: the service refused the login"), "{log}");
    assert!(!log.contains("wr0ng-password"), "{log}");
}

#[tokio::test]
async fn a_login_that_times_out_is_not_repeated_for_each_call() {
    let fake = FakeService::start(|_| FakeResponse::hang()).await;
    let options = with_login(&fake, method("auth.login"), &json!([PASSWORD]));
    let timeout = Duration::from_millis(200);
    let app = ForwardApp::with(options.limits(ForwardLimits { timeout, ..limits() }));
    for _ in 0..30 {
        let (text, _) = app.text("order_delete", json!({"id": 1})).await;
        assert!(text.contains("Nothing was run"), "{text}");
    }
    // There is more than one login only if the calls take seconds.
    let logins = fake.log.requests().len();
    assert!(logins < 15, "{logins}");
}

#[tokio::test]
async fn a_dropped_call_does_not_abort_the_login_that_other_calls_wait_for() {
    let permits = Arc::new(Semaphore::new(0));
    let fake = FakeService::start({
        let permits = Arc::clone(&permits);
        move |request| match request.method() {
            "auth.login" => {
                reply(request, &json!(true), &Value::Null).with("Set-Cookie", "a=b").after(&permits)
            }
            _ => request.result(1),
        }
    })
    .await;
    let app = ForwardApp::with(with_login(&fake, method("auth.login"), &json!([PASSWORD])));
    tokio::select! {
        _ = app.invoke("order.delete", json!({"id": 1})) => panic!("the login has not ended"),
        () = fake.log.wait_for_requests(1) => {}
    }
    permits.add_permits(10);
    assert_eq!(app.invoke("order.delete", json!({"id": 1})).await.1, json!({"result": 1}));
    assert_eq!(fake.log.requests_for("auth.login").len(), 1);
}

#[tokio::test]
async fn a_service_that_refuses_each_session_does_not_cause_a_login_per_call() {
    let fake = FakeService::start(|request| match request.method() {
        "auth.login" => reply(request, &json!(true), &Value::Null).with("Set-Cookie", "a=bcde"),
        _ => reply(request, &Value::Null, &json!({"message": "Not authenticated", "code": 1})),
    })
    .await;
    let app = ForwardApp::with(with_login(&fake, method("auth.login"), &json!([PASSWORD])));
    for _ in 0..30 {
        let (text, _) = app.text("order_delete", json!({"id": 1})).await;
        assert_eq!(text, "Not authenticated");
    }
    // There are more than two logins only if the calls take seconds.
    let logins = fake.log.requests_for("auth.login").len();
    assert!(logins < 15, "{logins}");
}

/// A service with a token, and a method that must be called without the token.
#[tokio::test]
async fn an_error_of_a_method_is_not_treated_as_a_refused_session() {
    let fake = FakeService::start(|request| match request.method() {
        "auth.login" => reply(request, &json!(true), &Value::Null).with("Set-Cookie", "session=1"),
        _ => {
            let message = "You are not authorized to delete item 7";
            reply(request, &Value::Null, &json!({"message": message, "code": 1}))
        }
    })
    .await;
    let app = ForwardApp::with(with_login(&fake, method("auth.login"), &json!(["x"])));
    let (text, _) = app.text("order_delete", json!({"id": 1})).await;
    assert_eq!(text, "You are not authorized to delete item 7");
    assert_eq!(fake.log.requests().len(), 2, "the method ran once");
}

async fn zabbix() -> FakeService {
    FakeService::start(|request| {
        let refused = |data: &str| {
            request.error(200, json!({"code": -32602, "message": "Invalid params.", "data": data}))
        };
        match (request.method(), request.header("authorization")) {
            ("user.login", None) if request.body["params"]["password"] == PASSWORD => {
                request.result(format!("token-{}", request.number))
            }
            ("user.login", _) => refused(&format!("Incorrect user name or password {PASSWORD}?")),
            ("order.get", None) => request.result("7.0.0"),
            ("order.get", _) => refused("The method must be called without authorization header."),
            (_, Some("Bearer token-0")) if request.number > 2 => {
                refused("Session terminated, re-login, please.")
            }
            (_, Some(token)) if token.starts_with("Bearer token-") => request.result(true),
            _ => refused("Not authorised."),
        }
    })
    .await
}

#[tokio::test]
async fn a_token_is_sent_with_all_methods_except_those_without_credential() {
    let fake = zabbix().await;
    let login = Login {
        location: Some(header("Authorization")),
        prefix: "Bearer ".to_owned(),
        ..method("user.login")
    };
    let params = json!({"username": "Admin", "password": PASSWORD});
    let mut options = with_login(&fake, login, &params);
    options.without_credential = vec!["order.get".to_owned()];
    let app = ForwardApp::with(options);
    for _ in 0..3 {
        assert_eq!(app.invoke("order.delete", json!({"id": 1})).await.1, json!({"result": true}));
        assert_eq!(app.invoke("order.get", json!({"id": 1})).await.1, json!({"result": "7.0.0"}));
    }
    assert_eq!(fake.log.requests_for("user.login").len(), 2, "the first session has ended");
    assert_eq!(fake.log.requests_for("order.get").len(), 3);
}

#[tokio::test]
async fn no_part_of_the_credential_is_sent_with_methods_without_credential() {
    let fake = FakeService::start(|request| request.result(1)).await;
    let mut options = options(&fake.url("/"))
        .basic("gate", PASSWORD)
        .unwrap()
        .member("auth", &json!(PASSWORD))
        .unwrap()
        .header("X-Team", "blue")
        .unwrap();
    options.without_credential = vec!["order.get".to_owned()];
    let app = ForwardApp::with(options);
    app.invoke("order.get", json!({"id": 1})).await;
    app.invoke("order.delete", json!({"id": 1})).await;
    let [without, with] = &fake.log.requests()[..] else { panic!("two requests") };
    assert_eq!((without.header("authorization"), without.header("x-team")), (None, Some("blue")));
    assert!(without.body.get("auth").is_none());
    assert!(with.header("authorization").is_some() && with.body["auth"] == PASSWORD);
}

#[tokio::test(flavor = "current_thread")]
async fn the_reason_for_a_refused_login_is_logged_without_the_password() {
    let (log, _guard) = capture_logs();
    let fake = zabbix().await;
    let login = Login { location: Some(header("Authorization")), ..method("user.login") };
    let params = json!({"username": "Admin", "password": format!("{PASSWORD}?")});
    let app = ForwardApp::with(with_login(&fake, login, &params));
    app.text("order_delete", json!({"id": 1})).await;
    let log = log.text();
    assert!(log.contains("Invalid params. Incorrect user name or password …"), "{log}");
    assert!(!log.contains(PASSWORD), "{log}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_numeric_password_is_not_logged() {
    let (log, _guard) = capture_logs();
    let fake = FakeService::start(|request| {
        let message =
            format!("PIN {} of user {}", request.body["params"][1], request.body["params"][0]);
        request.error(200, json!({"code": 1, "message": message}))
    })
    .await;
    let app = ForwardApp::with(with_login(&fake, method("log.in"), &json!([7, 48_151_623])));
    app.text("order_delete", json!({"id": 1})).await;
    let log = log.text();
    assert!(log.contains("refused the login: PIN … of user 7"), "{log}");
}

#[tokio::test]
async fn a_session_id_in_the_header_of_a_409_is_sent_with_later_requests() {
    let fake = FakeService::start(|request| {
        let expected = if request.number < 4 { "first" } else { "second" };
        if request.header("x-transmission-session-id") == Some(expected) {
            return request.result(request.body["params"]["id"].clone());
        }
        FakeResponse::text(409, "text/html", "<h1>409: Conflict</h1>")
            .with("X-Transmission-Session-Id", expected)
    })
    .await;
    let login = Login { location: Some(header("X-Transmission-Session-Id")), ..Login::default() };
    let app = ForwardApp::with(options(&fake.url("/rpc")).login(login).unwrap());
    for id in 0..6 {
        let reply = app.invoke("order.delete", json!({"id": id})).await.1;
        assert_eq!(reply, json!({"result": id}));
    }
    assert_eq!((fake.log.requests().len(), app.retries()), (8, 2));
}

#[tokio::test]
async fn a_login_can_be_a_request_to_another_path() {
    let fake = FakeService::start(|request| match request.target() {
        "POST /login" => FakeResponse::json(200, json!({"session": {"id": "abcd"}})),
        _ => request.result(request.body["auth"].clone()),
    })
    .await;
    let login = Login {
        path: Some("/login".to_owned()),
        location: Some(CredentialLocation::Member("auth".to_owned())),
        token: "/session/id".to_owned(),
        ..Login::default()
    };
    let app = ForwardApp::with(with_login(&fake, login, &json!({"password": PASSWORD})));
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.1, json!({"result": "abcd"}));
    assert_eq!(fake.log.requests()[0].body, json!({"password": PASSWORD}));
}

#[tokio::test]
async fn a_login_response_without_a_cookie_or_token_is_an_error() {
    let fake = FakeService::start(|request| request.result(json!({"id": 7}))).await;
    let app = ForwardApp::with(with_login(&fake, method("log.in"), &json!([])));
    let token = Login { location: Some(header("X-Token")), ..method("log.in") };
    let other = ForwardApp::with(with_login(&fake, token, &json!([])));
    for app in [app, other] {
        let (text, _) = app.text("order_delete", json!({"id": 1})).await;
        assert!(text.contains("does not accept Callgate's login"), "{text}");
    }
    let unreachable = callgate_test_support::fake_service::unused_address().await;
    let options = options(&format!("http://{unreachable}/")).login(method("log.in")).unwrap();
    let (text, _) = ForwardApp::with(options).text("order_delete", json!({"id": 1})).await;
    assert!(text.contains("cannot be reached. Nothing was run"), "{text}");
}

#[test]
fn invalid_login_options_are_rejected() {
    let new = |url: &str, login: Login| ForwardOptions::new(url.parse().unwrap()).login(login);
    let (url, oauth) = ("http://localhost/", OAuthClient::new("http://localhost/").unwrap());
    let mut errors = String::new();
    for options in [
        new(url, Login::default()),
        new("ws://localhost/", method("log.in")),
        new(url, Login { path: Some("login".to_owned()), ..Login::default() }),
        new(url, method("log.in")).and_then(|it| it.header("Cookie", "a=b")),
        new(url, method("log.in")).map(|it| it.oauth(oauth.client("a", None))),
        new(url, Login { location: Some(CredentialLocation::FirstParam), ..method("log.in") }),
    ] {
        errors.push_str(&Forward::new("shop", options.unwrap()).unwrap_err().to_string());
        errors.push('\n');
    }
    insta::assert_snapshot!(errors, @r#"
    `login` needs `method`, `path`, or the `header` that the service sends
    `login` cannot be used with WebSocket: an open connection cannot get a new session
    `path` of `login` must be a path such as `/login`
    `login` sends a header that `headers` or `basic_user` also sets
    `login` and `oauth` cannot be combined
    first parameters need `params = "position"` or `"position-null"`
    "#);
}
