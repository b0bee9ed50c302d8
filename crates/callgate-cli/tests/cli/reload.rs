//! Changes that are made while the program serves.

use serde_json::json;

use super::support::{Server, TestDirectory};

const DB: &str = "callgate.db";

fn lists_tool(server: &Server, tool: &str) -> bool {
    server.tools("").contains(&tool.to_owned())
}

#[test]
fn a_method_inserted_by_sql_is_served_without_a_restart() {
    let dir = TestDirectory::new();
    let server = dir.serve(&[]);
    assert!(server.tools("").is_empty());
    dir.sql(
        DB,
        "INSERT INTO rpc_methods (plugin, method, rpc_method, params, description)
         VALUES ('P', 'add', 'math.add', '[\"int $a\",\"int $b = 1\"]', 'Adds.')",
    );
    server.wait_until("the method is listed", |server| lists_tool(server, "math.add"));
    let tool = server.get("", "/mcp/tools/describe?name=math.add").json();
    assert_eq!(tool["tool"]["inputSchema"]["required"], json!(["a"]));
    // The method has no working upstream yet.
    let reply = server.invoke("", "math.add", &json!({"a": 1}));
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (500, &json!("execution_error")));
    dir.sql(DB, "UPDATE rpc_methods SET description = 'Sums.' WHERE rpc_method = 'math.add'");
    server.wait_until("the description changes", |server| {
        let tool = server.get("", "/mcp/tools/describe?name=math.add").json();
        tool["tool"]["description"] == "Sums."
    });
    dir.sql(DB, "DELETE FROM rpc_methods");
    server.wait_until("the method is gone", |server| !lists_tool(server, "math.add"));
}

#[test]
fn changes_of_grants_tokens_and_masks_apply_without_a_restart() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let database = ["--database", "sqlite:callgate-demo.db"];
    let run = |arguments: &[&str]| dir.ok(&[arguments, &database].concat());
    let reader = server.token("reader");
    let reader_lists =
        |server: &Server, tool: &str| server.tools(&reader).contains(&tool.to_owned());
    run(&["grant", "set", "--user", "reader", "content", "write"]);
    server.wait_until("the grant counts", |server| reader_lists(server, "content.article.create"));
    run(&["grant", "set", "--user", "reader", "content", "none"]);
    server.wait_until("a user's 0 denies", |server| !reader_lists(server, "report.projects"));
    run(&["grant", "set", "--user", "reader", "content", "read"]);
    server.wait_until("the grant is back", |server| reader_lists(server, "report.projects"));
    dir.sql(
        "callgate-demo.db",
        "UPDATE section_actions SET mask = 6 WHERE method = 'report.projects'",
    );
    server.wait_until("the mask counts", |server| !reader_lists(server, "report.projects"));
    let added_token = run(&["token", "add", "admin"]);
    server.wait_until("the token counts", |server| {
        server.get(added_token.trim(), "/mcp/tools/list").status == 200
    });
    let id = run(&["token", "list"]).lines().last().unwrap().split(' ').next().unwrap().to_owned();
    run(&["token", "remove", &id]);
    server.wait_until("the token is gone", |server| {
        server.get(added_token.trim(), "/mcp/tools/list").status == 401
    });
}

#[test]
fn a_new_token_is_valid_immediately_and_an_unknown_token_is_refused() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    for _ in 0..3 {
        let token = dir.ok(&["token", "add", "reader", "--database", "sqlite:callgate-demo.db"]);
        assert_eq!(server.tools(token.trim()).len(), 5);
    }
    assert_eq!(server.get("cg_unknown", "/mcp/tools/list").status, 401);
}

#[test]
fn changes_of_settings_apply_without_a_restart_and_invalid_values_are_ignored() {
    let dir = TestDirectory::new();
    let server = dir.serve(&[]);
    let name = |server: &Server| server.get("", "/.well-known/mcp.json").json()["name"].clone();
    dir.ok(&["setting", "set", "mcp_server_name", "acme"]);
    server.wait_until("the name changes", |server| name(server) == "acme");
    dir.sql(DB, "UPDATE settings SET value = '' WHERE name = 'mcp_server_name'");
    dir.ok(&["setting", "set", "mcp_server_version", "7"]);
    server.wait_until("another setting changes", |server| {
        server.get("", "/.well-known/mcp.json").json()["version"] == "7"
    });
    assert_eq!(name(&server), "acme");
}

