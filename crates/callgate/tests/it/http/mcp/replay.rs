//! Clients that lose their stream and reconnect.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::SystemTime;

use callgate::mcp::{EventStore, StoredEvent};
use callgate::{Content, Context};
use tokio::sync::Notify;

use super::*;

#[derive(Debug, Default)]
struct InMemoryEvents {
    streams: Mutex<HashMap<String, Vec<StoredEvent>>>,
    added: Notify,
}

impl EventStore for InMemoryEvents {
    fn append<'a>(
        &'a self,
        stream: &'a str,
        event: StoredEvent,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.streams.lock().unwrap().entry(stream.to_owned()).or_default().push(event);
        self.added.notify_waiters();
        Box::pin(async { Ok(()) })
    }

    fn events_after<'a>(
        &'a self,
        stream: &'a str,
        count: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, Error>> {
        let count = usize::try_from(count).unwrap();
        Box::pin(async move {
            loop {
                let added = self.added.notified();
                let events = self.streams.lock().unwrap().get(stream).cloned().unwrap_or_default();
                if let Some(rest) = events.get(count..).filter(|rest| !rest.is_empty()) {
                    return Ok(rest.to_vec());
                }
                added.await;
            }
        })
    }
}

fn app_with_event_store() -> (App, Slow) {
    let slow = Slow::new();
    let mut local = tools(&slow);
    let shared_slow = slow.clone();
    local.content_method(method("leaves"), move |context: Context, _: Value| {
        let slow = shared_slow.clone();
        async move {
            context.client.close_stream(Duration::from_millis(70));
            slow.permits.acquire().await.unwrap().forget();
            Ok(Content::text("you are back"))
        }
    });
    let event_store = Some(Arc::new(InMemoryEvents::default()) as _);
    let services = Services { event_store, ..Services::default() };
    (App::with_services(local, HttpOptions::default(), services), slow)
}

fn id_of(event: &str) -> String {
    event.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned()
}

fn data_of(event: &str) -> Value {
    serde_json::from_str(event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap())
        .unwrap()
}

async fn resume(app: &App, caller: &str, session: &str, last: &str) -> Stream {
    let request = request("GET", caller, "/mcp")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", session)
        .header("last-event-id", last);
    Stream::of(app.respond(request.body(Body::empty()).unwrap()).await)
}

#[tokio::test]
async fn a_disconnected_client_resumes_its_stream_for_the_result() {
    let (app, slow) = app_with_event_store();
    let client = app.client("reader", "2025-11-25").with_capabilities(json!({})).await;
    let session = client.session.clone().unwrap();
    let mut stream = client.stream("tools/call", json!({"name": "leaves"})).await;
    let first_event = stream.event().await.unwrap();
    assert!(first_event.ends_with("\ndata: "), "{first_event}");
    let last_event = stream.event().await.unwrap();
    assert!(last_event.contains("\nretry: 70\n"), "{last_event}");
    assert!(stream.event().await.is_none(), "the stream ends before there is a result");
    let mut stream = resume(&app, "reader", &session, &id_of(&last_event)).await;
    stream.event().await.unwrap();
    slow.permits.add_permits(1);
    let result = stream.event().await.unwrap();
    assert_eq!(data_of(&result)["result"]["content"][0]["text"], "you are back");
    assert!(stream.event().await.is_none());
    // The client can resume any number of times.
    let mut resumed = resume(&app, "reader", &session, &id_of(&last_event)).await;
    resumed.event().await.unwrap();
    assert_eq!(data_of(&resumed.event().await.unwrap())["id"], 1);
}

