//! An HTTP/1.1 service on loopback whose replies a test controls, down to the bytes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;

/// Maximum time to wait for an event, with a large margin for a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A request that the service received.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// Number of earlier requests.
    pub number: usize,
    /// The request line, such as `POST /rpc HTTP/1.1`.
    pub request_line: String,
    /// Request line and headers as text, in lower case.
    pub head: String,
    /// Headers by name in lower case.
    pub headers: HashMap<String, String>,
    /// Body: JSON, a string if it is not JSON, or null if it is empty.
    pub body: Value,
}

impl ReceivedRequest {
    /// Returns the HTTP method and the request target, such as `GET /path?query`.
    pub fn target(&self) -> &str {
        self.request_line.trim_end_matches(" HTTP/1.1")
    }

    /// Returns the HTTP method.
    pub fn http_method(&self) -> &str {
        self.request_line.split(' ').next().unwrap_or_default()
    }

    /// Returns the value of a header. `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns the JSON-RPC method.
    pub fn method(&self) -> &str {
        self.member("method").as_str().unwrap_or_default()
    }

    fn member(&self, name: &str) -> &Value {
        self.body.get(name).unwrap_or(&Value::Null)
    }

    /// Returns a JSON-RPC response with this result.
    pub fn result(&self, result: impl Into<Value>) -> FakeResponse {
        let result: Value = result.into();
        FakeResponse::json(
            200,
            json!({"jsonrpc": "2.0", "result": result, "id": self.member("id")}),
        )
    }

    /// Returns a JSON-RPC response with this error.
    pub fn error(&self, status: u16, error: impl Into<Value>) -> FakeResponse {
        let error: Value = error.into();
        FakeResponse::json(
            status,
            json!({"jsonrpc": "2.0", "error": error, "id": self.member("id")}),
        )
    }
}

/// Reply to a request.
#[derive(Debug, Clone)]
pub struct FakeResponse {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
    permits: Option<Arc<Semaphore>>,
    closes: bool,
}

#[derive(Debug, Clone)]
enum Body {
    Full(String),
    /// Chunks that the test sends, until it drops the sender.
    Stream(Arc<tokio::sync::Mutex<mpsc::Receiver<String>>>),
    /// Bytes in place of a status line, headers and a body.
    Raw(String),
    /// Sends nothing and waits until the client disconnects.
    Hang,
}

impl From<(u16, String)> for FakeResponse {
    fn from((status, body): (u16, String)) -> Self {
        Self::text(status, "application/json", body)
    }
}

impl FakeResponse {
    fn new(status: u16, body: Body) -> Self {
        Self { status, headers: Vec::new(), body, permits: None, closes: false }
    }

    /// Returns a reply with a JSON body.
    pub fn json(status: u16, body: impl std::borrow::Borrow<Value>) -> Self {
        Self::text(status, "application/json", body.borrow().to_string())
    }

    /// Returns a reply with a body of this media type.
    pub fn text(status: u16, media: &str, body: impl Into<String>) -> Self {
        Self::empty(status).body(body).with("Content-Type", media)
    }

    /// Returns a reply without a body or a media type.
    pub fn empty(status: u16) -> Self {
        Self::new(status, Body::Full(String::new()))
    }

    /// Returns a complete event stream.
    pub fn events(text: impl Into<String>) -> Self {
        Self::text(200, "text/event-stream", text)
    }

    /// Returns an event stream and the sender of its chunks.
    pub fn stream() -> (mpsc::Sender<String>, Self) {
        let (sender, receiver) = mpsc::channel(16);
        (
            sender,
            Self::new(200, Body::Stream(Arc::new(tokio::sync::Mutex::new(receiver))))
                .with("Content-Type", "text/event-stream"),
        )
    }

    /// Returns a reply of these bytes, without a status line.
    pub fn raw(bytes: impl Into<String>) -> Self {
        Self::new(0, Body::Raw(bytes.into()))
    }

    /// Closes the connection without a reply.
    pub fn close() -> Self {
        Self::raw("").and_close()
    }

    /// Never replies. Waits until the client disconnects.
    pub fn hang() -> Self {
        Self::new(0, Body::Hang)
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = Body::Full(body.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Closes the connection after the reply.
    #[must_use]
    pub fn and_close(mut self) -> Self {
        self.closes = true;
        self
    }

    /// Waits for a permit before sending.
    #[must_use]
    pub fn after(mut self, permits: &Arc<Semaphore>) -> Self {
        self.permits = Some(Arc::clone(permits));
        self
    }

    fn head(&self, framing: &str) -> String {
        let lines = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let headers = lines.collect::<Vec<_>>().concat();
        format!("HTTP/1.1 {} Some\r\n{headers}{framing}\r\n", self.status)
    }

    /// Sends the reply. Returns `true` if the connection stays open.
    async fn send<S>(self, stream: &mut S, log: &ServiceLog) -> bool
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if let Some(permits) = &self.permits {
            permits.acquire().await.expect("semaphore is open").forget();
        }
        let text = match &self.body {
            Body::Full(body) => self.head(&format!("Content-Length: {}\r\n", body.len())) + body,
            Body::Stream(_) => self.head("Transfer-Encoding: chunked\r\n"),
            Body::Raw(bytes) => bytes.clone(),
            Body::Hang => {
                let _ = stream.read_to_end(&mut Vec::new()).await;
                log.disconnects.send_modify(|count| *count += 1);
                return false;
            }
        };
        let mut is_sent = stream.write_all(text.as_bytes()).await.is_ok();
        let closes = self.closes
            || self.headers.iter().any(|header| *header == ("connection".into(), "close".into()));
        if let Body::Stream(chunks) = self.body {
            is_sent = send_chunks(stream, &mut *chunks.lock().await).await.is_ok();
        }
        if !is_sent || closes {
            let _ = stream.shutdown().await;
            log.closed.send_modify(|count| *count += 1);
        }
        is_sent && !closes
    }
}

/// Sends the chunks until the test drops the sender or the client disconnects.
async fn send_chunks<S>(stream: &mut S, chunks: &mut mpsc::Receiver<String>) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut buffer = [0];
    loop {
        let chunk = tokio::select! {
            chunk = chunks.recv() => chunk,
            // A client sends nothing on this connection before the end of the reply.
            read = stream.read(&mut buffer) => {
                read?;
                return Err(std::io::ErrorKind::ConnectionAborted.into());
            }
        };
        let Some(chunk) = chunk else { return stream.write_all(b"0\r\n\r\n").await };
        stream.write_all(format!("{:x}\r\n{chunk}\r\n", chunk.len()).as_bytes()).await?;
    }
}

