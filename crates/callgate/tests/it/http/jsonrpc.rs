//! `POST /jsonrpc`

mod discover;

use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Waker};

use callgate::Content;
use tokio::sync::Barrier;

use super::*;

const PATH: &str = "/jsonrpc";

fn call(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params, "id": 7})
}

fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

impl App {
    /// Sends a message or a batch as this caller.
    async fn rpc(&self, caller: &str, message: Value) -> Reply {
        self.post(caller, PATH, message.to_string()).await
    }
}

/// An application that counts the calls of `count`.
fn counting() -> (App, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let mut local = application();
    let counted = Arc::clone(&count);
    local.method(method("count").param(param("by", "int")), move |_, arguments: Value| {
        let by = usize::try_from(arguments["by"].as_u64().unwrap()).unwrap();
        let before = counted.fetch_add(by, Ordering::SeqCst);
        async move { Ok::<_, Error>(before + by) }
    });
    (App::with(local, HttpOptions::default()), count)
}

/// Returns the error of a reply. The status of such a reply is always 200.
fn error_of(reply: &Reply) -> Value {
    assert_eq!((reply.status, reply.header("content-type")), (StatusCode::OK, "application/json"));
    let body = reply.json();
    assert!(body.get("result").is_none(), "{body}");
    body["error"].clone()
}

