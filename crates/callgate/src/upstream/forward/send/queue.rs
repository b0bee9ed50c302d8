//! A queue of requests. A task sends the requests of all callers, in batches or over a WebSocket. A dropped call does
//! not affect other calls.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::{mpsc, oneshot};

use crate::model::method::Safety;
use crate::upstream::forward::send::batch::Batcher;
#[cfg(feature = "websocket")]
use crate::upstream::forward::send::websocket;
use crate::upstream::forward::service::Service;
use crate::upstream::forward::{Failure, RequestId, SecretJson, ServiceResponse};
use crate::upstream::memory_budget::BudgetReservation;

pub(crate) struct QueuedRequest {
    pub(crate) id: RequestId<'static>,
    /// `None` if the request has only the configured headers, and for a WebSocket.
    pub(crate) headers: Option<HeaderMap>,
    /// The caller's credential, if it is in the body. Empty for a WebSocket.
    pub(crate) credential: SecretJson,
    pub(crate) body: Bytes,
    pub(crate) safety: Safety,
    pub(crate) reservation: BudgetReservation,
    /// Channel for the reply. It is closed if the call was dropped.
    pub(crate) reply: ReplySender,
}

pub(crate) type ReplySender = oneshot::Sender<Result<ServiceResponse, Failure>>;

/// The queue of a task that sends requests. Adding a request starts the task if it is not running.
#[derive(Debug)]
pub(crate) struct RequestQueue {
    capacity: usize,
    current: Mutex<Option<mpsc::Sender<QueuedRequest>>>,
    worker: Worker,
}

#[derive(Debug)]
enum Worker {
    Batches(Arc<Batcher>),
    #[cfg(feature = "websocket")]
    WebSocket(Arc<Service>),
}

impl Worker {
    fn of(service: &Arc<Service>) -> Option<Self> {
        #[cfg(feature = "websocket")]
        if service.options.target.is_websocket() {
            return Some(Self::WebSocket(Arc::clone(service)));
        }
        let is_batch = service.options.batch;
        is_batch.then(|| Self::Batches(Arc::new(Batcher::new(Arc::clone(service)))))
    }
}

impl RequestQueue {
    /// Returns `None` if each call is a separate HTTP request.
    pub(crate) fn new(service: &Arc<Service>) -> Option<Self> {
        let worker = Worker::of(service)?;
        let capacity = service.options.limits.concurrent.max(1);
        Some(Self { capacity, current: Mutex::new(None), worker })
    }

    pub(crate) fn is_batch(&self) -> bool {
        matches!(self.worker, Worker::Batches(_))
    }

    /// Returns `true` if the service refuses batches.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(&self.worker, Worker::Batches(batcher) if batcher.is_unsupported())
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn send(
        &self,
        request: impl FnOnce(ReplySender) -> QueuedRequest,
    ) -> Result<ServiceResponse, Failure> {
        let (sender, reply) = oneshot::channel();
        if self.queue().send(request(sender)).await.is_err() {
            return Err(Failure::never_sent("the connection closed"));
        }
        // If the task was aborted, it may already have sent the request.
        reply.await.unwrap_or_else(|_| Err(Failure::broken("the connection was aborted")))
    }

    fn queue(&self) -> mpsc::Sender<QueuedRequest> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(queue) if !queue.is_closed() => queue.clone(),
            _ => {
                let (queue, requests) = mpsc::channel(self.capacity);
                match &self.worker {
                    Worker::Batches(batcher) => {
                        tokio::spawn(Arc::clone(batcher).run(requests));
                    }
                    #[cfg(feature = "websocket")]
                    Worker::WebSocket(service) => {
                        tokio::spawn(websocket::run(Arc::clone(service), requests));
                    }
                }
                *current = Some(queue.clone());
                queue
            }
        }
    }
}
