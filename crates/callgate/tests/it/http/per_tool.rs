//! `POST /mcp/tools/{id}` and `GET /mcp/tools/{id}?query=`

use super::*;

fn payload(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params, "id": 7}).to_string()
}

#[tokio::test]
async fn a_payload_for_the_tool_of_the_url_runs() {
    let app = App::new();
    let body = payload("content.article.read", json!({"id": 1}));
    let reply = app.post("reader", "/mcp/tools/content.article.read", body).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.text, r#"{"jsonrpc":"2.0","id":7,"result":{"id":1,"body":"é"}}"#);
}

#[tokio::test]
async fn the_url_of_a_tool_accepts_neither_another_method_nor_a_batch() {
    let app = App::new();
    let other = payload("content.article.delete", json!({"id": 1}));
    let reply = app.post("reader", "/mcp/tools/open.echo", other.clone()).await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()["error"]["code"].as_i64()),
        (400, Some(-32600))
    );
    // Callers that may call the method are refused too: the URL decides which method runs.
    let reply = app.post("admin", "/mcp/tools/open.echo", other.clone()).await;
    assert_eq!(reply.json()["error"]["code"], -32600);
    let batch = format!("[{},{other}]", payload("open.echo", json!({"value": 1})));
    let reply = app.post("admin", "/mcp/tools/open.echo", batch).await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()["error"]["code"].as_i64()),
        (400, Some(-32600))
    );
    let duplicate =
        r#"{"jsonrpc":"2.0","method":"open.echo","method":"content.article.delete","id":1}"#;
    let reply = app.post("admin", "/mcp/tools/open.echo", duplicate).await;
    assert_eq!(reply.json()["error"]["code"], -32600);
}

#[tokio::test]
async fn unknown_and_denied_tools_are_404_with_method_not_found() {
    let app = App::new();
    for tool in ["content.article.delete", "no.such.tool"] {
        for body in [payload(tool, json!({"id": 1})), payload(tool, json!([1, 2, 3]))] {
            let reply = app.post("reader", &format!("/mcp/tools/{tool}"), body).await;
            let message = format!("Tool '{tool}' not found or access denied");
            let error = json!({"code": -32601, "message": message});
            assert_eq!(reply.parts(), (404, json!({"jsonrpc": "2.0", "id": 7, "error": error})));
        }
        // An invalid payload does not reveal the difference either.
        let reply = app.post("reader", &format!("/mcp/tools/{tool}"), "{").await;
        assert_eq!(reply.json()["error"]["code"], -32601);
    }
}

#[tokio::test]
async fn get_is_refused_to_pages_of_other_sites_unless_their_origin_is_allowed() {
    let app = App::new();
    let path = "/mcp/tools/outcome.null?query=%7B%22jsonrpc%22:%222.0%22,%22method%22:%22outcome.null%22,%22id%22:1%7D";
    let get = |site: &str| request("GET", "reader", path).header("sec-fetch-site", site);
    for (site, status) in
        [("none", 200), ("same-origin", 200), ("same-site", 403), ("cross-site", 403)]
    {
        let reply = app.send(get(site).body(Body::empty()).unwrap()).await;
        assert_eq!(reply.status, status, "{site}: {}", reply.text);
    }
    let page = get("same-site").header("origin", "http://localhost:6274");
    assert_eq!(app.send(page.body(Body::empty()).unwrap()).await.status, 200);
    let page = get("cross-site").header("origin", "https://evil.example.com");
    assert_eq!(app.send(page.body(Body::empty()).unwrap()).await.status, 403);
}

#[tokio::test]
async fn get_is_allowed_only_for_read_only_tools() {
    let app = App::new();
    let query = "%7B%22jsonrpc%22%3A%222.0%22%2C%22method%22%3A%22content.article.read%22%2C%22params%22%3A%7B%22id%22%3A3%7D%2C%22id%22%3A0%7D";
    let reply = app.get("reader", &format!("/mcp/tools/content.article.read?query={query}")).await;
    assert_eq!(reply.text, r#"{"jsonrpc":"2.0","id":0,"result":{"id":3,"body":"é"}}"#);
    let query = query.replace("read", "delete");
    let path = format!("/mcp/tools/content.article.delete?query={query}");
    let reply = app.get("admin", &path).await;
    assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!((reply.header("allow"), &reply.json()["error"]["code"]), ("POST", &json!(-32600)));
    assert_eq!(app.get("reader", &path).await.status, StatusCode::NOT_FOUND);
    let reply = app.get("reader", "/mcp/tools/content.article.read").await;
    assert_eq!(reply.error_code(), (400, "missing_parameter".to_owned()));
}

#[tokio::test]
async fn invalid_envelopes_and_failed_calls_have_their_error_codes() {
    let app = App::new();
    let code = async |tool: &str, body: String| {
        let reply = app.post("admin", &format!("/mcp/tools/{tool}"), body).await;
        (reply.status.as_u16(), reply.json()["error"]["code"].as_i64().unwrap())
    };
    assert_eq!(code("open.echo", "{".to_owned()).await, (400, -32700));
    assert_eq!(code("open.echo", r#"{"method":"open.echo"}"#.to_owned()).await, (400, -32600));
    let wrong = payload("content.article.read", json!({"id": "x"}));
    assert_eq!(code("content.article.read", wrong).await, (400, -32602));
    // The method's own error is returned unchanged.
    let method_error = payload("outcome.rpc_error", json!({}));
    assert_eq!(code("outcome.rpc_error", method_error).await, (200, 4711));
    let failed = payload("outcome.failure", json!({}));
    let reply = app.post("", "/mcp/tools/outcome.failure", failed).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["error"]["code"]), (500, &json!(-32603)));
    assert!(
        reply.json()["error"]["data"]["error_id"].is_string() && !reply.text.contains("hunter2")
    );
}

#[tokio::test]
async fn a_notification_runs_and_has_no_reply() {
    let body = r#"{"jsonrpc":"2.0","method":"outcome.null"}"#;
    let reply = App::new().post("", "/mcp/tools/outcome.null", body).await;
    assert_eq!((reply.status, reply.text.as_str()), (StatusCode::NO_CONTENT, ""));
    for method in ["outcome.failure", "outcome.rpc_error", "content.article.read"] {
        let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
        for path in [&*format!("/mcp/tools/{method}"), "/jsonrpc"] {
            let reply = App::new().post("", path, body.clone()).await;
            assert_eq!((reply.status.as_u16(), reply.text.as_str()), (204, ""), "{path}: {method}");
        }
    }
}

#[tokio::test]
async fn a_tool_named_like_an_endpoint_is_called_through_invoke() {
    let mut local = Local::default();
    local.method(method("list"), async |_, _: Value| Ok::<_, Error>("mine"));
    local.method(method("a/b c"), async |_, _: Value| Ok::<_, Error>("slash"));
    let app = App::with(local, HttpOptions::default());
    let post = app.post("", "/mcp/tools/list", payload("list", json!({}))).await;
    assert_eq!(post.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(app.invoke("", "list", json!({})).await.text, r#"{"result":"mine"}"#);
    let reply = app.post("", "/mcp/tools/a/b%20c", payload("a/b c", json!({}))).await;
    assert_eq!(reply.json()["result"], "slash");
}
