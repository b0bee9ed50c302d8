//! rmcp as a client of the program, over HTTP and stdio, in both protocol eras.

use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
    ClientRequest, ErrorCode, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
    ServerNotification, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RunningService, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::program::{Place, Server};

/// Maximum time to wait, shorter than the slow call.
const PATIENCE: Duration = Duration::from_secs(15);
/// Duration of the call that is cancelled.
const SLOW: Duration = Duration::from_secs(20);

const READERS_TOOLS: [&str; 5] = [
    "content_article_markdown",
    "content_articles_list",
    "content_types_list",
    "report_projects",
    "report_yearly",
];

/// A client that counts notifications.
#[derive(Default)]
struct Watcher {
    /// Notified when the tools change.
    changed: Arc<Notify>,
    /// Notified of the progress of a call.
    running: Arc<Notify>,
}

impl ClientHandler for Watcher {
    fn on_tool_list_changed(
        &self,
        _: NotificationContext<RoleClient>,
    ) -> impl Future<Output = ()> + Send + '_ {
        self.changed.notify_one();
        ready(())
    }

    fn on_progress(
        &self,
        _: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) -> impl Future<Output = ()> + Send + '_ {
        self.running.notify_one();
        ready(())
    }
}

type Client = RunningService<RoleClient, Watcher>;

/// Requests the newest version, and falls back to the handshake.
pub(crate) fn modern() -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    ClientLifecycleMode::Auto { preferred_versions, legacy_version: None }
}

async fn over_http(server: &Server, mode: ClientLifecycleMode) -> Client {
    let config = StreamableHttpClientTransportConfig::with_uri(server.url())
        .auth_header(server.token("reader"));
    let transport = StreamableHttpClientTransport::from_config(config);
    Watcher::default().serve_with_lifecycle(transport, mode).await.unwrap()
}

async fn over_stdio(place: &Place, mode: ClientLifecycleMode) -> Client {
    let token = place.ok(&["token", "add", "reader"]);
    let mut command = place.command(&["serve", "--demo", "--stdio"]);
    command.env("CALLGATE_TOKEN", token);
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true);
    let transport = TokioChildProcess::new(command).unwrap();
    Watcher::default().serve_with_lifecycle(transport, mode).await.unwrap()
}

