//! What a legacy session became after it was opened: the only part of it that is kept, and that
//! servers have to tell each other.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::session::Nonce;
use crate::upstream::BoxFuture;
use crate::wire::log_level::LogLevel;

/// The addresses of resources that a client wants to hear of are no longer than this together.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 16 * 1024;

/// What a session became after it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionState {
    /// The client ended it.
    pub ended: bool,
    /// The least severe messages that the client wants.
    pub log_level: Option<LogLevel>,
    /// The resources that the client wants to hear of.
    pub subscriptions: Arc<BTreeSet<String>>,
}

/// A state that was kept: whose it is, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionChange {
    /// The session.
    pub nonce: Nonce,
    /// What it became.
    pub state: SessionState,
    /// When the session ends by itself, in seconds since 1970.
    pub ends_at: u64,
}

/// What a client does to its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEdit {
    /// It is over.
    End,
    /// Messages that are less severe are no longer wanted.
    LogLevel(LogLevel),
    /// A resource is to be heard of, where there is room for one more.
    Subscribe(String),
    /// It is no longer.
    Unsubscribe(String),
}

impl SessionEdit {
    /// Does it.
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

/// Something that keeps the states of sessions for other servers, and for this one after a restart.
pub trait KeepSessions: Send + Sync + fmt::Debug {
    /// Changes the state that is kept, whichever server kept it, and comes back with what it is then.
    /// A session that nothing is kept of has the default state.
    fn keep(
        &self,
        session: Nonce,
        edit: SessionEdit,
        ends_at: u64,
    ) -> BoxFuture<'_, Result<SessionState, Box<dyn std::error::Error + Send + Sync>>>;
}
