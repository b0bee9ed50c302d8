//! HTTP: bodies, batches, origins, `rawRequest`.

use super::*;

async fn post(app: &App, headers: &[(&str, &str)], body: &str) -> Reply {
    let mut builder = request("POST", "reader", "/mcp");
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    app.send(builder.body(Body::from(body.to_owned())).unwrap()).await
}

#[tokio::test]
async fn an_invalid_message_is_400_with_a_json_rpc_error() {
    let (app, _) = app();
    let too_large = format!("\"{}\"", "x".repeat(1024 * 1024));
    let mut replies = Vec::new();
    for body in ["{", "", "1", r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, &too_large] {
        for content_type in ["application/json", "text/plain"] {
            let reply = post(&app, &[("content-type", content_type)], body).await;
            assert_eq!(reply.header("content-type"), "application/json");
            assert!(reply.json().get("id").is_none(), "absent instead of null");
            replies.push(format!("{} {}", reply.status, reply.text));
        }
    }
    replies.dedup();
    insta::assert_debug_snapshot!(replies);
    let bytes = request("POST", "reader", "/mcp").body(Body::from(vec![0xff, 0xfe])).unwrap();
    assert_eq!(code(&app.send(bytes).await), (400, -32700));
}

#[tokio::test]
async fn batches_of_2025_03_26_are_answered_with_lists() {
    let (app, _) = app();
    let body = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/call",
         "params": {"name": "open_echo", "arguments": {"value": 1}}},
        {"jsonrpc": "2.0", "id": 3, "method": "nonsense"},
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        7,
    ])
    .to_string();
    let reply = post(&app, &[("mcp-protocol-version", "2025-03-26")], &body).await;
    insta::assert_json_snapshot!(reply.json());
    assert_eq!(post(&app, &[], &body).await.text, reply.text, "the default revision");
    for other in ["2024-11-05", "2025-06-18", "2025-11-25", MODERN] {
        let reply = post(&app, &[("mcp-protocol-version", other)], &body).await;
        assert_eq!(code(&reply), (400, -32600), "{other}");
    }
    let notifications =
        json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]).to_string();
    let wrong = json!([{"jsonrpc": "2.0", "method": "notifications/x", "params": [1]}]).to_string();
    for body in [notifications, wrong] {
        let reply = post(&app, &[], &body).await;
        assert_eq!((reply.status.as_u16(), reply.text.as_str()), (202, ""));
    }
}

#[tokio::test]
async fn notifications_and_responses_are_accepted_without_a_reply() {
    let (app, _) = app();
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"x"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/nonsense"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#,
    ] {
        let reply = post(&app, &[], body).await;
        assert_eq!((reply.status.as_u16(), reply.text.as_str()), (202, ""), "{body}");
    }
}

#[tokio::test]
async fn a_foreign_origin_or_host_is_403_everywhere() {
    let (app, _) = app();
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let origin =
        post(&app, &[("host", "localhost"), ("origin", "http://evil.example.com")], ping).await;
    assert_eq!(origin.status, 403);
    assert!(origin.text.contains("allowed_origins") && origin.json().get("id").is_none());
    let host = post(&app, &[("host", "evil.example.com:8443")], ping).await;
    assert_eq!(host.status, 403);
    assert!(host.text.contains("`evil.example.com` is not known; add it to `allowed_hosts`"));
    let rest = request("GET", "reader", "/mcp/tools/list").header("origin", "null");
    assert_eq!(app.send(rest.body(Body::empty()).unwrap()).await.status, 403);
    let probe = request("GET", "", "/healthz").header("host", "10-0-0-7.pods.example.com");
    assert_eq!(app.send(probe.body(Body::empty()).unwrap()).await.status, 200);
}

