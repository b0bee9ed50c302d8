//! What a client can send and must not get away with.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll};

use super::*;

#[tokio::test]
async fn a_body_over_the_limit_is_413_whether_it_is_announced_or_not() {
    let app = App::with(application(), options(|options| options.max_body_bytes = 100));
    let body = format!(r#"{{"name":"open.echo","arguments":{{"value":"{}"}}}}"#, "x".repeat(200));
    for path in ["/mcp/tools/invoke", "/mcp/tools/open.echo"] {
        let reply = app.post("", path, body.clone()).await;
        assert_eq!(reply.error_code(), (413, "body_too_large".to_owned()), "{path}");
        // In chunks, with no length.
        let stream = Body::new(Chunks { left: 50, chunk: 10 });
        let reply = app.post("", path, stream).await;
        assert_eq!(reply.error_code(), (413, "body_too_large".to_owned()), "{path}");
    }
    let announced = request("POST", "", "/mcp/tools/invoke")
        .header("content-length", "1099511627776")
        .body(Body::empty())
        .unwrap();
    assert_eq!(app.send(announced).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(HttpOptions::default().max_body_bytes, 1024 * 1024);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_comes_is_408() {
    let app = App::with(application(), options(|_| {}));
    let reply = app.post("", "/mcp/tools/invoke", Body::new(Never)).await;
    assert_eq!(reply.error_code(), (408, "body_too_slow".to_owned()));
}

#[tokio::test]
async fn deep_and_wide_arguments_are_errors_and_no_panic() {
    let app = App::new();
    let deep = format!(
        r#"{{"name":"open.echo","arguments":{{"value":{}{}}}}}"#,
        "[".repeat(50_000),
        "]".repeat(50_000)
    );
    let reply = app.post("", "/mcp/tools/invoke", deep).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    let wide: Vec<String> = (0..20_000).map(|n| format!("\"k{n}\":{n}")).collect();
    let wide = format!(r#"{{"name":"open.echo","arguments":{{"value":1,{}}}}}"#, wide.join(","));
    assert_eq!(app.post("", "/mcp/tools/invoke", wide).await.status, StatusCode::OK);
}

#[tokio::test]
async fn odd_paths_and_queries_are_4xx() {
    let app = App::new();
    for path in [
        "/",
        "/mcp",
        "/mcp/tools",
        "/mcp/tools/",
        "/mcp/tools/%FF%FE?query=x",
        "/mcp/tools/list/extra",
        "/mcp/tools/describe?name=%00",
        "/mcp/tools/describe?name=%FF",
        "/..%2f..%2fetc/passwd",
    ] {
        let reply = app.get("", path).await;
        assert!(reply.status.is_client_error(), "{path}: {}", reply.status);
    }
}

/// An application with a method that returns `size` bytes and counts its calls.
fn large(size: usize) -> (App, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let (mut local, counted) = (application(), Arc::clone(&count));
    local.method(method("large").description("x".repeat(1_500_000)), move |_, _: Value| {
        counted.fetch_add(1, Ordering::SeqCst);
        let text = "x".repeat(size);
        async move { Ok::<_, Error>(text) }
    });
    (App::with(local, HttpOptions::default()), count)
}

/// A batch of 100 equal requests.
fn hundred(method: &str, params: Value) -> String {
    let request =
        |id| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params.clone()});
    (0..100).map(request).collect::<Value>().to_string()
}

/// Checks the replies to a batch of 100, and returns the number of results and the last error.
fn bounded(reply: &Reply) -> (usize, String) {
    assert!(reply.text.len() < 17 << 20, "{} bytes", reply.text.len());
    let replies = reply.json();
    let replies = replies.as_array().unwrap();
    assert_eq!(replies.len(), 100);
    let is_error =
        |reply: &&Value| reply.get("error").is_some() || !reply["result"]["isError"].is_null();
    let results = replies.iter().filter(|reply| !is_error(reply)).count();
    (results, replies[99].to_string())
}

#[tokio::test]
async fn a_batch_that_reads_the_tools_a_hundred_times_is_bounded() {
    let (app, _) = large(1);
    let body = hundred("resources/read", json!({"uri": "callgate://tools"}));
    assert!(body.len() < 10_000);
    let (results, last) = bounded(&app.post("", "/mcp", body).await);
    assert!((1..20).contains(&results), "{results}");
    assert!(last.contains("Nothing was run: the replies"), "{last}");
    let body = hundred("tools/list", json!({}));
    let (results, last) = bounded(&app.post("", "/mcp", body).await);
    assert!((1..20).contains(&results), "{results}");
    assert!(last.contains("Nothing was run: the replies"), "{last}");
}

#[tokio::test]
async fn the_tools_of_a_resource_count_against_the_budget_until_they_are_sent() {
    let (app, _) = large(1);
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read",
        "params": {"uri": "callgate://tools"}});
    let post = || request("POST", "reader", "/mcp").body(Body::from(read.to_string())).unwrap();
    let (first, second) = (app.respond(post()).await, app.respond(post()).await);
    assert!(app.gateway.in_flight_bytes().0 > 3_000_000);
    drop(first);
    let text = second.into_body().collect().await.unwrap().to_bytes();
    assert!(text.len() > 1_500_000);
    drop(text);
    assert_eq!(app.gateway.in_flight_bytes().0, 0);
}

#[tokio::test]
async fn a_batch_of_large_results_is_bounded_and_its_last_calls_do_not_run() {
    // Each result is too small to be counted by itself.
    for (size, expected) in [(50_000, 100), (400_000, 41)] {
        let (app, count) = large(size);
        for (path, body) in [
            ("/jsonrpc", hundred("large", json!({}))),
            ("/mcp", hundred("tools/call", json!({"name": "large", "arguments": {}}))),
        ] {
            count.store(0, Ordering::SeqCst);
            let (results, last) = bounded(&app.post("", path, body).await);
            assert_eq!(results, expected, "{path}");
            let ran = count.load(Ordering::SeqCst);
            assert!(ran == results || ran == results + 1, "{path}: {ran}");
            assert_eq!(
                last.contains("Nothing was run: the replies"),
                results < 100,
                "{path}: {last}"
            );
            assert_eq!(app.gateway.in_flight_bytes().0, 0, "{path}");
        }
    }
}

struct Chunks {
    left: usize,
    chunk: usize,
}

impl http_body::Body for Chunks {
    type Data = bytes::Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Infallible>>> {
        let frame = (self.left > 0).then(|| {
            self.left -= 1;
            Ok(http_body::Frame::data(bytes::Bytes::from(vec![b'{'; self.chunk])))
        });
        Poll::Ready(frame)
    }
}

struct Never;

impl http_body::Body for Never {
    type Data = bytes::Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Infallible>>> {
        Poll::Pending
    }
}
