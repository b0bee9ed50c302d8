//! aria2: lists its methods without signatures, takes parameters by position with its secret first, and replies to
//! errors with HTTP 400.

use serde_json::{Value, json};

use super::servers::{self, SECRET};
use super::{QUIET, assert_recovery_after_kill, call, dir};
use crate::support::{Server, TestDirectory};

fn configured(url: &str) -> TestDirectory {
    dir(&format!(
        r#"
        [upstreams.service]
        url = "{url}"
        params = "positional"
        first_params = [{{ env = "ARIA2_SECRET", prefix = "token:" }}]
        "#
    ))
}

/// Runs the program, with a secret.
fn run(dir: &TestDirectory, arguments: &[&str]) -> String {
    let output = dir.command(arguments).env("ARIA2_SECRET", SECRET).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn methods_of_aria2_are_imported_listed_and_called() {
    let aria2 = servers::aria2();
    let dir = configured(&aria2.url("/jsonrpc"));
    let import = ["import", "introspect", "--upstream", "service", "--section", "downloads"];
    let stdout = run(&dir, &import);
    let refused =
        "refused  system.multicall: it describes or calls other methods, and is never a tool\n";
    assert!(stdout.contains(refused), "{stdout}");
    assert!(run(&dir, &import).contains("nothing changed"));
    let methods = dir.exported();
    let safety = |id: &str| methods[id]["safety"].clone();
    assert_eq!(safety("aria2.getVersion"), "guessed_read_only");
    assert_eq!(safety("aria2.addUri"), "guessed_destructive");
    assert_eq!(safety("aria2.tellStatus"), "unknown", "not guessed where unsure");
    let server = dir.serve_with(&[("ARIA2_SECRET", SECRET)], &[]);
    assert!(server.tools("").is_empty(), "nobody was granted anything");
    dir.ok(&["user", "add", "anonymous", "--role", "anonymous"]);
    dir.ok(&["grant", "set", "--role", "anonymous", "downloads", "execute"]);
    server.wait_until("the tools are listed", |server| !server.tools("").is_empty());
    let tools = server.tools("");
    assert!(tools.len() >= 30 && tools.contains(&"aria2.addUri".to_owned()), "{tools:?}");
    assert!(!tools.iter().any(|name| name.starts_with("system.")), "{tools:?}");

    let version = server.invoke("", "aria2.getVersion", &json!({})).json();
    assert!(version["result"]["version"].is_string(), "{version}");
    // Another call returns the values that were set.
    let options = json!({"params": [{"max-concurrent-downloads": "3"}]});
    let changed = server.invoke("", "aria2.changeGlobalOption", &options).json();
    assert_eq!(changed, json!({"result": "OK"}));
    let (is_error, options) = call(&server, "aria2_getGlobalOption", &json!({}));
    let options: Value = serde_json::from_str(&options).unwrap();
    assert_eq!((is_error, &options["max-concurrent-downloads"]), (false, &json!("3")));
    let waiting = server.invoke("", "aria2.tellWaiting", &json!({"params": [0, 10, ["gid"]]}));
    assert_eq!(waiting.json(), json!({"result": []}));
}

#[test]
fn errors_of_aria2_with_http_400_reach_the_agent_without_the_secret() {
    let aria2 = servers::aria2();
    let dir = configured(&aria2.url("/jsonrpc"));
    run(&dir, &["import", "introspect", "--upstream", "service"]);
    let server = dir.serve_with(&[("ARIA2_SECRET", SECRET)], &[]);
    let (is_error, text) =
        call(&server, "aria2_tellStatus", &json!({"params": ["0123456789abcdef"]}));
    assert_eq!((is_error, text.as_str()), (true, "GID 0123456789abcdef is not found"));
    let reply = server.invoke("", "aria2.tellStatus", &json!({"params": "all"}));
    assert_eq!(reply.status, 400, "what is no list never leaves: {}", reply.body);
    let server_with_wrong_secret = dir.serve_with(&[("ARIA2_SECRET", "wr0ng")], &[]);
    let (is_error, text) = call(&server_with_wrong_secret, "aria2_getVersion", &json!({}));
    assert_eq!((is_error, text.as_str()), (true, "Unauthorized"));
    let (_, log) = server_with_wrong_secret.stop();
    assert!(!log.contains("wr0ng"), "{log}");
}

#[test]
fn calls_succeed_again_after_a_restart_of_aria2() {
    let mut aria2 = servers::aria2();
    let dir = configured(&aria2.url("/jsonrpc"));
    run(&dir, &["import", "introspect", "--upstream", "service"]);
    let server = dir.serve_with(&[QUIET, ("ARIA2_SECRET", SECRET)], &[]);
    assert_recovery_after_kill(&server, &mut aria2, "aria2_getVersion", &json!({}), "version");
}

#[test]
fn aria2_can_be_tried_without_configuration() {
    let aria2 = servers::aria2();
    let dir = TestDirectory::new();
    let url = aria2.url("/jsonrpc");
    let mut command = dir.command(&["try", &url, "--json", "--first-param-env", "ARIA2_TOKEN"]);
    command.env("ARIA2_TOKEN", format!("token:{SECRET}"));
    let server = Server::start(command);
    assert_eq!(server.start["found_by"], "system.listMethods");
    assert!(server.start["tools"].as_u64().unwrap() >= 30, "{}", server.start);
    let version = server.invoke("", "aria2.getVersion", &json!({})).json();
    assert!(version["result"]["version"].is_string(), "{version}");
}

#[test]
fn an_upstream_of_the_registry_sends_each_users_secret() {
    let aria2 = servers::aria2();
    let dir = dir("[registry_upstreams]\ntargets = \"127.0.0.1\"");
    dir.ok(&["method", "add", "aria2.getVersion", "--read-only", "--upstream", "service"]);
    let server = dir.serve_with(&[QUIET], &[]);
    dir.ok(&[
        "upstream",
        "set",
        "service",
        &format!("url={}", aria2.url("/jsonrpc")),
        "params=positional",
        "credential.first_param=true",
        "credential.prefix=token:",
    ]);
    let add_user = |name: &str, secret: Option<&str>| {
        dir.ok(&["user", "add", name]);
        if let Some(secret) = secret {
            dir.run_with(&["credential", "set", name, "service"], secret).expect_success();
        }
        dir.ok(&["token", "add", name]).trim().to_owned()
    };
    let (eve, bob) = (add_user("eve", None), add_user("bob", Some("wr0ng")));
    // Ada is added last. When the server knows her secret, it also knows all earlier changes.
    let ada = add_user("ada", Some(SECRET));
    let call = |token: &str| server.invoke(token, "aria2.getVersion", &json!({})).json();
    server.wait_until("ada is known there", |_| call(&ada)["result"]["version"].is_string());
    let call_count = |outcome: &str| {
        let labels = format!("{{upstream=\"service\",outcome=\"{outcome}\"}} ");
        let metrics = server.operations("/metrics").body;
        let line = metrics.lines().find_map(|line| line.split_once(&labels));
        line.unwrap_or_else(|| panic!("{outcome}: {metrics}")).1.parse::<u64>().unwrap()
    };
    let before = (call_count("error"), call_count("no_credential"));
    assert_eq!(call(&bob)["error"]["message"], "Unauthorized");
    let message = call(&eve)["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("there is none for you. Nothing was run"), "{message}");
    assert_eq!((call_count("error"), call_count("no_credential")), (before.0 + 1, before.1 + 1));
}