#[tokio::test]
async fn a_request_without_a_host_is_400() {
    let (app, _) = app();
    for version in [http::Version::HTTP_10, http::Version::HTTP_11] {
        let mcp = Request::builder().version(version).uri("/mcp").body(Body::empty()).unwrap();
        assert_eq!(code(&app.send(mcp).await), (400, -32600));
        for path in ["/jsonrpc", "/mcp/tools/list", "/.well-known/mcp.json", "/other"] {
            let request = Request::builder().version(version).uri(path);
            let reply = app.send(request.body(Body::empty()).unwrap()).await;
            assert_eq!(reply.error_code(), (400, "missing_host".to_owned()), "{version:?} {path}");
        }
        let probe = Request::builder().version(version).uri("/healthz");
        assert_eq!(app.send(probe.body(Body::empty()).unwrap()).await.status, 200);
    }
    let authority = Request::builder()
        .version(http::Version::HTTP_2)
        .uri("http://localhost:8080/.well-known/mcp.json");
    assert_eq!(app.send(authority.body(Body::empty()).unwrap()).await.status, 200);
}

#[tokio::test]
async fn pages_of_localhost_may_send_requests_and_read_the_session_id() {
    let (app, _) = app();
    let origin = "http://localhost:6274";
    let preflight = request("OPTIONS", "", "/mcp")
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header(
            "access-control-request-headers",
            "authorization,content-type,mcp-method,Mcp-Param-Region,x-other",
        );
    let reply = app.send(preflight.body(Body::empty()).unwrap()).await;
    assert_eq!(reply.status, 204);
    assert_eq!(reply.header("access-control-allow-origin"), origin);
    assert_eq!(
        reply.header("access-control-allow-headers"),
        "authorization, content-type, mcp-method, Mcp-Param-Region"
    );
    assert_eq!(reply.header("access-control-allow-methods"), "GET, POST, DELETE, OPTIONS");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let reply = post(&app, &[("origin", origin)], ping).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("access-control-allow-origin"), origin);
    assert!(reply.header("access-control-expose-headers").contains("mcp-session-id"));
    // Even if the credential is invalid, the page must be able to read the reason.
    let bad = request("POST", "nobody", "/mcp").header("origin", origin);
    let reply = app.send(bad.body(Body::from(ping)).unwrap()).await;
    assert_eq!((reply.status.as_u16(), reply.header("access-control-allow-origin")), (401, origin));
}

#[tokio::test]
async fn get_without_a_stream_and_other_methods_are_refused() {
    let (app, _) = app();
    let plain = request("GET", "reader", "/mcp").header("mcp-protocol-version", "2025-06-18");
    let plain = app.send(plain.body(Body::empty()).unwrap()).await;
    assert_eq!(code(&plain), (406, -32600));
    let modern = request("GET", "reader", "/mcp").header("mcp-protocol-version", MODERN);
    let modern = app.send(modern.body(Body::empty()).unwrap()).await;
    assert_eq!(code(&modern), (405, -32600));
    assert_eq!(modern.header("allow"), "POST, GET, DELETE");
    let put = app.send(request("PUT", "reader", "/mcp").body(Body::empty()).unwrap()).await;
    assert_eq!(code(&put), (405, -32600));
}

/// Clients of the HTTP+SSE transport wait for its first event, some for 30 s.
#[tokio::test]
async fn a_stream_without_a_session_and_a_revision_is_refused_at_once() {
    let (app, _) = app();
    let bare = request("GET", "reader", "/mcp").header("accept", "text/event-stream");
    let bare = app.send(bare.body(Body::empty()).unwrap()).await;
    assert_eq!(code(&bare), (405, -32600));
    assert!(bare.text.contains("no HTTP+SSE transport"), "{}", bare.text);
}

/// SDKs discard a body that is not the reply to the request.
#[tokio::test]
async fn a_refused_request_gets_a_json_rpc_error_with_its_id() {
    let closed = App::with(application(), options(|options| options.require_auth = true));
    let body = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    for (token, host, challenge, status) in [
        ("", "localhost", "Bearer realm=\"callgate\"", 401),
        ("nobody", "localhost", "Bearer realm=\"callgate\", error=\"invalid_token\"", 401),
        ("reader", "evil.example.com", "", 403),
    ] {
        for id in ["7", "\"a\""] {
            let mut post = request("POST", token, "/mcp").body(Body::from(body(id))).unwrap();
            post.headers_mut().insert("host", host.parse().unwrap());
            let reply = closed.send(post).await;
            assert_eq!(code(&reply), (status, -32600));
            assert_eq!(reply.json()["id"].to_string(), id);
            assert_eq!(reply.json()["jsonrpc"], "2.0");
            let found = reply.header("www-authenticate");
            assert!(found.starts_with(challenge) && found.is_empty() == challenge.is_empty());
        }
    }
    let big = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(1 << 17));
    for body in [big, "nonsense".to_owned(), format!("[{}]", body("1")), body("null"), body("1.5")]
    {
        let reply = closed.post("", "/mcp", body).await;
        assert_eq!(code(&reply), (401, -32600));
        assert_eq!(reply.json().get("id"), None, "{:.80}", reply.text);
    }
    let foreign = request("POST", "reader", "/mcp").header("origin", "https://evil.example.com");
    let reply = closed.send(foreign.body(Body::from(body("1"))).unwrap()).await;
    assert_eq!((code(&reply), reply.json().get("id")), ((403, -32600), None));
}

