//! `oauth2-mock-server`: an authorization server, and a service that requires its access tokens.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::servers::{self, RunningProcess, SECRET};
use crate::fake::FakeService;
use crate::support::{Server, TestDirectory};
use crate::upstreams::directory_with_method;

/// A service that requires an access token, and refuses revoked ones.
struct ProtectedService {
    fake: FakeService,
    revoked: Arc<Mutex<Vec<String>>>,
}

impl ProtectedService {
    fn start() -> Self {
        let revoked: Arc<Mutex<Vec<String>>> = Arc::default();
        let shared = Arc::clone(&revoked);
        let fake = FakeService::start(move |request| match token(&request.head) {
            Some(token) if token.starts_with("ey") && !shared.lock().unwrap().contains(&token) => (
                200,
                json!({"jsonrpc": "2.0", "id": request.body["id"], "result": token}).to_string(),
            ),
            _ => (401, String::new()),
        });
        Self { fake, revoked }
    }

    fn revoke(&self, token: &str) {
        self.revoked.lock().unwrap().push(token.to_owned());
    }
}

/// Returns the token in the head of a request, in lower case.
fn token(head: &str) -> Option<String> {
    head.lines().find_map(|line| line.strip_prefix("authorization: bearer ")).map(str::to_owned)
}

fn configuration(service: &ProtectedService, authorization: &RunningProcess, keys: &str) -> String {
    format!(
        r#"
        [upstreams.default]
        url = "{}"

        [upstreams.default.oauth]
        token_url = "{}"
        client_id = "callgate"
        client_secret = {{ env = "OAUTH_SECRET" }}
        {keys}
        "#,
        service.fake.url("/rpc"),
        authorization.url("/token"),
    )
}

fn serve_with(dir: &TestDirectory, secret: &str) -> Server {
    dir.serve_with(&[("OAUTH_SECRET", secret)], &[])
}

/// Returns the token that was sent with a call, or the error message.
fn call(server: &Server, token: &str) -> Result<String, String> {
    let reply: Value = server.invoke(token, "item.get", &json!({"id": 7})).json();
    match reply["result"].as_str() {
        Some(result) => Ok(result.to_owned()),
        None => Err(reply["error"]["message"].as_str().unwrap().to_owned()),
    }
}

fn stop_and_read_log(server: Server) -> String {
    server.stop().1
}

#[test]
fn calls_use_an_access_token_that_is_renewed_after_a_refusal() {
    let (service, authorization) = (ProtectedService::start(), servers::authorization(3600));
    let keys = "scope = \"content:read\"";
    let dir = directory_with_method(&configuration(&service, &authorization, keys));
    let server = serve_with(&dir, SECRET);
    let first = call(&server, "").unwrap();
    assert_eq!(call(&server, "").unwrap(), first);
    service.revoke(&first);
    let second = call(&server, "").unwrap();
    assert_ne!(second, first);
    assert_eq!(call(&server, "").unwrap(), second);
    assert_eq!(service.fake.log.requests().len(), 5, "one request was sent again");
    let log = stop_and_read_log(server).to_lowercase();
    assert!(!log.contains(SECRET) && !log.contains(&first), "{log}");
}

#[test]
fn a_token_is_renewed_when_it_expires() {
    let (service, authorization) = (ProtectedService::start(), servers::authorization(2));
    let dir = directory_with_method(&configuration(&service, &authorization, ""));
    let server = serve_with(&dir, SECRET);
    let first = call(&server, "").unwrap();
    server.wait_until("there is another token", |server| call(server, "").unwrap() != first);
}

#[test]
fn a_refused_client_is_reported_to_callers_and_logged() {
    let (service, authorization) = (ProtectedService::start(), servers::authorization(3600));
    let dir = directory_with_method(&configuration(&service, &authorization, ""));
    let server = serve_with(&dir, "wrong-s3cret");
    let message = call(&server, "").unwrap_err();
    assert!(message.contains("does not accept Callgate's client id and secret"), "{message}");
    assert_eq!(service.fake.log.requests().len(), 0);
    let log = stop_and_read_log(server);
    assert!(log.contains("this is invalid_client"), "{log}");
    assert!(log.contains("(`invalid_client`)") && !log.contains("wrong-s3cret"), "{log}");
}

#[test]
fn a_refresh_token_in_a_file_is_replaced_after_its_use() {
    let (service, authorization) = (ProtectedService::start(), servers::authorization(3600));
    let keys = "refresh_token = { file = \"refresh.txt\" }";
    let dir = directory_with_method(&configuration(&service, &authorization, keys));
    dir.write("refresh.txt", "refresh-0\n");
    let server = serve_with(&dir, SECRET);
    let first = call(&server, "").unwrap();
    let path = dir.path("refresh.txt");
    let rotated = std::fs::read_to_string(&path).unwrap();
    assert_ne!(rotated, "refresh-0\n");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let log = stop_and_read_log(server);
    assert!(!log.contains(rotated.trim()), "{log}");
    // After a restart, the new token is used. The first one is invalid.
    service.revoke(&first);
    assert_ne!(call(&serve_with(&dir, SECRET), "").unwrap(), first);
}

