//! A service on loopback that answers as a test tells it to, down to the bytes.

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

/// Longer than anything a test waits for takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A request that the service received.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Number of requests before it.
    pub number: usize,
    /// The request line, such as `POST /rpc HTTP/1.1`.
    pub line: String,
    /// The headers as text, in lower case.
    pub head: String,
    /// The headers, by name in lower case.
    pub headers: HashMap<String, String>,
    /// The body: JSON, a text where it is not JSON, or null where there is none.
    pub body: Value,
}

impl Seen {
    /// Returns the request's method and target, such as `GET /path?query`.
    pub fn target(&self) -> &str {
        self.line.trim_end_matches(" HTTP/1.1")
    }

    /// Returns the HTTP method.
    pub fn verb(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    /// Returns a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns the method of the JSON-RPC message.
    pub fn method(&self) -> &str {
        self.member("method").as_str().unwrap_or_default()
    }

    fn member(&self, name: &str) -> &Value {
        self.body.get(name).unwrap_or(&Value::Null)
    }

    /// Returns the JSON-RPC reply with this result.
    pub fn result(&self, result: impl Into<Value>) -> Answer {
        let result: Value = result.into();
        Answer::json(200, json!({"jsonrpc": "2.0", "result": result, "id": self.member("id")}))
    }

    /// Returns the JSON-RPC reply with this error.
    pub fn error(&self, status: u16, error: impl Into<Value>) -> Answer {
        let error: Value = error.into();
        Answer::json(status, json!({"jsonrpc": "2.0", "error": error, "id": self.member("id")}))
    }
}

/// What the service does with a request.
#[derive(Debug, Clone)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
    gate: Option<Arc<Semaphore>>,
    closes: bool,
}

#[derive(Debug, Clone)]
enum Body {
    Whole(String),
    /// Sent as it comes, until the other end is dropped.
    Stream(Arc<tokio::sync::Mutex<mpsc::Receiver<String>>>),
    /// Everything that is sent, in place of a status line, headers and a body.
    Raw(String),
    /// Nothing is sent until the client goes.
    Hang,
}

impl From<(u16, String)> for Answer {
    fn from((status, body): (u16, String)) -> Self {
        Self::text(status, "application/json", body)
    }
}

impl Answer {
    fn new(status: u16, body: Body) -> Self {
        Self { status, headers: Vec::new(), body, gate: None, closes: false }
    }

    /// A body of JSON.
    pub fn json(status: u16, body: impl std::borrow::Borrow<Value>) -> Self {
        Self::text(status, "application/json", body.borrow().to_string())
    }

    /// A body of this media type.
    pub fn text(status: u16, media: &str, body: impl Into<String>) -> Self {
        Self::empty(status).body(body).with("Content-Type", media)
    }

    /// Neither a body nor a media type.
    pub fn empty(status: u16) -> Self {
        Self::new(status, Body::Whole(String::new()))
    }

    /// An event stream that is over at once.
    pub fn events(text: impl Into<String>) -> Self {
        Self::text(200, "text/event-stream", text)
    }

    /// An event stream that the test writes.
    pub fn stream() -> (mpsc::Sender<String>, Self) {
        let (sender, receiver) = mpsc::channel(16);
        (
            sender,
            Self::new(200, Body::Stream(Arc::new(tokio::sync::Mutex::new(receiver))))
                .with("Content-Type", "text/event-stream"),
        )
    }

    /// These bytes.
    pub fn raw(bytes: impl Into<String>) -> Self {
        Self::new(0, Body::Raw(bytes.into()))
    }

    /// Nothing; the connection ends.
    pub fn close() -> Self {
        Self::raw("").and_close()
    }

