//! Services that are defined by rows of the registry, set with `callgate upstream`.

use serde_json::{Value, json};

use super::fake::{FakeResponse, FakeService};
use super::support::{Server, TestDirectory};
use super::upstreams::{Service, directory_with_method};

/// The limits that the upstreams of these tests need.
const ALLOWED: &str = r#"
    [registry_upstreams]
    targets = "127.0.0.1, localhost, example.com"
    variables = "ITEMS_SECRET, OTHER, SHOP*, KEY, PASSWORD"
    directory = "."
"#;

/// Returns the message of a call that fails.
fn error_message(server: &Server) -> Option<String> {
    let reply = server.invoke("", "item.get", &json!({"id": 7})).json();
    reply["error"]["message"].as_str().map(ToOwned::to_owned)
}

fn set(dir: &TestDirectory, service: &Service, keys: &[&str]) {
    let url = format!("url=http://{}/jsonrpc", service.address);
    let first = r#"first_params=[{"env":"ITEMS_SECRET","prefix":"token:"}]"#;
    let arguments = ["upstream", "set", "default", &url, "params=positional", first];
    dir.ok(&[&arguments, keys].concat());
}

fn serve(dir: &TestDirectory) -> Server {
    dir.serve_with(&[("ITEMS_SECRET", "s3cret")], &[])
}

#[test]
fn upstreams_are_added_changed_and_removed_while_the_server_runs() {
    let (first, second) = (Service::start(), Service::start());
    let dir = directory_with_method(ALLOWED);
    let server = serve(&dir);
    let expected = "The service behind this tool is not configured. Nothing was run;";
    assert!(error_message(&server).is_some_and(|message| message.starts_with(expected)));
    set(&dir, &first, &[]);
    server.wait_until("it is there", |server| error_message(server).is_none());
    set(&dir, &second, &["headers.X-Team=blue"]);
    server.wait_until("it is elsewhere", |server| {
        error_message(server).is_none() && !second.requests().is_empty()
    });
    assert!(second.requests()[0].0.contains("x-team: blue"));
    dir.ok(&["upstream", "remove", "default"]);
    server.wait_until("it is gone", |server| error_message(server).is_some());
    let (_, log) = server.stop();
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn an_invalid_upstream_is_quarantined_and_others_are_served() {
    let service = Service::start();
    let dir = directory_with_method(ALLOWED);
    set(&dir, &service, &[]);
    dir.sql(
        "callgate.db",
        r#"INSERT INTO callgate_upstreams VALUES ('odd', '{"url":1}'), ('text', 'not JSON'),
            ('local', '{"url":"http://localhost/"}');
           INSERT INTO rpc_methods (rpc_method, upstream, exposed) VALUES ('odd.get', 'odd', 1)"#,
    );
    let server = serve(&dir);
    assert_eq!(error_message(&server), None);
    let reply = server.invoke("", "odd.get", &json!({}));
    let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("is invalid. Nothing was run"), "{message}");
    let (_, log) = server.stop();
    for expected in [
        "upstream `odd` is quarantined: `url`: expected a string",
        "upstream `text` is quarantined: its `config` is not a JSON object",
        "upstream `local` of the registry is ignored",
    ] {
        assert!(log.contains(expected), "{expected}: {log}");
    }
    assert!(
        dir.ok(&["upstream", "list"]).contains("quarantined: its `config` is not a JSON object")
    );
    let listed = dir.ok(&["upstream", "list", "--json"]);
    insta::assert_snapshot!(listed.replace(&service.address.to_string(), "ADDRESS"));
}

#[test]
fn an_upstream_of_the_file_overrides_that_of_the_registry() {
    let service = Service::start();
    let dir = directory_with_method(&format!(
        "{ALLOWED}[upstreams.default]\nurl = \"http://{}/\"\nparams = \"positional\"\n\
         first_params = [\"token:s3cret\"]\n",
        service.address
    ));
    let added = dir.run(&["upstream", "set", "default", "url=http://localhost:1/"]);
    assert!(
        added.stderr().contains("the configuration file also has an upstream `default`"),
        "{}",
        added.stderr()
    );
    let server = serve(&dir);
    assert_eq!(error_message(&server), None);
    assert!(server.stop().1.contains("upstream `default` of the registry is ignored"));
    let listed = dir.ok(&["upstream", "list", "--json"]);
    assert!(listed.contains("overridden by the upstream of the configuration file"), "{listed}");
}

