//! Every server passes the checks of the load generator, and the minimal server sends the same bytes as Callgate.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use callgate_bench::candidate::Candidate;
use callgate_bench::model;
use callgate_bench::suite::Suite;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

const TOOLS: usize = 50;

async fn send(candidate: Candidate, request: Request<Body>) -> (StatusCode, Vec<u8>) {
    let tools = model::tools(TOOLS);
    let response = match candidate {
        Candidate::Bare => crate::bare::router(&tools).unwrap().oneshot(request).await,
        Candidate::Callgate => {
            crate::with_callgate::service(&tools).unwrap().oneshot(request).await
        }
        Candidate::Rmcp => crate::with_rmcp::router(&tools).oneshot(request).await,
        other => panic!("{other} is not tested in this process"),
    };
    let response = response.unwrap();
    let status = response.status();
    (status, response.into_body().collect().await.unwrap().to_bytes().to_vec())
}

async fn answers_every_case(candidate: Candidate) {
    for &case in Suite::Local.cases() {
        for request in case.requests(TOOLS).iter().take(3) {
            let mut sent = Request::post("/mcp").header("host", "127.0.0.1");
            for (name, value) in &request.headers {
                sent = sent.header(*name, value);
            }
            let sent = sent.body(request.body.clone().into()).unwrap();
            let (status, body) = send(candidate, sent).await;
            let text = String::from_utf8_lossy(&body);
            assert_eq!(status, StatusCode::OK, "{case}: {text}");
            assert_eq!(case.problem(request, TOOLS, &body), None, "{case}: {text}");
            assert!(text.contains(&request.expected), "{case}: {text}");
        }
    }
}

#[tokio::test]
async fn bare_answers_every_case() {
    answers_every_case(Candidate::Bare).await;
}

#[tokio::test]
async fn rmcp_answers_every_case() {
    answers_every_case(Candidate::Rmcp).await;
}

#[tokio::test]
async fn callgate_answers_every_case() {
    answers_every_case(Candidate::Callgate).await;
}

#[tokio::test]
async fn bare_replies_in_callgates_bytes() {
    for &case in Suite::Local.cases() {
        let request = case.requests(TOOLS).into_iter().next().unwrap();
        let mut replies = Vec::new();
        for candidate in [Candidate::Bare, Candidate::Callgate] {
            let mut sent = Request::post("/mcp").header("host", "127.0.0.1");
            for (name, value) in &request.headers {
                sent = sent.header(*name, value);
            }
            let sent = sent.body(request.body.clone().into()).unwrap();
            let (_, body) = send(candidate, sent).await;
            replies.push(String::from_utf8(body).unwrap());
        }
        assert_eq!(replies[0], replies[1], "{case}");
    }
}

async fn rest(path: &str, token: usize, body: Option<Value>) -> (StatusCode, String) {
    let method = if body.is_some() { "POST" } else { "GET" };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1")
        .header("authorization", format!("Bearer {}", model::token(token)))
        .header("content-type", "application/json")
        .body(body.map_or_else(Body::empty, |body| body.to_string().into()))
        .unwrap();
    let (status, body) = send(Candidate::Callgate, request).await;
    (status, String::from_utf8(body).unwrap())
}

#[tokio::test]
async fn callgate_lists_the_same_tools_in_the_same_bytes() {
    let right: Vec<Value> = model::tools(TOOLS).iter().map(model::Tool::to_json).collect();
    let right = format!(r#"{{"tools":{},"nextCursor":null}}"#, Value::from(right));
    // Only MCP clients are told that other arguments are refused.
    let right = right.replace(r#","additionalProperties":false"#, "");
    assert_eq!(rest("/mcp/tools/list", 100, None).await, (StatusCode::OK, right));
}

#[tokio::test]
async fn callgate_and_the_model_agree_on_what_a_token_sees() {
    for token in [1, 42, 999] {
        let (_, listed) = rest("/mcp/tools/list", token, None).await;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let grants = model::grant_set(model::grant_set_of_token(token));
        let right: Vec<String> = model::tools(TOOLS)
            .into_iter()
            .filter(|tool| tool.is_open_to(grants))
            .map(|tool| tool.name)
            .collect();
        let names = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone());
        assert_eq!(names.collect::<Vec<_>>(), right);
    }
}

#[tokio::test]
async fn callgate_echoes() {
    let arguments = json!({"text": "hello"});
    let body = json!({"name": "echo", "arguments": arguments});
    let reply = rest("/mcp/tools/invoke", 7, Some(body)).await;
    assert_eq!(reply, (StatusCode::OK, json!({"result": arguments}).to_string()));
}