#[test]
fn a_users_refresh_token_is_replaced_in_the_registry() {
    let (service, authorization) = (ProtectedService::start(), servers::authorization(3600));
    let keys = r#"
        [upstreams.default.credential]
        header = "Authorization"
        prefix = "Bearer "
        oauth = "refresh_token"
    "#;
    let dir = directory_with_method(&configuration(&service, &authorization, keys));
    dir.ok(&["user", "add", "ada"]);
    dir.ok(&["user", "add", "bob"]);
    dir.run_with(&["credential", "set", "ada", "default"], "refresh-of-ada\n").expect_success();
    let [ada, bob] = ["ada", "bob"].map(|user| dir.ok(&["token", "add", user]).trim().to_owned());
    let server = serve_with(&dir, SECRET);
    let first = call(&server, &ada).unwrap();
    let message = call(&server, &bob).unwrap_err();
    assert!(message.contains("there is none for you"), "{message}");
    let log = stop_and_read_log(server).to_lowercase();
    assert!(!log.contains("refresh-of-ada") && !log.contains(&first), "{log}");
    // Two other servers continue with the same token. One of them requests a new token with the new refresh token. The
    // other one finds that token, before or after its own refresh token is refused.
    let (server, other_server) = (serve_with(&dir, SECRET), serve_with(&dir, SECRET));
    assert_eq!(call(&server, &ada).unwrap(), first);
    assert_eq!(call(&other_server, &ada).unwrap(), first);
    service.revoke(&first);
    let second = call(&server, &ada).unwrap();
    assert_ne!(second, first);
    assert_eq!(call(&other_server, &ada).unwrap(), second);
    // The first refresh token is invalid, and the user gets a message about this.
    dir.run_with(&["credential", "set", "ada", "default"], "refresh-of-ada\n");
    server.wait_until("it counts", |server| call(server, &ada).is_err());
    let message = call(&server, &ada).unwrap_err();
    assert!(message.contains("your credential: it has expired or was revoked"), "{message}");
}

#[test]
fn an_import_uses_an_access_token() {
    let authorization = servers::authorization(3600);
    let fake = FakeService::start(|request| match token(&request.head) {
        Some(_) if request.target().starts_with("GET ") => (405, String::new()),
        Some(_) => {
            let method =
                json!({"name": "get_pet", "params": [], "result": {"name": "p", "schema": {}}});
            let info = json!({"title": "Pets", "version": "1"});
            let document = json!({"openrpc": "1.2.6", "info": info, "methods": [method]});
            (
                200,
                json!({"jsonrpc": "2.0", "id": request.body["id"], "result": document}).to_string(),
            )
        }
        None => (401, String::new()),
    });
    let service = ProtectedService { fake, revoked: Arc::default() };
    let dir = TestDirectory::new();
    dir.write("callgate.toml", &configuration(&service, &authorization, ""));
    dir.ok(&["migrate"]);
    let mut command = dir.command(&["import", "openrpc", "--upstream", "default"]);
    let output = command.env("OAUTH_SECRET", SECRET).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("1 added"), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn oauth_errors_are_reported_without_secrets() {
    let dir = TestDirectory::new();
    let allowed = "targets = \"shop.example\"\ndirectory = \".\"";
    dir.write("callgate.toml", &format!("[registry_upstreams]\n{allowed}\n"));
    dir.ok(&["migrate"]);
    let client = [
        "url=https://shop.example/rpc",
        "oauth.token_url=https://shop.example/token?key=s3cret",
        "oauth.client_id=callgate",
    ];
    let user = ["credential.header=Authorization", "credential.oauth=refresh_token"];
    let secret = ["oauth.client_secret=s3cret"];
    let mut errors = Vec::new();
    for keys in [
        &[][..],
        &[secret[0], "oauth.token_url=http://shop.example/token"],
        &[secret[0], "oauth.token_url=shop.example"],
        &[secret[0], "oauth.tokenurl=s3cret"],
        &[secret[0], "oauth.client_auth=body"],
        &[secret[0], "basic_user=ada", "basic_password=s3cret"],
        &[secret[0], "credential.header=Authorization"],
        &[secret[0], "url=wss://shop.example/rpc"],
    ] {
        let output = dir.run(&[&["upstream", "set", "shop"], &client[..], keys].concat());
        errors.push(output.failure().1);
    }
    let without_client =
        [&["upstream", "set", "shop", "url=https://shop.example/rpc"], &user[..]].concat();
    errors.push(dir.run(&without_client).failure().1);
    let errors = errors.join("\n");
    assert!(!errors.contains("s3cret"), "{errors}");
    insta::assert_snapshot!(errors);
    let refresh = [r#"oauth.refresh_token={"file":"refresh.txt"}"#];
    let arguments = [&["upstream", "set", "shop"], &client[..], &secret, &user, &refresh].concat();
    let output = dir.run(&arguments);
    assert!(
        output.0.status.success() && output.stderr().contains("a secret is better"),
        "{}",
        output.stderr()
    );
    let stdout = dir.ok(&["upstream", "show", "shop"]) + &dir.ok(&["upstream", "list"]);
    assert!(!stdout.contains("s3cret"), "{stdout}");
    insta::assert_snapshot!(stdout);
}