#[test]
fn upstreams_are_set_shown_without_secrets_and_removed() {
    let dir = directory_with_method(ALLOWED);
    let configuration = json!({
        "url": "https://example.com/rpc?key=s3cret",
        "params": "positional",
        "headers": {"X-Key": "s3cret", "X-Other": {"env": "OTHER"}},
        "members": {"auth": "s3cret"},
        "first_params": ["s3cret", {"file": "first.txt"}],
        "basic_user": "gate",
        "basic_password": "s3cret",
    });
    let output = dir.run_with(&["upstream", "set", "default", "-"], &configuration.to_string());
    assert_eq!(output.stderr(), "set upstream `default`\n");
    dir.ok(&["upstream", "set", "default", "max_concurrent=5", "pass_caller.role=X-Role"]);
    dir.ok(&["upstream", "set", "default", "basic_user=", "basic_password=", "members.auth="]);
    let stdout = dir.ok(&["upstream", "show", "default"]);
    assert!(!stdout.contains("s3cret"), "{stdout}");
    let removed = dir.run(&["upstream", "remove", "default"]);
    insta::assert_snapshot!(format!("{stdout}{}", removed.stderr()));
}

#[test]
fn credentials_are_removed_with_their_upstream_and_a_new_host_is_noted() {
    let dir = directory_with_method(&format!(
        "{ALLOWED}[upstreams.filed]\nurl = \"http://localhost/\"\n"
    ));
    dir.ok(&["user", "add", "ada"]);
    let set =
        |name: &str, url: &str| dir.run(&["upstream", "set", name, &format!("url={url}")]).stderr();
    let note = "the server of the new URL now receives 1 credential of users";
    assert!(!set("shop", "http://localhost:1/rpc").contains("note"));
    for name in ["shop", "filed"] {
        dir.run_with(&["credential", "set", "ada", name], "s3cret").stdout();
    }
    for (url, is_noted) in [
        ("http://localhost:1/other?x=1", false),
        ("http://LOCALHOST:1/", false),
        ("http://example.com:1/", true),
        ("https://example.com:1/", true),
        (r#"{"env":"SHOP"}"#, true),
        (r#"{"env":"SHOP"}"#, false),
        (r#"{"env":"SHOP_2"}"#, true),
    ] {
        let stderr = set("shop", url);
        assert_eq!(stderr.contains(note), is_noted, "{url}: {stderr}");
    }
    set("filed", "http://example.com/");
    let stderr = dir.run(&["upstream", "remove", "filed"]).stderr();
    assert_eq!(stderr, "removed upstream `filed`\n", "it is the file's");
    let stderr = dir.run(&["upstream", "remove", "shop"]).stderr();
    assert_eq!(stderr, "removed upstream `shop`\nremoved 1 credential of users for `shop`\n");
    let listed = dir.ok(&["credential", "list"]);
    assert!(listed.contains("filed") && !listed.contains("shop"), "{listed}");
}

#[test]
fn a_secret_on_the_command_line_causes_a_note() {
    let dir = directory_with_method(ALLOWED);
    for (value, is_noted) in [
        ("url=http://localhost/?key=s3cret", true),
        ("url=http://localhost/rpc", false),
        (r#"url={"env":"SHOP?"}"#, false),
        ("basic_password=s3cret", true),
        (r#"basic_password={"env":"PASSWORD"}"#, false),
        ("headers.Authorization=Bearer s3cret", true),
        ("headers.X-Key=s3cret", true),
        ("headers.X-Key=", false),
        (r#"headers.X-Key={"env":"KEY","prefix":"Bearer "}"#, false),
        (r#"headers={"X-Key":"s3cret"}"#, true),
        (r#"headers={"X-Key":{"file":"key"}}"#, false),
        ("members.auth=s3cret", true),
        ("members.version=2", false),
        (r#"members={"auth":"s3cret"}"#, true),
        (r#"first_params=[{"env":"KEY"},"s3cret"]"#, true),
        (r#"first_params=[{"env":"KEY"},1]"#, false),
        ("max_concurrent=5", false),
    ] {
        let user = if value.starts_with("basic") { "basic_user=gate" } else { "basic_user=" };
        let base = ["upstream", "set", "shop", "url=http://localhost/", "params=positional", user];
        let output = dir.run(&[&base[..], &[value]].concat());
        assert!(output.0.status.success(), "{value}: {}", output.stderr());
        assert_eq!(
            output.stderr().contains("can see the command line"),
            is_noted,
            "{value}: {}",
            output.stderr()
        );
        dir.ok(&["upstream", "remove", "shop"]);
    }
}

#[test]
fn invalid_upstreams_are_not_stored() {
    let dir = directory_with_method(&format!(
        "{ALLOWED}[upstreams.filed]\nurl = \"http://localhost/\"\n"
    ));
    let mut errors = Vec::new();
    for arguments in [
        &["set", "x", "urll=http://localhost/"][..],
        &["set", "x", "url=ftp://s3cret/"],
        &["set", "x", "params=named"],
        &["set", "x", "http://localhost/"],
        &["set", "x", "url=http://localhost/", "headers=s3cret"],
        &["set", "x", "url={\"env\":\"CALLGATE_URL\"}"],
        &["set", "x", "url=http://localhost/", "credential.header=X", "credential.member=y"],
        &["set", "local", "url=http://localhost/"],
        &["show", "filed"],
        &["remove", "none"],
    ] {
        let output = dir.run(&[&["upstream"], arguments].concat());
        let (code, stderr) = output.failure();
        assert_eq!(code, 1);
        errors.push(format!("{}\n{stderr}\n", arguments.join(" ")));
    }
    insta::assert_snapshot!(errors.concat());
    assert_eq!(dir.ok(&["upstream", "list", "--json"]).lines().count(), 1);
}

#[test]
fn upstreams_in_the_registry_are_refused_unless_the_configuration_allows_them() {
    let service = Service::start();
    let dir = directory_with_method("");
    let url = format!("url=http://{}/jsonrpc", service.address);
    let first = r#"first_params=[{"env":"ITEMS_SECRET","prefix":"token:"}]"#;
    let set = ["upstream", "set", "default", &url, "params=positional", first, "ca_file=ca/a.pem"];
    let (_, stderr) = dir.run(&set).failure();
    insta::assert_snapshot!(stderr.replace(&service.address.to_string(), "ADDRESS"), @r#"
    callgate: upstream `default`: `registry_upstreams` in the configuration does not allow the target `ADDRESS`, the variable `ITEMS_SECRET`, the file `ca/a.pem`
    hint: set in the callgate.toml of every server that uses this registry:
    [registry_upstreams]
    targets = "ADDRESS"
    variables = "ITEMS_SECRET"
    directory = "ca"
    "#);
    // With the suggested lines, the command succeeds.
    let (_, lines) = stderr.split_once("registry:\n").unwrap();
    dir.write("callgate.toml", lines);
    dir.ok(&set);
    let keys = ["headers.X={\"file\":\"secret\"}", "oauth.token_url=http://localhost:2/"];
    let (_, stderr) = dir.run(&[&set[..], &keys].concat()).failure();
    assert!(
        stderr.contains(&format!("targets = \"{}, localhost:2\"", service.address)),
        "{stderr}"
    );
    assert!(
        stderr.contains("does not allow the target `localhost:2`, the file `secret`"),
        "{stderr}"
    );
}

/// Names and keys of rows, and a part of the reason why each is quarantined.
fn rows_beyond_the_limits(outside: &str) -> Vec<(&'static str, Value, &'static str)> {
    let url = "http://127.0.0.1:1/";
    vec![
        ("absolute", json!({"url": url, "headers": {"X": {"file": outside}}}), "the file"),
        ("passwd", json!({"url": url, "members": {"x": {"file": "/etc/passwd"}}}), "the file"),
        ("parent", json!({"url": url, "first_params": [{"file": "secrets/../outside"}]}), "file"),
        ("link", json!({"url": url, "headers": {"X": {"file": "secrets/link"}}}), "the file"),
        ("url_file", json!({"url": {"file": "outside"}}), "the file `outside`"),
        ("ca", json!({"url": url, "ca_file": "/etc/passwd"}), "the file `/etc/passwd`"),
        ("env", json!({"url": url, "headers": {"X": {"env": "HOME"}}}), "the variable `HOME`"),
        ("metadata", json!({"url": "http://169.254.169.254/"}), "the target `169.254.169.254:80`"),
        ("in_file", json!({"url": {"file": "secrets/url"}}), "target in the file `secrets/url`"),
        ("host", json!({"url": {"env": "ITEMS_SECRET", "prefix": "http://"}}), "`prefix` of `url`"),
        ("token", json!({"url": url, "pass_caller": {"token": "X-T"}}), "`pass_caller.token`"),
        (
            "large",
            json!({"url": "ws://127.0.0.1:1/", "max_result_bytes": u32::MAX}),
            "`max_result_bytes` can be at most 67108864",
        ),
        ("socket", json!({"url": "unix:/run/docker.sock"}), "target `unix:/run/docker.sock`"),
        ("ws", json!({"url": "wss://other.example/"}), "the target `other.example:443`"),
        (
            "oauth",
            json!({"url": url, "oauth": {"token_url": "http://10.0.0.1/", "client_id": "a",
                "client_secret": "b"}}),
            "the target `10.0.0.1:80`",
        ),
        (
            "path",
            json!({"url": url, "oauth": {"token_url": {"env": "ITEMS_SECRET", "prefix": url},
                "client_id": "a", "client_secret": "b"}}),
            "`prefix` of `token_url`",
        ),
        (
            "refresh",
            json!({"url": url, "oauth": {"token_url": url, "client_id": "a",
                "refresh_token": {"file": outside}}}),
            "the file",
        ),
    ]
}

/// A person who may write to the registry does not get access to the files, variables and addresses of the server.
#[test]
fn rows_beyond_the_limits_are_quarantined_and_others_work() {
    let service = Service::start();
    let dir = directory_with_method(ALLOWED);
    std::fs::create_dir(dir.path("secrets")).unwrap();
    dir.write("outside", "s3cret");
    dir.write("secrets/key", "k3y");
    dir.write("secrets/url", "http://s3cret.example/");
    std::os::unix::fs::symlink(dir.path("outside"), dir.path("secrets/link")).unwrap();
    set(&dir, &service, &[]);
    let allowed = ALLOWED.replace("\".\"", "\"secrets\"");
    dir.write("callgate.toml", &allowed);
    let outside = dir.path("outside").display().to_string();
    let rows = rows_beyond_the_limits(&outside);
    let valid = json!({"url": {"env": "ITEMS_SECRET", "prefix": "http://127.0.0.1:1/?key="},
        "headers": {"X": {"file": "secrets/key"}}, "max_result_bytes": 64 << 20});
    let entries = rows.iter().map(|(name, config, _)| (*name, config)).chain([("good", &valid)]);
    let values: Vec<String> =
        entries.map(|(name, config)| format!("('{name}', '{config}')")).collect();
    dir.sql("callgate.db", &format!("INSERT INTO callgate_upstreams VALUES {}", values.join(",")));
    let server = serve(&dir);
    assert_eq!(error_message(&server), None, "the others work");
    let (_, log) = server.stop();
    for (name, _, reason) in &rows {
        let line =
            log.lines().find(|line| line.contains(&format!("upstream `{name}` is quarantined")));
        assert!(line.is_some_and(|line| line.contains(reason)), "{name}: {line:?} {log}");
    }
    assert!(!log.contains("`good`") && !log.contains("s3cret"), "{log}");
    dir.ok(&["user", "add", "ada"]);
    let stderr = dir.run_with(&["credential", "set", "ada", "metadata"], "s3cret").stderr();
    assert!(stderr.contains("note: upstream `metadata` is quarantined: "), "{stderr}");
    let listed = dir.ok(&["upstream", "list"]);
    assert_eq!(
        listed.matches("quarantined: ").count(),
        rows.len() - 1,
        "a URL in a file is not read"
    );
}

/// An allowed token endpoint cannot write to the files of the server.
#[test]
fn rotated_refresh_tokens_of_rows_are_not_written_to_files() {
    let fake = FakeService::start(|request| match request.target() {
        "POST /token" => {
            let token = json!({"access_token": "access", "token_type": "Bearer",
                "refresh_token": "second"});
            FakeResponse::json(200, token)
        }
        _ => request.result(7),
    });
    let dir = directory_with_method(ALLOWED);
    dir.write("refresh", "first\n");
    let (url, token_url) = (fake.url("/rpc"), fake.url("/token"));
    dir.ok(&[
        "upstream",
        "set",
        "default",
        &format!("url={url}"),
        &format!("oauth.token_url={token_url}"),
        "oauth.client_id=callgate",
        r#"oauth.refresh_token={"file":"refresh"}"#,
    ]);
    let server = dir.serve(&[]);
    assert_eq!(error_message(&server), None);
    let log = fake.log.requests();
    assert!(log[0].body.as_str().unwrap().contains("refresh_token=first"), "{log:?}");
    assert_eq!(std::fs::read_to_string(dir.path("refresh")).unwrap(), "first\n");
    let (_, log) = server.stop();
    assert!(
        log.contains("rotated the refresh token, and the new token is only in memory"),
        "{log}"
    );
}

#[test]
fn the_login_of_a_row_is_restricted_and_hidden_like_other_secrets() {
    let dir = directory_with_method(ALLOWED);
    let set = |params: &str| {
        let params = format!("login.params={params}");
        let url = "url=http://127.0.0.1:9/";
        dir.run(&["upstream", "set", "default", url, "login.method=auth.login", &params])
    };
    for (params, allowed) in [
        (r#"[{"env":"SHOP_PASSWORD"}]"#, true),
        (r#"{"user":"ada","password":{"file":"password"}}"#, true),
        (r#"[{"env":"HOME"}]"#, false),
        (r#"{"password":{"file":"/etc/passwd"}}"#, false),
        (r#"[{"env":"CALLGATE_X"}]"#, false),
    ] {
        let output = set(params);
        assert_eq!(output.0.status.success(), allowed, "{params}: {}", output.stderr());
    }
    let stderr = set(r#"["s3cret"]"#).stderr();
    assert!(stderr.contains("other users of this machine can see the command line"), "{stderr}");
    let stdout = dir.ok(&["upstream", "show", "default", "--json"]);
    assert!(stdout.contains("auth.login") && !stdout.contains("s3cret"), "{stdout}");
}
