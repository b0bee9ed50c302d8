//! The credential of the calling user, instead of one for all users.

use std::collections::HashMap;
use std::sync::Arc;

use callgate::forward::{
    CallOutcome, CredentialLocation, CredentialOptions, Forward, ForwardOptions, Login,
    MissingCredential, header_name,
};
use callgate::model::{Method, ParamStyle};
use callgate::upstream::{BoxFuture, CredentialError, Credentials};
use callgate::{Caller, Callgate, Grants, Secret, User};
use serde_json::json;

use crate::forward::{ForwardApp, ada, options, without_error_id};
use callgate_test_support::fake_service::{FakeResponse, FakeService, ReceivedRequest};

/// The credentials of ada and bob. The credential of bob contains a line break. Other users have no credential.
#[derive(Debug)]
pub(crate) struct FixedCredentials(HashMap<i64, Secret>);

impl FixedCredentials {
    pub(crate) fn new() -> Arc<Self> {
        let secret = |text| Secret::new(text).unwrap();
        Arc::new(Self(HashMap::from([(7, secret("s3cret-of-ada")), (8, secret("a\nb"))])))
    }
}

impl Credentials for FixedCredentials {
    fn of<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>> {
        Box::pin(async {
            match &caller.user {
                Some(user) if user.id == 10 => Err("the vault is sealed".into()),
                Some(user) => Ok(self.0.get(&user.id).cloned()),
                None => Ok(None),
            }
        })
    }
}

pub(crate) fn user(id: i64, name: &str) -> Caller {
    Caller::user(User { id, name: name.to_owned(), role: None }, Grants::default())
}

fn bearer() -> CredentialOptions {
    CredentialOptions {
        location: CredentialLocation::Header(header_name("Authorization").unwrap()),
        prefix: "Bearer ".to_owned(),
        missing: MissingCredential::Refuse,
        oauth: None,
    }
}

fn app(options: ForwardOptions, credential: CredentialOptions) -> ForwardApp {
    ForwardApp::with(options.credential(credential, FixedCredentials::new()).unwrap())
}

fn echo(request: &ReceivedRequest) -> FakeResponse {
    request.result(request.body["params"].clone())
}

#[tokio::test]
async fn each_call_is_sent_with_the_callers_credential() {
    let fake = FakeService::start(echo).await;
    let app = app(options(&fake.url("/rpc")), bearer());
    app.gateway.as_caller(ada()).call("order.get", json!({"id": 1})).await.unwrap();
    let requests = fake.log.requests();
    assert_eq!(requests[0].headers["authorization"], "Bearer s3cret-of-ada");
    assert_eq!(requests[0].body["params"], json!({"id": 1}));
}

#[tokio::test]
async fn a_call_without_a_credential_is_not_sent() {
    let fake = FakeService::start(echo).await;
    let app = app(options(&fake.url("/rpc")), bearer());
    let mut errors = Vec::new();
    for caller in [Caller::anonymous(), user(9, "eve"), user(8, "bob"), user(10, "dan")] {
        let call = app.gateway.as_caller(caller).call("order.get", json!({"id": 1})).await;
        errors.push(without_error_id(&call.unwrap_err().to_string()));
    }
    insta::assert_debug_snapshot!(errors);
    assert_eq!(fake.log.requests().len(), 0);
    assert_eq!(app.count(CallOutcome::NoCredential), 4);
}

#[tokio::test]
async fn an_upstream_may_accept_callers_without_a_credential() {
    let fake = FakeService::start(echo).await;
    let app = app(
        options(&fake.url("/rpc")),
        CredentialOptions { missing: MissingCredential::Anonymous, ..bearer() },
    );
    for caller in [Caller::anonymous(), user(9, "eve"), ada()] {
        app.gateway.as_caller(caller).call("order.get", json!({"id": 1})).await.unwrap();
    }
    let requests = fake.log.requests();
    let sent: Vec<_> =
        requests.iter().map(|request| request.headers.get("authorization")).collect();
    assert_eq!(sent, [None, None, Some(&"Bearer s3cret-of-ada".to_owned())]);
}