#[tokio::test]
async fn a_broken_stream_is_resumed_after_the_last_event() {
    let (app, slow) = app_with_event_store();
    let client = app.client("reader", "2025-11-25").with_capabilities(json!({})).await;
    let session = client.session.clone().unwrap();
    let params = json!({"name": "slow", "_meta": {"progressToken": 1}});
    let mut stream = client.stream("tools/call", params).await;
    let first_event = stream.event().await.unwrap();
    drop(stream);
    slow.permits.add_permits(1);
    let mut stream = resume(&app, "reader", &session, &id_of(&first_event)).await;
    stream.event().await.unwrap();
    let result = stream.event().await.unwrap();
    assert_eq!(data_of(&result)["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn a_resumed_stream_ends_with_the_server() {
    let (app, _) = app_with_event_store();
    let client = app.client("reader", "2025-11-25").with_capabilities(json!({})).await;
    let session = client.session.clone().unwrap();
    let mut stream = client.stream("tools/call", json!({"name": "leaves"})).await;
    stream.event().await.unwrap();
    let last_event = stream.event().await.unwrap();
    let mut stream = resume(&app, "reader", &session, &id_of(&last_event)).await;
    stream.event().await.unwrap();
    app.mcp.close();
    assert!(stream.event().await.is_none());
}

#[tokio::test]
async fn open_and_resumed_streams_end_when_the_credential_expires() {
    let (app, _) = app_with_event_store();
    let client = app.client("reader", "2025-11-25").with_capabilities(json!({})).await;
    let session = client.session.clone().unwrap();
    let mut stream = client.stream("tools/call", json!({"name": "leaves"})).await;
    stream.event().await.unwrap();
    let last_id = id_of(&stream.event().await.unwrap());
    for last_event in ["", &last_id] {
        let user = User { id: 2, name: "reader".to_owned(), role: None };
        let caller = Caller::user(user, Grants::default())
            .with_expiry(Some(SystemTime::now() + Duration::from_millis(200)));
        let request = request("GET", "reader", "/mcp")
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &session)
            .header("last-event-id", last_event)
            .extension(caller);
        let mut stream = Stream::of(app.respond(request.body(Body::empty()).unwrap()).await);
        let ended = async { while stream.event().await.is_some() {} };
        // The credential is also verified with each keep-alive, every 15 s.
        let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
        assert!(ended.is_ok(), "`{last_event}`");
    }
}

#[tokio::test]
async fn stored_events_are_not_sent_after_the_credential_expired() {
    let (app, slow) = app_with_event_store();
    let client = app.client("reader", "2025-11-25").with_capabilities(json!({})).await;
    let session = client.session.clone().unwrap();
    let mut stream = client.stream("tools/call", json!({"name": "leaves"})).await;
    stream.event().await.unwrap();
    let last_id = id_of(&stream.event().await.unwrap());
    slow.permits.add_permits(1);
    let mut stream = resume(&app, "reader", &session, &last_id).await;
    while !stream.event().await.unwrap().contains("you are back") {}
    // Several futures are ready, and any of them may be polled first. Many attempts cover all orders.
    for _ in 0..50 {
        let user = User { id: 2, name: "reader".to_owned(), role: None };
        let caller = Caller::user(user, Grants::default()).with_expiry(Some(SystemTime::now()));
        let request = request("GET", "reader", "/mcp")
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &session)
            .header("last-event-id", &last_id)
            .extension(caller);
        let mut stream = Stream::of(app.respond(request.body(Body::empty()).unwrap()).await);
        while let Some(event) = stream.event().await {
            assert!(!event.contains("you are back"), "{event}");
        }
    }
}

#[tokio::test]
async fn only_clients_since_2025_11_25_with_a_session_get_event_ids() {
    let (app, slow) = app_with_event_store();
    let params = json!({"name": "slow", "_meta": {"progressToken": 1}});
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", MODERN] {
        let client = app.client("reader", revision).with_capabilities(json!({})).await;
        let mut stream = client.stream("tools/call", params.clone()).await;
        slow.permits.add_permits(1);
        assert!(!stream.event().await.unwrap().contains("id: "), "{revision}");
    }
    let client = app.client("reader", "2025-11-25").with_capabilities(json!({})).await;
    let mut stream = client.stream("tools/call", params).await;
    let last = id_of(&stream.event().await.unwrap());
    let other_session =
        app.client("reader", "2025-11-25").with_capabilities(json!({})).await.session.unwrap();
    let own_session = client.session.clone().unwrap();
    let (name, _) = last.split_once(':').unwrap();
    let beyond = format!("{name}:{}", u64::MAX);
    let mut stream = resume(&app, "reader", &own_session, &beyond).await;
    assert_eq!(stream.event().await.unwrap(), ": keep-alive", "the event does not exist");
    for invalid in [last.as_str(), "x", "x:1", "é:1", ":", ""] {
        let mut stream = resume(&app, "reader", &other_session, invalid).await;
        assert_eq!(stream.event().await.unwrap(), ": keep-alive", "a new stream: {invalid}");
    }
}