#[tokio::test]
async fn the_root_path_serves_mcp_if_configured() {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let (app, _) = app();
    assert_eq!(app.post("", "/", ping).await.status, 404);
    let app = App::with(application(), options(|options| options.mcp_at_root = true));
    assert_eq!(app.post("", "/", ping).await.json()["result"], json!({}));
}

#[tokio::test]
async fn mcp_needs_a_credential_if_require_auth_is_set() {
    let app = App::with(application(), options(|options| options.require_auth = true));
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let reply = app.post("", "/mcp", ping).await;
    assert_eq!(reply.status, 401);
    assert!(reply.header("www-authenticate").starts_with("Bearer"));
    assert_eq!(app.post("reader", "/mcp", ping).await.status, 200);
}

fn raw_request_path(message: &Value) -> String {
    let message = message.to_string();
    let query: String = form_urlencoded::byte_serialize(message.as_bytes()).collect();
    format!("/?rawRequest={query}")
}

#[tokio::test]
async fn raw_request_answers_a_message_or_a_batch() {
    let app = App::with(
        tools(&Slow::new()),
        options(|options| {
            options.raw_request = true;
            options.mcp_at_root = true;
        }),
    );
    let zero = json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
    assert_eq!(
        app.get("reader", &raw_request_path(&zero)).await.text,
        r#"{"jsonrpc":"2.0","id":0,"result":{}}"#
    );
    let path = raw_request_path(&zero).replacen('/', "/mcp", 1);
    assert_eq!(app.get("reader", &path).await.status, 200, "both paths support it");
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {}}});
    let reply = app.get("reader", &raw_request_path(&initialize)).await;
    assert_eq!(reply.json()["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(reply.header("mcp-session-id"), "", "no session is opened");
    let list = json!([initialize, zero]);
    assert_eq!(
        app.get("reader", &raw_request_path(&list)).await.json().as_array().unwrap().len(),
        2
    );
    let call = |name: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": {"id": 1}}})
    };
    let read = app.get("admin", &raw_request_path(&call("content_article_read"))).await;
    assert!(read.json()["result"]["content"].is_array());
    let mut modern = call("content_article_delete");
    modern["params"]["_meta"] =
        app.client("", MODERN).message("x", json!({}))["params"]["_meta"].clone();
    for destructive in [call("content_article_delete"), modern] {
        let reply = app.get("admin", &raw_request_path(&destructive)).await;
        assert_eq!(code(&reply), (405, -32600), "{}", reply.text);
        assert!(reply.text.contains("Tool 'content_article_delete' is not declared read-only"));
    }
    assert_eq!(code(&app.get("reader", "/?rawRequest=%7B").await), (400, -32700));
}

#[tokio::test]
async fn raw_request_is_off_by_default_and_refused_to_pages_of_other_sites() {
    let ping = raw_request_path(&json!({"jsonrpc": "2.0", "id": 0, "method": "ping"}))
        .replacen('/', "/mcp", 1);
    let (app, _) = app();
    let off = app.get("reader", &ping).await;
    assert_eq!(off.status, 405);
    assert!(off.text.contains("raw_request"));
    let app = App::with(application(), options(|options| options.raw_request = true));
    for (site, status) in
        [("none", 200), ("same-origin", 200), ("same-site", 403), ("cross-site", 403)]
    {
        let get = request("GET", "reader", &ping).header("sec-fetch-site", site);
        assert_eq!(app.send(get.body(Body::empty()).unwrap()).await.status, status, "{site}");
    }
}
