//! Rate limits of the configuration and of settings.

use serde_json::json;

use crate::support::{Server, TestDirectory};

#[test]
fn limits_of_the_file_apply_and_settings_override_them_without_a_restart() {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", "[limits]\nrequests_per_caller = \"2/h\"\n");
    let server = dir.serve(&[]);
    let statuses = || [(); 3].map(|()| server.get("", "/mcp/tools/list").status);
    assert_eq!(statuses(), [200, 200, 429]);
    dir.ok(&["setting", "set", "limit_requests_per_caller", "none"]);
    server.wait_until("there is no limit", |_| statuses() == [200; 3]);
    dir.ok(&["setting", "set", "limit_requests_per_caller", ""]);
    server.wait_until("the limit of the file applies", |_| statuses() == [429; 3]);
}

#[test]
fn one_caller_may_use_half_of_a_low_limit_for_all_callers() {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", "[limits]\nrequests = \"4/h\"\n");
    let server = dir.serve(&[]);
    let statuses = [(); 3].map(|()| server.get("", "/mcp/tools/list").status);
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn invalid_limits_are_errors() {
    let dir = TestDirectory::new();
    let mut failures = Vec::new();
    for text in [
        "[limits]\nrequests_per_caller = 100",
        "[limits]\nrequests = \"fast\"",
        "[limits]\ntools = \"mail.send\"",
        "[limits]\ntools = \"mail.send 5 concurrently\"",
        "[limits]\nrequests_per_user = \"1/s\"",
    ] {
        dir.write("callgate.toml", text);
        failures.push(dir.run(&["migrate"]).failure());
    }
    insta::assert_debug_snapshot!(failures);
}

#[test]
fn limits_of_tools_are_read_from_the_file_and_from_settings() {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", "[limits]\ntools = \"cache.* 1 argument bytes\"\n");
    let server = dir.serve(&["--demo"]);
    let token = server.token("admin");
    let status = || server.invoke(&token, "cache.rebuild", &json!({})).status;
    assert_eq!(status(), 413);
    let limits = "cache.* 2 argument bytes, cache.* 9 concurrent";
    let database = ["--database", "sqlite:callgate-demo.db"];
    dir.ok(&[&["setting", "set", "limit_tools", limits][..], &database].concat());
    server.wait_until("the setting applies", |_| status() == 200);
}

fn server_count(server: &Server) -> Option<u32> {
    let metrics = server.get("", "/metrics").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix("callgate_rate_limit_servers "));
    line.unwrap_or_else(|| panic!("{metrics}")).parse().ok()
}

fn admitted_calls(server: &Server, token: &str, method: &str) -> usize {
    let status = |_: &usize| server.invoke(token, method, &json!({})).status;
    let refused = (0..10).filter(|call| status(call) == 429).count();
    10 - refused
}

#[test]
fn servers_divide_the_limits_and_keep_their_shares_while_the_registry_is_unavailable() {
    let dir = TestDirectory::new();
    let limits = "metrics = true\n[limits]\ntools = \"cache.* 4/h, content.* 4/h, system.* 4/h\"\n";
    dir.write("callgate.toml", limits);
    let first = dir.serve(&["--demo"]);
    assert_eq!(server_count(&first), Some(1));
    // A second demo replaces the tokens.
    let second = dir.serve(&["--demo"]);
    let token = second.token("admin");
    assert_eq!(server_count(&second), Some(2), "as soon as it serves");
    first.wait_until("it makes room", |first| server_count(first) == Some(2));
    for server in [&first, &second] {
        assert_eq!(admitted_calls(server, &token, "cache.rebuild"), 2);
    }
    std::fs::rename(dir.path("callgate-demo.db"), dir.path("aside.db")).unwrap();
    first.wait_until("the registry is away", |first| {
        first.get("", "/readyz").json()["status"] == "stale"
    });
    assert_eq!(
        admitted_calls(&first, &token, "content.article.delete"),
        2,
        "one that changes something"
    );
    std::fs::rename(dir.path("aside.db"), dir.path("callgate-demo.db")).unwrap();
    first.wait_until("it is back", |first| first.get("", "/readyz").json()["status"] == "ready");
    second.stop();
    first.wait_until("it has the whole limit", |first| server_count(first) == Some(1));
}
