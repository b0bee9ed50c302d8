//! The open connections of a server. Decides which of them is closed to make room for a new one.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::AbortHandle;

use crate::access::Principal;

/// Minimum time for which a connection must have been idle before a new connection of the same address may replace it.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// Minimum time between two warnings that `max_connections` is reached.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Time after which a connection that is still sending a response may be replaced by a connection of another address.
const SENDING_GRACE: Duration = Duration::from_secs(10);

/// Value of [`Activity::waiting_since`] while a request is in progress.
const BUSY: u64 = u64::MAX;

/// A limited number of connections.
///
/// If the limit is reached, a new connection replaces an idle one. A connection is idle while it waits for the first or
/// next request of its client. The new connection may replace connections of addresses that have more connections than
/// its own address, and connections of its own address that have been idle for [`MIN_WAIT`]. Of these, the server takes
/// the connections of the address that has the most, and closes the one that has been idle longest. Connections with a
/// request in progress, or with a response that is being sent, are not closed. There is one exception: if no idle
/// connection can be closed, the server closes a connection that has been sending a response for [`SENDING_GRACE`], if
/// the connection belongs to another address.
#[derive(Debug)]
pub(super) struct Connections {
    limit: usize,
    started: Instant,
    open: Mutex<ConnectionTable>,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    count: usize,
    next_id: u64,
    peers: HashMap<Peer, BTreeMap<u64, ConnectionEntry>>,
    last_warning: Option<Instant>,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Peer {
    Client(Principal),
    /// A trusted proxy. Its connections carry requests of many clients.
    Proxy,
}

#[derive(Debug)]
struct ConnectionEntry {
    activity: Arc<Activity>,
    /// The task that serves the connection, once the task is spawned.
    task: Option<AbortHandle>,
    /// The [`Activity::waiting_since`] that the last call of [`Connections::close_waiting`] found.
    last_waiting_since: Option<Duration>,
    /// Number of consecutive calls of [`Connections::close_waiting`] that found the same value as the call before.
    unchanged_checks: u32,
}

/// Records whether a connection waits for its client.
#[derive(Debug)]
pub(super) struct Activity {
    started: Instant,
    /// Time since which the connection waits, in milliseconds after `started`, or [`BUSY`].
    waiting_since: AtomicU64,
    /// Whether a response is being sent. If so, `waiting_since` is the time at which sending began.
    is_sending: AtomicBool,
    /// Whether a part of the response has not been written to the stream yet.
    has_unsent: AtomicBool,
}

/// Kept by a response with a body, and dropped when the whole body has been passed to the connection.
#[derive(Debug)]
pub(super) struct Unsent(Arc<Activity>);

/// A request in progress. The request ends when this value is dropped.
#[derive(Debug)]
pub(super) struct InProgress(Arc<Activity>);

/// An open connection. It is removed from the list when this value is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection {
    connections: Arc<Connections>,
    peer: Peer,
    id: u64,
    pub(super) activity: Arc<Activity>,
}

