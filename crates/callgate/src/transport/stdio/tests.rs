//! Lines in both directions, over an in-memory pipe.
#![expect(clippy::needless_pass_by_value, reason = "calls read better with `json!` in place")]

use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::*;
use crate::access::Caller;
use crate::catalog::CatalogBuilder;
use crate::gateway::{Gateway, Settings};
use crate::mcp::{SessionKey, Sessions};
use crate::model::method::{LOCAL, Method};
use crate::model::types::Types;
use crate::upstream::local::ask::ListRoots;
use crate::upstream::local::context::Context;
use crate::upstream::local::{Error, Local};
use crate::upstream::{BoxFuture, Upstream};
use crate::wire::jsonrpc::LIMIT_EXCEEDED;

struct StubIdentify(Mutex<Result<Caller, IdentifyError>>);

impl Identify for StubIdentify {
    fn identify(&self) -> BoxFuture<'_, Result<Caller, IdentifyError>> {
        let caller = self.0.lock().unwrap().clone();
        Box::pin(async { caller })
    }
}

/// A client at the other end of the pipe.
struct StdioClient {
    lines: BufReader<ReadHalf<DuplexStream>>,
    input: Option<WriteHalf<DuplexStream>>,
    server: JoinHandle<Result<(), StdioError>>,
    gateway: Arc<Gateway>,
    identify: Arc<StubIdentify>,
    permits: Arc<Semaphore>,
}

fn method(id: &str) -> Method {
    Method::new(id.parse().unwrap())
}

impl StdioClient {
    fn new(options: StdioOptions) -> Self {
        let permits = Arc::new(Semaphore::new(0));
        let mut local = Local::default();
        local.method(method("quick"), async |_, _: Value| Ok::<_, Error>("a\nb"));
        let slow_permits = Arc::clone(&permits);
        local.method(method("slow"), move |_, _: Value| {
            let slow_permits = Arc::clone(&slow_permits);
            async move {
                slow_permits.acquire().await?.forget();
                Ok::<_, Error>("done")
            }
        });
        local.method(method("asks"), async |context: Context, _: Value| {
            Ok::<_, Error>(context.client.ask("roots", ListRoots).await?.roots.len())
        });
        let gateway = Gateway::new([(Arc::from(LOCAL), Arc::new(local) as Arc<dyn Upstream>)]);
        let gateway = Arc::new(gateway);
        set_tools(&gateway, &["asks", "quick", "slow"]);
        let sessions = Sessions::new([SessionKey::new(&[1; 32])]);
        let mcp = Arc::new(Mcp::new(Arc::clone(&gateway), sessions));
        let identify = Arc::new(StubIdentify(Mutex::new(Ok(Caller::anonymous()))));
        let (client_end, server_end) = tokio::io::duplex(64 * 1024);
        let (server_input, server_output) = tokio::io::split(server_end);
        let server_identify = Arc::clone(&identify);
        let server = tokio::spawn(serve(
            mcp,
            server_identify,
            BufReader::new(server_input),
            server_output,
            options,
        ));
        let (client_input, client_output) = tokio::io::split(client_end);
        Self {
            lines: BufReader::new(client_input),
            input: Some(client_output),
            server,
            gateway,
            identify,
            permits,
        }
    }

    async fn send(&mut self, line: impl std::fmt::Display) {
        let line = format!("{line}\n");
        self.input.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    async fn exchange(&mut self, message: Value) -> Value {
        self.send(message).await;
        self.next().await
    }

    async fn initialize(&mut self) {
        let capabilities = json!({"roots": {}});
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {},
        });
        let reply = self.exchange(request(0, "initialize", params)).await;
        assert_eq!(reply["result"]["protocolVersion"], "2025-06-18");
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }

    /// Ends the input. Returns the remaining messages.
    async fn end(mut self) -> (Vec<Value>, Result<(), StdioError>) {
        self.input.take().unwrap().shutdown().await.unwrap();
        let mut rest = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut self.lines, &mut rest).await.unwrap();
        let rest = rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (rest, self.server.await.unwrap())
    }
}

