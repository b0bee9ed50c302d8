//! `visibility = "upstream"`: each user sees the methods that the service lists for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::drupal_site::{Site, listed as listed_by_site};
use super::support::{Server, TestDirectory};

/// Returns the recorded site with two users. Bob can lose most of his permissions.
fn site(has_bob_less: &Arc<AtomicBool>) -> Site {
    let (site, has_bob_less) = (Site::start(), Arc::clone(has_bob_less));
    site.rule(move |asked| {
        let who = asked.head.lines().find_map(|line| line.strip_prefix("authorization: bearer "));
        match (asked.target(), who) {
            ("GET /mcp/tools/list", Some("bob")) if has_bob_less.load(Ordering::SeqCst) => {
                let list = json!({"tools": [{"name": "probe.echo"}], "nextCursor": null});
                Some((200, list.to_string()).into())
            }
            ("POST /jsonrpc", Some(_)) => {
                let reply = json!({"jsonrpc": "2.0", "id": asked.body["id"], "result": who});
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
    let imported = import.env("SITE", "Bearer ada").output().unwrap();
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let tokens = ["ada", "bob", "eve"].map(|user| {
        dir.ok(&["user", "add", user]);
        // The sections that tools with scopes require.
        for section in ["content", "tutorial", "tutorial:search", "user"] {
            dir.ok(&["grant", "set", "--user", user, section, "write"]);
        }
        if user != "eve" {
            let set = ["credential", "set", user, "drupal"];
            dir.run_with(&set, &format!("{user}\n")).succeeded();
        }
        dir.ok(&["token", "add", user]).trim().to_owned()
    });
    (dir, tokens)
}

/// Returns the ids of the methods that the registry serves.
fn imported(dir: &TestDirectory) -> Vec<String> {
    let listed = dir.ok(&["method", "list", "--json"]);
    let rows = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let tools = rows.filter(|row| row["state"] == "tool");
    tools.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

/// Returns the names of all tools that a user sees over MCP.
fn listed(server: &Server, token: &str) -> Vec<String> {
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let reply = server.request("POST /mcp", token, &ask.to_string()).json();
    let tools = reply["result"]["tools"].as_array().unwrap_or_else(|| panic!("{reply}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_user_sees_only_methods_that_the_site_lists_for_them() {
    let has_bob_less = Arc::new(AtomicBool::new(false));
    let site = site(&has_bob_less);
    let said = "visibility = \"upstream\"\ndescribed_by = \"jsonrpc_mcp\"\nvisibility_seconds = 1";
    let (dir, [ada, bob, eve]) = dir(&site, said);
    let server = dir.serve(&[]);
    let imported = imported(&dir);
    let all = imported.len();
    assert_eq!(listed(&server, &ada).len(), all);
    assert_eq!(imported.len(), 86);
    let bobs = listed_by_site("bob-bearer");
    assert_eq!((bobs.len(), server.tools(&bob)), (25, bobs));
    assert_eq!(listed(&server, &eve).len(), 0);
    assert_eq!(listed(&server, "").len(), 0);

    let hidden = server.invoke(&bob, "probe.adminOnly", &json!({}));
    assert_eq!((hidden.status, &hidden.json()["error"]["code"]), (404, &json!("tool_not_found")));
    assert_eq!(server.invoke(&ada, "probe.adminOnly", &json!({})).json()["result"], "ada");

    has_bob_less.store(true, Ordering::SeqCst);
    server.until("bob sees fewer", |server| listed(server, &bob) == ["probe_echo"]);
    assert_eq!(listed(&server, &ada).len(), all);
    let (_, log) = server.stop();
    let reason = "denied: the service `drupal` does not list the method for `bob`";
    assert!(log.contains(reason), "{log}");
    assert!(!log.contains("bearer bob"), "{log}");
}

#[test]
fn a_method_is_shown_with_the_decision_of_the_service() {
    let site = site(&Arc::default());
    let said = "visibility = \"upstream\"\ndescribed_by = \"jsonrpc_mcp\"";
    let (dir, _) = dir(&site, said);
    let decision = |id: &str, caller: &str| {
        let shown = dir.ok(&["method", "show", id, "--user", caller, "--json"]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        shown["decision"].as_str().unwrap().to_owned()
    };
    let mut decisions = Vec::new();
    for id in ["probe.echo", "probe.adminOnly"] {
        decisions.extend(["ada", "bob", "eve"].map(|caller| decision(id, caller)));
    }
    insta::assert_debug_snapshot!(decisions);
    let shown = dir.ok(&["method", "show", "probe.adminOnly", "--user", "bob"]);
    assert!(shown.contains("bob: denied: the service `drupal` does not list the method for `bob`"));
    let call = |user: &str| dir.run(&["call", "probe.adminOnly", "{}", "--user", user]);
    assert!(call("ada").stdout().contains("ada"));
    let (_, told) = call("bob").failure();
    let reason = "bob may not call `probe.adminOnly`: the service `drupal` does not list the method for this caller";
    assert!(told.contains(reason), "{told}");
}

#[test]
fn visibility_keys_work_in_rows_and_errors_are_reported() {
    let dir = TestDirectory::new();
    dir.allow_targets("localhost");
    dir.ok(&["migrate"]);
    let set = |more: &[&str]| {
        let all = ["upstream", "set", "drupal", "url=http://localhost/jsonrpc"];
        dir.run(&[&all, more].concat())
    };
    let good = ["visibility=upstream", "described_by=jsonrpc_mcp", "visibility_seconds=5"];
    assert!(set(&good).0.status.success());
    let wrong = [
        &["visibility=both"][..],
        &["described_by=wsdl"],
        &["visibility_seconds=0"],
        &["url=ws://localhost/jsonrpc", "visibility=upstream", "described_by=jsonrpc_mcp"],
    ];
    let told: Vec<String> = wrong.iter().map(|more| set(more).failure().1).collect();
    insta::assert_debug_snapshot!(told);
}
