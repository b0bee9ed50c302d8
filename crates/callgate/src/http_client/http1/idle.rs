//! Connections that wait for the next request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::Http1Connection;
use crate::http_client::IDLE_TIMEOUT;

/// A connection of the current runtime is preferred if it has been idle for at most this much longer than the
/// connection that was used last. The longer a connection is idle, the more likely it is that the service closes it.
const MAX_EXTRA_IDLE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct IdleConnections {
    max: usize,
    state: Mutex<IdleState>,
}

#[derive(Debug, Default)]
struct IdleState {
    /// Each connection with the time at which it is closed, the latest at the end.
    connections: Vec<(Instant, Http1Connection)>,
    /// The task that closes connections when their time is over.
    close_task: Option<JoinHandle<()>>,
}

impl IdleState {
    /// Removes a connection of this runtime that has been idle for at most [`MAX_EXTRA_IDLE`] longer than the
    /// connection that was used last. If there is none, removes the connection that was used last.
    fn pop(&mut self, runtime: runtime::Id) -> Option<(Instant, Http1Connection)> {
        let newest = self.connections.last()?.0;
        let is_preferred = |(expires_at, connection): &(Instant, Http1Connection)| {
            connection.runtime == runtime && *expires_at + MAX_EXTRA_IDLE >= newest
        };
        let preferred = self.connections.iter().rposition(is_preferred);
        let last = self.connections.len().checked_sub(1);
        Some(self.connections.remove(preferred.or(last)?))
    }
}

impl IdleConnections {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, IdleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a connection that is open, as far as is known. A connection of another runtime is moved to the
    /// current runtime. Without this move, the thread of the other runtime would wait for the response and then
    /// wake this thread. Waking takes 4,000 instructions, and the call would wait while the other thread is busy.
    pub(super) fn take(&self) -> Option<Http1Connection> {
        let (now, runtime) = (Instant::now(), Handle::current().id());
        loop {
            let (expires_at, connection) = self.lock().pop(runtime)?;
            if now >= expires_at || !connection.socket.is_reusable() {
                continue;
            }
            if connection.runtime == runtime {
                return Some(connection);
            }
            if let Ok(connection) = connection.into_current_runtime() {
                return Some(connection);
            }
        }
    }

    pub(super) fn put(self: &Arc<Self>, connection: Http1Connection) {
        let mut state = self.lock();
        if state.connections.len() >= self.max {
            return;
        }
        let expires_at = Instant::now() + IDLE_TIMEOUT;
        state.connections.push((expires_at, connection));
        if state.close_task.as_ref().is_none_or(JoinHandle::is_finished) {
            state.close_task = Some(tokio::spawn(close_in_time(Arc::downgrade(self), expires_at)));
        }
    }

    /// Closes connections whose time is over. Returns the time at which the next connection must be closed.
    fn close_expired(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.lock();
        state.connections.retain(|(expires_at, _)| now < *expires_at);
        let next = state.connections.first().map(|(expires_at, _)| *expires_at);
        if next.is_none() {
            state.close_task = None;
        }
        next
    }
}

/// Closes connections when their time is over, until there is none left.
async fn close_in_time(idle: Weak<IdleConnections>, mut next: Instant) {
    loop {
        sleep_until(next).await;
        let Some(expires_at) = idle.upgrade().and_then(|idle| idle.close_expired()) else { return };
        next = expires_at;
    }
}

#[cfg(test)]
impl IdleConnections {
    pub(super) fn len(&self) -> usize {
        self.lock().connections.len()
    }

    pub(super) fn clear(&self) {
        self.lock().connections.clear();
    }
}
