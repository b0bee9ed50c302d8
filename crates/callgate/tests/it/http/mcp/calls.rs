//! `tools/call` in each revision.

use super::*;

#[tokio::test]
async fn results_are_text_and_structured_content_as_the_revision_requires() {
    let (app, _) = app();
    let mut results = Vec::new();
    for revision in ["2024-11-05", "2025-06-18", MODERN] {
        for name in ["shape_object", "shape_list", "shape_text", "outcome_null", "open_echo"] {
            let arguments =
                if name == "open_echo" { json!({"value": [1, "é"]}) } else { json!({}) };
            let mut result = app.client("reader", revision).call(name, arguments).await;
            result.as_object_mut().unwrap().remove("_meta");
            results.push(json!({format!("{revision} {name}"): result}));
        }
    }
    insta::assert_json_snapshot!(results);
}

#[tokio::test]
async fn errors_of_a_tool_are_results_for_the_agent() {
    let (app, _) = app();
    let mut texts = Vec::new();
    for (name, arguments) in [
        ("content_article_read", json!({"id": "x"})),
        ("content_article_read", json!({})),
        ("outcome_rpc_error", json!({})),
        ("outcome_rpc_error_without_words", json!({})),
        ("outcome_failure", json!({})),
        ("outcome_panic", json!({})),
        ("shape_broken", json!({})),
    ] {
        // Before 2025-06-18, tools declare no output schema.
        let from = if name == "shape_broken" { 2 } else { 0 };
        for revision in &REVISIONS[from..] {
            let result = app.client("reader", revision).call(name, arguments.clone()).await;
            assert_eq!(result["isError"], true, "{name}");
            assert!(result.get("structuredContent").is_none());
            assert_eq!(result.get("resultType").is_some(), *revision == MODERN);
            let mut text = result["content"][0]["text"].as_str().unwrap().to_owned();
            if let Some(at) = text.find("mcp_") {
                text.replace_range(at..at + 28, "mcp_…");
            }
            assert!(!text.contains("hunter2"));
            if *revision == MODERN {
                texts.push(format!("{name}: {text}"));
            }
        }
    }
    insta::assert_debug_snapshot!(texts);
}

#[tokio::test]
async fn long_error_data_is_truncated() {
    let mut local = Local::default();
    local.method(method("big"), async |_, _: Value| -> Result<(), Error> {
        let data = Some(json!("é".repeat(5_000)));
        Err(Error::rpc(RpcError { data, ..RpcError::new(-32020, "mismatch") }))
    });
    let app = App::with(local, HttpOptions::default());
    let result = app.client("", MODERN).call("big", json!({})).await;
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("mismatch (code -32020)\n\"é") && text.ends_with('…'), "{text}");
    assert!(text.len() < 2_200);
}

#[tokio::test]
async fn a_denied_tool_is_reported_as_unknown_over_mcp() {
    let (app, _) = app();
    for revision in REVISIONS {
        let client = app.client("reader", revision);
        let denied = client.request("tools/call", json!({"name": "content_article_delete"})).await;
        let unknown = client.request("tools/call", json!({"name": "content_article_forget"})).await;
        assert_eq!(code(&denied), (200, -32602));
        assert_eq!(code(&unknown), (200, -32602));
        assert_eq!(denied.text.replace("delete", "forget"), unknown.text);
        assert_eq!(
            denied.json()["error"]["message"],
            "Tool 'content_article_delete' not found or access denied"
        );
    }
}

#[tokio::test]
async fn invalid_parameters_of_tools_call_are_refused() {
    let (app, _) = app();
    for revision in REVISIONS {
        let client = app.client("reader", revision);
        for params in [
            json!({}),
            json!({"name": 7}),
            json!({"name": "shape_object", "arguments": []}),
            json!({"name": "shape_object", "arguments": "text"}),
            json!({"name": "shape_object", "_meta": {"progressToken": {}}}),
        ] {
            let reply = client.request("tools/call", params.clone()).await;
            assert_eq!(code(&reply), (200, -32602), "{params}");
            assert_eq!(reply.json()["id"], 1);
        }
        // Absent and null arguments count as no arguments.
        client.result("tools/call", json!({"name": "shape_object"})).await;
        client.result("tools/call", json!({"name": "shape_object", "arguments": null})).await;
    }
}

