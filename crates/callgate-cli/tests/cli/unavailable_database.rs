//! The database becomes unavailable while the program serves: its file is moved away and back.

use serde_json::{Value, json};

use super::http_client::HttpResponse;
use super::support::{Server, TestDirectory};

const DB: &str = "callgate-demo.db";

fn remove_database(dir: &TestDirectory) {
    std::fs::rename(dir.path(DB), dir.path("aside.db")).unwrap();
}

fn restore_database(dir: &TestDirectory) {
    std::fs::rename(dir.path("aside.db"), dir.path(DB)).unwrap();
}

fn readiness(server: &Server) -> HttpResponse {
    server.operations("/readyz")
}

fn is_ready(server: &Server) -> bool {
    readiness(server).json()["status"] == "ready"
}

/// Sends a request with a token to all endpoints.
fn request_all_endpoints(server: &Server, token: &str) -> Vec<HttpResponse> {
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
fn known_tokens_are_accepted_during_the_grace_period_and_others_are_not() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo", "--operations-listen", "127.0.0.1:0"]);
    let (admin, reader) = (server.token("admin"), server.token("reader"));
    server.tools(&admin);
    remove_database(&dir);
    server.wait_until("it says so", |server| !is_ready(server));
    let reply = readiness(&server);
    assert_eq!((reply.status, &reply.json()["status"]), (200, &json!("stale")));
    assert!(reply.json()["token_grace_remaining_seconds"].as_u64().unwrap() > 10, "{}", reply.body);
    for reply in request_all_endpoints(&server, &admin) {
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
    // It is unknown whether this token is valid, because it was not used before.
    for reply in request_all_endpoints(&server, &reader) {
        assert_eq!(reply.status, 503, "{}", reply.body);
    }
    assert_eq!(server.get("", "/mcp/tools/list").status, 200, "who needs no token is served");
    assert_eq!(server.get("", "/healthz").status, 200);
    restore_database(&dir);
    server.wait_until("it is ready again", is_ready);
    for reply in request_all_endpoints(&server, &reader) {
        assert_ne!(reply.status, 503, "{}", reply.body);
    }
    let (_, log) = server.stop();
    for message in ["registry unavailable", "registry available again"] {
        assert_eq!(log.matches(message).count(), 1, "{log}");
    }
    assert!(!log.contains(&admin) && !log.contains(&reader), "{log}");
}

#[test]
fn without_a_grace_period_callers_with_a_token_get_the_503_of_each_protocol() {
    let dir = TestDirectory::new();
    let server =
        dir.serve(&["--demo", "--operations-listen", "127.0.0.1:0", "--token-grace-seconds", "0"]);
    let admin = server.token("admin");
    server.tools(&admin);
    remove_database(&dir);
    let refuses = |reply: &HttpResponse| {
        let reason = reply.json()["reason"].as_str().unwrap_or_default().to_owned();
        reason.ends_with("callers with a token are refused")
    };
    server.wait_until("it refuses them", |server| refuses(&readiness(server)));
    assert_eq!(readiness(&server).status, 200, "it is ready for who needs no token");
    let replies: Vec<(u16, Option<String>, Value)> = request_all_endpoints(&server, &admin)
        .iter()
        .map(|reply| {
            (reply.status, reply.header("retry-after").map(ToOwned::to_owned), reply.json())
        })
        .collect();
    insta::assert_debug_snapshot!(replies);
    assert_eq!(server.get("", "/mcp/tools/list").status, 200, "who needs no token is served");
    restore_database(&dir);
    server.wait_until("it is ready again", is_ready);
    assert_eq!(server.get(&admin, "/mcp/tools/list").status, 200);
    let (_, log) = server.stop();
    let message = "refusing callers with a token";
    assert_eq!(log.matches(message).count(), 1, "{log}");
}

#[test]
fn session_changes_are_refused_if_they_cannot_be_stored() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo", "--operations-listen", "127.0.0.1:0"]);
    let admin = server.token("admin");
    let open_session = |server: &Server| {
        let reply = request_all_endpoints(server, &admin).pop().unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.header("mcp-session-id").unwrap().to_owned()
    };
    let before = open_session(&server);
    remove_database(&dir);
    server.wait_until("it says so", |server| !is_ready(server));
    let level =
        r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error"}}"#;
    let session_request = |server: &Server, head: &str, session: &str, body: &str| {
        server.request_with(head, &format!("Mcp-Session-Id: {session}\r\n"), &admin, body)
    };
    // Opening a session needs no row.
    let during = open_session(&server);
    for session in [&before, &during] {
        for reply in [
            session_request(&server, "POST /mcp", session, level),
            session_request(&server, "DELETE /mcp", session, ""),
        ] {
            assert_eq!((reply.status, reply.header("retry-after")), (503, Some("2")));
            assert!(reply.body.contains("the session's state cannot be stored"), "{}", reply.body);
        }
    }
    restore_database(&dir);
    server.wait_until("it is ready again", is_ready);
    assert_eq!(session_request(&server, "POST /mcp", &during, level).status, 200);
    assert_eq!(
        session_request(&server, "DELETE /mcp", &before, "").status,
        204,
        "it had not ended"
    );
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
    let output = dir.run(&["serve", "--listen", "127.0.0.1:0", "--database", "sqlite:none/r.db"]);
    insta::assert_debug_snapshot!(output.failure());
}

/// Sets the maximum size of files that the server can write. With 0, it is as if the disk were full.
fn limit_file_size(server: &Server, size: &str) {
    let (id, limit) = (server.id().to_string(), format!("--fsize={size}:"));
    let status = std::process::Command::new("prlimit").args(["--pid", &id, &limit]).status();
    assert!(status.unwrap().success());
}

#[test]
#[cfg(target_os = "linux")]
fn failing_writes_are_reported_and_every_connection_recovers() {
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
    limit_file_size(&server, "0");
    server.wait_until("it says so", |server| !is_ready(server));
    let reply = readiness(&server);
    assert_eq!((reply.status, &reply.json()["status"]), (200, &json!("degraded")));
    assert_eq!(reply.json()["reason"], "the registry cannot be written: see the log");
    assert_eq!(metric("callgate_registry_writable"), 0);
    assert!(metric("callgate_registry_write_failures_total") >= 1);
    assert_eq!(server.invoke(&server.token("admin"), "cache.rebuild", &json!({})).status, 200);
    limit_file_size(&server, "unlimited");
    server.wait_until("it can write", is_ready);
    assert_eq!(metric("callgate_registry_writable"), 1);
    let log = server.stop().1;
    let log_count = |message: &str| log.matches(message).count();
    assert_eq!(log_count("failed to write to the registry: changes"), 1, "{log}");
    assert_eq!(log_count("writes to the registry succeed again"), 1, "{log}");
    assert_eq!(log_count("non-zero transaction depth"), 0, "{log}");
}