    /// Nothing, until the client goes.
    pub fn hang() -> Self {
        Self::new(0, Body::Hang)
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = Body::Whole(body.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Ends the connection after the answer.
    #[must_use]
    pub fn and_close(mut self) -> Self {
        self.closes = true;
        self
    }

    /// Waits for a permit before anything is sent.
    #[must_use]
    pub fn after(mut self, gate: &Arc<Semaphore>) -> Self {
        self.gate = Some(Arc::clone(gate));
        self
    }

    fn head(&self, framing: &str) -> String {
        let lines = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let headers = lines.collect::<Vec<_>>().concat();
        format!("HTTP/1.1 {} Some\r\n{headers}{framing}\r\n", self.status)
    }

    /// Sends it. Returns `true` if the connection goes on.
    async fn send<S>(self, stream: &mut S, record: &Record) -> bool
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if let Some(gate) = &self.gate {
            gate.acquire().await.expect("the gate is not closed").forget();
        }
        let text = match &self.body {
            Body::Whole(body) => self.head(&format!("Content-Length: {}\r\n", body.len())) + body,
            Body::Stream(_) => self.head("Transfer-Encoding: chunked\r\n"),
            Body::Raw(bytes) => bytes.clone(),
            Body::Hang => {
                let _ = stream.read_to_end(&mut Vec::new()).await;
                record.gone.send_modify(|gone| *gone += 1);
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
            record.ended.send_modify(|ended| *ended += 1);
        }
        is_sent && !closes
    }
}

/// Sends what the test writes, until it ends the stream or the client goes.
async fn send_chunks<S>(stream: &mut S, chunks: &mut mpsc::Receiver<String>) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut more = [0];
    loop {
        let chunk = tokio::select! {
            chunk = chunks.recv() => chunk,
            // A client sends nothing on this connection before the answer is over.
            read = stream.read(&mut more) => {
                read?;
                return Err(std::io::ErrorKind::ConnectionAborted.into());
            }
        };
        let Some(chunk) = chunk else { return stream.write_all(b"0\r\n\r\n").await };
        stream.write_all(format!("{:x}\r\n{chunk}\r\n", chunk.len()).as_bytes()).await?;
    }
}

/// Decides what is done with each request.
pub type Script = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;

/// What has happened at a service.
#[derive(Debug, Clone, Default)]
pub struct Record {
    seen: Arc<Mutex<Vec<Seen>>>,
    asked: Arc<watch::Sender<usize>>,
    gone: Arc<watch::Sender<usize>>,
    ended: Arc<watch::Sender<usize>>,
    connections: Arc<AtomicUsize>,
}

impl Record {
    /// Returns all requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Waits for this number of requests.
    pub async fn asked(&self, count: usize) {
        reached(&self.asked, count).await;
    }

    /// Waits for this number of clients that went while nothing was answered.
    pub async fn gone(&self, count: usize) {
        reached(&self.gone, count).await;
    }

    /// Waits for this number of connections that were ended by the service.
    pub async fn ended(&self, count: usize) {
        reached(&self.ended, count).await;
    }

    fn add(&self, mut request: Seen) -> Seen {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        request.number = seen.len();
        seen.push(request.clone());
        self.asked.send_modify(|asked| *asked += 1);
        request
    }
}

/// Returns an address where nobody listens.
pub async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    listener.local_addr().expect("it is bound")
}

/// Waits until a counter has this value or a larger one.
pub async fn reached(counter: &watch::Sender<usize>, count: usize) {
    let mut counter = counter.subscribe();
    let waiting = counter.wait_for(|now| *now >= count);
    tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("it is counted");
}

/// A service on loopback, until it is dropped.
#[derive(Debug)]
pub struct Fake {
    /// Where it listens.
    pub address: SocketAddr,
    /// What has happened.
    pub record: Record,
    accepting: AbortHandle,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Fake {
    /// Starts a service on a free port.
    pub async fn start<A: Into<Answer>>(
        script: impl Fn(&Seen) -> A + Send + Sync + 'static,
    ) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.expect("a port is free"), script)
    }

    /// Starts a service on a listener.
    pub fn on<A: Into<Answer>>(
        listener: TcpListener,
        script: impl Fn(&Seen) -> A + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("it is bound");
        let script: Script = Arc::new(move |seen| script(seen).into());
        let record = Record::default();
        let all = record.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(stream, all.clone(), Arc::clone(&script)));
            }
        });
        Self { address, record, accepting: accepting.abort_handle() }
    }

    /// Returns its URL with a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns all requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.record.seen()
    }

    /// Returns the JSON-RPC messages of a method so far.
    pub fn of(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method() == method).collect()
    }
}

/// Serves one connection.
pub async fn serve<S>(mut stream: S, record: Record, script: Script)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    record.connections.fetch_add(1, Ordering::SeqCst);
    while let Some(request) = read(&mut stream).await {
        let request = record.add(request);
        if !script(&request).send(&mut stream, &record).await {
            return;
        }
    }
}

/// Reads the next request of a connection. Returns `None` at its end.
async fn read(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Option<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        if !bytes.first().is_some_and(u8::is_ascii_uppercase) {
            // Not HTTP, such as the beginning of TLS.
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            return None;
        }
    };
    let mut body = bytes.split_off(end);
    let head = String::from_utf8(bytes).ok()?;
    let mut lines = head.lines();
    let line = lines.next()?.to_owned();
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
    Some(Seen { number: 0, line, head: head.to_lowercase(), headers, body })
}