fn set_tools(gateway: &Gateway, ids: &[&str]) {
    let mut builder = CatalogBuilder::new(crate::model::tool_name::Prefix::default(), None);
    for id in ids {
        builder.add(method(id), 0, &Types::default(), []);
    }
    gateway.set_catalog(Arc::new(builder.finish()));
}

fn request(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn modern(id: i64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(id, method, params)
}

#[tokio::test]
async fn a_connection_serves_both_eras_and_discover_does_not_select_an_era() {
    let mut client = StdioClient::new(StdioOptions::default());
    let discovered = client.exchange(modern(1, "server/discover", json!({}))).await;
    assert_eq!(discovered["result"]["resultType"], "complete");
    client.initialize().await;
    let legacy = client.exchange(request(2, "tools/list", json!({}))).await;
    assert!(legacy["result"].get("resultType").is_none());
    let modern = client.exchange(modern(3, "tools/list", json!({}))).await;
    assert_eq!(modern["result"]["resultType"], "complete");
    let call = client.exchange(request(4, "tools/call", json!({"name": "quick"}))).await;
    assert_eq!(call["result"]["content"][0]["text"], "a\nb");
    let (rest, ended) = client.end().await;
    assert!(rest.is_empty() && ended.is_ok());
}

#[tokio::test]
async fn invalid_lines_get_error_responses_and_later_lines_are_served() {
    let mut client =
        StdioClient::new(StdioOptions { max_line_bytes: 100, ..StdioOptions::default() });
    let mut codes = Vec::new();
    for line in ["nonsense", "1", "[]", "\"x\\ud800\"", &"x".repeat(5_000)] {
        client.send(line).await;
        let reply = client.next().await;
        assert!(reply.get("id").is_none());
        codes.push(reply["error"]["code"].as_i64().unwrap());
    }
    assert_eq!(codes, [-32700, -32600, -32600, -32700, -32600]);
    client.send("").await;
    client.send("  \r").await;
    client.input.as_mut().unwrap().write_all(b"\xff\xfe\n").await.unwrap();
    assert_eq!(client.next().await["error"]["code"], -32700);
    let ping = client.exchange(json!({"jsonrpc": "2.0", "id": 7, "method": "ping"})).await;
    assert_eq!(ping, json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
}

#[tokio::test]
async fn a_cancelled_call_sends_no_response() {
    for modern_era in [false, true] {
        let mut client = StdioClient::new(StdioOptions::default());
        let build_request = if modern_era { modern } else { request };
        client.send(build_request(1, "tools/call", json!({"name": "slow"}))).await;
        client.send(build_request(2, "tools/call", json!({"name": "slow"}))).await;
        let params = json!({"requestId": 1});
        let notification =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        client.send(notification).await;
        // Messages are read in order, so the notification has been processed when this one is answered.
        client.exchange(build_request(3, "tools/list", json!({}))).await;
        client.permits.add_permits(2);
        assert_eq!(client.next().await["id"], 2);
        let (rest, _) = client.end().await;
        assert!(rest.is_empty(), "{rest:?}");
    }
}

#[tokio::test]
async fn a_legacy_client_is_notified_of_changes_after_initialize() {
    let mut client = StdioClient::new(StdioOptions::default());
    set_tools(&client.gateway, &["quick"]);
    client.initialize().await;
    client.exchange(request(1, "ping", json!({}))).await;
    set_tools(&client.gateway, &["quick", "slow"]);
    assert_eq!(client.next().await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_modern_client_is_notified_of_subscribed_changes_until_it_cancels() {
    let mut client = StdioClient::new(StdioOptions::default());
    let params = json!({"notifications": {"toolsListChanged": true}});
    let acknowledged = client.exchange(modern(5, "subscriptions/listen", params)).await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    set_tools(&client.gateway, &["quick"]);
    let changed = client.next().await;
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 5);
    let params = json!({"requestId": 5});
    let notification =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    client.send(notification).await;
    client.exchange(modern(6, "tools/list", json!({}))).await;
    set_tools(&client.gateway, &["slow"]);
    let (rest, _) = client.end().await;
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test(start_paused = true)]
async fn after_the_end_of_the_input_calls_may_finish_until_the_time_limit() {
    let mut client = StdioClient::new(StdioOptions::default());
    client.send(request(1, "tools/call", json!({"name": "slow"}))).await;
    client.permits.add_permits(1);
    let (rest, ended) = client.end().await;
    assert_eq!(rest[0]["result"]["content"][0]["text"], "done");
    assert!(ended.is_ok());
    let mut client = StdioClient::new(StdioOptions::default());
    client.send(request(1, "tools/call", json!({"name": "slow"}))).await;
    let (rest, ended) = client.end().await;
    assert!(rest.is_empty() && ended.is_ok());
}

#[tokio::test]
async fn batches_are_refused_after_a_revision_without_batches_is_negotiated() {
    let mut client = StdioClient::new(StdioOptions::default());
    let batch = json!([request(1, "ping", json!({})), request(2, "ping", json!({}))]);
    assert_eq!(client.exchange(batch.clone()).await.as_array().unwrap().len(), 2);
    client.initialize().await;
    assert_eq!(client.exchange(batch).await["error"]["code"], -32600, "2025-06-18 has no batches");
}

#[tokio::test]
async fn requests_with_an_invalid_credential_are_answered_with_the_reason() {
    let mut client = StdioClient::new(StdioOptions::default());
    *client.identify.0.lock().unwrap() = Err(IdentifyError::Refused);
    for id in [1, 2] {
        let reply = client.exchange(request(id, "initialize", json!({}))).await;
        assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!(id), &json!(-32600)));
        assert_eq!(reply["error"]["message"], "the credential is invalid or was revoked");
    }
    *client.identify.0.lock().unwrap() = Ok(Caller::anonymous());
    client.initialize().await;
    *client.identify.0.lock().unwrap() = Err(IdentifyError::Refused);
    let revoked = client.exchange(request(3, "tools/list", json!({}))).await;
    assert_eq!(revoked["error"]["code"], -32600);
}

#[tokio::test]
async fn an_unverifiable_credential_fails_the_request_and_later_requests_are_served() {
    let mut client = StdioClient::new(StdioOptions::default());
    client.initialize().await;
    *client.identify.0.lock().unwrap() = Err(IdentifyError::Unavailable);
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled"})).await;
    let reply = client.exchange(request(2, "ping", json!({}))).await;
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!(2), &json!(-32603)));
    insta::assert_snapshot!(
        reply["error"]["message"].as_str().unwrap(),
        @"the credential cannot be verified at the moment; try again"
    );
    *client.identify.0.lock().unwrap() = Ok(Caller::anonymous());
    assert!(client.exchange(request(3, "ping", json!({}))).await["result"].is_object());
}

