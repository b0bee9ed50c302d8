//! A service behind a WebSocket, which does on each connection what a test tells it to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use callgate_throwaway::fake::reached;

/// A request that became a connection: its path and headers.
type Opened = (String, HashMap<String, String>);

/// What has happened at a fake.
#[derive(Clone, Default)]
pub(crate) struct Record {
    opened: Arc<Mutex<Vec<Opened>>>,
    /// The requests on all connections.
    seen: Arc<Mutex<Vec<Value>>>,
    asked: Arc<watch::Sender<usize>>,
    /// Connections that the client has ended.
    gone: Arc<watch::Sender<usize>>,
}

impl Record {
    pub(crate) fn opened(&self) -> Vec<Opened> {
        self.opened.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.opened.lock().unwrap().len()
    }

    pub(crate) fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits for so many requests.
    pub(crate) async fn asked(&self, count: usize) {
        reached(&self.asked, count).await;
    }

    /// Waits for so many connections that the client has ended.
    pub(crate) async fn gone(&self, count: usize) {
        reached(&self.gone, count).await;
    }
}

/// The service's side of a connection.
pub(crate) struct Peer {
    pub(crate) socket: WebSocketStream<TcpStream>,
    record: Record,
}

impl Peer {
    /// The next request, unless the client has gone.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    let request: Value = serde_json::from_str(&text).unwrap();
                    self.record.seen.lock().unwrap().push(request.clone());
                    self.record.asked.send_modify(|asked| *asked += 1);
                    return Some(request);
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => {
                    self.record.gone.send_modify(|gone| *gone += 1);
                    return None;
                }
                Some(Ok(_)) => {}
            }
        }
    }

    pub(crate) async fn send(&mut self, message: Value) {
        let _ = self.socket.send(Message::text(message.to_string())).await;
    }

    pub(crate) async fn result(&mut self, request: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "result": result, "id": request["id"]})).await;
    }

    /// Answers everything with its own parameters.
    pub(crate) async fn echo(mut self) {
        while let Some(request) = self.next().await {
            self.result(&request, request["params"].clone()).await;
        }
    }
}

/// A service on loopback.
pub(crate) struct FakeSocket {
    pub(crate) address: SocketAddr,
    pub(crate) record: Record,
    accepting: AbortHandle,
}

impl Drop for FakeSocket {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl FakeSocket {
    /// The script is told the number of the connection, from 0 on.
    pub(crate) async fn start<F, Done>(script: F) -> Self
    where
        F: Fn(usize, Peer) -> Done + Send + Sync + 'static,
        Done: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, script)
    }

    pub(crate) fn on<F, Done>(listener: TcpListener, script: F) -> Self
    where
        F: Fn(usize, Peer) -> Done + Send + Sync + 'static,
        Done: Future<Output = ()> + Send + 'static,
    {
        let address = listener.local_addr().unwrap();
        let record = Record::default();
        let all = record.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = all.connections();
                if let Some(peer) = accept(stream, &all).await {
                    tokio::spawn(script(number, peer));
                }
            }
        });
        Self { address, record, accepting: accepting.abort_handle() }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/rpc?key=1", self.address)
    }
}

#[expect(clippy::result_large_err, reason = "the shape of the callback is not ours")]
async fn accept(stream: TcpStream, record: &Record) -> Option<Peer> {
    let note = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        let headers = request.headers().iter();
        let headers = headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        record.opened.lock().unwrap().push((request.uri().to_string(), headers));
        Ok(response)
    };
    let socket = accept_hdr_async(stream, note).await.ok()?;
    Some(Peer { socket, record: record.clone() })
}
