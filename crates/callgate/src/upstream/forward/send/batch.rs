//! Sends concurrent calls as JSON-RPC batches.
//!
//! While fewer than [`MAX_IN_FLIGHT`] requests are in flight, a call is sent at once. Otherwise, calls are collected
//! until one of these requests ends. They are collected for at most [`MAX_DELAY`], so that a slow method does not delay
//! other calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::future::join_all;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::model::method::Safety;
use crate::upstream::forward::reply::BatchReply;
use crate::upstream::forward::service::{Post, Service};
use crate::upstream::forward::{Failure, QueuedRequest, ServiceResponse};

/// While this number of requests is in flight, further calls are collected.
const MAX_IN_FLIGHT: usize = 2;

/// Maximum time for which calls are collected.
const MAX_DELAY: Duration = Duration::from_millis(5);

/// Number of consecutive refused batches after which calls are sent one by one.
const MAX_REFUSED: u32 = 3;

/// Maximum number and total size of the calls in a batch.
const MAX_CALLS: usize = 100;
const MAX_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Batcher {
    service: Arc<Service>,
    /// Number of consecutive refused batches.
    refused: AtomicU32,
}

impl Batcher {
    pub(crate) fn new(service: Arc<Service>) -> Self {
        Self { service, refused: AtomicU32::new(0) }
    }

    /// Returns the maximum size of a reply.
    fn max_reply(&self) -> usize {
        self.service.options.limits.result_bytes
    }

    pub(crate) fn is_unsupported(&self) -> bool {
        self.refused.load(Ordering::Relaxed) >= MAX_REFUSED
    }

    pub(crate) async fn run(self: Arc<Self>, mut requests: mpsc::Receiver<QueuedRequest>) {
        let permits = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
        let mut waiting = Vec::new();
        loop {
            if waiting.is_empty() {
                match requests.recv().await {
                    Some(first) => waiting.push(first),
                    None => return,
                }
            }
            // After the maximum delay, a batch is sent without a permit.
            let permit = timeout(MAX_DELAY, Arc::clone(&permits).acquire_owned()).await;
            while let Ok(next) = requests.try_recv() {
                waiting.push(next);
            }
            let batch = take_batch(&mut waiting);
            let batcher = Arc::clone(&self);
            tokio::spawn(async move {
                batcher.send(batch).await;
                drop(permit);
            });
        }
    }

    async fn send(&self, mut batch: Vec<QueuedRequest>) {
        if batch.len() <= 1 {
            return self.send_singly(batch).await;
        }
        let Some(first) = batch.first() else { return };
        // The whole response counts against the memory budget until each call has received its part.
        let (headers, reservation) =
            (first.headers.clone(), first.reservation.empty_for_same_caller());
        let (body, limit) = (joined(&batch), self.max_reply().saturating_mul(batch.len()));
        let post = Post { uri: None, headers, body: &body, limit, reservation: &reservation };
        let all_dropped = join_all(batch.iter_mut().map(|request| request.reply.closed()));
        let response = tokio::select! {
            response = self.service.post(post) => response,
            _ = all_dropped => return,
        };
        match response {
            Ok(response) => self.assign(batch, &response).await,
            Err(failure) => reply_all(batch, &Err(failure)),
        }
    }

    async fn send_singly(&self, batch: Vec<QueuedRequest>) {
        join_all(batch.into_iter().map(async |request| {
            let QueuedRequest { headers, body, reservation, mut reply, .. } = request;
            let (body, reservation, limit) = (&body, &reservation, self.max_reply());
            tokio::select! {
                response = self.service.post(Post { uri: None, headers, body, limit, reservation }) => {
                    let _ = reply.send(response);
                }
                () = reply.closed() => {}
            }
        }))
        .await;
    }