#[tokio::test]
async fn a_credential_can_be_the_first_parameter_or_a_member() {
    let fake = FakeService::start(echo).await;
    let credential_at = |location, prefix: &str| CredentialOptions {
        location,
        prefix: prefix.to_owned(),
        ..bearer()
    };
    let positional = || options(&fake.url("/rpc")).params(ParamStyle::Positional);
    let first = credential_at(CredentialLocation::FirstParam, "token:");
    let apps = [
        app(positional(), first.clone()),
        app(positional().first_param(&json!("for all")), first),
        app(
            options(&fake.url("/rpc")),
            credential_at(CredentialLocation::Member("auth".to_owned()), ""),
        ),
    ];
    for app in &apps {
        app.gateway.as_caller(ada()).call("order.get", json!({"id": 1})).await.unwrap();
    }
    let requests = fake.log.requests();
    assert_eq!(requests[0].body["params"], json!(["token:s3cret-of-ada", 1]));
    assert_eq!(requests[1].body["params"], json!(["token:s3cret-of-ada", "for all", 1]));
    assert_eq!(requests[2].body["auth"], "s3cret-of-ada");
    assert!(requests.iter().all(|request| !request.headers.contains_key("authorization")));
}

#[tokio::test]
async fn a_credential_as_first_parameter_is_an_error_if_parameters_are_named() {
    let fake = FakeService::start(|request| request.result("token")).await;
    let positional = || options(&fake.url("/rpc")).params(ParamStyle::Positional);
    let (location, method) = (CredentialLocation::FirstParam, Some("log.in".to_owned()));
    let login = Login { location: Some(location.clone()), method, ..Login::default() };
    let credential = CredentialOptions { location, ..bearer() };
    for options in [
        positional().first_param(&json!("for all")),
        positional().credential(credential, FixedCredentials::new()).unwrap(),
        positional().login(login).unwrap(),
    ] {
        let method = Method::new("order.get".parse().unwrap()).upstream("shop");
        let gateway = Callgate::builder()
            .upstream("shop", Forward::new("shop", options).unwrap())
            .upstream_methods([method.param_style(ParamStyle::Named)])
            .build()
            .unwrap();
        let error = gateway.as_caller(ada()).call("order.get", json!({})).await.unwrap_err();
        insta::allow_duplicates! {
            insta::assert_snapshot!(
                without_error_id(&error.to_string()),
                @"The service behind this tool needs a credential as the first parameter, but the parameters of this tool are sent by name. Nothing was run; an administrator has to fix it."
            );
        }
    }
    assert!(fake.log.requests_for("order.get").is_empty());
}

#[tokio::test]
async fn a_rejected_credential_of_a_user_is_reported_to_the_user() {
    let fake = FakeService::start(|_| FakeResponse::text(401, "text/plain", "no")).await;
    let app = app(options(&fake.url("/rpc")), bearer());
    let refused = app.gateway.as_caller(ada()).call("order.get", json!({"id": 1})).await;
    insta::assert_snapshot!(
        without_error_id(&refused.unwrap_err().to_string()),
        @"The service behind this tool does not accept your credential (HTTP 401): it may have expired or been revoked. An administrator has to set a new one. The service's response is in Callgate's log."
    );
    assert_eq!(app.count(CallOutcome::Refused), 1);
}

#[test]
fn a_credential_cannot_replace_another_option() {
    let url = "http://localhost/";
    let member =
        CredentialOptions { location: CredentialLocation::Member("auth".to_owned()), ..bearer() };
    let reserved =
        CredentialOptions { location: CredentialLocation::Member("params".to_owned()), ..bearer() };
    let prefix = CredentialOptions { prefix: "a\nb".to_owned(), ..bearer() };
    let credentials = || FixedCredentials::new() as Arc<dyn Credentials>;
    let problems = [
        options(url).basic("a", "b").unwrap().credential(bearer(), credentials()),
        options(url).credential(bearer(), credentials()).unwrap().basic("a", "b"),
        options(url).member("auth", &json!(1)).unwrap().credential(member.clone(), credentials()),
        options(url).credential(member, credentials()).unwrap().member("auth", &json!(1)),
        options(url).credential(reserved, credentials()),
        options(url).credential(prefix, credentials()),
    ];
    let problems: Vec<String> =
        problems.into_iter().map(|problem| problem.unwrap_err().to_string()).collect();
    insta::assert_debug_snapshot!(problems);
    let first = CredentialOptions { location: CredentialLocation::FirstParam, ..bearer() };
    let named = options(url).credential(first, credentials()).unwrap();
    assert!(Forward::new("x", named).is_err(), "parameters are sent by name");
}
