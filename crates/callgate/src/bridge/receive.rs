//! Reads the client's messages line by line, and starts a task for each request.

pub(crate) mod message;
pub(crate) mod truncated_id;
pub(crate) mod in_flight;

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::AsyncBufRead;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::bridge::error_reply::error_message;
use crate::bridge::reply::STREAM_GRACE;
use crate::bridge::send::one_way::QueuedMessage;
use crate::bridge::{Bridge, BridgeFailure, SHUTDOWN_TIMEOUT};
use crate::wire::jsonrpc::{INVALID_REQUEST, RpcError};
use crate::wire::lines::{Line, read_line};
use in_flight::CancelBy;
use message::{ClientMessage, INITIALIZED, LISTEN, MessageId, ids_of_rejected};
use truncated_id::truncated_id;

/// Maximum number of one-way messages (notifications and responses of the client) that wait to be sent.
const MAX_QUEUED_ONE_WAY: usize = 1024;

pub(super) struct MessageDispatcher {
    bridge: Arc<Bridge>,
    pub(super) tasks: JoinSet<()>,
    background: JoinSet<()>,
    one_way_sender: mpsc::Sender<QueuedMessage>,
    last_number: u64,
    /// Sequence number of the last one-way message that was sent or could not be sent.
    sent: watch::Receiver<u64>,
    /// Sequence number of the last `notifications/initialized`. Later requests wait until this message was sent or
    /// could not be sent.
    barrier: u64,
    /// Handshake of the last `initialize`.
    handshake: Handshake,
}

/// Waits for the response to `initialize`. Messages that the client sends before this response wait for it, because
/// they need the id and the revision of the session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handshake(Option<watch::Receiver<()>>);

impl Handshake {
    /// Returns the handshake and a guard. The handshake ends when the guard is dropped.
    fn begin() -> (Self, watch::Sender<()>) {
        let (guard, ended) = watch::channel(());
        (Self(Some(ended)), guard)
    }

    pub(crate) async fn ended(&mut self) {
        if let Some(ended) = &mut self.0 {
            let _ = ended.changed().await;
        }
    }
}

impl MessageDispatcher {
    pub(super) fn new(bridge: Arc<Bridge>) -> Self {
        let (one_way_sender, queue) = mpsc::channel(MAX_QUEUED_ONE_WAY);
        let (last_sent, sent) = watch::channel(0);
        let mut background = JoinSet::new();
        let bridge_clone = || Arc::clone(&bridge);
        let (sender, listener, watcher) = (bridge_clone(), bridge_clone(), bridge_clone());
        background.spawn(async move { sender.send_one_way_messages(queue, last_sent).await });
        background.spawn(async move { listener.listen().await });
        background.spawn(async move { watcher.http.watch_for_suspend().await });
        let tasks = JoinSet::new();
        Self {
            bridge,
            tasks,
            background,
            one_way_sender,
            last_number: 0,
            sent,
            barrier: 0,
            handshake: Handshake::default(),
        }
    }

