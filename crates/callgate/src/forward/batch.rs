//! Calls that arrive together, as one JSON-RPC batch.
//!
//! A call goes out at once while few requests are under way. Others collect until one of those ends,
//! and for some milliseconds at most, so that a slow method holds up nobody; then all that are there go
//! out together. Each call applies D31 for itself: of a batch that was lost, those that only read go out
//! again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::future::join_all;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::client::Client;
use super::failure::Failure;
use super::mailbox::{Answered, Asked, Mailbox};
use super::options::ForwardOptions;
use super::reply::{BatchReply, Part, Whole};
use super::send_failure::SendFailure;
use super::stats::ForwardStats;
use crate::http_client::tls::NoTls;
use crate::method::Safety;

/// So many requests are under way before calls collect.
const LANES: usize = 2;

/// So long a call waits for others at most.
const LONGEST_WAIT: Duration = Duration::from_millis(5);

/// A service that refuses so many batches in a row gets no other.
const MAX_REFUSED: u32 = 3;

/// So many calls, and bytes of them, are in one batch.
const MAX_CALLS: usize = 100;
const MAX_BYTES: usize = 1 << 20;

/// A service that takes batches.
#[derive(Debug)]
pub(super) struct Batches {
    mailbox: Mailbox,
    desk: Arc<Desk>,
}

#[derive(Debug)]
struct Desk {
    name: String,
    client: Client,
    result_bytes: usize,
    /// How many batches it has refused in a row.
    refused: AtomicU32,
    stats: Arc<ForwardStats>,
}

impl Batches {
    pub(super) fn new(
        name: &str,
        options: &ForwardOptions,
        stats: Arc<ForwardStats>,
    ) -> Result<Self, NoTls> {
        let desk = Desk {
            name: name.to_owned(),
            client: Client::new(options)?,
            result_bytes: options.limits.result_bytes,
            refused: AtomicU32::new(0),
            stats,
        };
        Ok(Self { mailbox: Mailbox::new(options.limits.concurrent), desk: Arc::new(desk) })
    }

    pub(super) fn client(&self) -> &Client {
        &self.desk.client
    }

    /// Sends a request, perhaps with others on the same terms, and waits for its reply.
    pub(super) async fn ask(&self, asked: (Asked, oneshot::Receiver<Answered>)) -> Answered {
        let desk = &self.desk;
        if desk.refused.load(Ordering::Relaxed) >= MAX_REFUSED {
            let Asked { terms, body, hold, .. } = asked.0;
            return desk.client.ask(terms.headers, body, desk.result_bytes, &hold).await;
        }
        let start = |requests| drop(tokio::spawn(collect(Arc::clone(desk), requests)));
        self.mailbox.ask(asked, start).await
    }
}

/// Sends what is asked, until nobody can ask any more.
async fn collect(desk: Arc<Desk>, mut requests: mpsc::Receiver<Asked>) {
    let lanes = Arc::new(Semaphore::new(LANES));
    let mut waiting = Vec::new();
    loop {
        if waiting.is_empty() {
            match requests.recv().await {
                Some(first) => waiting.push(first),
                None => return,
            }
        }
        // Who waited long enough goes without a lane. How many do is limited by the calls under way.
        let lane = timeout(LONGEST_WAIT, Arc::clone(&lanes).acquire_owned()).await;
        while let Ok(next) = requests.try_recv() {
            waiting.push(next);
        }
        let batch = together(&mut waiting);
        let desk = Arc::clone(&desk);
        tokio::spawn(async move {
            desk.send(batch).await;
            drop(lane);
        });
    }
}

/// Takes out what may go out as one: the first that anybody waits for, and those on the same terms.
fn together(waiting: &mut Vec<Asked>) -> Vec<Asked> {
    waiting.retain(|asked| asked.waiter.is_there());
    let (mut batch, mut rest): (Vec<Asked>, Vec<Asked>) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    for asked in waiting.drain(..) {
        let size = bytes + asked.body.len();
        let has_room = batch.len() < MAX_CALLS && size <= MAX_BYTES;
        if batch.first().is_none_or(|first| has_room && first.terms == asked.terms) {
            bytes = size;
            batch.push(asked);
        } else {
            rest.push(asked);
        }
    }
    *waiting = rest;
    batch
}

