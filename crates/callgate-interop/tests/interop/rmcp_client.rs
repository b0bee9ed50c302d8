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

use crate::program::{Server, TestDirectory};

/// Maximum time to wait, shorter than the slow call.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Duration of the call that is cancelled.
const SLOW_CALL: Duration = Duration::from_secs(20);

const READER_TOOLS: [&str; 5] = [
    "content_article_markdown",
    "content_articles_list",
    "content_types_list",
    "report_projects",
    "report_yearly",
];

/// A client that counts notifications.
#[derive(Default)]
struct NotificationHandler {
    /// Notified when the tools change.
    tools_changed: Arc<Notify>,
    /// Notified of the progress of a call.
    progress: Arc<Notify>,
}

impl ClientHandler for NotificationHandler {
    fn on_tool_list_changed(
        &self,
        _: NotificationContext<RoleClient>,
    ) -> impl Future<Output = ()> + Send + '_ {
        self.tools_changed.notify_one();
        ready(())
    }

    fn on_progress(
        &self,
        _: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) -> impl Future<Output = ()> + Send + '_ {
        self.progress.notify_one();
        ready(())
    }
}

type Client = RunningService<RoleClient, NotificationHandler>;

/// Requests the newest version, and falls back to the handshake.
pub(crate) fn modern() -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    ClientLifecycleMode::Auto { preferred_versions, legacy_version: None }
}

async fn connect_over_http(server: &Server, mode: ClientLifecycleMode) -> Client {
    let config = StreamableHttpClientTransportConfig::with_uri(server.url())
        .auth_header(server.token("reader"));
    let transport = StreamableHttpClientTransport::from_config(config);
    NotificationHandler::default().serve_with_lifecycle(transport, mode).await.unwrap()
}

async fn connect_over_stdio(directory: &TestDirectory, mode: ClientLifecycleMode) -> Client {
    let token = directory.run(&["token", "add", "reader"]);
    let mut command = directory.command(&["serve", "--demo", "--stdio"]);
    command.env("CALLGATE_TOKEN", token);
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true);
    let transport = TokioChildProcess::new(command).unwrap();
    NotificationHandler::default().serve_with_lifecycle(transport, mode).await.unwrap()
}

