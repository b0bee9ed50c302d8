//! The server itself: start, stop, invalid input, being killed.

use std::io::{Read as _, Write as _};

use serde_json::json;

use super::fake::FakeService;
use super::http_client::HttpResponse;
use super::support::TestDirectory;

#[test]
fn listening_on_all_addresses_requires_a_choice_about_tokens() {
    let dir = TestDirectory::new();
    let output = dir.run(&["serve", "--listen", "0.0.0.0:0"]);
    insta::assert_debug_snapshot!(output.failure());
    assert!(!dir.path("callgate.db").exists(), "refused before anything is made");
}

#[test]
fn an_address_in_use_or_of_another_machine_is_an_error() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let address = server.start["address"].as_str().unwrap();
    let (code, stderr) = dir.run(&["serve", "--demo", "--listen", address]).failure();
    assert_eq!(code, 1);
    assert_eq!(server.tools(&server.token("reader")).len(), 5, "its tokens stay good");
    assert!(stderr.contains(&format!("cannot listen on {address}")), "{stderr}");
    assert!(stderr.contains("hint: another program listens on this address"), "{stderr}");
    let service = FakeService::json_rpc(|method, _| {
        (method == "system.listMethods").then(|| json!(["item.get"]))
    });
    let (_, stderr) = dir.run(&["try", &service.url("/"), "--listen", address]).failure();
    assert!(stderr.contains("hint: another program listens on this address"), "{stderr}");
    // An address that is reserved for documentation, which no machine has.
    let (_, stderr) = dir.run(&["serve", "--require-auth", "--listen", "192.0.2.1:0"]).failure();
    assert!(stderr.contains("hint: this machine does not have the address"), "{stderr}");
}

#[test]
fn tools_whose_upstream_is_not_configured_are_logged_once() {
    let dir = TestDirectory::migrated();
    for id in ["a", "b"] {
        dir.ok(&["method", "add", id, "--upstream", "shop"]);
    }
    let mut server = dir.serve(&[]);
    let line = server.wait_for_log("upstream `shop` is not configured");
    assert!(line.contains("WARN") && line.contains("every call of its tools fails"), "{line}");
    dir.ok(&["method", "add", "c", "--upstream", "shop"]);
    server.wait_until("the third is listed", |server| server.tools("").len() == 3);
    let (_, log) = server.stop();
    assert!(!log.contains("not configured"), "{log}");
}

/// Sends the head of a request, and waits until the server requests the body. The request is then in progress.
fn begin_invoking(stream: &mut std::net::TcpStream, headers: &str, length: usize) {
    let head = format!(
        "POST /mcp/tools/invoke HTTP/1.1\r\nHost: localhost\r\n{headers}Expect: 100-continue\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut interim_response = [0; 25];
    stream.read_exact(&mut interim_response).unwrap();
    assert_eq!(&interim_response, b"HTTP/1.1 100 Continue\r\n\r\n");
}

#[test]
fn a_request_in_progress_finishes_during_a_shutdown() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let token = server.token("admin");
    let body = r#"{"name":"cache.rebuild","arguments":{}}"#;
    let mut stream = server.connect();
    begin_invoking(&mut stream, &format!("Authorization: Bearer {token}\r\n"), body.len());
    server.signal("-TERM");
    // The server accepts no new connections, which shows that it received the signal.
    let address = server.start["address"].as_str().unwrap().to_owned();
    while std::net::TcpStream::connect(&address).is_ok() {}
    stream.write_all(body.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let reply = HttpResponse::parse(&text);
    assert_eq!((reply.status, reply.body.as_str()), (200, r#"{"result":true}"#));
    assert_eq!(server.wait_for_exit().0, Some(0));
}

#[test]
fn requests_are_aborted_after_the_shutdown_timeout() {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", "shutdown_timeout_seconds = 1\n");
    let server = dir.serve(&[]);
    let mut stream = server.connect();
    begin_invoking(&mut stream, "", 9);
    let (code, log) = server.stop();
    assert_eq!(code, Some(0));
    assert!(log.contains("shutdown timed out"), "{log}");
}

#[test]
fn the_server_survives_malformed_requests() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    for bytes in [
        &b"\x00\x01\x02\x03\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET /mcp/tools/list HTTP/9.9\r\n\r\n",
        b"GET /mcp/tools/list?cursor=\xff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"POST /mcp/tools/invoke HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /mcp/tools/invoke HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\nConnection: close\r\n\r\n",
    ] {
        let text = server.raw(bytes);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{bytes:?}: {text}");
    }
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "a".repeat(100_000)
    );
    assert!(server.raw(long.as_bytes()).starts_with("HTTP/1.1 4"));
    assert_eq!(server.get("", "/healthz").status, 200);
}

#[test]
fn a_body_over_a_mebibyte_is_413() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let head = "POST /mcp/tools/invoke HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Length: 1048577\r\n\r\n";
    let request = format!("{head}{}", "x".repeat(1_048_577));
    let reply = HttpResponse::parse(&server.raw(request.as_bytes()));
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (413, &json!("body_too_large")));
}

