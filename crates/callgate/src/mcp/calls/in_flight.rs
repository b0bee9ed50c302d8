//! Open calls, streams and questions, found by their id within a session or connection. Later messages of the client
//! can answer a question, and cancel a call or a stream.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::mcp::Nonce;

/// Scope within which the ids of requests are unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scope {
    Session(Nonce),
    Connection(u64),
}

/// Identifies an entry within a scope. Streams are numbered in the order in which they were opened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InFlightKey {
    /// A request of the client, by its id in JSON.
    Request(String),
    /// A request to the client, by its id.
    Question(String),
    /// A stream that the client resumed.
    Resumed(u64),
    /// A notification stream.
    Stream(u64),
}

#[derive(Debug)]
pub(crate) struct InFlight<T> {
    entries: Mutex<InFlightEntries<T>>,
    count: AtomicU64,
}

type InFlightEntries<T> = BTreeMap<(Scope, InFlightKey), (u64, T)>;

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self { entries: Mutex::default(), count: AtomicU64::new(0) }
    }
}

impl<T> InFlight<T> {
    fn lock(&self) -> MutexGuard<'_, InFlightEntries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a unique number.
    pub(crate) fn next_number(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }

    /// Inserts an entry, which exists until the guard is dropped. An existing entry with the same key is
    /// replaced.
    pub(crate) fn insert(
        self: &Arc<Self>,
        scope: Scope,
        key: InFlightKey,
        value: T,
    ) -> InFlightGuard<T> {
        let (key, number) = ((scope, key), self.next_number());
        self.lock().insert(key.clone(), (number, value));
        InFlightGuard { table: Arc::clone(self), key, number }
    }

    pub(crate) fn remove(&self, scope: Scope, key: InFlightKey) -> Option<T> {
        self.lock().remove(&(scope, key)).map(|(_, value)| value)
    }

    /// Returns `true` if this is the key of the newest stream of its scope.
    fn is_newest(&self, (scope, key): &(Scope, InFlightKey)) -> bool {
        let entries = self.lock();
        let streams = entries
            .range((*scope, InFlightKey::Stream(0))..=(*scope, InFlightKey::Stream(u64::MAX)));
        streams.last().is_some_and(|((_, newest), _)| newest == key)
    }
}

/// Removes an entry when it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard<T> {
    table: Arc<InFlight<T>>,
    key: (Scope, InFlightKey),
    number: u64,
}

impl<T> InFlightGuard<T> {
    pub(crate) fn take(&self) -> Option<T> {
        let mut entries = self.table.lock();
        let is_current = entries.get(&self.key).is_some_and(|(number, _)| *number == self.number);
        if is_current { entries.remove(&self.key).map(|(_, value)| value) } else { None }
    }

    pub(crate) fn is_some_and(&self, test: impl FnOnce(&T) -> bool) -> bool {
        self.table.lock().get(&self.key).is_some_and(|(_, value)| test(value))
    }
}

impl<T> Drop for InFlightGuard<T> {
    fn drop(&mut self) {
        self.take();
    }
}

pub(crate) type Cancellations = InFlight<oneshot::Sender<()>>;

impl Cancellations {
    /// Registers a call or a stream. The number of entries is limited by the transport.
    pub(crate) fn register(self: &Arc<Self>, scope: Scope, key: InFlightKey) -> Cancellation {
        let (sender, cancelled) = oneshot::channel();
        Cancellation { entry: self.insert(scope, key, sender), cancelled }
    }

    /// Cancels a call. Returns `true` if the call was running on this server.
    pub(crate) fn cancel(&self, scope: Scope, id: &RawValue) -> bool {
        let sender = self.remove(scope, InFlightKey::Request(id.get().to_owned()));
        sender.map(|sender| sender.send(())).is_some()
    }

    /// Cancels all calls and streams of a scope.
    pub(crate) fn cancel_all(&self, scope: Scope) {
        let mut entries = self.lock();
        let removed: Vec<_> =
            entries.extract_if(.., |(entry_scope, _), _| *entry_scope == scope).collect();
        drop(entries);
        for (_, (_, sender)) in removed {
            let _ = sender.send(());
        }
    }
}

/// Resolves when the client cancels a call or ends its session.
#[derive(Debug)]
pub(crate) struct Cancellation {
    entry: InFlightGuard<oneshot::Sender<()>>,
    cancelled: oneshot::Receiver<()>,
}

impl Cancellation {
    /// Waits until the client cancels the call or ends its session. This method is cancel safe. The future never
    /// resolves if a later request with the same key has replaced the entry of this call.
    pub(crate) async fn cancelled(&mut self) {
        if self.cancelled.is_terminated() || (&mut self.cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns `true` if this value belongs to the newest notification stream of its session.
    pub(crate) fn is_newest(&self) -> bool {
        self.entry.table.is_newest(&self.entry.key)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_is_not_cancelled_when_another_call_registers_the_same_id() {
        let calls = Arc::<Cancellations>::default();
        let key = || InFlightKey::Request("1".to_owned());
        let mut first = calls.register(Scope::Connection(1), key());
        let _second = calls.register(Scope::Connection(1), key());
        for _ in 0..2 {
            let waiting = tokio::time::timeout(Duration::from_secs(1), first.cancelled());
            assert!(waiting.await.is_err());
        }
    }
}