fn is_modern(client: &Client) -> bool {
    client.peer_info().unwrap().protocol_version == ProtocolVersion::V_2026_07_28
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_client_works_over_http() {
    let place = Place::with_demo();
    let server = place.serve();
    let client = over_http(&server, modern()).await;
    assert!(is_modern(&client));
    tour(&client, &place).await;
    end_over_http(client, server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_a_handshake_works_over_http() {
    let place = Place::with_demo();
    let server = place.serve();
    let client = over_http(&server, ClientLifecycleMode::Initialize).await;
    assert!(!is_modern(&client));
    tour(&client, &place).await;
    end_over_http(client, server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_client_works_over_stdio() {
    let place = Place::with_demo();
    let client = over_stdio(&place, modern()).await;
    assert!(is_modern(&client));
    tour(&client, &place).await;
    end_over_stdio(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_a_handshake_works_over_stdio() {
    let place = Place::with_demo();
    let client = over_stdio(&place, ClientLifecycleMode::Initialize).await;
    assert!(!is_modern(&client));
    tour(&client, &place).await;
    end_over_stdio(client).await;
}

async fn tour(client: &Client, place: &Place) {
    lists_page_by_page(client).await;
    calls_end_as_they_should(client).await;
    sees_a_tool_appear(client, place).await;
}

/// Cancels a call and stops the server, which waits for running calls.
async fn end_over_http(client: Client, server: Server) {
    let started = Instant::now();
    cancels_a_slow_call(&client).await;
    client.cancel().await.unwrap();
    let log = tokio::task::spawn_blocking(|| server.stop()).await.unwrap();
    assert!(started.elapsed() < SLOW, "{log}");
    assert!(!log.contains("shutdown timed out"), "{log}");
}

/// Cancels a call and closes the input. A running call would delay the exit until rmcp kills the program after three
/// seconds.
async fn end_over_stdio(client: Client) {
    cancels_a_slow_call(&client).await;
    let started = Instant::now();
    client.cancel().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

async fn names(client: &Client) -> Vec<String> {
    let tools = client.list_all_tools().await.unwrap();
    tools.into_iter().map(|tool| tool.name.into_owned()).collect()
}

async fn lists_page_by_page(client: &Client) {
    let mut pages = Vec::new();
    let mut cursor = None;
    loop {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = client.list_tools(Some(params)).await.unwrap();
        pages.push(page.tools.len());
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(pages, [2, 2, 1]);
    assert_eq!(names(client).await, READERS_TOOLS);
}

fn params(name: &'static str, arguments: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone())
}

async fn call(
    client: &Client,
    name: &'static str,
    arguments: Value,
) -> Result<CallToolResult, ServiceError> {
    timeout(PATIENCE, client.call_tool(params(name, &arguments))).await.unwrap()
}

fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

async fn calls_end_as_they_should(client: &Client) {
    let article = call(client, "content_article_markdown", json!({"id": 1})).await.unwrap();
    assert_ne!(article.is_error, Some(true));
    assert!(text(&article).starts_with("# Welcome"), "{article:?}");
    for (id, words) in [(json!(999), "there is no article 999"), (json!("x"), "id")] {
        let failed = call(client, "content_article_markdown", json!({"id": id})).await.unwrap();
        assert_eq!(failed.is_error, Some(true));
        assert!(text(&failed).contains(words), "{failed:?}");
    }
    match call(client, "content_article_delete", json!({"id": 1})).await {
        Err(ServiceError::McpError(error)) => assert_eq!(error.code, ErrorCode::INVALID_PARAMS),
        other => panic!("{other:?}"),
    }
}

async fn cancels_a_slow_call(client: &Client) {
    let slow = params("report_yearly", &json!({"seconds": SLOW.as_secs()}));
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(slow));
    let sent = client.send_cancellable_request(request, PeerRequestOptions::no_options());
    let running = timeout(PATIENCE, sent).await.unwrap().unwrap();
    // rmcp may reorder messages, so the call must be running before it is cancelled.
    timeout(PATIENCE, client.service().running.notified()).await.unwrap();
    let cancelled = CancelledNotificationParam::new(Some(running.id.clone()), None);
    client.notify_cancelled(cancelled).await.unwrap();
    let ended = timeout(PATIENCE, running.await_response()).await.unwrap();
    assert!(matches!(ended, Err(ServiceError::Cancelled { .. })), "{ended:?}");
    let article = call(client, "content_article_markdown", json!({"id": 2})).await.unwrap();
    assert!(text(&article).starts_with("# How we bake bread"), "{article:?}");
}

async fn sees_a_tool_appear(client: &Client, place: &Place) {
    if is_modern(client) {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let mut subscription = timeout(PATIENCE, client.listen(filter)).await.unwrap().unwrap();
        place.grant_readers("read");
        let told = timeout(PATIENCE, subscription.next()).await.unwrap().unwrap();
        assert!(matches!(told, Some(ServerNotification::ToolListChangedNotification(_))));
        subscription.cancel().await.unwrap();
    } else {
        receives_a_notification(client, place).await;
    }
    let mut expected = READERS_TOOLS.to_vec();
    expected.push("user_get");
    assert_eq!(names(client).await, expected);
    let user = call(client, "user_get", json!({"id_user": 1})).await.unwrap();
    assert!(text(&user).contains("Ada Lindqvist"), "{user:?}");
}

/// Repeats the change until the client is notified, because the client does not report when its stream is open.
async fn receives_a_notification(client: &Client, place: &Place) {
    let changed = Arc::clone(&client.service().changed);
    for _ in 0..5 {
        place.grant_readers("read");
        if timeout(PATIENCE, changed.notified()).await.is_ok() {
            return;
        }
        place.grant_readers("none");
    }
    panic!("the client was not notified");
}