#[tokio::test]
async fn running_calls_are_limited_and_ended_calls_do_not_count() {
    let mut client = StdioClient::new(StdioOptions::default());
    let limit = i64::try_from(MAX_CALLS).unwrap();
    for round in 0..2 {
        for id in 0..limit {
            client.send(request(id, "tools/call", json!({"name": "slow"}))).await;
        }
        let refused = client.exchange(request(limit, "tools/call", json!({"name": "slow"}))).await;
        assert_eq!(refused["error"]["code"], -32603, "{round}");
        assert_eq!(refused["id"], limit);
        client.permits.add_permits(MAX_CALLS);
        for _ in 0..limit {
            assert!(client.next().await["result"].is_object());
        }
    }
    let calls: Vec<Value> =
        (0..90).map(|id| request(id, "tools/call", json!({"name": "slow"}))).collect();
    for _ in 0..2 {
        client.send(json!(calls)).await;
    }
    assert_eq!(
        client.exchange(json!(calls)).await["error"]["code"],
        -32603,
        "calls of batches count"
    );
    client.permits.add_permits(180);
    for _ in 0..2 {
        assert_eq!(client.next().await.as_array().unwrap().len(), 90);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_does_not_delay_the_shutdown() {
    let options = StdioOptions::default();
    let mut client = StdioClient::new(options);
    let names: Vec<String> = (0..2_000).map(|number| format!("tool{number}")).collect();
    set_tools(&client.gateway, &names.iter().map(String::as_str).collect::<Vec<_>>());
    // The reply is larger than the pipe, and the client does not read it.
    client.send(request(1, "tools/list", json!({}))).await;
    client.input.take().unwrap().shutdown().await.unwrap();
    let ended = tokio::time::timeout(options.end_timeout * 3, client.server).await;
    assert!(ended.unwrap().unwrap().is_ok());
    drop(client.lines);
}

#[tokio::test]
async fn an_invalid_notification_gets_no_response() {
    let mut client = StdioClient::new(StdioOptions::default());
    for params in [json!([1]), json!(7), json!(null), json!({"_meta": 1})] {
        client.send(json!({"jsonrpc": "2.0", "method": "notifications/x", "params": params})).await;
    }
    assert_eq!(client.exchange(request(1, "ping", json!({}))).await["id"], 1);
}

#[tokio::test(start_paused = true)]
async fn serving_fails_with_a_timeout_if_the_client_never_reads() {
    let mut client = StdioClient::new(StdioOptions::default());
    let names: Vec<String> = (0..2_000).map(|number| format!("tool{number}")).collect();
    set_tools(&client.gateway, &names.iter().map(String::as_str).collect::<Vec<_>>());
    // Sends so many messages that the server never reads the end of the input.
    for id in 0..200 {
        client.send(request(id, "tools/list", json!({}))).await;
    }
    client.input.take().unwrap().shutdown().await.unwrap();
    let ended = tokio::time::timeout(WRITE_TIMEOUT * 2, client.server).await.unwrap().unwrap();
    assert!(matches!(ended, Err(StdioError::Io(error)) if error.kind() == io::ErrorKind::TimedOut));
    drop(client.lines);
}

#[tokio::test]
async fn a_legacy_client_answers_questions_during_the_call() {
    let mut client = StdioClient::new(StdioOptions::default());
    client.initialize().await;
    let question = client.exchange(request(1, "tools/call", json!({"name": "asks"}))).await;
    assert_eq!(question["method"], "roots/list");
    assert_eq!(
        client.exchange(request(2, "ping", json!({}))).await["id"],
        2,
        "an open question does not block other requests"
    );
    let answer = json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]});
    let result =
        client.exchange(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
    assert_eq!(result["result"]["content"][0]["text"], "2");
}

