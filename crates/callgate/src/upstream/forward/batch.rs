//! Calls that arrive together, as one JSON-RPC batch.
//!
//! A call goes out at once while few requests are under way. Others collect until one of those ends,
//! and for some milliseconds at most, so that a slow method holds up nobody; then they go out together.
//! Of a batch that was lost, calls that only read are sent again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::future::join_all;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::client::Client;
use super::failure::Failure;
use super::options::ForwardOptions;
use super::outbox::Outgoing;
use super::reply::{BatchReply, ServiceResponse};
use super::stats::ForwardStats;
use crate::model::method::Safety;

/// Number of requests under way from which on calls collect.
const LANES: usize = 2;

/// Maximum time that a call waits for others.
const LONGEST_WAIT: Duration = Duration::from_millis(5);

/// Number of batches refused in a row after which calls are sent one by one.
const MAX_REFUSED: u32 = 3;

/// Maximum number of calls in a batch, and of their bytes.
const MAX_CALLS: usize = 100;
const MAX_BYTES: usize = 1 << 20;

/// Sends batches to a service.
#[derive(Debug)]
pub(super) struct Batcher {
    name: String,
    client: Client,
    result_bytes: usize,
    /// Number of batches that the service refused in a row.
    refused: AtomicU32,
    stats: Arc<ForwardStats>,
}

impl Batcher {
    pub(super) fn new(
        name: &str,
        options: &ForwardOptions,
        client: Client,
        stats: Arc<ForwardStats>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            client,
            result_bytes: options.limits.result_bytes,
            refused: AtomicU32::new(0),
            stats,
        }
    }

    /// Returns `true` if the service takes no batches.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed) >= MAX_REFUSED
    }

    /// Sends one request by itself.
    pub(super) async fn post(&self, request: &Outgoing) -> Result<ServiceResponse, Failure> {
        let (headers, body) = (request.headers.clone(), request.body.clone());
        self.client.post(None, headers, body, self.result_bytes, &request.reservation).await
    }

    /// Sends requests until there can be no more.
    pub(super) async fn run(self: Arc<Self>, mut requests: mpsc::Receiver<Outgoing>) {
        let lanes = Arc::new(Semaphore::new(LANES));
        let mut waiting = Vec::new();
        loop {
            if waiting.is_empty() {
                match requests.recv().await {
                    Some(first) => waiting.push(first),
                    None => return,
                }
            }
            // After the longest wait a batch goes without a lane. The number of calls under way limits
            // how many do.
            let lane = timeout(LONGEST_WAIT, Arc::clone(&lanes).acquire_owned()).await;
            while let Ok(next) = requests.try_recv() {
                waiting.push(next);
            }
            let batch = take_batch(&mut waiting);
            let batcher = Arc::clone(&self);
            tokio::spawn(async move {
                batcher.send(batch).await;
                drop(lane);
            });
        }
    }

    async fn send(&self, mut batch: Vec<Outgoing>) {
        if batch.len() <= 1 {
            return self.send_singly(batch).await;
        }
        let Some(first) = batch.first() else { return };
        // The whole answer is counted until each call has its part.
        let (headers, reservation) = (first.headers.clone(), first.reservation.another());
        let (body, limit) = (joined(&batch), self.result_bytes.saturating_mul(batch.len()));
        let all_gone = join_all(batch.iter_mut().map(|request| request.reply.closed()));
        let response = tokio::select! {
            response = self.client.post(None, headers, body, limit, &reservation) => response,
            _ = all_gone => return,
        };
        match response {
            Ok(response) => self.hand_out(batch, &response).await,
            Err(failure) => reply_all(batch, &Err(failure)),
        }
    }

    async fn send_singly(&self, batch: Vec<Outgoing>) {
        join_all(batch.into_iter().map(async |mut request| {
            let (headers, body) = (request.headers, request.body);
            tokio::select! {
                response = self.client.post(None, headers, body, self.result_bytes, &request.reservation) => {
                    let _ = request.reply.send(response);
                }
                () = request.reply.closed() => {}
            }
        }))
        .await;
    }

    /// Gives each call its own part of a response.
    async fn hand_out(&self, batch: Vec<Outgoing>, response: &ServiceResponse) {
        match response.read_batch() {
            BatchReply::Each(replies) => {
                self.refused.store(0, Ordering::Relaxed);
                let (parts, ignored) = replies.hand_out(batch.iter().map(|request| &request.id));
                self.stats.count_ignored(ignored);
                let mut alone = Vec::new();
                for (request, part) in batch.into_iter().zip(parts) {
                    // Drupal refuses a batch with an unknown method or wrong parameters before it runs
                    // any of it, but other services may have run what came before the error. So only
                    // what reads is sent once more.
                    if matches!(part, Err(Failure::Unmatched)) && request.safety == Safety::ReadOnly
                    {
                        self.stats.count_retry();
                        alone.push(request);
                    } else {
                        let part = part.and_then(|part| self.part(response, part));
                        let _ = request.reply.send(part);
                    }
                }
                self.send_singly(alone).await;
            }
            BatchReply::ForAll if response.body.len() <= self.result_bytes => {
                reply_all(batch, &Ok(response.clone()));
            }
            BatchReply::ForAll => reply_all(batch, &Err(Failure::TooLarge(self.result_bytes))),
            BatchReply::Wrong(failure) => reply_all(batch, &Err(failure)),
            BatchReply::Refused => {
                if self.refused.fetch_add(1, Ordering::Relaxed) + 1 == MAX_REFUSED {
                    tracing::warn!(
                        upstream = self.name,
                        "it takes no batches: from now on calls go out one by one; leave out `batch`"
                    );
                }
                // It has run none of them.
                self.send_singly(batch).await;
            }
        }
    }

    fn part(&self, response: &ServiceResponse, part: &str) -> Result<ServiceResponse, Failure> {
        if part.len() > self.result_bytes {
            return Err(Failure::TooLarge(self.result_bytes));
        }
        Ok(ServiceResponse { status: response.status, ..ServiceResponse::bare(part.to_owned()) })
    }
}

/// Takes the requests that may go out as one: the first that somebody waits for, and those with the same
/// headers and credential.
fn take_batch(waiting: &mut Vec<Outgoing>) -> Vec<Outgoing> {
    waiting.retain(|request| !request.reply.is_closed());
    let (mut batch, mut rest): (Vec<Outgoing>, Vec<Outgoing>) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    for request in waiting.drain(..) {
        let size = bytes + request.body.len();
        let has_room = batch.len() < MAX_CALLS && size <= MAX_BYTES;
        let fits = |first: &Outgoing| {
            has_room && first.headers == request.headers && first.credential == request.credential
        };
        if batch.first().is_none_or(fits) {
            bytes = size;
            batch.push(request);
        } else {
            rest.push(request);
        }
    }
    *waiting = rest;
    batch
}

fn reply_all(batch: Vec<Outgoing>, response: &Result<ServiceResponse, Failure>) {
    for request in batch {
        let _ = request.reply.send(response.clone());
    }
}

/// Returns a list of all requests.
fn joined(batch: &[Outgoing]) -> Bytes {
    let length: usize = batch.iter().map(|request| request.body.len() + 1).sum();
    let mut all = BytesMut::with_capacity(length + 1);
    for (number, request) in batch.iter().enumerate() {
        all.put_u8(if number == 0 { b'[' } else { b',' });
        all.put_slice(&request.body);
    }
    all.put_u8(b']');
    all.freeze()
}
