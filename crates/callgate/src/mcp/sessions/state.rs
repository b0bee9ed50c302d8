//! The part of a legacy session that can change after the session was opened. Only this part is stored and shared
//! between servers.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::session_id::Nonce;
use crate::upstream::BoxFuture;
use crate::wire::LogLevel;

/// Maximum total length of the URIs that a client subscribes to, in bytes.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 16 * 1024;

/// The state of a legacy session.
///
/// Returned by [`SessionStore::update`]. [`SessionStore`] has an example.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionState {
    /// Whether the client ended the session.
    pub ended: bool,
    /// Minimum severity that the client set for log messages.
    pub log_level: Option<LogLevel>,
    /// URIs of the resources that the client subscribed to.
    pub subscriptions: Arc<BTreeSet<String>>,
}

/// A new state of a session.
///
/// Argument of [`Mcp::apply_change`](crate::mcp::Mcp::apply_change). A server gets it from the store that the servers
/// share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionChange {
    /// Identifies the session.
    pub nonce: Nonce,
    /// The new state.
    pub state: SessionState,
    /// Time at which the session expires, in seconds since the Unix epoch.
    pub ends_at: u64,
}

/// A change that a client makes to its session.
///
/// Argument of [`SessionStore::update`]. [`SessionStore`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEdit {
    /// Ends the session.
    End,
    /// Sets the minimum severity of log messages.
    LogLevel(LogLevel),
    /// Subscribes to a resource. Has no effect if the URIs of the session would exceed 16 KiB.
    Subscribe(String),
    /// Unsubscribes from a resource.
    Unsubscribe(String),
}

impl SessionEdit {
    /// Applies the change to a state.
    pub fn apply(&self, state: &mut SessionState) {
        match self {
            Self::End => state.ended = true,
            Self::LogLevel(level) => state.log_level = Some(*level),
            Self::Subscribe(uri) => {
                let bytes: usize = state.subscriptions.iter().map(String::len).sum();
                if bytes + uri.len() <= MAX_SUBSCRIPTIONS {
                    Arc::make_mut(&mut state.subscriptions).insert(uri.clone());
                }
            }
            Self::Unsubscribe(uri) => {
                Arc::make_mut(&mut state.subscriptions).remove(uri);
            }
        }
    }
}

/// Stores session states for other servers, and for this server after a restart.
///
/// Argument of [`Sessions::with_store`](crate::mcp::Sessions::with_store). The crate `callgate-registry` has an
/// implementation.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::{Arc, Mutex};
/// use callgate::mcp::{Nonce, SessionEdit, SessionKey, SessionState, SessionStore, Sessions};
/// use callgate::upstream::BoxFuture;
///
/// type Stored<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
///
/// /// States of sessions. A real store keeps them in a database until the sessions expire.
/// #[derive(Debug, Default)]
/// struct States(Mutex<HashMap<Nonce, SessionState>>);
///
/// impl SessionStore for States {
///     fn update(
///         &self,
///         session: Nonce,
///         edit: SessionEdit,
///         _ends_at: u64,
///     ) -> BoxFuture<'_, Stored<SessionState>> {
///         let mut states = self.0.lock().unwrap();
///         let state = states.entry(session).or_default();
///         edit.apply(state);
///         let state = state.clone();
///         Box::pin(async { Ok(state) })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let store = Arc::new(States::default());
/// let sessions = Sessions::new([SessionKey::generate()?]).with_store(store.clone());
/// assert!(store.update(Nonce::default(), SessionEdit::End, 0).await?.ended);
/// # Ok(())
/// # }
/// ```
pub trait SessionStore: Send + Sync + fmt::Debug {
    /// Applies a change to the stored state and returns the new state.
    ///
    /// A session without a stored state has the default state.
    fn update(
        &self,
        session: Nonce,
        edit: SessionEdit,
        ends_at: u64,
    ) -> BoxFuture<'_, Result<SessionState, Box<dyn std::error::Error + Send + Sync>>>;
}