#[tokio::test]
async fn a_modern_client_repeats_the_request_with_its_answers() {
    let mut client = StdioClient::new(StdioOptions::default());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
    });
    let input_required =
        client.exchange(request(1, "tools/call", json!({"name": "asks", "_meta": meta}))).await;
    assert_eq!(input_required["result"]["inputRequests"]["roots"]["method"], "roots/list");
    let params = json!({
        "name": "asks",
        "_meta": meta,
        "requestState": input_required["result"]["requestState"],
        "inputResponses": {"roots": {"roots": []}},
    });
    let result = client.exchange(request(2, "tools/call", params)).await;
    assert_eq!(result["result"]["content"][0]["text"], "0");
}

#[tokio::test]
async fn messages_above_the_rate_limit_are_refused() {
    let mut client = StdioClient::new(StdioOptions::default());
    let mut settings = Settings::default();
    settings.set("limit_requests_per_caller", "3/h").unwrap();
    client.gateway.set_settings(Arc::new(settings));
    // Sends two messages, which count against the limit.
    client.initialize().await;
    let call = || request(1, "tools/call", json!({"name": "quick"}));
    assert!(client.exchange(call()).await["result"]["isError"].is_null());
    let refused = client.exchange(call()).await;
    assert_eq!(refused["result"]["isError"], true);
    let refused = client.exchange(request(2, "tools/list", json!({}))).await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(LIMIT_EXCEEDED)));
    assert!(refused["error"]["data"]["retry_after"].as_u64().unwrap() >= 1);
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled"})).await;
    assert_eq!(client.end().await.0, [] as [Value; 0], "a notification has no response");
}
