//! A table of replies as real services send them.

use std::fmt::Write as _;

use http::HeaderValue;

use super::*;
use crate::http_client::send_error::{SendError, SendErrorKind};
use crate::model::method::Safety;

const OK: u16 = 200;

fn read(status: u16, media: &'static str, body: &str) -> String {
    let mut headers = HeaderMap::new();
    if !media.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    }
    let status = StatusCode::from_u16(status).unwrap();
    let headers = ResponseHeaders::Map(Box::new(headers));
    let response = ServiceResponse { status, headers, body: body.to_owned() };
    match response.read(&RequestId::String("mcp_1".into())) {
        Ok(result) => format!("result {result}"),
        Err(reply @ (Failure::Error(_) | Failure::Denied(_))) => format!("{reply:?}"),
        Err(failure) => format!("{:?}: {failure}", failure.outcome()),
    }
}

fn table(rows: &[(u16, &'static str, &str)]) -> String {
    let mut table = String::new();
    for (status, media, body) in rows {
        let line = body.replace('\n', "\\n");
        writeln!(table, "{status} {media} {line}\n    {}", read(*status, media, body)).unwrap();
    }
    table
}

const JSON: &str = "application/json";

#[test]
fn replies_of_json_rpc_1_and_2_are_parsed() {
    let replies = table(&[
        (OK, JSON, r#"{"jsonrpc":"2.0","result":{ "a" : 1.0 },"id":"mcp_1"}"#),
        (OK, JSON, r#"{"jsonrpc":"2.0","result":null,"id":"mcp_1"}"#),
        (OK, "application/json-rpc", r#"{"id":"mcp_1","jsonrpc":"2.0","result":[]}"#),
        (OK, "text/html; charset=UTF-8", r#"{"jsonrpc":"2.0","result":1,"id":"mcp_1"}"#),
        (OK, "", "\u{feff}{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":\"mcp_1\"}\n"),
        (OK, JSON, r#"{"result":"1.x","error":null,"id":"mcp_1"}"#),
        (OK, JSON, r#"{"result":null,"error":null,"id":"mcp_1"}"#),
        (OK, JSON, r#"{"result":null,"error":{"code":7,"message":"1.x"},"id":"mcp_1"}"#),
        (OK, JSON, r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"no"},"id":"mcp_1"}"#),
        (400, JSON, r#"{"error":{"code":1,"message":"Unauthorized"},"id":"mcp_1"}"#),
        (401, JSON, r#"{"error":{"code":1,"message":"Unauthorized"},"id":"mcp_1"}"#),
        (404, JSON, r#"{"error":{"code":-32601,"message":"no such"},"id":"mcp_1"}"#),
        (500, JSON, r#"{"error":{"code":1,"message":"a","data":{"stack":[]}},"id":"mcp_1"}"#),
        (OK, JSON, r#"{"error":{"code":-32700,"message":"Parse error"},"id":0}"#),
        (OK, JSON, r#"{"error":{"code":-32700,"message":"Parse error"}}"#),
    ]);
    insta::assert_snapshot!(replies);
}

#[test]
fn a_denial_by_drupal_is_recognised() {
    let replies = table(&[(
        OK,
        JSON,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request","data":"Access Denied: The 'administer site' permission is required."},"id":null}"#,
    )]);
    insta::assert_snapshot!(replies);
}

#[test]
fn errors_that_are_not_json_rpc_keep_their_content() {
    let replies = table(&[
        (OK, JSON, r#"{"error":"broken","id":"mcp_1"}"#),
        (OK, JSON, r#"{"error":{"code":"42","message":"text"},"id":"mcp_1"}"#),
        (OK, JSON, r#"{"error":{"message":"no code"},"id":"mcp_1"}"#),
        (OK, JSON, r#"{"error":{"code":3,"faultString":"other"},"id":"mcp_1"}"#),
        (OK, JSON, r#"{"error":true,"id":"mcp_1"}"#),
    ]);
    insta::assert_snapshot!(replies);
}

#[test]
fn responses_that_are_not_replies_are_classified() {
    let replies = table(&[
        (OK, JSON, ""),
        (204, "", ""),
        (OK, "text/html", "<html>"),
        (OK, "nonsense (really)", "<html>"),
        (OK, JSON, r#"{"jsonrpc":"2.0","result":"#),
        (OK, JSON, r#"{"jsonrpc":"2.0","id":"mcp_1"}"#),
        (OK, JSON, r#"{"error":null,"id":"mcp_1"}"#),
        (OK, JSON, r#"[{"jsonrpc":"2.0","result":1,"id":"mcp_1"}]"#),
        (OK, JSON, "1"),
        (OK, JSON, r#"{"result":1,"result":2,"id":"mcp_1"}"#),
        (OK, JSON, r#"{"jsonrpc":"2.0","result":1,"id":"mcp_2"}"#),
        (OK, JSON, r#"{"jsonrpc":"2.0","result":1,"id":null}"#),
        (OK, JSON, r#"{"jsonrpc":"2.0","result":1}"#),
        (OK, JSON, r#"{"error":{"code":1,"message":"other"},"id":"mcp_2"}"#),
        (401, "text/html", "<html>"),
        (403, JSON, r#"{"message":"forbidden"}"#),
        (502, "text/html", "<html>"),
        (500, JSON, r#"{"jsonrpc":"2.0","result":1,"id":"mcp_1"}"#),
    ]);
    insta::assert_snapshot!(replies);
}

#[test]
fn each_failure_describes_the_problem_and_the_remedy() {
    use std::time::Duration;
    let second = Duration::from_secs(1);
    let bad_gateway = StatusCode::BAD_GATEWAY;
    let unexpected =
        |status, problem| Failure::Unexpected(UnexpectedResponse::new(status, problem, "s3cret"));
    let failures = [
        Failure::Busy(second),
        Failure::Down,
        Failure::never_sent("connection refused"),
        Failure::Send(SendError::new(SendErrorKind::NotTls, "the server does not speak TLS")),
        Failure::Send(SendError::new(SendErrorKind::NotHttp, "the server does not speak HTTP")),
        Failure::TimedOut(second),
        Failure::broken("connection reset"),
        Failure::Truncated("connection reset".to_owned()),
        Failure::TooLarge(4096),
        Failure::Redirected {
            status: StatusCode::FOUND,
            to: "http://localhost/?s3cret".parse().ok(),
        },
        Failure::Refused(AuthRefusal::of(StatusCode::UNAUTHORIZED, &HeaderMap::new()).unwrap()),
        Failure::NoSuchTool,
        Failure::Internal("division by zero".to_owned()),
        unexpected(bad_gateway, ResponseProblem::Status),
        unexpected(StatusCode::OK, ResponseProblem::ContentType("text/html".to_owned())),
        unexpected(StatusCode::OK, ResponseProblem::NotJson),
        unexpected(StatusCode::NO_CONTENT, ResponseProblem::Empty),
        unexpected(StatusCode::OK, ResponseProblem::NotRpc("not an object")),
        Failure::WrongId,
        Failure::MissingReply,
        Failure::Unmatched,
    ];
    let mut table = String::new();
    for failure in failures {
        let name = failure.outcome().name();
        let message = failure.user_message(Safety::Destructive, true);
        writeln!(table, "{name}\n  log: {failure}\n  {message}").unwrap();
    }
    assert!(!table.contains("s3cret"));
    insta::assert_snapshot!(table);
}