#[tokio::test]
async fn duplicate_keys_in_arguments_are_refused() {
    let (app, _) = app();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"open_echo","arguments":{"value":{"a":1,"a":2}}}}"#;
    let reply = app.post("reader", "/mcp", body).await;
    assert_eq!(reply.json()["result"]["isError"], true, "{}", reply.text);
    assert!(reply.text.contains("duplicated"));
}

#[tokio::test]
async fn ids_are_returned_unchanged() {
    let (app, _) = app();
    for id in [r#""x""#, "0", "-7", r#""\u00e9\n""#, "9007199254740993", r#""""#] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let reply = app.post("", "/mcp", body).await;
        assert_eq!(reply.text, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
}

#[tokio::test]
async fn x_mcp_headers_must_match_the_body() {
    let (app, _) = app();
    let client = app.client("reader", MODERN);
    let call = async |arguments: Value, headers: &[(&str, &str)]| {
        let params = json!({"name": "routed", "arguments": &arguments});
        let message = client.message("tools/call", params);
        let mut request = client.builder(&message);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let reply = app.send(request.body(message.to_string().into()).unwrap()).await;
        // The method returns its arguments, which shows that it ran.
        let expected = json!(arguments.to_string());
        let ran = reply.json()["result"]["content"][0]["text"] == expected;
        if ran { (200, 0) } else { code(&reply) }
    };
    let success = (200, 0);
    let mismatch = (400, -32020);
    let region = |value: &'static str| [("Mcp-Param-Region", value)];
    assert_eq!(call(json!({}), &[]).await, success);
    let null = client.call("routed", json!({"region": null})).await;
    assert_eq!(null["isError"], true, "null needs no header, but is not a string");
    assert_eq!(call(json!({"region": "eu"}), &region("eu")).await, success);
    assert_eq!(call(json!({"region": "é"}), &region("=?base64?w6k=?=")).await, success);
    assert_eq!(call(json!({"count": 42}), &[("mcp-param-count", "42")]).await, success);
    assert_eq!(call(json!({"count": 42.0}), &[("mcp-param-count", "42")]).await, success);
    assert_eq!(call(json!({"region": "eu"}), &[]).await, mismatch, "no header");
    assert_eq!(call(json!({"region": "eu"}), &region("us")).await, mismatch);
    assert_eq!(call(json!({"region": "eu"}), &region("EU")).await, mismatch);
    assert_eq!(call(json!({"region": "é"}), &region("=?base64?w6k?=")).await, mismatch);
    assert_eq!(call(json!({"count": 42}), &[("mcp-param-count", "43")]).await, mismatch);
    assert_eq!(call(json!({}), &region("eu")).await, mismatch, "no argument");
    let duplicate = [("mcp-param-region", "eu"), ("mcp-param-region", "eu")];
    assert_eq!(call(json!({"region": "eu"}), &duplicate).await, mismatch);
    // Legacy clients do not send these headers.
    app.client("reader", "2025-11-25").call("routed", json!({"region": "eu"})).await;
}

#[tokio::test]
async fn a_failure_is_logged_to_clients_that_request_logs() {
    let (app, _) = app();
    let client = app.client("reader", MODERN);
    let params = json!({
        "name": "outcome_failure", "_meta": {"io.modelcontextprotocol/logLevel": "warning"},
    });
    let mut stream = client.stream("tools/call", params).await;
    let notification = stream.next().await.unwrap();
    assert_eq!(notification["method"], "notifications/message");
    assert_eq!(notification["params"]["level"], "error");
    let reply = stream.next().await.unwrap();
    assert_eq!(reply["result"]["isError"], true);
    let error_id = notification["params"]["data"]["error_id"].as_str().unwrap();
    assert!(reply["result"]["content"][0]["text"].as_str().unwrap().contains(error_id));
    assert!(stream.next().await.is_none());
    // There is no notification if the failure is less severe than the requested level, or if no level is requested.
    let params = json!({
        "name": "outcome_failure", "_meta": {"io.modelcontextprotocol/logLevel": "alert"},
    });
    client.result("tools/call", params).await;
    client.call("outcome_failure", json!({})).await;
    let mut legacy = app.client("reader", "2025-06-18");
    legacy.initialize().await;
    legacy.result("logging/setLevel", json!({"level": "debug"})).await;
    let mut stream = legacy.stream("tools/call", json!({"name": "outcome_failure"})).await;
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/message");
}
