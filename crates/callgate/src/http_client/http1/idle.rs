//! Connections that wait for the next request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::Connection;
use crate::http_client::IDLE_TIMEOUT;

#[derive(Debug)]
pub(super) struct IdleConnections {
    max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Each connection with the time at which it is closed, the latest at the end.
    connections: Vec<(Instant, Connection)>,
    /// The task that closes connections in time.
    closer: Option<JoinHandle<()>>,
}

impl IdleConnections {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection that was used last and is open, as far as is known.
    pub(super) fn take(&self) -> Option<Connection> {
        let now = Instant::now();
        let mut state = self.lock();
        loop {
            let (until, connection) = state.connections.pop()?;
            if now < until && connection.socket.is_quiet() {
                return Some(connection);
            }
        }
    }

    pub(super) fn put(self: &Arc<Self>, connection: Connection) {
        let mut state = self.lock();
        if state.connections.len() >= self.max {
            return;
        }
        let until = Instant::now() + IDLE_TIMEOUT;
        state.connections.push((until, connection));
        if state.closer.as_ref().is_none_or(JoinHandle::is_finished) {
            state.closer = Some(tokio::spawn(close_in_time(Arc::downgrade(self), until)));
        }
    }

    /// Closes connections whose time is over. Returns the time at which the next one ends.
    fn close_expired(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.lock();
        state.connections.retain(|(until, _)| now < *until);
        let next = state.connections.first().map(|(until, _)| *until);
        if next.is_none() {
            state.closer = None;
        }
        next
    }
}

/// Closes connections when their time is over, until there is none left.
async fn close_in_time(idle: Weak<IdleConnections>, mut next: Instant) {
    loop {
        sleep_until(next).await;
        let Some(until) = idle.upgrade().and_then(|idle| idle.close_expired()) else { return };
        next = until;
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