    /// Passes to each call its part of a response.
    async fn assign(&self, batch: Vec<QueuedRequest>, response: &ServiceResponse) {
        match response.read_batch() {
            BatchReply::PerCall(replies) => {
                self.refused.store(0, Ordering::Relaxed);
                let (parts, ignored) = replies.assign(batch.iter().map(|request| &request.id));
                if ignored > 0 {
                    tracing::debug!(
                        upstream = self.service.name,
                        ignored,
                        "ignored messages that answer no request"
                    );
                }
                let mut retried = Vec::new();
                for (request, part) in batch.into_iter().zip(parts) {
                    // Drupal refuses a batch with an unknown method or invalid parameters before it runs any call.
                    // Other services may have run calls before the error, so only read-only calls are sent again.
                    if matches!(part, Err(Failure::Unmatched)) && request.safety == Safety::ReadOnly
                    {
                        self.service.stats.count_retry();
                        retried.push(request);
                    } else {
                        let part = part.and_then(|part| self.part(response, part));
                        let _ = request.reply.send(part);
                    }
                }
                self.send_singly(retried).await;
            }
            BatchReply::ForAll if response.body.len() <= self.max_reply() => {
                reply_all(batch, &Ok(response.clone()));
            }
            BatchReply::ForAll => reply_all(batch, &Err(Failure::TooLarge(self.max_reply()))),
            BatchReply::Invalid(failure) => reply_all(batch, &Err(failure)),
            BatchReply::Refused => {
                self.count_refusal();
                // None of the calls has run.
                self.send_singly(batch).await;
            }
            BatchReply::MaybeRefused(failure) => {
                self.count_refusal();
                let is_read_only = |request: &QueuedRequest| request.safety == Safety::ReadOnly;
                let (retried, not_retried) = batch.into_iter().partition::<Vec<_>, _>(is_read_only);
                for _ in &retried {
                    self.service.stats.count_retry();
                }
                reply_all(not_retried, &Err(failure));
                self.send_singly(retried).await;
            }
        }
    }

    fn count_refusal(&self) {
        if self.refused.fetch_add(1, Ordering::Relaxed) + 1 == MAX_REFUSED {
            tracing::warn!(
                upstream = self.service.name,
                "the service refuses batches, so its calls are sent one by one; remove `batch`"
            );
        }
    }

    fn part(&self, response: &ServiceResponse, part: &str) -> Result<ServiceResponse, Failure> {
        if part.len() > self.max_reply() {
            return Err(Failure::TooLarge(self.max_reply()));
        }
        Ok(ServiceResponse {
            status: response.status,
            ..ServiceResponse::from_message(part.to_owned())
        })
    }
}

/// Removes the requests of the next batch from the queue: the first request whose call was not dropped, and all
/// requests of the same caller with the same headers and credential. All requests of a batch have the same caller,
/// because the memory for the response is reserved for one caller.
fn take_batch(waiting: &mut Vec<QueuedRequest>) -> Vec<QueuedRequest> {
    waiting.retain(|request| !request.reply.is_closed());
    let (mut batch, mut rest): (Vec<QueuedRequest>, Vec<QueuedRequest>) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    for request in waiting.drain(..) {
        let size = bytes + request.body.len();
        let is_within_limits = batch.len() < MAX_CALLS && size <= MAX_BYTES;
        let matches_first = |first: &QueuedRequest| {
            is_within_limits
                && first.headers == request.headers
                && first.credential == request.credential
                && first.reservation.is_of_same_caller(&request.reservation)
        };
        if batch.first().is_none_or(matches_first) {
            bytes = size;
            batch.push(request);
        } else {
            rest.push(request);
        }
    }
    *waiting = rest;
    batch
}

fn reply_all(batch: Vec<QueuedRequest>, response: &Result<ServiceResponse, Failure>) {
    for request in batch {
        let _ = request.reply.send(response.clone());
    }
}

fn joined(batch: &[QueuedRequest]) -> Bytes {
    let length: usize = batch.iter().map(|request| request.body.len() + 1).sum();
    let mut all = BytesMut::with_capacity(length + 1);
    for (number, request) in batch.iter().enumerate() {
        all.put_u8(if number == 0 { b'[' } else { b',' });
        all.put_slice(&request.body);
    }
    all.put_u8(b']');
    all.freeze()
}
