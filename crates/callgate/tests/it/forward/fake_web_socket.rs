//! A WebSocket service on loopback whose replies a test controls.

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

use callgate_test_support::fake_service::wait_for_count;

/// Path and headers of an upgrade request.
type UpgradeRequest = (String, HashMap<String, String>);

/// Requests and connections of a service.
#[derive(Clone, Default)]
pub(crate) struct WebSocketLog {
    upgrade_requests: Arc<Mutex<Vec<UpgradeRequest>>>,
    requests: Arc<Mutex<Vec<Value>>>,
    request_count: Arc<watch::Sender<usize>>,
    /// Number of connections that the client has closed.
    disconnects: Arc<watch::Sender<usize>>,
}

impl WebSocketLog {
    pub(crate) fn upgrade_requests(&self) -> Vec<UpgradeRequest> {
        self.upgrade_requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.upgrade_requests.lock().unwrap().len()
    }

    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until this number of requests has arrived.
    pub(crate) async fn wait_for_requests(&self, count: usize) {
        wait_for_count(&self.request_count, count).await;
    }

    /// Waits until the client has closed this number of connections.
    pub(crate) async fn wait_for_disconnects(&self, count: usize) {
        wait_for_count(&self.disconnects, count).await;
    }
}

/// Server side of a connection.
pub(crate) struct Peer {
    pub(crate) socket: WebSocketStream<TcpStream>,
    log: WebSocketLog,
}

impl Peer {
    /// Returns the next request, or `None` if the client has disconnected.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    let request: Value = serde_json::from_str(&text).unwrap();
                    self.log.requests.lock().unwrap().push(request.clone());
                    self.log.request_count.send_modify(|count| *count += 1);
                    return Some(request);
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => {
                    self.log.disconnects.send_modify(|count| *count += 1);
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

    /// Replies to each request with its parameters.
    pub(crate) async fn echo(mut self) {
        while let Some(request) = self.next().await {
            self.result(&request, request["params"].clone()).await;
        }
    }
}

/// A running service. It stops when it is dropped.
pub(crate) struct FakeWebSocket {
    pub(crate) address: SocketAddr,
    pub(crate) log: WebSocketLog,
    accept_task: AbortHandle,
}

impl Drop for FakeWebSocket {
    fn drop(&mut self) {
        self.accept_task.abort();
    }
}

impl FakeWebSocket {
    /// Starts a service. `handler` receives the number of each connection, from 0 on.
    pub(crate) async fn start<F, Done>(handler: F) -> Self
    where
        F: Fn(usize, Peer) -> Done + Send + Sync + 'static,
        Done: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, handler)
    }

    pub(crate) fn on<F, Done>(listener: TcpListener, handler: F) -> Self
    where
        F: Fn(usize, Peer) -> Done + Send + Sync + 'static,
        Done: Future<Output = ()> + Send + 'static,
    {
        let address = listener.local_addr().unwrap();
        let log = WebSocketLog::default();
        let shared_log = log.clone();
        let accept_task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = shared_log.connections();
                if let Some(peer) = accept(stream, &shared_log).await {
                    tokio::spawn(handler(number, peer));
                }
            }
        });
        Self { address, log, accept_task: accept_task.abort_handle() }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/rpc?key=1", self.address)
    }
}

#[expect(clippy::result_large_err, reason = "signature of tungstenite's callback")]
async fn accept(stream: TcpStream, log: &WebSocketLog) -> Option<Peer> {
    let record = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        let headers = request.headers().iter();
        let headers = headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        log.upgrade_requests.lock().unwrap().push((request.uri().to_string(), headers));
        Ok(response)
    };
    let socket = accept_hdr_async(stream, record).await.ok()?;
    Some(Peer { socket, log: log.clone() })
}
