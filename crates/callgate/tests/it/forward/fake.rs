//! A service that does to each request what a test tells it to, down to the bytes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Value,
}

impl Seen {
    /// The reply with this result.
    pub(crate) fn result(&self, result: Value) -> Act {
        let reply = json!({"jsonrpc": "2.0", "result": result, "id": self.body["id"]});
        Act::json(200, reply)
    }

    pub(crate) fn error(&self, status: u16, error: Value) -> Act {
        Act::json(status, json!({"jsonrpc": "2.0", "error": error, "id": self.body["id"]}))
    }
}

/// What is done to a request.
pub(crate) enum Act {
    /// These bytes, and the connection stays.
    Send(String),
    /// These bytes, and the connection ends.
    SendAndClose(String),
    /// These bytes, when the test says so, and the connection stays.
    Later(Arc<Semaphore>, String),
    /// Nothing, until the client goes.
    Hang,
}

impl Act {
    pub(crate) fn json(status: u16, body: Value) -> Self {
        Self::text(status, "application/json", &body.to_string())
    }

    pub(crate) fn text(status: u16, media: &str, body: &str) -> Self {
        let length = body.len();
        Self::Send(format!(
            "HTTP/1.1 {status} Some\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    }

    pub(crate) fn close() -> Self {
        Self::SendAndClose(String::new())
    }
}

pub(crate) type Script = Arc<dyn Fn(usize, &Seen) -> Act + Send + Sync>;

/// What has happened at a fake.
#[derive(Clone, Default)]
pub(crate) struct Diary {
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Clients that went while they were left hanging.
    gone: Arc<watch::Sender<usize>>,
    asked: Arc<watch::Sender<usize>>,
    /// Connections that were ended from here.
    ended: Arc<watch::Sender<usize>>,
    connections: Arc<AtomicUsize>,
}

impl Diary {
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits for so many requests.
    pub(crate) async fn asked(&self, count: usize) {
        reached(&self.asked, count).await;
    }

    /// Waits for so many clients that went.
    pub(crate) async fn gone(&self, count: usize) {
        reached(&self.gone, count).await;
    }

    /// Waits for so many connections to be ended.
    pub(crate) async fn ended(&self, count: usize) {
        reached(&self.ended, count).await;
    }
}

pub(crate) async fn reached(counter: &watch::Sender<usize>, count: usize) {
    let mut counter = counter.subscribe();
    let waiting = counter.wait_for(|now| *now >= count);
    tokio::time::timeout(crate::forward::PATIENCE, waiting).await.unwrap().unwrap();
}

/// A service on loopback.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    pub(crate) diary: Diary,
    accepting: AbortHandle,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Fake {
    /// The script is told the number of the request, from 0 on.
    pub(crate) async fn start(
        script: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static,
    ) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), script)
    }

    pub(crate) fn on(
        listener: TcpListener,
        script: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let (diary, script): (Diary, Script) = (Diary::default(), Arc::new(script));
        let all = diary.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, all.clone(), Arc::clone(&script)));
            }
        });
        Self { address, diary, accepting: accepting.abort_handle() }
    }

    pub(crate) fn connections(&self) -> usize {
        self.diary.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/rpc", self.address)
    }
}

/// An address where nobody listens.
pub(crate) async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// Serves one connection.
pub(crate) async fn serve<S>(mut stream: S, diary: Diary, script: Script)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    diary.connections.fetch_add(1, Ordering::SeqCst);
    while let Some(request) = read(&mut stream).await {
        let number = {
            let mut seen = diary.seen.lock().unwrap();
            seen.push(request.clone());
            seen.len() - 1
        };
        diary.asked.send_modify(|asked| *asked += 1);
        let (bytes, ends) = match script(number, &request) {
            Act::Send(bytes) => (bytes, false),
            Act::SendAndClose(bytes) => (bytes, true),
            Act::Later(gate, bytes) => {
                gate.acquire().await.unwrap().forget();
                (bytes, false)
            }
            Act::Hang => {
                let mut rest = Vec::new();
                let _ = stream.read_to_end(&mut rest).await;
                diary.gone.send_modify(|gone| *gone += 1);
                return;
            }
        };
        if stream.write_all(bytes.as_bytes()).await.is_err() || ends {
            let _ = stream.shutdown().await;
            diary.ended.send_modify(|ended| *ended += 1);
            return;
        }
    }
}

/// The next request of a connection, or its end.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let line = lines.next().unwrap().to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = bytes[end..].to_vec();
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    // A form is the text that it is.
    let text = || String::from_utf8(body.clone()).unwrap().into();
    let body = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&body).unwrap_or_else(|_| text())
    };
    Some(Seen { line, headers, body })
}
