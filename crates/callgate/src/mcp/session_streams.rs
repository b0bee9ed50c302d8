//! The streams that a legacy session has open: a client may have several, and each message goes to one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::session::Nonce;

/// The streams of every session, the newest last.
#[derive(Debug, Default)]
pub(crate) struct SessionStreams {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    count: u64,
    by_session: HashMap<Nonce, Vec<Stream>>,
}

/// A number, and what tells it that the session ends.
type Stream = (u64, watch::Sender<()>);

impl SessionStreams {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a stream, until what comes back is dropped.
    pub(crate) fn open(self: &Arc<Self>, session: Nonce) -> StreamPlace {
        self.add(session, Vec::push)
    }

    /// Notes a stream that ends with the session, but does not speak for it.
    pub(crate) fn note(self: &Arc<Self>, session: Nonce) -> StreamPlace {
        self.add(session, |streams, stream| streams.insert(0, stream))
    }

    fn add(
        self: &Arc<Self>,
        session: Nonce,
        add: impl FnOnce(&mut Vec<Stream>, Stream),
    ) -> StreamPlace {
        let (sender, ended) = watch::channel(());
        let mut open = self.lock();
        open.count += 1;
        let number = open.count;
        add(open.by_session.entry(session).or_default(), (number, sender));
        drop(open);
        StreamPlace { streams: Arc::clone(self), session, number, ended }
    }

    /// Ends the streams of a session.
    pub(crate) fn end(&self, session: Nonce) {
        self.lock().by_session.remove(&session);
    }
}

/// A stream's place among those of its session.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    streams: Arc<SessionStreams>,
    session: Nonce,
    number: u64,
    ended: watch::Receiver<()>,
}

impl StreamPlace {
    /// Whether messages go to this stream: the newest has them.
    pub(crate) fn speaks(&self) -> bool {
        let open = self.streams.lock();
        let newest = open.by_session.get(&self.session).and_then(|streams| streams.last());
        newest.is_some_and(|(number, _)| *number == self.number)
    }

    /// Waits until the session ends.
    pub(crate) async fn ended(&mut self) {
        // Nothing is ever sent.
        while self.ended.changed().await.is_ok() {}
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.streams.lock();
        if let Some(streams) = open.by_session.get_mut(&self.session) {
            streams.retain(|(number, _)| *number != self.number);
            if streams.is_empty() {
                open.by_session.remove(&self.session);
            }
        }
    }
}