#[test]
fn no_request_is_dropped_while_the_catalog_changes() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let admin = server.token("admin");
    let database = ["--database", "sqlite:callgate-demo.db"];
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            for number in 0..10 {
                let id = format!("extra.m{number}");
                dir.ok(&[&["method", "add", &id][..], &database].concat());
            }
        });
        while !changes.is_finished() {
            let reply = server.invoke(&admin, "cache.rebuild", &json!({}));
            assert_eq!((reply.status, reply.body.as_str()), (200, r#"{"result":true}"#));
            assert!(server.tools(&admin).len() >= 8);
        }
        changes.join().unwrap();
    });
    server.wait_until("all are listed", |server| server.tools(&admin).len() == 19);
}

#[test]
fn an_invalid_row_is_quarantined_and_other_rows_are_served() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--operations-listen", "127.0.0.1:0"]);
    dir.sql(
        DB,
        "INSERT INTO rpc_methods (rpc_method, params) VALUES ('good', '[]'), ('bad', '[\"self $x\"]')",
    );
    server.wait_until("the good one is listed", |server| lists_tool(server, "good"));
    assert!(!lists_tool(&server, "bad"));
    assert_eq!(
        server.operations("/readyz").json(),
        json!({"status": "ready", "tools": 1, "quarantined": 1})
    );
    let (_, log) = server.stop();
    assert!(log.contains("`bad` is quarantined"), "{log}");
}

#[test]
fn rows_without_a_section_are_reported_and_can_be_closed_by_a_setting() {
    let dir = TestDirectory::migrated();
    dir.sql(DB, "INSERT INTO rpc_methods (rpc_method) VALUES ('one')");
    let mut server = dir.serve(&[]);
    let line = server.wait_for_log("methods without a section");
    assert!(line.contains("WARN") && line.contains("methods=\"one\" count=1"), "{line}");
    dir.sql(DB, "INSERT INTO rpc_methods (rpc_method) VALUES ('two')");
    let line = server.wait_for_log("methods without a section");
    assert!(line.contains("methods=\"two\" count=2"), "{line}");
    let listed = dir.run(&["method", "list"]);
    let warning = "warning: 2 of these methods have no section, so every caller may call them, even without a token";
    assert!(listed.stderr().contains(warning), "{}", listed.stderr());
    assert_eq!(listed.stdout().matches("OPEN TO EVERYONE").count(), 2, "{}", listed.stdout());
    assert_eq!(
        dir.ok(&["lint", "--all"])
            .matches("no section, so every caller may call the method")
            .count(),
        2
    );
    // If a person has set `open_methods`, there is no warning.
    dir.ok(&["setting", "set", "open_methods", "allow"]);
    assert_eq!(dir.run(&["method", "list"]).stderr(), "");
    assert!(!dir.ok(&["lint", "--all"]).contains("everyone may call it"));
    assert!(lists_tool(&server, "one"));
    dir.ok(&["setting", "set", "open_methods", "refuse"]);
    server.wait_until("they are closed", |server| server.tools("").is_empty());
    server.wait_for_log("`two`: the method names no section, and `open_methods` is `refuse`");
    let stdout = dir.ok(&["method", "show", "one"]);
    assert!(stdout.contains("so nobody may call it; add a section"), "{stdout}");
}

#[test]
fn rows_without_a_section_are_refused_if_callers_need_a_token() {
    let dir = TestDirectory::migrated();
    dir.sql(DB, "INSERT INTO rpc_methods (rpc_method) VALUES ('one')");
    dir.ok(&["user", "add", "ada"]);
    let token = dir.ok(&["token", "add", "ada"]);
    let tools =
        |options: &[&str]| dir.serve(&[&["--require-auth"], options].concat()).tools(token.trim());
    assert_eq!(tools(&[]), [""; 0]);
    dir.write("callgate.toml", "open_methods = \"allow\"\n");
    assert_eq!(tools(&[]), ["one"]);
    dir.ok(&["setting", "set", "open_methods", "refuse"]);
    assert_eq!(tools(&[]), [""; 0]);
}

