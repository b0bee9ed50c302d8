//! What a client can send and must not get away with.

use std::convert::Infallible;
use std::pin::Pin;
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