impl Desk {
    async fn send(&self, mut batch: Vec<Asked>) {
        if batch.len() <= 1 {
            self.send_singly(batch).await;
            return;
        }
        let Some(first) = batch.first() else { return };
        // The whole answer is counted until each call has its part.
        let (headers, hold) = (first.terms.headers.clone(), first.hold.another());
        let (body, limit) = (joined(&batch), self.result_bytes.saturating_mul(batch.len()));
        let everybody_gone = join_all(batch.iter_mut().map(|asked| asked.waiter.gone()));
        let answered = tokio::select! {
            answered = self.client.ask(headers, body, limit, &hold) => answered,
            _ = everybody_gone => return,
        };
        match answered {
            Ok(whole) => self.hand_out(batch, &whole).await,
            Err(failure) => fail_all(batch, &failure),
        }
    }

    async fn send_singly(&self, batch: Vec<Asked>) {
        join_all(batch.into_iter().map(async |mut asked| {
            let (headers, body, hold) = (asked.terms.headers, asked.body, asked.hold);
            tokio::select! {
                answered = self.client.ask(headers, body, self.result_bytes, &hold) => {
                    asked.waiter.tell(answered);
                }
                () = asked.waiter.gone() => {}
            }
        }))
        .await;
    }

    /// Gives each its own part of an answer.
    async fn hand_out(&self, batch: Vec<Asked>, whole: &Whole) {
        match whole.read_batch() {
            BatchReply::Each(replies) => {
                self.refused.store(0, Ordering::Relaxed);
                let ids: Vec<_> = batch.iter().map(|asked| asked.id.clone()).collect();
                let (parts, ignored) = replies.hand_out(&ids);
                self.stats.count_ignored(ignored);
                let mut alone = Vec::new();
                for (asked, part) in batch.into_iter().zip(parts) {
                    // Drupal refuses a batch with an unknown method or wrong parameters before it runs
                    // any of it, but other services may have run what came before the error. So only
                    // what reads is sent once more.
                    if part == Part::Unmatched && asked.safety == Safety::ReadOnly {
                        self.stats.count_retry();
                        alone.push(asked);
                    } else {
                        asked.waiter.tell(self.part(whole, part));
                    }
                }
                self.send_singly(alone).await;
            }
            BatchReply::ForAll if whole.body.len() <= self.result_bytes => {
                for asked in batch {
                    asked.waiter.tell(Ok(whole.clone()));
                }
            }
            BatchReply::ForAll => fail_all(batch, &Failure::TooLarge(self.result_bytes).into()),
            BatchReply::Wrong(failure) => fail_all(batch, &failure.into()),
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

    fn part(&self, whole: &Whole, part: Part<'_>) -> Answered {
        match part {
            Part::Reply(reply) if reply.len() <= self.result_bytes => Ok(whole.with_body(reply)),
            Part::Reply(_) => Err(Failure::TooLarge(self.result_bytes).into()),
            Part::LeftOut => Err(Failure::LeftOut.into()),
            Part::Unmatched => Err(Failure::Unmatched.into()),
        }
    }
}

fn fail_all(batch: Vec<Asked>, failure: &SendFailure) {
    for asked in batch {
        asked.waiter.tell(Err(failure.clone()));
    }
}

/// A list of all requests.
fn joined(batch: &[Asked]) -> Bytes {
    let length: usize = batch.iter().map(|asked| asked.body.len() + 1).sum();
    let mut all = BytesMut::with_capacity(length + 1);
    for (number, asked) in batch.iter().enumerate() {
        all.put_u8(if number == 0 { b'[' } else { b',' });
        all.put_slice(&asked.body);
    }
    all.put_u8(b']');
    all.freeze()
}
