//! Requests that one task sends for all callers, so that a caller who gives up takes nothing from the
//! others: those of a batch, and those over a WebSocket.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::{mpsc, oneshot};

use super::batch::Batcher;
use super::client::Client;
use super::failure::Failure;
use super::options::{ForwardOptions, Hidden};
use super::reply::ServiceResponse;
use super::request::RequestId;
use super::stats::ForwardStats;
#[cfg(feature = "websocket")]
use super::websocket::Connection;
use crate::model::method::Safety;
use crate::upstream::budget::BudgetReservation;

/// A request in the outbox.
pub(super) struct Outgoing {
    pub(super) id: RequestId<'static>,
    pub(super) headers: HeaderMap,
    /// The caller's own credential, if it is in the body.
    pub(super) credential: Hidden,
    pub(super) body: Bytes,
    pub(super) safety: Safety,
    pub(super) reservation: BudgetReservation,
    /// Closed if the caller no longer waits.
    pub(super) reply: oneshot::Sender<Result<ServiceResponse, Failure>>,
}

/// The queue to the task that sends. The task is started by the first request, and again after it ended.
#[derive(Debug)]
pub(super) struct Outbox {
    capacity: usize,
    current: Mutex<Option<mpsc::Sender<Outgoing>>>,
    sender: Sender,
}

#[derive(Debug)]
enum Sender {
    Batches(Arc<Batcher>),
    #[cfg(feature = "websocket")]
    WebSocket(Arc<Connection>),
}

impl Outbox {
    /// Returns the outbox that these options need; none if each call is a request of its own.
    pub(super) fn new(
        name: &str,
        options: &ForwardOptions,
        client: &Client,
        stats: &Arc<ForwardStats>,
    ) -> Option<Self> {
        let (client, stats) = (client.clone(), Arc::clone(stats));
        #[cfg(feature = "websocket")]
        let websocket = options.target.is_websocket().then(|| {
            Sender::WebSocket(Arc::new(Connection::new(options, client.clone(), stats.clone())))
        });
        #[cfg(not(feature = "websocket"))]
        let websocket = None;
        let sender = websocket.or_else(|| {
            let batcher = options.batch.then(|| Batcher::new(name, options, client, stats))?;
            Some(Sender::Batches(Arc::new(batcher)))
        })?;
        let capacity = options.limits.concurrent.max(1);
        Some(Self { capacity, current: Mutex::new(None), sender })
    }

    /// Sends a request and waits for its response. `reply` is the other end of that of the request.
    pub(super) async fn send(
        &self,
        request: Outgoing,
        reply: oneshot::Receiver<Result<ServiceResponse, Failure>>,
    ) -> Result<ServiceResponse, Failure> {
        if let Sender::Batches(batcher) = &self.sender
            && batcher.is_refused()
        {
            return batcher.post(&request).await;
        }
        if self.queue().send(request).await.is_err() {
            return Err(Failure::never_sent("the connection ended"));
        }
        // A task that was stopped may have sent the request.
        reply.await.unwrap_or_else(|_| Err(Failure::broken("the connection was given up")))
    }

    fn queue(&self) -> mpsc::Sender<Outgoing> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(queue) if !queue.is_closed() => queue.clone(),
            _ => {
                let (queue, requests) = mpsc::channel(self.capacity);
                match &self.sender {
                    Sender::Batches(batcher) => {
                        tokio::spawn(Arc::clone(batcher).run(requests));
                    }
                    #[cfg(feature = "websocket")]
                    Sender::WebSocket(connection) => {
                        tokio::spawn(Arc::clone(connection).run(requests));
                    }
                }
                *current = Some(queue.clone());
                queue
            }
        }
    }
}