#[tokio::test]
async fn a_call_by_name_and_by_position_runs() {
    let app = App::new();
    for params in [json!({"id": 1}), json!([1])] {
        let reply = app.rpc("reader", call("content.article.read", params)).await;
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!(reply.header("content-type"), "application/json");
        assert_eq!(reply.text, r#"{"jsonrpc":"2.0","id":7,"result":{"id":1,"body":"é"}}"#);
    }
    // The request has no params, its id is a string, and the result is null.
    let body = r#" {"id":"a\u0062","method":"outcome.null","jsonrpc":"2.0"}"#;
    let reply = app.post("", PATH, body).await;
    assert_eq!(reply.text, r#"{"jsonrpc":"2.0","id":"a\u0062","result":null}"#);
}

#[tokio::test]
async fn content_has_the_same_format_as_over_rest() {
    let mut local = Local::default();
    local.content_method(method("words"), async |_, _: Value| {
        Ok::<_, Error>(Content::text("some words"))
    });
    let app = App::with(local, HttpOptions::default());
    let result = app.rpc("", call("words", json!({}))).await.json()["result"].take();
    assert_eq!(result, app.invoke("", "words", json!({})).await.json()["result"]);
    assert_eq!(result["content"][0]["text"], "some words");
}

#[tokio::test]
async fn a_notification_has_no_reply_even_if_it_fails() {
    let (app, count) = counting();
    let reply = app.rpc("", notification("count", json!([3]))).await;
    assert_eq!((reply.status, reply.text.as_str()), (StatusCode::NO_CONTENT, ""));
    assert_eq!(count.load(Ordering::SeqCst), 3);
    for message in [
        notification("count", json!({"by": "much"})),
        notification("content.article.delete", json!({"id": 1})),
        notification("no.such.tool", json!({})),
        notification("outcome.failure", json!({})),
        notification("outcome.rpc_error", json!({})),
        notification("rpc.discover", json!({})),
    ] {
        let reply = app.rpc("", message.clone()).await;
        assert_eq!((reply.status.as_u16(), reply.text.as_str()), (204, ""), "{message}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_batch_is_answered_in_order_without_its_notifications() {
    let (app, count) = counting();
    let numbered = |id: Value, method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params, "id": id});
    let batch = json!([
        numbered(json!("read"), "content.article.read", json!([1])),
        notification("count", json!({"by": 2})),
        notification("no.such.tool", json!({})),
        1,
        [],
        {"jsonrpc": "2.0", "method": 1},
        {"method": "outcome.null", "id": 1},
        numbered(Value::Null, "outcome.null", json!([])),
        {"jsonrpc": "2.0", "result": 1, "id": 5},
        numbered(json!("denied"), "content.article.delete", json!({"id": 1})),
        numbered(json!("wrong"), "content.article.read", json!({"id": "one"})),
        numbered(json!("own"), "outcome.rpc_error", json!({})),
        numbered(json!("discover"), "rpc.discover", json!({})),
        notification("rpc.discover", json!({})),
        numbered(json!("other"), "rpc.other", json!({})),
        numbered(json!(1.50), "outcome.null", json!([])),
    ]);
    let reply = app.rpc("reader", batch).await;
    assert_eq!((reply.status, reply.header("content-type")), (StatusCode::OK, "application/json"));
    assert_eq!(reply.header("content-length"), reply.text.len().to_string());
    assert_eq!(count.load(Ordering::SeqCst), 2);
    insta::assert_json_snapshot!(reply.json());
}

#[tokio::test]
async fn a_batch_of_notifications_has_no_reply() {
    let (app, count) = counting();
    let batch = json!([notification("count", json!([1])), notification("count", json!([2]))]);
    let reply = app.rpc("", batch).await;
    assert_eq!((reply.status, reply.text.as_str()), (StatusCode::NO_CONTENT, ""));
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn the_members_of_a_batch_run_concurrently() {
    let mut local = Local::default();
    // No call continues before both have started.
    let barrier = Arc::new(Barrier::new(2));
    local.method(method("meet"), move |_, _: Value| {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok::<_, Error>("met")
        }
    });
    let app = App::with(local, HttpOptions::default());
    let reply = app.rpc("", json!([call("meet", json!({})), call("meet", json!({}))])).await;
    assert_eq!(
        reply.text,
        r#"[{"jsonrpc":"2.0","id":7,"result":"met"},{"jsonrpc":"2.0","id":7,"result":"met"}]"#
    );
}

#[tokio::test]
async fn a_batch_has_1_to_100_members() {
    let (app, count) = counting();
    let of = |size: usize| vec![call("count", json!([1])); size];
    for size in [0, 101] {
        let reply = app.rpc("", json!(of(size))).await;
        assert_eq!(
            reply.text,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a batch must have 1 to 100 messages"}}"#
        );
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let reply = app.rpc("", json!(of(100))).await;
    assert_eq!(reply.json().as_array().unwrap().len(), 100);
}

#[tokio::test]
async fn a_body_that_is_not_json_is_a_parse_error() {
    let app = App::new();
    let truncated =
        r#"[{"jsonrpc":"2.0","method":"outcome.null","id":1},{"jsonrpc":"2.0","method"]"#;
    for body in ["", "{", "[", "[1,]", truncated, "\u{feff}{}", "{} {}"] {
        let reply = app.post("", PATH, body).await;
        assert_eq!(
            (&error_of(&reply)["code"], &reply.json()["id"]),
            (&json!(-32700), &Value::Null)
        );
    }
    let reply = app.post("", PATH, vec![b'"', 0xff, b'"']).await;
    assert_eq!(
        reply.text,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not valid JSON: not UTF-8"}}"#
    );
}

#[tokio::test]
async fn json_that_is_not_a_request_is_an_invalid_request() {
    let app = App::new();
    for body in ["1", "null", "{}", r#"{"jsonrpc":"1.0","method":"outcome.null","id":1}"#] {
        let reply = app.post("", PATH, body).await;
        assert_eq!(
            (&error_of(&reply)["code"], &reply.json()["id"]),
            (&json!(-32600), &Value::Null)
        );
    }
    let reply = app.rpc("", call("outcome.null", json!(1))).await;
    assert_eq!(
        error_of(&reply)["message"],
        "not a JSON-RPC 2.0 request: `params` must be an object or a list"
    );
}

#[tokio::test]
async fn duplicate_keys_are_refused() {
    let (app, count) = counting();
    for body in [
        r#"{"jsonrpc":"2.0","method":"outcome.null","method":"count","params":[1],"id":1}"#,
        r#"{"jsonrpc":"2.0","method":"count","params":[1],"params":[2],"id":1}"#,
        r#"{"jsonrpc":"2.0","method":"count","params":[1],"id":1,"\u0069d":2}"#,
    ] {
        let error = error_of(&app.post("", PATH, body).await);
        assert_eq!(error["code"], -32600, "{error}");
        assert!(error["message"].as_str().unwrap().contains("is duplicated"), "{error}");
        let batch = app.post("", PATH, format!("[{body}]")).await.json();
        assert_eq!(batch[0]["error"]["code"], -32600);
    }
    let body = r#"{"jsonrpc":"2.0","method":"count","params":{"by":1,"by":2},"id":1}"#;
    assert_eq!(error_of(&app.post("", PATH, body).await)["code"], -32602);
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn unknown_and_denied_methods_get_the_same_error() {
    let app = App::new();
    for tool in ["content.article.delete", "no.such.tool", "rpc.other"] {
        for params in [json!({"id": 1}), json!([1, 2, 3]), json!({"id": "x"})] {
            let reply = app.rpc("reader", call(tool, params)).await;
            let message = format!("Tool '{tool}' not found or access denied");
            assert_eq!(error_of(&reply), json!({"code": -32601, "message": message}));
        }
    }
}

#[tokio::test]
async fn invalid_arguments_are_explained_and_the_method_does_not_run() {
    let (app, count) = counting();
    let mut errors = Vec::new();
    for params in [json!({}), json!({"by": "much"}), json!(["much"]), json!([1, 2])] {
        errors.push(error_of(&app.rpc("", call("count", params)).await));
    }
    insta::assert_json_snapshot!(errors);
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_error_of_the_method_is_returned_verbatim() {
    let app = App::new();
    let reply = app.rpc("", call("outcome.rpc_error", json!({}))).await;
    assert_eq!(
        reply.text,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":4711,"message":"the title is taken","data":{"field":"title"}}}"#
    );
    let error = error_of(&app.rpc("", call("outcome.rpc_error_without_words", json!({}))).await);
    assert_eq!(error, json!({"code": 4711, "message": ""}));
}

#[tokio::test]
async fn a_failure_has_an_error_id_and_no_secret() {
    let app = App::new();
    for tool in ["outcome.failure", "outcome.panic"] {
        let reply = app.rpc("", call(tool, json!({}))).await;
        let error = error_of(&reply);
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!(-32603), &json!("Tool execution failed"))
        );
        assert!(error["data"]["error_id"].as_str().unwrap().starts_with("mcp_"));
        assert!(!reply.text.contains("hunter2"));
    }
}

#[tokio::test]
async fn a_call_is_dropped_when_its_client_disconnects() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let ended = Arc::new(AtomicBool::new(false));
    let mut local = Local::default();
    let shared = Arc::clone(&ended);
    local.method(method("wait"), move |_, _: Value| {
        let guard = Dropped(Arc::clone(&shared));
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok::<_, Error>(1)
        }
    });
    let app = App::with(local, HttpOptions::default());
    for message in [call("wait", json!({})), json!([call("wait", json!({}))])] {
        ended.store(false, Ordering::SeqCst);
        let request = request("POST", "", PATH).body(message.to_string().into()).unwrap();
        {
            let mut reply = pin!(app.respond(request));
            assert!(reply.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(!ended.load(Ordering::SeqCst));
        }
        assert!(ended.load(Ordering::SeqCst));
    }
}

#[tokio::test]
async fn only_post_is_accepted_and_the_checks_of_all_endpoints_apply() {
    let app = App::with(application(), options(|options| options.max_body_bytes = 100));
    let reply = app.get("", PATH).await;
    assert_eq!((reply.status.as_u16(), reply.header("allow")), (405, "POST"));
    assert_eq!(app.post("", PATH, "x".repeat(101)).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let body = call("outcome.null", json!({})).to_string();
    assert_eq!(app.post("stranger", PATH, body.clone()).await.status, StatusCode::UNAUTHORIZED);
    let foreign = request("POST", "", PATH).header("origin", "https://elsewhere.example");
    let reply = app.send(foreign.body(body.clone().into()).unwrap()).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    let closed = App::with(application(), options(|options| options.require_auth = true));
    assert_eq!(closed.post("", PATH, body).await.status, StatusCode::UNAUTHORIZED);
}