fn is_modern(client: &Client) -> bool {
    client.peer_info().unwrap().protocol_version == ProtocolVersion::V_2026_07_28
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_client_works_over_http() {
    let directory = TestDirectory::with_demo();
    let server = directory.serve();
    let client = connect_over_http(&server, modern()).await;
    assert!(is_modern(&client));
    check_features(&client, &directory).await;
    end_over_http(client, server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_a_handshake_works_over_http() {
    let directory = TestDirectory::with_demo();
    let server = directory.serve();
    let client = connect_over_http(&server, ClientLifecycleMode::Initialize).await;
    assert!(!is_modern(&client));
    check_features(&client, &directory).await;
    end_over_http(client, server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_client_works_over_stdio() {
    let directory = TestDirectory::with_demo();
    let client = connect_over_stdio(&directory, modern()).await;
    assert!(is_modern(&client));
    check_features(&client, &directory).await;
    end_over_stdio(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_a_handshake_works_over_stdio() {
    let directory = TestDirectory::with_demo();
    let client = connect_over_stdio(&directory, ClientLifecycleMode::Initialize).await;
    assert!(!is_modern(&client));
    check_features(&client, &directory).await;
    end_over_stdio(client).await;
}

async fn check_features(client: &Client, directory: &TestDirectory) {
    check_pagination(client).await;
    check_call_results(client).await;
    check_list_changed(client, directory).await;
}

/// Cancels a call and stops the server, which waits for running calls.
async fn end_over_http(client: Client, server: Server) {
    let started = Instant::now();
    check_cancellation(&client).await;
    client.cancel().await.unwrap();
    let log = tokio::task::spawn_blocking(|| server.stop()).await.unwrap();
    assert!(started.elapsed() < SLOW_CALL, "{log}");
    assert!(!log.contains("shutdown timed out"), "{log}");
}

/// Cancels a call and closes the input. A running call would delay the exit until rmcp kills the program after three
/// seconds.
async fn end_over_stdio(client: Client) {
    check_cancellation(&client).await;
    let started = Instant::now();
    client.cancel().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

async fn names(client: &Client) -> Vec<String> {
    let tools = client.list_all_tools().await.unwrap();
    tools.into_iter().map(|tool| tool.name.into_owned()).collect()
}

async fn check_pagination(client: &Client) {
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
    assert_eq!(names(client).await, READER_TOOLS);
}

fn params(name: &'static str, arguments: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone())
}

async fn call(
    client: &Client,
    name: &'static str,
    arguments: Value,
) -> Result<CallToolResult, ServiceError> {
    timeout(TIMEOUT, client.call_tool(params(name, &arguments))).await.unwrap()
}

fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

async fn check_call_results(client: &Client) {
    let article = call(client, "content_article_markdown", json!({"id": 1})).await.unwrap();
    assert_ne!(article.is_error, Some(true));
    assert!(text(&article).starts_with("# Welcome"), "{article:?}");
    for (id, expected) in [(json!(999), "there is no article 999"), (json!("x"), "id")] {
        let failed = call(client, "content_article_markdown", json!({"id": id})).await.unwrap();
        assert_eq!(failed.is_error, Some(true));
        assert!(text(&failed).contains(expected), "{failed:?}");
    }
    match call(client, "content_article_delete", json!({"id": 1})).await {
        Err(ServiceError::McpError(error)) => assert_eq!(error.code, ErrorCode::INVALID_PARAMS),
        other => panic!("{other:?}"),
    }
}

async fn check_cancellation(client: &Client) {
    let slow = params("report_yearly", &json!({"seconds": SLOW_CALL.as_secs()}));
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(slow));
    let sent = client.send_cancellable_request(request, PeerRequestOptions::no_options());
    let running = timeout(TIMEOUT, sent).await.unwrap().unwrap();
    // rmcp may reorder messages, so the call must be running before it is cancelled.
    timeout(TIMEOUT, client.service().progress.notified()).await.unwrap();
    let cancelled = CancelledNotificationParam::new(Some(running.id.clone()), None);
    client.notify_cancelled(cancelled).await.unwrap();
    let result = timeout(TIMEOUT, running.await_response()).await.unwrap();
    assert!(matches!(result, Err(ServiceError::Cancelled { .. })), "{result:?}");
    let article = call(client, "content_article_markdown", json!({"id": 2})).await.unwrap();
    assert!(text(&article).starts_with("# How we bake bread"), "{article:?}");
}

async fn check_list_changed(client: &Client, directory: &TestDirectory) {
    if is_modern(client) {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let mut subscription = timeout(TIMEOUT, client.listen(filter)).await.unwrap().unwrap();
        directory.grant_readers("read");
        let notification = timeout(TIMEOUT, subscription.next()).await.unwrap().unwrap();
        assert!(matches!(notification, Some(ServerNotification::ToolListChangedNotification(_))));
        subscription.cancel().await.unwrap();
    } else {
        wait_for_list_changed(client, directory).await;
    }
    let mut expected = READER_TOOLS.to_vec();
    expected.push("user_get");
    assert_eq!(names(client).await, expected);
    let user = call(client, "user_get", json!({"id_user": 1})).await.unwrap();
    assert!(text(&user).contains("Ada Lindqvist"), "{user:?}");
}

/// Repeats the change until the client is notified, because the client does not report when its stream is open.
async fn wait_for_list_changed(client: &Client, directory: &TestDirectory) {
    let tools_changed = Arc::clone(&client.service().tools_changed);
    for _ in 0..5 {
        directory.grant_readers("read");
        if timeout(TIMEOUT, tools_changed.notified()).await.is_ok() {
            return;
        }
        directory.grant_readers("none");
    }
    panic!("the client was not notified");
}