#[test]
fn a_killed_server_restarts_with_its_data() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    dir.ok(&["method", "add", "mine", "--database", "sqlite:callgate-demo.db"]);
    server.signal("-KILL");
    assert_eq!(server.wait_for_exit().0, None);
    let server = dir.serve(&["--demo"]);
    assert!(server.tools("").contains(&"mine".to_owned()));
}

#[test]
fn logs_are_json_if_configured_and_contain_no_token() {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", "log_format = \"json\"\nlog = \"debug\"\n");
    let server = dir.serve(&["--demo"]);
    let reader = server.token("reader");
    server.invoke(&reader, "content.article.delete", &json!({"id": 1}));
    server.get("cg_not_a_token_of_ours", "/mcp/tools/list");
    let (_, log) = server.stop();
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let denied = lines.iter().find(|line| line["message"] == "access denied").unwrap();
    assert_eq!(
        (&denied["caller"], &denied["method"]),
        (&json!("reader"), &json!("content.article.delete"))
    );
    assert!(!log.contains(&reader) && !log.contains("cg_not_a_token"), "{log}");
}

#[test]
fn the_last_use_of_a_token_is_stored() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    server.tools(&server.token("reader"));
    server.stop();
    let tokens = dir.ok(&["token", "list", "--json", "--database", "sqlite:callgate-demo.db"]);
    let used: Vec<bool> = tokens
        .lines()
        .map(|line| {
            let token: serde_json::Value = serde_json::from_str(line).unwrap();
            token["last_used_at"].is_string()
        })
        .collect();
    assert_eq!(used, [false, true]);
}

#[test]
fn the_methods_of_mcp_need_no_rows() {
    let dir = TestDirectory::new();
    let server = dir.serve(&[]);
    assert_eq!(server.get("", "/mcp/tools/list").body, r#"{"tools":[],"nextCursor":null}"#);
    assert_eq!(dir.ok(&["method", "list", "--json"]), "");
}

#[test]
fn idle_and_incomplete_connections_are_closed() {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", "max_connections = 4\n");
    let server = dir.serve(&["--demo"]);
    let mut streams: Vec<_> = (0..4).map(|_| server.connect()).collect();
    streams[1].write_all(b"PRI * HT").unwrap();
    streams[2].write_all(b"GET /hea").unwrap();
    // A client sends requests continuously, and never reads a reply.
    streams[3].set_nonblocking(true).unwrap();
    let requests = b"GET /mcp/tools/list HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000);
    while streams[3].write(&requests).is_ok() {}
    // All connections are in use, but health is still reported.
    assert_eq!(server.get("", "/healthz").status, 200);
    // All of the connections are released, not only one.
    server.wait_until("the fourth is let go", |_| {
        let mut connections: Vec<_> = (0..4).map(|_| server.connect()).collect();
        connections.iter_mut().all(|stream| {
            stream.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
            let list = b"GET /mcp/tools/list HTTP/1.1\r\nHost: localhost\r\n\r\n";
            let mut status = [0; 12];
            let read = stream.write_all(list).and_then(|()| stream.read_exact(&mut status));
            read.is_ok() && status == *b"HTTP/1.1 200"
        })
    });
    let (_, log) = server.stop();
    assert!(log.contains("max_connections"), "{log}");
}

#[test]
fn the_operations_address_responds_if_the_other_address_has_no_free_connection() {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", "max_connections = 4\nrequire_auth = true\n");
    let server = dir.serve(&["--demo", "--operations-listen", "127.0.0.1:0"]);
    let idle_connections: Vec<_> = (0..100).map(|_| server.connect()).collect();
    assert_eq!(server.operations("/healthz").status, 200);
    let ready = server.operations("/readyz").json();
    assert_eq!((&ready["status"], ready["tools"].is_u64()), (&json!("ready"), true), "{ready}");
    let metrics = server.operations("/metrics");
    assert!(metrics.body.contains("callgate_tools"), "{}", metrics.body);
    for path in ["/mcp", "/mcp/tools/list", "/.well-known/mcp.json"] {
        assert_eq!(server.operations(path).status, 404, "{path}");
    }
    drop(idle_connections);
    let admin = server.token("admin");
    assert_eq!(server.get(&admin, "/readyz").json(), json!({"status": "ready"}));
    assert_eq!(server.get(&admin, "/metrics").status, 404);
}

#[test]
fn an_invalid_path_gets_the_usual_error_object() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    for head in ["POST /mcp/tools/%ff", "GET /mcp/tools/%ff", "GET /mcp/tools/list/"] {
        let reply = server.request(head, "", "{}");
        assert_eq!(reply.status, 404, "{head}");
        assert!(reply.json()["error"]["code"].is_string(), "{}", reply.body);
    }
}
