//! `visibility = "upstream"`: each user sees the methods that the service lists for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::drupal_site::{Site, recorded_tools};
use super::support::{Server, TestDirectory};

/// Returns the recorded site with two users. Bob can lose most of his permissions.
fn site(is_bob_restricted: &Arc<AtomicBool>) -> Site {
    let (site, is_bob_restricted) = (Site::start(), Arc::clone(is_bob_restricted));
    site.rule(move |request| {
        let user =
            request.head.lines().find_map(|line| line.strip_prefix("authorization: bearer "));
        match (request.target(), user) {
            ("GET /mcp/tools/list", Some("bob")) if is_bob_restricted.load(Ordering::SeqCst) => {
                let list = json!({"tools": [{"name": "probe.echo"}], "nextCursor": null});
                Some((200, list.to_string()).into())
            }
            ("POST /jsonrpc", Some(_)) => {
                let reply = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": user});
                Some((200, reply.to_string()).into())
            }
            _ => None,
        }
    });
    site
}

/// Imports the methods that ada sees at the site. Ada and bob have credentials, eve has none.
fn dir(site: &Site, visibility: &str) -> (TestDirectory, [String; 3]) {
    let dir = TestDirectory::new();
    dir.write(
        "callgate.toml",
        &format!(
            r#"
            [upstreams.drupal]
            url = "{}/jsonrpc"
            {visibility}

            [upstreams.drupal.credential]
            header = "Authorization"
            prefix = "Bearer "
            "#,
            site.url()
        ),
    );
    dir.ok(&["migrate"]);
    let header = ["--header-env", "Authorization=SITE"];
    let import = ["import", "drupal", &site.url(), "--upstream", "drupal"];
    let mut import = dir.command(&[&import[..], &header].concat());
    let output = import.env("SITE", "Bearer ada").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tokens = ["ada", "bob", "eve"].map(|user| {
        dir.ok(&["user", "add", user]);
        // The sections that tools with scopes require.
        for section in ["content", "tutorial", "tutorial:search", "user"] {
            dir.ok(&["grant", "set", "--user", user, section, "write"]);
        }
        if user != "eve" {
            let set = ["credential", "set", user, "drupal"];
            dir.run_with(&set, &format!("{user}\n")).expect_success();
        }
        dir.ok(&["token", "add", user]).trim().to_owned()
    });
    (dir, tokens)
}

/// Returns the ids of the methods that the registry serves.
fn served_ids(dir: &TestDirectory) -> Vec<String> {
    let stdout = dir.ok(&["method", "list", "--json"]);
    let rows = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let tools = rows.filter(|row| row["state"] == "tool");
    tools.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

/// Returns the names of all tools that a user sees over MCP.
fn listed_tools(server: &Server, token: &str) -> Vec<String> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let reply = server.request("POST /mcp", token, &body.to_string()).json();
    let tools = reply["result"]["tools"].as_array().unwrap_or_else(|| panic!("{reply}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_user_sees_only_methods_that_the_site_lists_for_that_user() {
    let is_bob_restricted = Arc::new(AtomicBool::new(false));
    let site = site(&is_bob_restricted);
    let options =
        "visibility = \"upstream\"\ndescribed_by = \"jsonrpc_mcp\"\nvisibility_seconds = 1";
    let (dir, [ada, bob, eve]) = dir(&site, options);
    let server = dir.serve(&[]);
    let served_ids = served_ids(&dir);
    let count = served_ids.len();
    assert_eq!(listed_tools(&server, &ada).len(), count);
    assert_eq!(served_ids.len(), 86);
    let bob_tools = recorded_tools("bob-bearer");
    assert_eq!((bob_tools.len(), server.tools(&bob)), (25, bob_tools));
    assert_eq!(listed_tools(&server, &eve).len(), 0);
    assert_eq!(listed_tools(&server, "").len(), 0);

    let hidden = server.invoke(&bob, "probe.adminOnly", &json!({}));
    assert_eq!((hidden.status, &hidden.json()["error"]["code"]), (404, &json!("tool_not_found")));
    assert_eq!(server.invoke(&ada, "probe.adminOnly", &json!({})).json()["result"], "ada");

    is_bob_restricted.store(true, Ordering::SeqCst);
    server.wait_until("bob sees fewer", |server| listed_tools(server, &bob) == ["probe_echo"]);
    assert_eq!(listed_tools(&server, &ada).len(), count);
    let (_, log) = server.stop();
    let reason = "denied: the service `drupal` does not list the method for `bob`";
    assert!(log.contains(reason), "{log}");
    assert!(!log.contains("bearer bob"), "{log}");
}

#[test]
fn a_method_is_shown_with_the_decision_of_the_service() {
    let site = site(&Arc::default());
    let options = "visibility = \"upstream\"\ndescribed_by = \"jsonrpc_mcp\"";
    let (dir, _) = dir(&site, options);
    let decision = |id: &str, caller: &str| {
        let stdout = dir.ok(&["method", "show", id, "--user", caller, "--json"]);
        let stdout: Value = serde_json::from_str(&stdout).unwrap();
        stdout["decision"].as_str().unwrap().to_owned()
    };
    let mut decisions = Vec::new();
    for id in ["probe.echo", "probe.adminOnly"] {
        decisions.extend(["ada", "bob", "eve"].map(|caller| decision(id, caller)));
    }
    insta::assert_debug_snapshot!(decisions);
    let stdout = dir.ok(&["method", "show", "probe.adminOnly", "--user", "bob"]);
    assert!(
        stdout.contains("bob: denied: the service `drupal` does not list the method for `bob`")
    );
    let call = |user: &str| dir.run(&["call", "probe.adminOnly", "{}", "--user", user]);
    assert!(call("ada").stdout().contains("ada"));
    let (_, stderr) = call("bob").failure();
    let reason = "bob may not call `probe.adminOnly`: the service `drupal` does not list the method for this caller";
    assert!(stderr.contains(reason), "{stderr}");
}

#[test]
fn visibility_keys_work_in_rows_and_errors_are_reported() {
    let dir = TestDirectory::new();
    dir.allow_targets("localhost");
    dir.ok(&["migrate"]);
    let set = |keys: &[&str]| {
        let arguments = ["upstream", "set", "drupal", "url=http://localhost/jsonrpc"];
        dir.run(&[&arguments, keys].concat())
    };
    let valid = ["visibility=upstream", "described_by=jsonrpc_mcp", "visibility_seconds=5"];
    assert!(set(&valid).0.status.success());
    let invalid = [
        &["visibility=both"][..],
        &["described_by=wsdl"],
        &["visibility_seconds=0"],
        &["url=ws://localhost/jsonrpc", "visibility=upstream", "described_by=jsonrpc_mcp"],
    ];
    let errors: Vec<String> = invalid.iter().map(|keys| set(keys).failure().1).collect();
    insta::assert_debug_snapshot!(errors);
}
