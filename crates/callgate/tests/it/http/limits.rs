//! Hostile input that must be refused or bounded.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll};
use std::thread::ThreadId;

use futures_util::FutureExt as _;
use futures_util::future::join_all;

use super::*;
use crate::log::capture_logs;

#[tokio::test]
async fn a_body_over_the_limit_is_413_with_and_without_a_content_length() {
    let app = App::with(application(), options(|options| options.max_body_bytes = 100));
    let body = format!(r#"{{"name":"open.echo","arguments":{{"value":"{}"}}}}"#, "x".repeat(200));
    for path in ["/mcp/tools/invoke", "/mcp/tools/open.echo"] {
        let reply = app.post("", path, body.clone()).await;
        assert_eq!(reply.error_code(), (413, "body_too_large".to_owned()), "{path}");
        // The body is sent in chunks, without a length.
        let stream = Body::new(Chunks { remaining: 50, chunk: 10 });
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
async fn a_body_that_never_arrives_is_408() {
    let app = App::with(application(), options(|_| {}));
    let reply = app.post("", "/mcp/tools/invoke", Body::new(PendingBody)).await;
    assert_eq!(reply.error_code(), (408, "body_too_slow".to_owned()));
}

#[tokio::test]
async fn deep_and_wide_arguments_cause_no_panic() {
    let app = App::new();
    let deep = format!(
        r#"{{"name":"open.echo","arguments":{{"value":{}{}}}}}"#,
        "[".repeat(50_000),
        "]".repeat(50_000)
    );
    let reply = app.post("", "/mcp/tools/invoke", deep).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    let wide: Vec<String> = (0..20_000).map(|n| format!("\"k{n}\":{n}")).collect();
    let wide = wide.join(",");
    let undeclared = format!(r#"{{"name":"open.echo","arguments":{{"value":1,{wide}}}}}"#);
    let reply = app.post("", "/mcp/tools/invoke", undeclared).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    let wide = format!(r#"{{"name":"open.echo","arguments":{{"value":{{{wide}}}}}}}"#);
    assert_eq!(app.post("", "/mcp/tools/invoke", wide).await.status, StatusCode::OK);
}

#[tokio::test]
async fn invalid_paths_and_queries_are_4xx() {
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
fn batch_of_100(method: &str, params: Value) -> String {
    let request =
        |id| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params.clone()});
    (0..100).map(request).collect::<Value>().to_string()
}

/// Checks the replies to a batch of 100, and returns the number of results and the last error.
fn check_batch_reply(reply: &Reply) -> (usize, String) {
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
    let body = batch_of_100("resources/read", json!({"uri": "callgate://tools"}));
    assert!(body.len() < 10_000);
    let (results, last) = check_batch_reply(&app.post("", "/mcp", body).await);
    assert!((1..20).contains(&results), "{results}");
    assert!(last.contains("Nothing was run: the replies"), "{last}");
    let body = batch_of_100("tools/list", json!({}));
    let (results, last) = check_batch_reply(&app.post("", "/mcp", body).await);
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
async fn an_event_counts_against_the_budget_until_it_is_sent() {
    let (app, _) = large(1);
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read",
        "params": {"uri": "callgate://tools"}});
    let post = request("POST", "reader", "/mcp").header("accept", "text/event-stream");
    let response = app.respond(post.body(Body::from(read.to_string())).unwrap()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        frames.push(frame.unwrap().into_data().unwrap());
    }
    assert!(app.gateway.in_flight_bytes().0 > 1_500_000, "the frames are not sent yet");
    assert!(frames[0].starts_with(b"event: message\ndata: "));
    assert!(frames.last().unwrap().ends_with(b"\n\n"));
    drop((frames, body));
    assert_eq!(app.gateway.in_flight_bytes().0, 0);
}

#[tokio::test]
async fn a_batch_of_large_results_is_bounded_and_its_last_calls_do_not_run() {
    // Each result is too small to be counted by itself.
    for (size, expected) in [(50_000, 100), (400_000, 41)] {
        let (app, count) = large(size);
        for (path, body) in [
            ("/jsonrpc", batch_of_100("large", json!({}))),
            ("/mcp", batch_of_100("tools/call", json!({"name": "large", "arguments": {}}))),
        ] {
            count.store(0, Ordering::SeqCst);
            let (results, last) = check_batch_reply(&app.post("", path, body).await);
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

/// Answers a request, and returns how often other tasks of the thread ran meanwhile.
async fn count_yields(app: &App, path: &str, body: Value) -> usize {
    let request = request("POST", "", path).header("mcp-protocol-version", "2025-06-18");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let (mut yields, mut reply) = (0, pin!(app.send(request)));
    loop {
        tokio::select! {
            biased;
            reply = &mut reply => {
                assert_eq!(reply.status, 200, "{}", reply.text);
                return yields;
            }
            () = tokio::task::yield_now() => yields += 1,
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn large_arguments_and_results_are_checked_on_other_threads() {
    let mut local = application();
    let filled = method("filled")
        .param(param("count", "int"))
        .returns("array{items: int[]}".parse().unwrap());
    local.method(filled, async |_, arguments: Value| {
        let count = usize::try_from(arguments["count"].as_u64().unwrap()).unwrap();
        Ok::<_, Error>(json!({"items": vec![1; count]}))
    });
    let app = App::with(local, HttpOptions::default());
    let echo = |count: usize| json!({"name": "open.echo", "arguments": {"value": vec![1; count]}});
    assert_eq!(count_yields(&app, "/mcp/tools/invoke", echo(100)).await, 0);
    assert!(count_yields(&app, "/mcp/tools/invoke", echo(400_000)).await > 0);
    let call = |count: usize| {
        let params = json!({"name": "filled", "arguments": {"count": count}});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    };
    assert_eq!(count_yields(&app, "/mcp", call(100)).await, 0);
    assert!(count_yields(&app, "/mcp", call(400_000)).await > 0);
    let rpc = |id| json!({"jsonrpc": "2.0", "id": id, "method": "open.echo", "params": {"value": vec![1; 2000]}});
    let batch: Value = (0..100).map(rpc).collect();
    assert!(
        count_yields(&app, "/jsonrpc", batch).await > 0,
        "each request is small, but the batch is not"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn large_arguments_are_dropped_on_other_threads() {
    static DROPPED_BY: Mutex<Option<ThreadId>> = Mutex::new(None);
    #[derive(serde::Deserialize)]
    struct Text {
        value: String,
    }
    impl Drop for Text {
        fn drop(&mut self) {
            *DROPPED_BY.lock().unwrap() = Some(std::thread::current().id());
        }
    }
    let mut local = application();
    let text = |name| method(name).param(param("value", "string"));
    local.method(text("length"), async |_, text: Text| Ok::<_, Error>(text.value.len()));
    local.method(text("wait"), async |_, text: Text| {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        Ok::<_, Error>(text.value.len())
    });
    local.method(text("panic"), async |_, text: Text| -> Result<u8, Error> {
        panic!("{}", text.value.len())
    });
    let app = App::with(local, HttpOptions::default());
    for (length, is_large) in [(100, false), (10_000, true)] {
        let call = |name| {
            let body = json!({"name": name, "arguments": {"value": "a".repeat(length)}});
            app.post("", "/mcp/tools/invoke", body.to_string())
        };
        assert_eq!(call("length").await.json(), json!({"result": length}));
        let this_thread = std::thread::current().id();
        assert_eq!(DROPPED_BY.lock().unwrap().take().unwrap() != this_thread, is_large);
        assert_eq!(call("wait").await.json(), json!({"result": length}));
        assert_eq!(call("panic").await.status, 500);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_pattern_that_needs_backtracking_does_not_block_the_server() {
    let mut local = application();
    let schema = json!({"type": "string", "pattern": "^(?:(?=.*z).)*$"});
    let text = Param::with_schema("text", schema).unwrap();
    local.method(method("matched").param(text), async |_, _: Value| Ok::<_, Error>(1));
    let app = App::with(local, HttpOptions::default());
    let call = json!({"name": "matched", "arguments": {"text": "a".repeat(50_000)}});
    // Backtracking would block the only thread for seconds in each call.
    let calls = (0..2).map(|_| app.post("", "/mcp/tools/invoke", call.to_string()));
    let replies = tokio::time::timeout(Duration::from_mins(1), join_all(calls)).await.unwrap();
    assert!(replies.iter().all(|reply| reply.status == 200));
    assert_eq!(app.get("", "/healthz").await.status, 200);
}

#[tokio::test]
async fn a_body_with_many_members_is_refused() {
    let app = App::new();
    let many: serde_json::Map<String, Value> =
        (0..90_000).map(|n| (format!("k{n}"), json!(0))).collect();
    let reply = app.post("", "/mcp/tools/invoke", Value::Object(many).to_string()).await;
    assert_eq!(reply.error_code(), (400, "invalid_json".to_owned()));
}

#[tokio::test]
async fn capabilities_and_requested_notifications_have_a_maximum_length() {
    let app = App::new();
    let long = |length| json!({"elicitation": "a".repeat(length), "toolsListChanged": 1});
    let modern = |capabilities: Value, notifications: Value| {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities});
        ("subscriptions/listen", json!({"_meta": meta, "notifications": notifications}))
    };
    let legacy = |capabilities: Value| {
        ("initialize", json!({"protocolVersion": "2025-06-18", "capabilities": capabilities}))
    };
    for ((method, params), is_long) in [
        (legacy(long(70_000)), true),
        (legacy(long(60_000)), false),
        (modern(long(70_000), json!({})), true),
        (modern(json!({}), long(70_000)), true),
        (modern(json!({}), long(60_000)), false),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = request("POST", "", "/mcp").header("mcp-method", method);
        if method != "initialize" {
            request = request.header("mcp-protocol-version", "2026-07-28");
        }
        let reply = app.send(request.body(Body::from(body.to_string())).unwrap()).await;
        assert_eq!(reply.json()["error"]["code"], -32602, "{}", reply.text);
        assert_eq!(reply.text.contains("longer than 65536 bytes"), is_long, "{}", reply.text);
    }
}

/// Returns requests with a long text in every place where an error repeats it.
fn with_long_text() -> Vec<(&'static str, String)> {
    let long = "\"".repeat(200_000);
    let rpc = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
    };
    let modern = |version: &str| {
        let version = json!({"io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {}});
        rpc("tools/list", json!({"_meta": version}))
    };
    let duplicate_keys = |start: &str, end: &str| {
        let key = json!(long).to_string();
        format!("{start}{{{key}:1,{key}:2}}{end}")
    };
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let initialize = json!({"protocolVersion": "2025-06-18", "capabilities": long});
    vec![
        ("/mcp", rpc("tools/call", call(&long, json!({})))),
        ("/mcp", rpc("tools/call", call("content_article_read", json!({"id": long})))),
        ("/mcp", rpc("tools/call", call("typed", json!({"kind": long})))),
        ("/mcp", rpc("tools/call", call("typed", json!([long])))),
        ("/mcp", rpc("tools/list", json!({"cursor": long}))),
        ("/mcp", rpc("resources/read", json!({"uri": long}))),
        ("/mcp", rpc("prompts/get", json!({"name": long}))),
        ("/mcp", rpc("logging/setLevel", json!({"level": long}))),
        ("/mcp", rpc("initialize", initialize)),
        ("/mcp", rpc(&long, json!({}))),
        ("/mcp", modern(&long)),
        ("/mcp", json!(long).to_string()),
        ("/mcp", duplicate_keys(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":"#, "}")),
        ("/jsonrpc", rpc(&long, json!({}))),
        ("/jsonrpc", rpc("content.article.read", json!({"id": long}))),
        ("/jsonrpc", rpc("typed", json!({"kind": long}))),
        ("/jsonrpc", json!(long).to_string()),
        (
            "/jsonrpc",
            duplicate_keys(r#"{"jsonrpc":"2.0","id":1,"method":"open.echo","params":"#, "}"),
        ),
        ("/mcp/tools/open.echo", rpc(&long, json!({}))),
        ("/mcp/tools/invoke", call(&long, json!({})).to_string()),
        ("/mcp/tools/invoke", call("typed", json!({"kind": long})).to_string()),
        ("/mcp/tools/invoke", duplicate_keys("", "")),
        ("/mcp/tools/invoke", duplicate_keys(r#"{"name":"open.echo","arguments":"#, "}")),
    ]
}

#[test]
fn no_error_and_no_log_line_repeats_a_long_input() {
    #[derive(serde::Deserialize)]
    enum Kind {}
    #[derive(serde::Deserialize)]
    struct Typed {
        #[expect(dead_code, reason = "`Kind` has no values")]
        kind: Kind,
    }
    let (log, _guard) = capture_logs();
    let mut local = application();
    local.method(method("typed").param(param("kind", "string")), async |_, _: Typed| {
        Ok::<_, Error>(1)
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let app = App::with(local, HttpOptions::default());
        for (path, body) in with_long_text() {
            let reply = app.post("reader", path, body.clone()).await;
            let start: String = body.chars().take(150).collect();
            assert!(reply.text.contains("rror"), "{path} {start}: {}", reply.text);
            assert!(reply.text.len() < 8000, "{path} {start}: {} bytes", reply.text.len());
        }
    });
    // Denials are logged on other threads, for which the runtime waits.
    drop(runtime);
    let longest = log.text().lines().map(str::len).max().unwrap_or_default();
    assert!((100..4000).contains(&longest), "{longest}");
}

struct Chunks {
    remaining: usize,
    chunk: usize,
}

impl http_body::Body for Chunks {
    type Data = bytes::Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Infallible>>> {
        let frame = (self.remaining > 0).then(|| {
            self.remaining -= 1;
            Ok(http_body::Frame::data(bytes::Bytes::from(vec![b'{'; self.chunk])))
        });
        Poll::Ready(frame)
    }
}

struct PendingBody;

impl http_body::Body for PendingBody {
    type Data = bytes::Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Infallible>>> {
        Poll::Pending
    }
}

#[test]
fn a_result_that_cannot_be_checked_is_not_reported_as_invalid() {
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    // The only thread that checks results is busy.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    let text = runtime.block_on(async {
        drop(tokio::task::spawn_blocking(move || blocked.recv()));
        let mut local = Local::default();
        let large = method("large").returns("string".parse().unwrap());
        local.method(large, async |_, _: Value| Ok::<_, Error>("x".repeat(20_000)));
        let app = &App::with(local, HttpOptions::default());
        let params = json!({"name": "large", "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let call = || {
            let request = request("POST", "", "/mcp").header("mcp-protocol-version", "2025-11-25");
            Box::pin(app.send(request.body(call.to_string().into()).unwrap()))
        };
        let mut waiting = Vec::new();
        let text = loop {
            let mut call = call();
            if let Some(reply) = call.as_mut().now_or_never() {
                break reply.json()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
            }
            waiting.push(call);
            assert!(waiting.len() < 1_000);
        };
        unblock.send(()).unwrap();
        text
    });
    assert!(text.starts_with("The method ran, but its result could not be checked"), "{text}");
    assert!(text.contains("too many of your calls"), "{text}");
    assert!(!text.contains("Nothing was run"), "{text}");
}

/// Whether its value was parsed on the thread of the runtime.
struct OnWorker(bool);

thread_local! {
    static IS_WORKER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl<'de> serde::Deserialize<'de> for OnWorker {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|_| Self(IS_WORKER.get()))
    }
}

#[tokio::test(flavor = "current_thread")]
async fn large_arguments_of_functions_are_read_on_a_blocking_thread() {
    IS_WORKER.set(true);
    let mut local = Local::default();
    let echo = method("echo").param(Param::new("text", "string".parse().unwrap()));
    local.method(echo, async |_, OnWorker(is_worker)| Ok::<_, Error>(is_worker));
    let app = App::with(local, HttpOptions::default());
    for (length, is_worker) in [(10, true), (100_000, false)] {
        let call = json!({"name": "echo", "arguments": {"text": "x".repeat(length)}});
        let request = request("POST", "", "/mcp/tools/invoke").body(call.to_string().into());
        let reply = app.send(request.unwrap()).await;
        assert_eq!(reply.json()["result"], is_worker, "{length}: {}", reply.text);
    }
}

/// Never finishes to look up the token `slow`.
#[derive(Debug)]
struct SlowLookups;

impl Authenticate for SlowLookups {
    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        match bearer_token(&request.headers) {
            Ok(Some("slow")) => Box::pin(std::future::pending()),
            _ => Box::pin(async { Ok(Caller::anonymous()) }),
        }
    }
}

#[tokio::test]
async fn the_concurrent_token_lookups_of_one_address_are_limited() {
    let app = App::new();
    let options = options(|options| options.max_requests = 8);
    let service =
        service(Arc::clone(&app.mcp), Arc::new(SlowLookups), Readiness::default(), options);
    let send = |token: &str, address: [u8; 4]| {
        let request = request("GET", token, "/mcp/tools/list").body(Body::empty()).unwrap();
        Box::pin(service.respond(request, Some(address.into())))
    };
    let (first, second) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    let mut waiting: Vec<_> = (0..6).map(|_| send("slow", first)).collect();
    assert!(waiting.iter_mut().all(|lookup| lookup.now_or_never().is_none()));
    let refused = send("slow", first).now_or_never().unwrap();
    assert_eq!(
        (refused.status(), &refused.headers()["retry-after"]),
        (503.try_into().unwrap(), &"2".parse().unwrap())
    );
    let mut lookup_of_second = send("slow", second);
    assert!(
        (&mut lookup_of_second).now_or_never().is_none(),
        "another address may still look up tokens"
    );
    assert_eq!(send("", first).await.status(), 200, "there is no token to look up");
    drop(waiting);
    assert!(send("slow", first).now_or_never().is_none());
}