    pub(super) async fn read(&mut self, mut input: impl AsyncBufRead + Unpin) -> io::Result<()> {
        let limit = self.bridge.limits.line_bytes;
        loop {
            let line = read_line(&mut input, limit).await?;
            // Removes completed tasks.
            while self.tasks.try_join_next().is_some() {}
            while self.background.try_join_next().is_some() {}
            match line {
                Line::End => break,
                Line::TooLong(ends) => {
                    let message = format!("the message is longer than {limit} bytes");
                    let error = RpcError::new(INVALID_REQUEST, message);
                    self.reject(truncated_id(&ends).as_slice(), &error).await;
                }
                Line::Text(line) if line.iter().all(u8::is_ascii_whitespace) => {}
                Line::Text(line) => self.dispatch(line.into()).await,
            }
        }
        self.bridge.in_flight.end_listening();
        let (sent, last) = (&mut self.sent, self.last_number);
        let finished = async {
            while self.tasks.join_next().await.is_some() {}
            let _ = sent.wait_for(|sent| *sent >= last).await;
        };
        let _ = tokio::time::timeout(self.bridge.limits.shutdown, finished).await;
        // A client that does not read must not delay the shutdown.
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, self.abort_pending()).await;
        Ok(())
    }

    /// Aborts the requests in flight, and responds to each with an error.
    async fn abort_pending(&mut self) {
        self.tasks.shutdown().await;
        let failure = self.bridge.aborted_failure();
        for id in self.bridge.in_flight.take_waiting() {
            self.bridge.write(failure.to_response(&id, self.bridge.http.endpoint())).await;
        }
    }

    async fn dispatch(&mut self, line: Bytes) {
        match ClientMessage::parse(line.clone()) {
            Ok(message) if message.ids.is_empty() => self.queue_one_way(message).await,
            Ok(request) => self.start_request(request).await,
            Err(error) => {
                let ids = ids_of_rejected(&String::from_utf8_lossy(&line));
                let error = RpcError::new(error.code(), error.to_string());
                self.reject(&ids, &error).await;
            }
        }
    }

    /// Responds to each request with an error. Skips an id that is already in flight, because the client would take the
    /// error for the response to the earlier request.
    async fn reject(&self, ids: &[MessageId], error: &RpcError) {
        let ids: HashSet<&MessageId> =
            ids.iter().filter(|id| !self.bridge.in_flight.has(id)).collect();
        if ids.is_empty() {
            self.bridge.write(error_message(None, error)).await;
        }
        for id in ids {
            self.bridge.write(error_message(Some(id.as_json()), error)).await;
        }
    }

    async fn start_request(&mut self, request: ClientMessage) {
        let in_flight = &self.bridge.in_flight;
        let limit = self.bridge.limits.in_flight;
        if in_flight.len() + request.ids.len() > limit {
            let failure = BridgeFailure::new(format!(
                "more than {limit} requests are in flight; send fewer at the same time"
            ));
            for id in request.ids.iter().collect::<HashSet<_>>() {
                self.bridge.write(failure.to_response(id, self.bridge.http.endpoint())).await;
            }
            return;
        }
        let cancel_by = match (request.is_modern(), &*request.method) {
            (false, _) if request.ids.len() > 1 => CancelBy::BatchMessage,
            (false, _) => CancelBy::Message,
            (true, LISTEN) => CancelBy::DisconnectAtEnd,
            (true, _) => CancelBy::Disconnect,
        };
        if let Err(id) = in_flight.begin(&request.ids, cancel_by) {
            let message = format!("another request with the id {} is in flight", id.as_json());
            tracing::warn!("{message}, so this one is not sent");
            return self.reject(&request.ids, &RpcError::new(INVALID_REQUEST, message)).await;
        }
        let ids = request.ids.clone();
        let (bridge, mut sent, barrier) =
            (Arc::clone(&self.bridge), self.sent.clone(), self.barrier);
        let mut handshake = self.handshake_before(&request);
        let guard = request.is_handshake().then(|| {
            let (handshake, guard) = Handshake::begin();
            self.handshake = handshake;
            guard
        });
        let task = self.tasks.spawn(async move {
            let _guard = guard;
            handshake.ended().await;
            let _ = sent.wait_for(|sent| *sent >= barrier).await;
            bridge.handle(&request).await;
        });
        self.bridge.in_flight.set_task(&ids, &task);
    }

    /// Returns the handshake that must end before this message is sent. Responses of the client do not wait, because
    /// the server may ping the client before it responds to `initialize`.
    fn handshake_before(&self, message: &ClientMessage) -> Handshake {
        let needs_session = !message.is_modern() && !message.method.is_empty();
        if needs_session { self.handshake.clone() } else { Handshake::default() }
    }

    async fn queue_one_way(&mut self, message: ClientMessage) {
        if let Some(id) = &message.cancels {
            // A cancellation is sent only within a session.
            if !self.bridge.in_flight.cancel(id) || self.bridge.session.current().is_none() {
                return;
            }
            let (bridge, id) = (Arc::clone(&self.bridge), id.clone());
            self.background.spawn(async move {
                tokio::time::sleep(STREAM_GRACE).await;
                bridge.in_flight.abandon(&id);
            });
        }
        self.last_number += 1;
        if &*message.method == INITIALIZED {
            self.barrier = self.last_number;
        }
        let handshake = self.handshake_before(&message);
        let _ = self
            .one_way_sender
            .send(QueuedMessage { number: self.last_number, message, handshake })
            .await;
    }

    pub(super) async fn close(mut self) {
        self.tasks.shutdown().await;
        self.background.shutdown().await;
        self.bridge.end_session().await;
    }
}
