//! The database becomes unavailable while the program serves: its file is moved away and back.

use serde_json::{Value, json};

use super::http_client::HttpResponse;
use super::support::{Server, TestDirectory};

const DB: &str = "callgate-demo.db";

fn take_away(dir: &TestDirectory) {
    std::fs::rename(dir.path(DB), dir.path("aside.db")).unwrap();
}

fn bring_back(dir: &TestDirectory) {
    std::fs::rename(dir.path("aside.db"), dir.path(DB)).unwrap();
}

fn ready(server: &Server) -> HttpResponse {
    server.operations("/readyz")
}

fn is_ready(server: &Server) -> bool {
    ready(server).json()["status"] == "ready"
}

/// Sends a request with a token to all endpoints.
fn faces(server: &Server, token: &str) -> Vec<HttpResponse> {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"cache.rebuild"}"#;
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
        "protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    vec![
        server.get(token, "/mcp/tools/list"),
        server.invoke(token, "cache.rebuild", &json!({})),
        server.request("POST /jsonrpc", token, call),
        server.request("POST /mcp/tools/cache.rebuild", token, call),
        server.request("POST /mcp", token, initialize),
    ]
}

#[test]
fn known_tokens_stay_valid_for_the_grace_period_and_others_do_not() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo", "--operations-listen", "127.0.0.1:0"]);
    let (admin, reader) = (server.token("admin"), server.token("reader"));
    server.tools(&admin);
    take_away(&dir);
    server.until("it says so", |server| !is_ready(server));
    let reply = ready(&server);
    assert_eq!((reply.status, &reply.json()["status"]), (200, &json!("stale")));
    assert!(reply.json()["token_grace_remaining_seconds"].as_u64().unwrap() > 10, "{}", reply.body);
    for reply in faces(&server, &admin) {
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
    // It is unknown whether this token is valid, because it was not used before.
    for reply in faces(&server, &reader) {
        assert_eq!(reply.status, 503, "{}", reply.body);
    }
    assert_eq!(server.get("", "/mcp/tools/list").status, 200, "who needs no token is served");
    assert_eq!(server.get("", "/healthz").status, 200);
    bring_back(&dir);
    server.until("it is ready again", is_ready);
    for reply in faces(&server, &reader) {
        assert_ne!(reply.status, 503, "{}", reply.body);
    }
    let (_, log) = server.stop();
    for words in ["registry unavailable", "registry available again"] {
        assert_eq!(log.matches(words).count(), 1, "{log}");
    }
    assert!(!log.contains(&admin) && !log.contains(&reader), "{log}");
}

#[test]
fn without_grace_callers_with_a_token_get_the_unavailable_error_of_each_protocol() {
    let dir = TestDirectory::new();
    let server =
        dir.serve(&["--demo", "--operations-listen", "127.0.0.1:0", "--token-grace-seconds", "0"]);
    let admin = server.token("admin");
    server.tools(&admin);
    take_away(&dir);
    let refuses = |reply: &HttpResponse| {
        let reason = reply.json()["reason"].as_str().unwrap_or_default().to_owned();
        reason.ends_with("callers with a token are refused")
    };
    server.until("it refuses them", |server| refuses(&ready(server)));
    assert_eq!(ready(&server).status, 200, "it is ready for who needs no token");
    let replies: Vec<(u16, Option<String>, Value)> = faces(&server, &admin)
        .iter()
        .map(|reply| {
            (reply.status, reply.header("retry-after").map(ToOwned::to_owned), reply.json())
        })
        .collect();
    insta::assert_debug_snapshot!(replies);
    assert_eq!(server.get("", "/mcp/tools/list").status, 200, "who needs no token is served");
    bring_back(&dir);
    server.until("it is ready again", is_ready);
    assert_eq!(server.get(&admin, "/mcp/tools/list").status, 200);
    let (_, log) = server.stop();
    let words = "refusing callers with a token";
    assert_eq!(log.matches(words).count(), 1, "{log}");
}

