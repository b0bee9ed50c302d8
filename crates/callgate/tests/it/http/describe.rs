//! `GET /mcp/tools/describe`

use super::*;

#[tokio::test]
async fn a_described_tool_equals_the_listed_one() {
    let app = App::new();
    let described = app.get("admin", "/mcp/tools/describe?name=content.article.delete").await;
    assert_eq!(described.status, StatusCode::OK);
    insta::assert_json_snapshot!(described.json());
    let listed = app.get("admin", "/mcp/tools/list").await.json();
    let listed = listed["tools"].as_array().unwrap().iter();
    let listed = listed.into_iter().find(|tool| tool["name"] == "content.article.delete").unwrap();
    assert_eq!(&described.json()["tool"], listed);
}

#[tokio::test]
async fn describing_unknown_and_denied_tools_is_the_same_404() {
    let app = App::new();
    let denied = app.get("reader", "/mcp/tools/describe?name=content.article.delete").await;
    assert_eq!(
        denied.text,
        r#"{"error":{"code":"tool_not_found","message":"Tool 'content.article.delete' not found or access denied"}}"#
    );
    let unknown = app.get("reader", "/mcp/tools/describe?name=content.article.delet").await;
    assert_eq!(denied.status, StatusCode::NOT_FOUND);
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert_eq!(unknown.text, denied.text.replace("delete", "delet"));
    let headers = |reply: &Reply| {
        let mut headers = reply.headers.clone();
        headers.remove("content-length");
        headers
    };
    assert_eq!(headers(&denied), headers(&unknown));
}

#[tokio::test]
async fn describing_without_a_name_is_400() {
    let app = App::new();
    for path in ["/mcp/tools/describe", "/mcp/tools/describe?name=", "/mcp/tools/describe?nam=x"] {
        assert_eq!(
            app.get("admin", path).await.parts(),
            (
                400,
                json!({"error": {
                    "code": "missing_parameter",
                    "message": "Required parameter \"name\" is missing or invalid",
                }})
            ),
            "{path}"
        );
    }
}

#[tokio::test]
async fn permission_is_checked_on_each_request() {
    let app = App::new();
    let path = "/mcp/tools/describe?name=content.article.read";
    assert_eq!(app.get("reader", path).await.status, StatusCode::OK);
    app.gateway.set_catalog(Arc::default());
    assert_eq!(app.get("reader", path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(
        App::new().get("", "/mcp/tools/describe?name=open.echo").await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn names_in_the_query_are_decoded() {
    let mut local = Local::default();
    local.method(method("ünï code/x"), async |_, _: Value| Ok::<_, Error>(1));
    let app = App::with(local, HttpOptions::default());
    let path = "/mcp/tools/describe?name=%C3%BCn%C3%AF+code%2Fx";
    assert_eq!(app.get("", path).await.json()["tool"]["name"], "ünï code/x");
}

#[tokio::test]
async fn constraints_and_defaults_are_described() {
    let mut local = Local::default();
    local.method(
        method("search")
            .param(param("limit", "int<1, 100>").description("How many.").default(json!(10)))
            .param(param("order", "'asc'|'desc'").optional()),
        async |_, _: Value| Ok::<_, Error>(1),
    );
    let app = App::with(local, HttpOptions::default());
    let tool = app.get("", "/mcp/tools/describe?name=search").await.json();
    assert_eq!(
        tool["tool"]["inputSchema"]["properties"],
        json!({
            "limit": {
                "type": "integer", "minimum": 1, "maximum": 100,
                "description": "How many.", "default": 10,
            },
            "order": {"type": "string", "enum": ["asc", "desc"]},
        })
    );
}