#[test]
fn the_last_catalog_is_served_while_the_registry_cannot_be_read() {
    let dir = TestDirectory::migrated();
    dir.ok(&["method", "add", "kept"]);
    let server = dir.serve(&[]);
    dir.sql(DB, "ALTER TABLE callgate_revisions RENAME TO elsewhere");
    server.wait_until("it says so", |server| server.get("", "/readyz").json()["status"] == "stale");
    assert!(lists_tool(&server, "kept"));
    dir.sql(DB, "ALTER TABLE elsewhere RENAME TO callgate_revisions");
    server.wait_until("it is ready again", |server| {
        server.get("", "/readyz").json()["status"] == "ready"
    });
}

#[test]
fn an_unreadable_catalog_is_reported_while_grants_still_apply() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let status = |server: &Server| server.get("", "/readyz").json()["status"].clone();
    dir.sql("callgate-demo.db", "ALTER TABLE rpc_methods RENAME TO away");
    dir.sql("callgate-demo.db", "UPDATE section_actions SET mask = 6");
    server.wait_until("it says so", |server| status(server) == "stale");
    let reader = server.token("reader");
    assert_eq!(server.tools(&reader).len(), 5, "the last good catalog");
    dir.ok(&[
        "grant",
        "set",
        "--user",
        "reader",
        "content",
        "none",
        "--database",
        "sqlite:callgate-demo.db",
    ]);
    server.wait_until("the grant counts", |server| {
        assert_eq!(status(server), "stale");
        server.tools(&reader).len() == 1
    });
    dir.sql("callgate-demo.db", "ALTER TABLE away RENAME TO rpc_methods");
    server.wait_until("it is ready again", |server| status(server) == "ready");
}

#[test]
fn a_method_with_a_missing_section_is_logged() {
    let dir = TestDirectory::new();
    let server = dir.serve(&[]);
    dir.sql(
        DB,
        "INSERT INTO rpc_methods (rpc_method, sections) VALUES ('shut', 'gone'), ('open', '')",
    );
    server.wait_until("the open one is listed", |server| server.tools("") == ["open"]);
    let (_, log) = server.stop();
    assert!(log.contains("`shut`: section `gone` does not exist"), "{log}");
}

#[test]
fn a_replaced_database_is_reported() {
    let dir = TestDirectory::new();
    let server = dir.serve(&[]);
    // Created under another name, because the log files of the old database do not belong to the new one.
    dir.ok(&["migrate", "--database", "sqlite:new.db"]);
    std::fs::rename(dir.path("new.db"), dir.path(DB)).unwrap();
    server.wait_until("it says so", |server| server.get("", "/readyz").json()["status"] == "stale");
}

#[test]
fn a_catalog_is_never_built_from_part_of_its_rows() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let admin = server.token("admin");
    let tools = server.tools(&admin);
    // The upstreams are read after the methods, so reading fails when the methods have already been
    // read.
    dir.sql("callgate-demo.db", "ALTER TABLE callgate_upstreams RENAME TO away");
    dir.sql("callgate-demo.db", "DELETE FROM section_actions; DELETE FROM rpc_methods");
    server.wait_until("it says so", |server| server.get("", "/readyz").json()["status"] == "stale");
    assert_eq!(server.tools(&admin), tools);
    dir.sql("callgate-demo.db", "ALTER TABLE away RENAME TO callgate_upstreams");
    server.wait_until("it is ready again", |server| {
        server.get("", "/readyz").json()["status"] == "ready"
    });
}

#[test]
fn tool_names_are_stored_in_the_registry() {
    let dir = TestDirectory::new();
    let server = dir.serve(&[]);
    dir.sql(DB, "INSERT INTO rpc_methods (rpc_method) VALUES ('a.b')");
    server.wait_until("it is listed", |server| lists_tool(server, "a.b"));
    server.wait_until("its name is remembered", |_| {
        dir.ok(&["method", "list", "--json"]).contains(r#""tool_name":"a_b""#)
    });
}
