//! `POST /mcp/tools/invoke`

use super::*;

#[tokio::test]
async fn invoke_returns_the_result() {
    let reply = App::new().invoke("reader", "content.article.read", json!({"id": 7})).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.text, r#"{"result":{"id":7,"body":"é"}}"#);
}

#[tokio::test]
async fn bodies_are_checked_for_json_then_name_then_arguments() {
    let app = App::new();
    let mut replies = Vec::new();
    for body in [
        "",
        "{bad",
        "{\"name\":\"open.echo\",\"arguments\":{}",
        "null",
        "[]",
        "\"text\"",
        "{}",
        r#"{"name":7,"arguments":{}}"#,
        r#"{"name":null,"arguments":{}}"#,
        r#"{"arguments":{}}"#,
        r#"{"name":"no.such.tool"}"#,
        r#"{"name":"no.such.tool","arguments":null}"#,
        r#"{"name":"no.such.tool","arguments":"x"}"#,
        r#"{"name":"no.such.tool","arguments":7}"#,
        r#"{"name":"no.such.tool","arguments":{}}"#,
        r#"{"name":"open.echo","name":"content.article.delete","arguments":{}}"#,
    ] {
        let reply = app.post("reader", "/mcp/tools/invoke", body).await;
        replies.push(format!("{body} -> {} {}", reply.status.as_u16(), reply.text));
    }
    insta::assert_debug_snapshot!(replies);
}

#[tokio::test]
async fn a_body_that_is_not_utf8_is_not_json() {
    let reply = App::new().post("", "/mcp/tools/invoke", vec![b'"', 0xff, b'"']).await;
    assert_eq!(reply.error_code(), (400, "invalid_json".to_owned()));
}

#[tokio::test]
async fn arguments_may_be_empty_or_a_list() {
    let app = App::new();
    assert_eq!(app.invoke("", "outcome.null", json!({})).await.status, StatusCode::OK);
    assert_eq!(app.invoke("", "outcome.null", json!([])).await.status, StatusCode::OK);
    let listed = app.invoke("reader", "content.article.read", json!([7])).await;
    assert_eq!(listed.json()["result"]["id"], 7);
}

#[tokio::test]
async fn invoking_unknown_and_denied_tools_is_the_same_404() {
    let app = App::new();
    let denied = app.invoke("reader", "content.article.delete", json!({"id": 1})).await;
    assert_eq!(denied.status, StatusCode::NOT_FOUND);
    assert_eq!(
        denied.text,
        r#"{"error":{"code":"tool_not_found","message":"Tool 'content.article.delete' not found or access denied"}}"#
    );
    let unknown = app.invoke("reader", "content.article.delet", json!({"id": 1})).await;
    assert_eq!(unknown.text, denied.text.replace("delete", "delet"));
    // Invalid arguments do not reveal the difference either.
    let denied = app.invoke("reader", "content.article.delete", json!({"id": "x"})).await;
    assert_eq!(denied.error_code(), (404, "tool_not_found".to_owned()));
    assert_eq!(
        app.invoke("admin", "content.article.delete", json!({"id": 1})).await.text,
        r#"{"result":true}"#
    );
}

#[tokio::test]
async fn an_error_of_the_method_is_500_with_its_message_code_and_data() {
    let app = App::new();
    assert_eq!(
        app.invoke("", "outcome.rpc_error", json!({})).await.parts(),
        (
            500,
            json!({"error": {
                "code": "execution_error",
                "message": "the title is taken",
                "data": {"code": 4711, "message": "the title is taken", "data": {"field": "title"}},
            }})
        )
    );
    let without_message = app.invoke("", "outcome.rpc_error_without_words", json!({})).await;
    assert_eq!(without_message.json()["error"]["message"], "Tool execution failed");
}

#[tokio::test]
async fn a_failure_is_500_with_an_error_id_and_no_secret() {
    let app = App::new();
    for tool in ["outcome.failure", "outcome.panic"] {
        let reply = app.invoke("", tool, json!({})).await;
        assert_eq!(reply.error_code(), (500, "execution_error".to_owned()));
        assert_eq!(reply.json()["error"]["message"], "Tool execution failed");
        assert!(reply.json()["error"]["error_id"].as_str().unwrap().starts_with("mcp_"));
        assert!(!reply.text.contains("hunter2"), "{}", reply.text);
    }
    // The server continues to work.
    assert_eq!(app.invoke("", "outcome.null", json!({})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn data_that_looks_like_an_error_is_a_result() {
    let reply = App::new().invoke("", "outcome.error_like", json!({})).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.json()["result"]["error"]["message"], "only data");
}

#[tokio::test]
async fn only_post_invokes() {
    let app = App::new();
    for method in ["GET", "PUT", "DELETE", "PATCH"] {
        let request = request(method, "admin", "/mcp/tools/invoke").body(Body::empty()).unwrap();
        let reply = app.send(request).await;
        assert_eq!(reply.error_code(), (405, "method_not_allowed".to_owned()), "{method}");
        assert_eq!(reply.header("allow"), "POST");
    }
}

#[tokio::test]
async fn a_null_result_is_a_result() {
    assert_eq!(App::new().invoke("", "outcome.null", json!({})).await.text, r#"{"result":null}"#);
}

#[tokio::test]
async fn invalid_arguments_are_400_with_the_reason() {
    let app = App::new();
    let reply = app.invoke("reader", "content.article.read", json!({"id": "seven"})).await;
    assert_eq!(
        reply.parts(),
        (
            400,
            json!({"error": {
                "code": "invalid_arguments",
                "message": "argument `id`: expected integer, found string \"seven\"",
            }})
        )
    );
    let body = r#"{"name":"content.article.read","arguments":{"id":1,"id":2}}"#;
    let duplicate = app.post("reader", "/mcp/tools/invoke", body).await;
    assert_eq!(duplicate.error_code(), (400, "invalid_arguments".to_owned()));
}
