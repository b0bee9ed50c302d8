//! A server that says what a test tells it to, and remembers what it was asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) verb: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// The answer to it.
    pub(crate) fn result(&self, result: &Value) -> Answer {
        Answer::json(200, &json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}))
    }

    pub(crate) fn error(&self, status: u16, code: i64, message: &str) -> Answer {
        let error = json!({"code": code, "message": message});
        Answer::json(status, &json!({"jsonrpc": "2.0", "id": self.body["id"], "error": error}))
    }
}

/// What is said.
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Body,
}

enum Body {
    Whole(String),
    /// As it comes, until the other end is dropped.
    Open(mpsc::Receiver<String>),
    /// The connection breaks instead.
    Break,
}

impl Answer {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::text(status, "application/json", body.to_string())
    }

    pub(crate) fn text(status: u16, media: &str, body: impl Into<String>) -> Self {
        let headers = vec![("content-type", media.to_owned())];
        Self { status, headers, body: Body::Whole(body.into()) }
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Body::Whole(String::new()) }
    }

    /// A stream that is over at once.
    pub(crate) fn events(text: impl Into<String>) -> Self {
        Self::text(200, "text/event-stream", text)
    }

    /// A stream that the test writes.
    pub(crate) fn stream() -> (mpsc::Sender<String>, Self) {
        let (sender, receiver) = mpsc::channel(16);
        let headers = vec![("content-type", "text/event-stream".to_owned())];
        (sender, Self { status: 200, headers, body: Body::Open(receiver) })
    }

    pub(crate) fn broken() -> Self {
        Self { status: 200, headers: Vec::new(), body: Body::Break }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn response(self) -> Option<Response<BoxBody<Bytes, Infallible>>> {
        let body = match self.body {
            Body::Break => return None,
            Body::Whole(text) if text.is_empty() => Empty::new().boxed(),
            Body::Whole(text) => Full::new(Bytes::from(text)).boxed(),
            Body::Open(receiver) => {
                let chunks = stream::unfold(receiver, async |mut receiver| {
                    let chunk = receiver.recv().await?;
                    Some((Ok(Frame::data(Bytes::from(chunk))), receiver))
                });
                StreamBody::new(Box::pin(chunks)).boxed()
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap();
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value.parse().unwrap());
        }
        Some(response)
    }
}

type Script = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;

/// The server.
pub(crate) struct Fake {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    accepting: AbortHandle,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Fake {
    pub(crate) async fn start(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, script)
    }

    pub(crate) fn on(
        listener: TcpListener,
        script: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&seen);
        let script: Script = Arc::new(script);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, script) = (Arc::clone(&all), Arc::clone(&script));
                tokio::spawn(serve(TokioIo::new(stream), seen, script));
            }
        });
        Self { address, seen, accepting: accepting.abort_handle() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Everything so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The messages of this method so far.
    pub(crate) fn of(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method() == method).collect()
    }
}

/// Answers on one connection.
pub(crate) async fn serve<S>(stream: TokioIo<S>, seen: Arc<Mutex<Vec<Seen>>>, script: Script)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let service = service_fn(|request: http::Request<Incoming>| {
        let (seen, script) = (Arc::clone(&seen), Arc::clone(&script));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let asked = Seen { verb: head.method.to_string(), headers: head.headers, body };
            seen.lock().unwrap().push(asked.clone());
            script(&asked).response().ok_or("broken")
        }
    });
    let _ = http1::Builder::new().serve_connection(stream, service).await;
}
