//! JSON replies and streams, progress, cancellation, and clients that listen.

use std::time::Duration;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_slow_call_becomes_a_stream_with_keep_alives() {
    for revision in ["2025-11-25", MODERN] {
        let (app, slow) = app();
        let mut stream =
            app.client("reader", revision).stream("tools/call", json!({"name": "slow"})).await;
        assert_eq!(stream.event().await.unwrap(), ": keep-alive");
        slow.permits.add_permits(1);
        let reply = stream.next().await.unwrap();
        assert_eq!(reply["result"]["content"][0]["text"], "done");
        assert!(stream.event().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_fast_call_is_answered_with_json() {
    let (app, slow) = app();
    let client = app.client("reader", MODERN);
    let finish_quickly = async {
        slow.wait_until_started().await;
        tokio::time::sleep(Duration::from_millis(1_900)).await;
        slow.permits.add_permits(1);
    };
    let (reply, ()) =
        tokio::join!(client.request("tools/call", json!({"name": "slow"})), finish_quickly);
    assert_eq!(reply.header("content-type"), "application/json");
}

#[tokio::test(start_paused = true)]
async fn elapsed_time_is_reported_every_five_seconds_if_progress_was_requested() {
    for revision in REVISIONS {
        let (app, slow) = app();
        let params = json!({"name": "slow", "_meta": {"progressToken": "t-1"}});
        let mut stream = app.client("reader", revision).stream("tools/call", params).await;
        for seconds in [5, 10, 15] {
            let notification = stream.next().await.unwrap();
            assert_eq!(notification["method"], "notifications/progress");
            assert_eq!(notification["params"]["progressToken"], "t-1");
            assert_eq!(notification["params"]["progress"], seconds);
            assert_eq!(notification["params"].get("message").is_some(), revision != "2024-11-05");
        }
        slow.permits.add_permits(1);
        assert_eq!(stream.next().await.unwrap()["id"], 1);
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_gets_json_unless_it_accepts_event_streams_explicitly() {
    let (app, slow) = app();
    for accept in ["application/json", "*/*", "", "text/html", "text/event-stream;q=0, */*"] {
        let client = Client { accept, ..app.client("reader", MODERN) };
        let params = json!({"name": "slow", "_meta": {"progressToken": 1}});
        let finish_later = async {
            slow.wait_until_started().await;
            tokio::time::sleep(Duration::from_secs(20)).await;
            slow.permits.add_permits(1);
        };
        let (reply, ()) = tokio::join!(client.request("tools/call", params), finish_later);
        assert_eq!(reply.header("content-type"), "application/json", "{accept}");
        assert_eq!(reply.json()["result"]["content"][0]["text"], "done");
    }
    let client = Client { accept: "text/event-stream", ..app.client("reader", MODERN) };
    let mut stream = client.stream("tools/list", json!({})).await;
    assert!(
        stream.next().await.unwrap()["result"]["tools"].is_array(),
        "the client accepts only streams"
    );
}

#[tokio::test(start_paused = true)]
async fn a_modern_call_is_cancelled_when_its_client_disconnects() {
    let (app, slow) = app();
    let client = app.client("reader", MODERN);
    // The client disconnects once before a stream is open, and once afterwards.
    let call = client.request("tools/call", json!({"name": "slow"}));
    tokio::select! {
        _ = call => panic!("it waits"),
        () = slow.wait_until_started() => {}
    }
    assert_eq!(slow.counts(), (0, 1));
    let stream = client.stream("tools/call", json!({"name": "slow"})).await;
    slow.wait_until_started().await;
    drop(stream);
    assert_eq!(slow.counts(), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_legacy_call_continues_when_its_client_disconnects() {
    let (app, slow) = app();
    let client = app.client("reader", "2025-06-18");
    let stream = client.stream("tools/call", json!({"name": "slow"})).await;
    slow.wait_until_started().await;
    drop(stream);
    slow.permits.add_permits(1);
    while slow.counts() == (0, 0) {
        tokio::task::yield_now().await;
    }
    assert_eq!(slow.counts(), (1, 0), "the call finished");
}

fn set_catalog_without(app: &App, slow: &Slow, id: &str) {
    let local = tools(slow);
    let methods: Vec<Method> =
        local.methods().iter().filter(|method| method.id().as_str() != id).cloned().collect();
    app.gateway.set_catalog(Arc::new(catalog_of(&methods)));
}

async fn listen(app: &App, caller: &str) -> Stream {
    let params = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    app.client(caller, MODERN).stream("subscriptions/listen", params).await
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_is_notified_of_changes_of_its_own_tools_only() {
    let (app, slow) = app();
    let mut stream = listen(&app, "reader").await;
    let acknowledged = stream.next().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], json!({"toolsListChanged": true}));
    let subscription = json!({"io.modelcontextprotocol/subscriptionId": 1});
    assert_eq!(acknowledged["params"]["_meta"], subscription);
    // The first change keeps all tools. The second change removes a tool that this caller does not see.
    set_catalog_without(&app, &slow, "none");
    set_catalog_without(&app, &slow, "content.article.delete");
    assert_eq!(stream.event().await.unwrap(), ": keep-alive", "no visible change");
    set_catalog_without(&app, &slow, "shape.list");
    let changed = stream.next().await.unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"], subscription);
    app.mcp.close();
    let cancelled = stream.next().await.unwrap();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], 1);
    let end = stream.next().await.unwrap();
    assert_eq!(end["id"], 1);
    assert_eq!(end["result"]["resultType"], "complete");
    assert_eq!(end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn notifications_that_were_not_requested_are_not_sent() {
    let (app, slow) = app();
    let params = json!({"notifications": {}});
    let mut stream = app.client("reader", MODERN).stream("subscriptions/listen", params).await;
    assert_eq!(stream.next().await.unwrap()["params"]["notifications"], json!({}));
    set_catalog_without(&app, &slow, "shape.list");
    assert_eq!(stream.event().await.unwrap(), ": keep-alive");
    let client = app.client("reader", MODERN);
    for params in [json!({}), json!({"notifications": 1})] {
        assert_eq!(client.error("subscriptions/listen", params).await, (200, -32602));
    }
    let json_only = Client { accept: "application/json", ..client };
    let refused = json_only.request("subscriptions/listen", json!({"notifications": {}})).await;
    assert_eq!((code(&refused), &refused.json()["id"]), ((406, -32600), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn a_legacy_client_gets_notifications_on_the_get_stream() {
    let (app, slow) = app();
    let mut client = app.client("reader", "2025-06-18");
    client.initialize().await;
    let get = request("GET", "reader", "/mcp")
        .header("accept", "text/event-stream")
        .header("mcp-protocol-version", "2025-06-18")
        .header("mcp-session-id", client.session.as_deref().unwrap());
    let mut stream = Stream::of(app.respond(get.body(Body::empty()).unwrap()).await);
    assert_eq!(stream.event().await.unwrap(), ": keep-alive", "sent at once");
    set_catalog_without(&app, &slow, "shape.list");
    let changed = stream.next().await.unwrap();
    let expected =
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}});
    assert_eq!(changed, expected);
    app.mcp.close();
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_on_one_stream_of_a_session_and_all_streams_end_with_it() {
    let (app, slow) = app();
    let mut client = app.client("reader", "2025-06-18");
    client.initialize().await;
    let session = client.session.clone().unwrap();
    let open = async || {
        let get = request("GET", "reader", "/mcp")
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &session);
        Stream::of(app.respond(get.body(Body::empty()).unwrap()).await)
    };
    let mut first = open().await;
    let mut second = open().await;
    set_catalog_without(&app, &slow, "shape.list");
    let changed = "notifications/tools/list_changed";
    assert_eq!(second.next().await.unwrap()["method"], changed);
    for _ in 0..2 {
        assert_eq!(first.event().await.unwrap(), ": keep-alive", "sent on the other stream");
    }
    drop(second);
    set_catalog_without(&app, &slow, "none");
    assert_eq!(first.next().await.unwrap()["method"], changed, "the only stream");
    let mut second = open().await;
    let end = request("DELETE", "reader", "/mcp").header("mcp-session-id", &session);
    assert_eq!(app.send(end.body(Body::empty()).unwrap()).await.status, 204);
    assert!(second.next().await.is_none() && first.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn notification_streams_and_legacy_calls_are_limited() {
    let slow = Slow::new();
    let app = App::with(
        tools(&slow),
        options(|options| {
            options.max_streams = 1;
            options.max_legacy_calls = 1;
        }),
    );
    let first = listen(&app, "reader").await;
    let params = json!({"notifications": {"toolsListChanged": true}});
    let client = app.client("reader", MODERN);
    let second = client.request("subscriptions/listen", params).await;
    assert_eq!((code(&second), &second.json()["id"]), ((503, -32603), &json!(1)));
    drop(first);
    listen(&app, "reader").await;
    let legacy = app.client("reader", "2025-03-26");
    // The call continues without its client, and keeps its share.
    drop(legacy.stream("tools/call", json!({"name": "slow"})).await);
    slow.wait_until_started().await;
    let refused = legacy.request("tools/call", json!({"name": "shape_object"})).await;
    assert_eq!((code(&refused), &refused.json()["id"]), ((503, -32603), &json!(1)));
    let call = legacy.message("tools/call", json!({"name": "shape_object"}));
    assert_eq!(code(&legacy.send(&json!([call])).await), (503, -32603));
    client.call("shape_object", json!({})).await;
    slow.permits.add_permits(1);
    while slow.counts() == (0, 0) {
        tokio::task::yield_now().await;
    }
    tokio::task::yield_now().await;
    legacy.call("shape_object", json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_credential_is_no_longer_valid() {
    let (app, _) = app();
    let mut stream = listen(&app, "guest").await;
    stream.next().await.unwrap();
    app.guest.store(false, Ordering::SeqCst);
    app.gateway.access_changed();
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/cancelled");
    assert_eq!(stream.next().await.unwrap()["id"], 1);
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_notification_streams_of_one_caller_are_limited() {
    let app = App::with(tools(&Slow::new()), options(|options| options.max_streams = 8));
    let mut open = Vec::new();
    let params = json!({"notifications": {"toolsListChanged": true}});
    for _ in 0..6 {
        open.push(listen(&app, "reader").await);
    }
    let refused = app.client("reader", MODERN).request("subscriptions/listen", params).await;
    assert_eq!(code(&refused), (503, -32603));
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("you have too many streams"), "{message}");
    listen(&app, "admin").await;
}