impl Connections {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, started: Instant::now(), open: Mutex::default() })
    }

    /// Adds a connection. `spawn` starts the task that serves it.
    pub(super) fn add(
        self: &Arc<Self>,
        peer: Peer,
        spawn: impl FnOnce(OpenConnection) -> AbortHandle,
    ) {
        let activity = Arc::new(Activity {
            started: self.started,
            waiting_since: 0.into(),
            is_sending: false.into(),
            has_unsent: false.into(),
        });
        activity.wait();
        let (task, last_waiting_since, unchanged_checks) = (None, None, 0);
        let entry = ConnectionEntry {
            activity: Arc::clone(&activity),
            task,
            last_waiting_since,
            unchanged_checks,
        };
        let id = self.lock().insert(peer, entry);
        let connections = Arc::clone(self);
        // Runs without the lock: a runtime that shuts down drops the connection at once, and dropping it takes the
        // lock.
        let task = spawn(OpenConnection { connections, peer, id, activity });
        let mut open = self.lock();
        let entry = open.peers.get_mut(&peer).and_then(|connections| connections.get_mut(&id));
        if let Some(entry) = entry {
            entry.task = Some(task);
        }
    }

    /// Closes a connection if the limit is reached. Returns `false` if no connection can be closed for this peer.
    pub(super) fn make_room(&self, peer: Peer) -> bool {
        let mut open = self.lock();
        if open.count < self.limit {
            return true;
        }
        if open.last_warning.is_none_or(|last_warning| last_warning.elapsed() > WARNING_INTERVAL) {
            open.last_warning = Some(Instant::now());
            tracing::warn!("`max_connections` reached, closing idle connections");
        }
        open.close_one(self.now(), Some(peer))
    }

    /// Closes the connection that has been idle longest, of the address with the most connections.
    pub(super) fn close_one(&self) -> bool {
        self.lock().close_one(self.now(), None)
    }

    /// Closes each connection that was waiting for the same request in more than `max` consecutive calls of this
    /// function. The function counts calls instead of measuring time, because a server that was stalled may not have
    /// read a request that has already arrived.
    pub(super) fn close_waiting(&self, max: u32) {
        let mut open = self.lock();
        let mut expired = Vec::new();
        for (peer, connections) in &mut open.peers {
            for (id, entry) in connections {
                let since = entry.activity.waiting_since().filter(|_| !entry.activity.is_sending());
                if since.is_some() && since == entry.last_waiting_since {
                    entry.unchanged_checks += 1;
                } else {
                    (entry.last_waiting_since, entry.unchanged_checks) = (since, 0);
                }
                if entry.unchanged_checks >= max {
                    expired.push((*peer, *id));
                }
            }
        }
        for (peer, id) in expired {
            open.close(peer, id);
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionTable {
    /// Closes a connection. If `new_peer` is given, makes room for its new connection.
    fn close_one(&mut self, now: Duration, new_peer: Option<Peer>) -> bool {
        let rank = |peer: &Peer, connections: &BTreeMap<u64, ConnectionEntry>| match peer {
            Peer::Client(_) => connections.len(),
            Peer::Proxy => 0,
        };
        let new_peer = new_peer.map(|peer| {
            (peer, self.peers.get(&peer).map_or(0, |connections| rank(&peer, connections)))
        });
        let candidates = self.peers.iter().flat_map(|(peer, connections)| {
            let rank = rank(peer, connections);
            let (is_candidate, min_wait) = match new_peer {
                Some((new_peer, _)) if new_peer == *peer => (true, MIN_WAIT),
                Some((_, new_peer_rank)) => (rank > new_peer_rank, Duration::ZERO),
                None => (true, Duration::ZERO),
            };
            let is_same_peer = new_peer.is_some_and(|(new_peer, _)| new_peer == *peer);
            let connections = is_candidate.then_some(connections).into_iter().flatten();
            connections.filter_map(move |(id, entry)| {
                let waited = now.saturating_sub(entry.activity.waiting_since()?);
                let is_idle = !entry.activity.is_sending();
                let min_wait = if is_idle { min_wait } else { SENDING_GRACE };
                let is_candidate = waited >= min_wait && (is_idle || !is_same_peer);
                is_candidate.then_some((is_idle, rank, waited, *peer, *id))
            })
        });
        let longest =
            candidates.max_by_key(|(is_idle, rank, waited, ..)| (*is_idle, *rank, *waited));
        let Some((.., peer, id)) = longest else { return false };
        self.close(peer, id);
        true
    }

    fn close(&mut self, peer: Peer, id: u64) {
        if let Some(task) = self.remove(peer, id).and_then(|entry| entry.task) {
            task.abort();
        }
    }

    fn insert(&mut self, peer: Peer, entry: ConnectionEntry) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.count += 1;
        self.peers.entry(peer).or_default().insert(id, entry);
        id
    }

    fn remove(&mut self, peer: Peer, id: u64) -> Option<ConnectionEntry> {
        let connections = self.peers.get_mut(&peer)?;
        let entry = connections.remove(&id)?;
        if connections.is_empty() {
            self.peers.remove(&peer);
        }
        self.count -= 1;
        Some(entry)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.lock().remove(self.peer, self.id);
    }
}

impl Activity {
    fn is_sending(&self) -> bool {
        self.is_sending.load(Ordering::Relaxed)
    }

    pub(super) fn request(self: &Arc<Self>) -> InProgress {
        self.waiting_since.store(BUSY, Ordering::Relaxed);
        InProgress(Arc::clone(self))
    }

    /// Returns a value that a response keeps until its body is complete.
    pub(super) fn unsent(self: &Arc<Self>) -> Unsent {
        self.has_unsent.store(true, Ordering::Relaxed);
        Unsent(Arc::clone(self))
    }

    fn wait(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(BUSY - 1);
        self.waiting_since.store(now, Ordering::Relaxed);
    }

    /// Returns the time since which the connection has waited, or `None` if a request is in progress.
    fn waiting_since(&self) -> Option<Duration> {
        match self.waiting_since.load(Ordering::Relaxed) {
            BUSY => None,
            since => Some(Duration::from_millis(since)),
        }
    }
}

/// A stream that records whether a response is being sent, from the first write until all data is flushed.
#[derive(Debug)]
pub(super) struct TrackedStream<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S> TrackedStream<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }

    fn set_sending(&self, is_sending: bool) {
        if self.activity.is_sending() != is_sending {
            self.activity.is_sending.store(is_sending, Ordering::Relaxed);
            if !is_sending && self.activity.waiting_since().is_some() {
                self.activity.wait();
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TrackedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TrackedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.set_sending(true);
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.set_sending(true);
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() && !self.activity.has_unsent.load(Ordering::Relaxed) {
            // hyper flushes the stream whenever it has written its whole buffer, even before the end of a long body.
            self.set_sending(false);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.0.has_unsent.store(false, Ordering::Relaxed);
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn client(last: u8) -> Peer {
        Peer::Client(Principal::address([192, 0, 2, last].into()))
    }

    /// Adds a connection that has waited since `waiting_since`, or that is busy if `waiting_since` is [`BUSY`].
    fn add(connections: &Arc<Connections>, peer: Peer, waiting_since: u64) -> u64 {
        let mut id = 0;
        connections.add(peer, |connection| {
            id = connection.id;
            connection.activity.waiting_since.store(waiting_since, Ordering::Relaxed);
            tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(connection);
            })
            .abort_handle()
        });
        id
    }

    fn ids(connections: &Arc<Connections>) -> Vec<u64> {
        let open = connections.lock();
        let mut ids: Vec<u64> =
            open.peers.values().flat_map(|connections| connections.keys().copied()).collect();
        ids.sort_unstable();
        ids
    }

    #[tokio::test]
    async fn the_longest_idle_connection_of_the_address_with_most_connections_is_closed() {
        let connections = Connections::new(6);
        add(&connections, client(1), 0);
        add(&connections, client(2), 300);
        add(&connections, client(2), 100);
        add(&connections, client(2), BUSY);
        add(&connections, Peer::Proxy, 0);
        add(&connections, Peer::Proxy, 0);
        assert!(connections.lock().close_one(MINUTE, Some(client(3))));
        assert_eq!(ids(&connections), [0, 1, 3, 4, 5]);
        assert!(connections.lock().close_one(MINUTE, Some(client(3))));
        assert_eq!(
            ids(&connections),
            [0, 3, 4, 5],
            "the busy connection of the address stays open"
        );
    }

    #[tokio::test]
    async fn an_address_cannot_replace_connections_of_addresses_with_as_many_connections() {
        let connections = Connections::new(3);
        add(&connections, client(1), BUSY);
        add(&connections, client(2), 0);
        add(&connections, Peer::Proxy, 0);
        assert!(!connections.lock().close_one(MINUTE, Some(client(1))));
        assert!(
            connections.lock().close_one(MINUTE, Some(Peer::Proxy)),
            "a proxy may replace any idle connection"
        );
        assert_eq!(ids(&connections), [0, 2]);
        assert!(
            connections.lock().close_one(MINUTE, Some(Peer::Proxy)),
            "a proxy may replace its own idle connection"
        );
        assert!(!connections.lock().close_one(MINUTE, None), "a busy connection is never closed");
    }

    #[tokio::test]
    async fn an_address_replaces_its_own_connections_only_after_the_minimum_idle_time() {
        let connections = Connections::new(1);
        add(&connections, client(1), 500);
        assert!(!connections.lock().close_one(Duration::from_secs(1), Some(client(1))));
        assert!(connections.lock().close_one(Duration::from_millis(1_500), Some(client(1))));
        assert!(connections.lock().peers.is_empty());
    }

    #[tokio::test]
    async fn a_connection_that_sends_for_long_is_closed_only_for_another_address() {
        let connections = Connections::new(2);
        let sending = [add(&connections, client(1), 0), add(&connections, client(1), 0)];
        for entry in connections.lock().peers.values().flat_map(BTreeMap::values) {
            entry.activity.is_sending.store(true, Ordering::Relaxed);
        }
        let close = |now, peer| connections.lock().close_one(now, Some(client(peer)));
        assert!(!close(Duration::from_secs(9), 2));
        assert!(!close(MINUTE, 1), "the new connection has the same address");
        assert!(close(Duration::from_secs(11), 2));
        assert_eq!(ids(&connections).len(), sending.len() - 1);
    }

    #[tokio::test]
    async fn a_connection_is_sending_until_the_complete_body_is_flushed() {
        let connections = Connections::new(1);
        let mut activity = None;
        connections.add(client(1), |connection| {
            activity = Some(Arc::clone(&connection.activity));
            tokio::spawn(async move { drop(connection) }).abort_handle()
        });
        let activity = activity.unwrap();
        let mut stream = TrackedStream::new(tokio::io::sink(), Arc::clone(&activity));
        let unsent = activity.unsent();
        stream.write_all(b"the first part").await.unwrap();
        stream.flush().await.unwrap();
        assert!(activity.is_sending());
        stream.write_all(b"the last part").await.unwrap();
        drop(unsent);
        assert!(activity.is_sending());
        stream.flush().await.unwrap();
        assert!(!activity.is_sending());
    }

    #[tokio::test]
    async fn connections_that_wait_too_long_for_a_request_are_closed() {
        let connections = Connections::new(4);
        add(&connections, client(1), 0);
        add(&connections, client(1), 1);
        add(&connections, Peer::Proxy, BUSY);
        let sending = add(&connections, client(2), 0);
        for entry in
            connections.lock().peers.values().filter_map(|connections| connections.get(&sending))
        {
            entry.activity.is_sending.store(true, Ordering::Relaxed);
        }
        connections.close_waiting(2);
        connections.close_waiting(2);
        assert_eq!(ids(&connections), [0, 1, 2, 3]);
        for entry in connections.lock().peers.values().filter_map(|connections| connections.get(&1))
        {
            entry.activity.waiting_since.store(2, Ordering::Relaxed);
        }
        connections.close_waiting(2);
        assert_eq!(ids(&connections), [1, 2, 3]);
        connections.close_waiting(2);
        connections.close_waiting(2);
        assert_eq!(
            ids(&connections),
            [2, 3],
            "one connection is busy, and one is sending a response"
        );
    }

    #[tokio::test]
    async fn closing_a_connection_decrements_the_count_once() {
        let connections = Connections::new(2);
        add(&connections, client(1), 0);
        add(&connections, client(1), 0);
        assert!(connections.make_room(client(2)));
        tokio::task::yield_now().await;
        assert_eq!(connections.lock().count, 1);
        assert!(connections.close_one());
        tokio::task::yield_now().await;
        assert_eq!(connections.lock().count, 0);
    }
}
