//! MCP as the program serves it: sessions that survive restarts, streams that end, and stdio.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use super::http_client::HttpResponse;
use super::support::{Server, TestDirectory};

pub(super) const DATABASE: &str = "sqlite:callgate-demo.db";
pub(super) const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

pub(super) fn initialize(server: &Server, token: &str) -> String {
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let reply = server.request("POST /mcp", token, &body.to_string());
    reply.header("mcp-session-id").unwrap().to_owned()
}

pub(super) fn session_request(
    server: &Server,
    method: &str,
    session: &str,
    token: &str,
    body: &str,
) -> HttpResponse {
    let header = format!("Mcp-Session-Id: {session}\r\n");
    server.request_with(&format!("{method} /mcp"), &header, token, body)
}

/// Returns a token that a new start of the demo does not revoke.
pub(super) fn persistent_token(dir: &TestDirectory) -> String {
    dir.ok(&["token", "add", "reader", "--database", DATABASE]).trim().to_owned()
}

#[test]
fn a_session_survives_a_kill_of_its_server_and_is_valid_on_another_server() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let token = persistent_token(&dir);
    let session = initialize(&server, &token);
    server.signal("-KILL");
    drop(server);
    let first = dir.serve(&["--demo"]);
    let second = dir.serve(&["--database", DATABASE]);
    for server in [&first, &second] {
        assert_eq!(session_request(server, "POST", &session, &token, PING).status, 200);
        assert_eq!(
            session_request(server, "POST", &session, "", PING).status,
            404,
            "another caller"
        );
    }
    assert_eq!(session_request(&first, "DELETE", &session, &token, "").status, 204);
    assert_eq!(session_request(&first, "POST", &session, &token, PING).status, 404);
    second.wait_until("it has ended here too", |server| {
        session_request(server, "POST", &session, &token, PING).status == 404
    });
    drop(first);
    let restarted = dir.serve(&["--demo"]);
    assert_eq!(
        session_request(&restarted, "POST", &session, &token, PING).status,
        404,
        "and stays so"
    );
}

#[test]
fn a_call_is_cancelled_through_another_server() {
    let dir = TestDirectory::new();
    let (first, second) = (dir.serve(&["--demo"]), dir.serve(&["--demo"]));
    let token = persistent_token(&dir);
    let session = initialize(&first, &token);
    let params = json!({"name": "report_yearly", "arguments": {"seconds": 25}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let call = call.to_string();
    let mut stream = second.connect();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\nMcp-Session-Id: {session}\r\nContent-Length: {}\r\n\r\n{call}",
        call.len()
    )
    .unwrap();
    let mut stream = BufReader::new(stream);
    let mut text = String::new();
    stream.read_line(&mut text).unwrap();
    assert!(text.contains("200"), "it streams, so the call is under way: {text}");
    let params = json!({"requestId": 7});
    let notification =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let reply = session_request(&first, "POST", &session, &token, &notification.to_string());
    assert_eq!(reply.status, 202, "{}", reply.body);
    stream.read_to_string(&mut text).unwrap();
    assert!(!text.contains("visits"), "{text}");
}

#[test]
fn a_stream_ends_if_its_token_is_revoked_and_does_not_delay_a_shutdown() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let token = persistent_token(&dir);
    let open = |token: &str| {
        let mut stream = server.connect();
        let head = format!(
            "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMCP-Protocol-Version: 2025-06-18\r\n\
             Connection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while !line.contains("keep-alive") {
            line.clear();
            assert_ne!(stream.read_line(&mut line).unwrap(), 0);
        }
        stream
    };
    let (mut revoked, mut remaining) = (open(&token), open(&server.token("reader")));
    dir.sql("callgate-demo.db", "DELETE FROM callgate_tokens WHERE name <> 'demo'");
    let mut rest = String::new();
    revoked.read_to_string(&mut rest).unwrap();
    server.signal("-TERM");
    remaining.read_to_string(&mut rest).unwrap();
    let (code, log) = server.wait_for_exit();
    assert_eq!(code, Some(0));
    assert!(!log.contains("shutdown timed out"), "{log}");
}

/// Returns the output of `serve --stdio` for these lines, and its exit status.
fn run_stdio(dir: &TestDirectory, token: Option<&str>, input: &str) -> (Vec<Value>, i32, String) {
    let mut command = dir.command(&["serve", "--demo", "--stdio"]);
    if let Some(token) = token {
        command.env("CALLGATE_TOKEN", token);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let messages = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (messages, output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn stdio_serves_the_user_of_the_token_and_prints_only_messages() {
    let dir = TestDirectory::new();
    drop(dir.serve(&["--demo"]));
    let token = persistent_token(&dir);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let (messages, code, _) = run_stdio(&dir, Some(&token), list);
    assert_eq!((messages.len(), code), (1, 0), "answered at the end of the input, and gone");
    assert_eq!(messages[0]["result"]["tools"].as_array().unwrap().len(), 5);
    let (messages, _, _) = run_stdio(&dir, None, list);
    assert_eq!(messages[0]["result"]["tools"].as_array().unwrap().len(), 1, "anonymous");
    let (messages, code, _) = run_stdio(&dir, None, "nonsense\n\n{}\n");
    assert_eq!((messages.len(), code), (2, 0));
    let (messages, code, stderr) = run_stdio(&dir, Some("cg_wrong"), list);
    assert_eq!((messages.len(), code), (1, 0), "answered as the bridge does");
    let message = messages[0]["error"]["message"].as_str().unwrap();
    let expected = "the token in `CALLGATE_TOKEN` is unknown, revoked or expired; create one with \
                   `callgate token add USER --database sqlite:callgate-demo.db`";
    assert_eq!((&messages[0]["id"], message), (&json!(1), expected));
    assert!(stderr.contains(expected) && !stderr.contains("cg_wrong"), "{stderr}");
}

#[test]
fn stdio_logs_only_problems_unless_a_level_is_set() {
    let dir = TestDirectory::new();
    let (_, _, stderr) = run_stdio(&dir, None, PING);
    assert_eq!(stderr, "", "clients show it to people");
    let mut command = dir.command(&["serve", "--demo", "--stdio"]);
    command.env("CALLGATE_LOG", "info").stdin(Stdio::null());
    let stderr = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(stderr.contains("INFO"), "{stderr}");
}

#[test]
fn stdio_keeps_the_tokens_of_a_running_demo() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let reader = server.token("reader");
    run_stdio(&dir, None, PING);
    assert_eq!(server.get(&reader, "/mcp/tools/list").status, 200);
}

#[test]
fn stdio_finishes_calls_on_a_signal() {
    let dir = TestDirectory::new();
    drop(dir.serve(&["--demo"]));
    let token = persistent_token(&dir);
    let mut command = dir.command(&["serve", "--demo", "--stdio"]);
    command.env("CALLGATE_TOKEN", token);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let params = json!({"name": "report_yearly", "arguments": {"seconds": 1}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    writeln!(input, "{call}\n{PING}").unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("\"id\":1,"), "the ping was answered, so the call is under way: {line}");
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    line.clear();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("visits"), "{line}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn stdio_stops_on_a_signal() {
    let dir = TestDirectory::new();
    let mut command = dir.command(&["serve", "--demo", "--stdio"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{PING}").unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    // The program exits although its standard input is still open.
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
