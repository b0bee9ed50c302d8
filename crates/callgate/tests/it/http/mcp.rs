//! `/mcp`: every revision, through the router and without sockets.

mod calls;
mod lists;
mod prompts_and_resources;
mod questions;
mod relay;
mod replay;
mod sessions;
mod streams;
mod tasks;
mod transport;

use std::sync::atomic::AtomicU32;

use tokio::sync::Semaphore;

use super::*;

const MODERN: &str = "2026-07-28";
const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN];

/// A client that speaks one revision.
struct Client<'a> {
    app: &'a App,
    caller: &'a str,
    revision: &'a str,
    session: Option<String>,
    accept: &'a str,
    capabilities: Value,
}

impl App {
    fn client<'a>(&'a self, caller: &'a str, revision: &'a str) -> Client<'a> {
        let accept = "application/json, text/event-stream";
        Client { app: self, caller, revision, session: None, accept, capabilities: json!({}) }
    }
}

impl Client<'_> {
    fn message(&self, method: &str, mut params: Value) -> Value {
        if self.revision == MODERN {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                self.capabilities.clone();
        }
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    }

    fn builder(&self, message: &Value) -> http::request::Builder {
        let mut request = request("POST", self.caller, "/mcp")
            .header("accept", self.accept)
            .header("content-type", "application/json")
            .header("mcp-protocol-version", self.revision);
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if self.revision == MODERN {
            request = request.header("mcp-method", message["method"].as_str().unwrap());
            let params = &message["params"];
            if let Some(name) = ["name", "uri", "taskId"].iter().find_map(|it| params[it].as_str())
            {
                request = request.header("mcp-name", name);
            }
        }
        request
    }

    async fn send(&self, message: &Value) -> Reply {
        self.app.send(self.builder(message).body(message.to_string().into()).unwrap()).await
    }

    async fn request(&self, method: &str, params: Value) -> Reply {
        self.send(&self.message(method, params)).await
    }

    async fn result(&self, method: &str, params: Value) -> Value {
        let reply = self.request(method, params).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let body = reply.json();
        assert!(body.get("result").is_some(), "{}", reply.text);
        body["result"].clone()
    }

    /// Returns the HTTP status and the JSON-RPC code.
    async fn error(&self, method: &str, params: Value) -> (u16, i64) {
        code(&self.request(method, params).await)
    }

    async fn call(&self, name: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": name, "arguments": arguments})).await
    }

    /// Declares these capabilities, and performs the handshake if the revision has one.
    async fn with_capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        if self.revision != MODERN {
            self.initialize().await;
        }
        self
    }

    async fn initialize(&mut self) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({
            "protocolVersion": self.revision,
            "capabilities": self.capabilities,
            "clientInfo": client,
        });
        let reply = self.request("initialize", params).await;
        self.session = Some(reply.header("mcp-session-id").to_owned());
        reply.json()["result"].clone()
    }

    /// Sends a request, and reads the stream of the reply in parts.
    async fn stream(&self, method: &str, params: Value) -> Stream {
        let message = self.message(method, params);
        let request = self.builder(&message).body(message.to_string().into()).unwrap();
        Stream::of(self.app.respond(request).await)
    }
}

fn code(reply: &Reply) -> (u16, i64) {
    (reply.status.as_u16(), reply.json()["error"]["code"].as_i64().unwrap_or_default())
}

/// A stream of server-sent events.
struct Stream {
    body: Body,
    text: String,
}

impl Stream {
    fn of(response: axum::response::Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self { body: response.into_body(), text: String::new() }
    }

    /// Returns the next event, including comments, or `None` at the end.
    async fn event(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(event);
            }
            let frame = self.body.frame().await?.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&frame).unwrap());
        }
    }

    /// Returns the next message.
    async fn next(&mut self) -> Option<Value> {
        loop {
            let event = self.event().await?;
            if event.starts_with(':') {
                continue;
            }
            let data = event.strip_prefix("event: message\ndata: ").unwrap();
            return Some(serde_json::from_str(data).unwrap());
        }
    }
}

/// State of a slow method: permits to end, and counts of started, finished and dropped calls.
#[derive(Clone)]
struct Slow {
    permits: Arc<Semaphore>,
    started: Arc<Semaphore>,
    finished: Arc<AtomicU32>,
    dropped: Arc<AtomicU32>,
}

impl Slow {
    fn new() -> Self {
        let none = || Arc::new(Semaphore::new(0));
        Self { permits: none(), started: none(), finished: Arc::default(), dropped: Arc::default() }
    }

    async fn wait_until_started(&self) {
        self.started.acquire().await.unwrap().forget();
    }

    fn counts(&self) -> (u32, u32) {
        (self.finished.load(Ordering::SeqCst), self.dropped.load(Ordering::SeqCst))
    }
}

struct OnDrop(Arc<AtomicU32>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// An application with a tool for each kind of result, and a tool that waits.
fn tools(slow: &Slow) -> Local {
    let mut local = application();
    let returns = |id: &str, ty: &str| method(id).returns(ty.parse().unwrap());
    local.method(
        returns("shape.object", "array{a: int}").title("An object"),
        async |_, _: Value| Ok::<_, Error>(json!({"a": 1})),
    );
    local.method(returns("shape.list", "int[]"), async |_, _: Value| Ok::<_, Error>([1, 2]));
    local.method(returns("shape.text", "string"), async |_, _: Value| {
        Ok::<_, Error>("two\nlines \"quoted\"")
    });
    local.method(returns("shape.broken", "int"), async |_, _: Value| Ok::<_, Error>("no number"));
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    let count = json!({"type": "integer", "x-mcp-header": "Count"});
    let routed = method("routed")
        .param(Param::with_schema("region", region).unwrap().optional())
        .param(Param::with_schema("count", count).unwrap().optional());
    local.method(routed, async |_, value: Value| Ok::<_, Error>(value));
    let slow = slow.clone();
    local.method(method("slow"), move |_, _: Value| {
        let slow = slow.clone();
        async move {
            let dropped = OnDrop(Arc::clone(&slow.dropped));
            slow.started.add_permits(1);
            slow.permits.acquire().await.unwrap().forget();
            std::mem::forget(dropped);
            slow.finished.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Error>("done")
        }
    });
    local
}

fn app() -> (App, Slow) {
    let slow = Slow::new();
    (App::with(tools(&slow), HttpOptions::default()), slow)
}
