//! The server itself: start, stop, invalid input, being killed.

use std::io::{Read as _, Write as _};

use serde_json::json;

use super::fake::FakeService;
use super::http_client::HttpResponse;
use super::support::TestDirectory;

#[test]
fn other_machines_are_served_only_with_a_decision_about_tokens() {
    let dir = TestDirectory::new();
    let ran = dir.run(&["serve", "--listen", "0.0.0.0:0"]);
    insta::assert_debug_snapshot!(ran.failure());
    assert!(!dir.path("callgate.db").exists(), "refused before anything is made");
}

#[test]
fn a_port_that_is_taken_is_an_error() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let address = server.start["address"].as_str().unwrap();
    let (code, talk) = dir.run(&["serve", "--demo", "--listen", address]).failure();
    assert_eq!(code, 1);
    assert_eq!(server.tools(&server.token("reader")).len(), 5, "its tokens stay good");
    assert!(talk.contains(&format!("cannot listen on {address}")), "{talk}");
    assert!(talk.contains("hint: another program listens on this address"), "{talk}");
    let service = FakeService::service(|method, _| {
        (method == "system.listMethods").then(|| json!(["item.get"]))
    });
    let (_, talk) = dir.run(&["try", &service.url("/"), "--listen", address]).failure();
    assert!(talk.contains("hint: another program listens on this address"), "{talk}");
    // An address that is reserved for documentation, which no machine has.
    let (_, talk) = dir.run(&["serve", "--require-auth", "--listen", "192.0.2.1:0"]).failure();
    assert!(talk.contains("hint: this machine does not have the address"), "{talk}");
}

#[test]
fn tools_whose_upstream_is_not_configured_are_logged_once() {
    let dir = TestDirectory::migrated();
    for id in ["a", "b"] {
        dir.ok(&["method", "add", id, "--upstream", "shop"]);
    }
    let mut server = dir.serve(&[]);
    let line = server.until_logged("upstream `shop` is not configured");
    assert!(line.contains("WARN") && line.contains("every call of its tools fails"), "{line}");
    dir.ok(&["method", "add", "c", "--upstream", "shop"]);
    server.until("the third is listed", |server| server.tools("").len() == 3);
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
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
}

#[test]
fn a_request_in_progress_finishes_on_a_stop() {
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
fn the_protocols_need_no_rows() {
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
    let asking = b"GET /mcp/tools/list HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000);
    while streams[3].write(&asking).is_ok() {}
    // All connections are in use, but health is still reported.
    assert_eq!(server.get("", "/healthz").status, 200);
    // All of the connections are released, not only one.
    server.until("the fourth is let go", |_| {
        let mut places: Vec<_> = (0..4).map(|_| server.connect()).collect();
        places.iter_mut().all(|stream| {
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
fn operations_have_an_address_of_their_own_that_answers_if_the_other_is_full() {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", "max_connections = 4\nrequire_auth = true\n");
    let server = dir.serve(&["--demo", "--operations-listen", "127.0.0.1:0"]);
    let silent: Vec<_> = (0..100).map(|_| server.connect()).collect();
    assert_eq!(server.operations("/healthz").status, 200);
    let ready = server.operations("/readyz").json();
    assert_eq!((&ready["status"], ready["tools"].is_u64()), (&json!("ready"), true), "{ready}");
    let metrics = server.operations("/metrics");
    assert!(metrics.body.contains("callgate_tools"), "{}", metrics.body);
    for path in ["/mcp", "/mcp/tools/list", "/.well-known/mcp.json"] {
        assert_eq!(server.operations(path).status, 404, "{path}");
    }
    drop(silent);
    let admin = server.token("admin");
    assert_eq!(server.get(&admin, "/readyz").json(), json!({"status": "ready"}));
    assert_eq!(server.get(&admin, "/metrics").status, 404);
}

#[test]
fn a_path_that_is_not_text_has_the_usual_error_object() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    for head in ["POST /mcp/tools/%ff", "GET /mcp/tools/%ff", "GET /mcp/tools/list/"] {
        let reply = server.request(head, "", "{}");
        assert_eq!(reply.status, 404, "{head}");
        assert!(reply.json()["error"]["code"].is_string(), "{}", reply.body);
    }
}