/// Function that returns the reply to each request.
pub type Handler = Arc<dyn Fn(&ReceivedRequest) -> FakeResponse + Send + Sync>;

/// Requests and connections of a service.
#[derive(Debug, Clone, Default)]
pub struct ServiceLog {
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    request_count: Arc<watch::Sender<usize>>,
    disconnects: Arc<watch::Sender<usize>>,
    closed: Arc<watch::Sender<usize>>,
    connections: Arc<AtomicUsize>,
}

impl ServiceLog {
    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the requests so far that call this JSON-RPC method.
    pub fn requests_for(&self, method: &str) -> Vec<ReceivedRequest> {
        self.requests().into_iter().filter(|request| request.method() == method).collect()
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Waits until this number of requests has arrived.
    pub async fn wait_for_requests(&self, count: usize) {
        wait_for_count(&self.request_count, count).await;
    }

    /// Waits until this number of clients has disconnected without a reply.
    pub async fn wait_for_disconnects(&self, count: usize) {
        wait_for_count(&self.disconnects, count).await;
    }

    /// Waits until the service has closed this number of connections.
    pub async fn wait_for_closed(&self, count: usize) {
        wait_for_count(&self.closed, count).await;
    }

    fn add(&self, mut request: ReceivedRequest) -> ReceivedRequest {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        request.number = requests.len();
        requests.push(request.clone());
        self.request_count.send_modify(|count| *count += 1);
        request
    }
}

/// Returns an address that no process listens on.
pub async fn unused_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    listener.local_addr().expect("bound listener")
}

/// Waits until a counter has this value or a larger one.
pub async fn wait_for_count(counter: &watch::Sender<usize>, count: usize) {
    let mut counter = counter.subscribe();
    let waiting = counter.wait_for(|value| *value >= count);
    tokio::time::timeout(TIMEOUT, waiting)
        .await
        .expect("event happens before the timeout")
        .expect("counter is alive");
}

/// A running service. It stops when it is dropped.
#[derive(Debug)]
pub struct FakeService {
    /// Address that the service listens on.
    pub address: SocketAddr,
    /// Requests and connections so far.
    pub log: ServiceLog,
    accept_task: AbortHandle,
}

impl Drop for FakeService {
    fn drop(&mut self) {
        self.accept_task.abort();
    }
}

impl FakeService {
    /// Starts a service on a free port.
    pub async fn start<A: Into<FakeResponse>>(
        handler: impl Fn(&ReceivedRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.expect("a port is free"), handler)
    }

    /// Starts a service on a listener.
    pub fn on<A: Into<FakeResponse>>(
        listener: TcpListener,
        handler: impl Fn(&ReceivedRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("bound listener");
        let handler: Handler = Arc::new(move |request| handler(request).into());
        let log = ServiceLog::default();
        let shared_log = log.clone();
        let accept_task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(stream, shared_log.clone(), Arc::clone(&handler)));
            }
        });
        Self { address, log, accept_task: accept_task.abort_handle() }
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// Serves one connection.
pub async fn serve<S>(mut stream: S, log: ServiceLog, handler: Handler)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    log.connections.fetch_add(1, Ordering::SeqCst);
    while let Some(request) = read(&mut stream).await {
        let request = log.add(request);
        if !handler(&request).send(&mut stream, &log).await {
            return;
        }
    }
}

/// Reads the next request. Returns `None` at the end of the connection.
async fn read(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        if !bytes.first().is_some_and(u8::is_ascii_uppercase) {
            // Not HTTP, such as a TLS handshake.
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            return None;
        }
    };
    let mut body = bytes.split_off(end);
    let head = String::from_utf8(bytes).ok()?;
    let mut lines = head.lines();
    let request_line = lines.next()?.to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok());
    while body.len() < length.unwrap_or(0) {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    let body = if body.is_empty() {
        Value::Null
    } else {
        let text = || String::from_utf8_lossy(&body).into_owned().into();
        serde_json::from_slice(&body).unwrap_or_else(|_| text())
    };
    Some(ReceivedRequest { number: 0, request_line, head: head.to_lowercase(), headers, body })
}