#[test]
fn session_changes_are_refused_if_they_cannot_be_stored() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo", "--operations-listen", "127.0.0.1:0"]);
    let admin = server.token("admin");
    let open = |server: &Server| {
        let reply = faces(server, &admin).pop().unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.header("mcp-session-id").unwrap().to_owned()
    };
    let before = open(&server);
    take_away(&dir);
    server.until("it says so", |server| !is_ready(server));
    let level =
        r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error"}}"#;
    let ask = |server: &Server, head: &str, session: &str, body: &str| {
        server.request_with(head, &format!("Mcp-Session-Id: {session}\r\n"), &admin, body)
    };
    // Opening a session needs no row.
    let during = open(&server);
    for session in [&before, &during] {
        for reply in
            [ask(&server, "POST /mcp", session, level), ask(&server, "DELETE /mcp", session, "")]
        {
            assert_eq!((reply.status, reply.header("retry-after")), (503, Some("2")));
            assert!(reply.body.contains("the session's state cannot be stored"), "{}", reply.body);
        }
    }
    bring_back(&dir);
    server.until("it is ready again", is_ready);
    assert_eq!(ask(&server, "POST /mcp", &during, level).status, 200);
    assert_eq!(ask(&server, "DELETE /mcp", &before, "").status, 204, "it had not ended");
}

#[test]
fn a_change_of_an_unavailable_registry_reports_the_failure() {
    let dir = TestDirectory::migrated();
    std::fs::rename(dir.path("callgate.db"), dir.path("aside.db")).unwrap();
    insta::assert_debug_snapshot!(dir.run(&["user", "add", "ada"]).failure());
    assert!(!dir.path("callgate.db").exists(), "no new one is made instead");
}

#[test]
fn serve_does_not_start_without_its_database() {
    let dir = TestDirectory::new();
    let ran = dir.run(&["serve", "--listen", "127.0.0.1:0", "--database", "sqlite:none/r.db"]);
    insta::assert_debug_snapshot!(ran.failure());
}

/// Sets the maximum size of files that the server can write. With 0, it is as if the disk were full.
fn limit_files(server: &Server, size: &str) {
    let (id, limit) = (server.id().to_string(), format!("--fsize={size}:"));
    let set = std::process::Command::new("prlimit").args(["--pid", &id, &limit]).status();
    assert!(set.unwrap().success());
}

#[test]
#[cfg(target_os = "linux")]
fn failing_writes_are_told_and_every_connection_recovers() {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", "metrics = true\noperations_listen = \"127.0.0.1:0\"\n");
    // With this trap, a write beyond the limit fails with an error, and sends no signal to the
    // server.
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_callgate")]);
    command.args(["serve", "--json", "--demo", "--listen", "127.0.0.1:0"]);
    command.current_dir(dir.path(""));
    let server = Server::start(command);
    let metric = |name: &str| {
        let text = server.operations("/metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().parse::<u64>().unwrap()
    };
    assert!(is_ready(&server));
    assert_eq!(metric("callgate_registry_writable"), 1);
    limit_files(&server, "0");
    server.until("it says so", |server| !is_ready(server));
    let reply = ready(&server);
    assert_eq!((reply.status, &reply.json()["status"]), (200, &json!("degraded")));
    assert_eq!(reply.json()["reason"], "the registry cannot be written: see the log");
    assert_eq!(metric("callgate_registry_writable"), 0);
    assert!(metric("callgate_registry_write_failures_total") >= 1);
    assert_eq!(server.invoke(&server.token("admin"), "cache.rebuild", &json!({})).status, 200);
    limit_files(&server, "unlimited");
    server.until("it can write", is_ready);
    assert_eq!(metric("callgate_registry_writable"), 1);
    let log = server.stop().1;
    let told = |what: &str| log.matches(what).count();
    assert_eq!(told("failed to write to the registry: changes"), 1, "{log}");
    assert_eq!(told("writes to the registry succeed again"), 1, "{log}");
    assert_eq!(told("non-zero transaction depth"), 0, "{log}");
}
