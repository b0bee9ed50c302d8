//! `GET /mcp/tools/list`

use super::*;

fn names(reply: &Reply) -> Vec<String> {
    let body = reply.json();
    let tools = body["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_list_has_tools_and_a_cursor() {
    let reply = App::new().get("admin", "/mcp/tools/list").await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.header("content-type"), "application/json");
    let body = reply.json();
    assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["tools", "nextCursor"]);
    assert_eq!(reply.header("content-length"), reply.text.len().to_string());
}

#[tokio::test]
async fn a_caller_without_tools_gets_an_empty_list() {
    let reply =
        App::with(Local::default(), HttpOptions::default()).get("", "/mcp/tools/list").await;
    assert_eq!(reply.text, r#"{"tools":[],"nextCursor":null}"#);
}

#[tokio::test]
async fn a_page_has_50_tools_and_a_cursor_only_if_there_are_more() {
    let fifty = App::with(many(50), HttpOptions::default()).get("", "/mcp/tools/list").await;
    assert_eq!((names(&fifty).len(), &fifty.json()["nextCursor"]), (50, &Value::Null));
    let app = App::with(many(51), HttpOptions::default());
    let first = app.get("", "/mcp/tools/list").await;
    assert_eq!((names(&first).len(), &first.json()["nextCursor"]), (50, &json!("NTA=")));
    let second = app.get("", "/mcp/tools/list?cursor=NTA=").await;
    assert_eq!(names(&second), ["m0050"]);
    assert_eq!(second.json()["nextCursor"], Value::Null);
}

#[tokio::test]
async fn cursors_are_accepted_padded_unpadded_escaped_and_empty() {
    let app = App::with(many(51), HttpOptions::default());
    for cursor in ["NTA=", "NTA", "NTA%3D"] {
        let reply = app.get("", &format!("/mcp/tools/list?cursor={cursor}")).await;
        assert_eq!(names(&reply), ["m0050"], "{cursor}");
    }
    assert_eq!(names(&app.get("", "/mcp/tools/list?cursor=").await).len(), 50);
}

#[tokio::test]
async fn an_invalid_cursor_is_an_error_and_a_page_past_the_end_is_empty() {
    let app = App::with(many(51), HttpOptions::default());
    // Text that is not base64, base64 of `-5`, base64 of `x`, and bytes that are not UTF-8.
    for cursor in ["%%%", "LTU=", "eA==", "%FF%FE"] {
        let reply = app.get("", &format!("/mcp/tools/list?cursor={cursor}")).await;
        assert_eq!(reply.error_code(), (400, "invalid_cursor".to_owned()), "{cursor}");
    }
    let past = app.get("", "/mcp/tools/list?cursor=MTAwMA==").await;
    assert_eq!(past.text, r#"{"tools":[],"nextCursor":null}"#);
    let huge = app.get("", "/mcp/tools/list?cursor=MTg0NDY3NDQwNzM3MDk1NTE2MTU=").await;
    assert_eq!(huge.text, r#"{"tools":[],"nextCursor":null}"#);
}

#[tokio::test]
async fn pages_are_in_order_and_contain_each_tool_once() {
    let app = App::with(many(120), HttpOptions::default());
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let reply = app.get("", &format!("/mcp/tools/list?cursor={cursor}")).await;
        all.extend(names(&reply));
        match reply.json()["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(all, (0..120).map(|number| format!("m{number:04}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn each_caller_lists_their_own_tools() {
    let app = App::new();
    let listed = async |caller: &str| names(&app.get(caller, "/mcp/tools/list").await);
    let (anonymous, reader, admin) =
        (listed("").await, listed("reader").await, listed("admin").await);
    assert!(!anonymous.contains(&"content.article.read".to_owned()));
    assert!(reader.contains(&"content.article.read".to_owned()));
    assert!(!reader.contains(&"content.article.delete".to_owned()));
    assert!(admin.contains(&"content.article.delete".to_owned()));
    assert!(anonymous.len() < reader.len() && reader.len() < admin.len());
}

#[tokio::test]
async fn the_list_is_open_to_anonymous_callers_and_never_cached() {
    // `App::send` checks the header on every reply.
    assert_eq!(App::new().get("", "/mcp/tools/list").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_changed_catalog_is_used_by_the_next_request() {
    let app = App::new();
    app.gateway.set_catalog(Arc::default());
    let reply = app.get("admin", "/mcp/tools/list").await;
    assert_eq!(reply.text, r#"{"tools":[],"nextCursor":null}"#);
}
