//! Relays answers and cancellations to the server that runs the call.
//!
//! Without sticky sessions, a load balancer may send these messages to any server.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::session_id::{Nonce, Session};
use super::take_share;
use crate::access::{Principal, Shares};
use crate::lru_cache::LruCache;
use crate::mcp::parse::envelope::read_message;
use crate::mcp::{Mcp, McpError, Scope};
use crate::upstream::BoxFuture;
use crate::wire::jsonrpc::{INTERNAL_ERROR, INVALID_REQUEST};

/// Maximum length of a relayed message, in bytes. Equals the default limit of a request body.
const MAX_MESSAGE: usize = 1024 * 1024;
/// Period to which the quotas apply.
const WINDOW: Duration = Duration::from_mins(1);
/// Maximum number of messages and of bytes that a session may relay per period.
const SESSION_QUOTA: (usize, usize) = (128, 4 * MAX_MESSAGE);
/// Quota of a user, or of one address of anonymous callers. The quota of a session does not suffice, because the
/// number of sessions of a caller is not limited.
const CALLER_QUOTA: (usize, usize) = (1024, 16 * MAX_MESSAGE);
/// Quota of all anonymous callers together.
const ANONYMOUS_QUOTA: (usize, usize) = (16 * 1024, 64 * MAX_MESSAGE);
/// Maximum number of sessions and callers whose usage is counted.
const MAX_COUNTED: usize = 100_000;

/// Maximum number of messages that are relayed at the same time. The limit leaves database connections for other
/// operations.
const MAX_POSTS: usize = 2;

/// Sends messages of clients to the other servers that share the sessions.
///
/// Argument of [`Sessions::with_relay`](crate::mcp::Sessions::with_relay). The crate `callgate-registry` has an
/// implementation.
///
/// ```
/// use std::sync::Arc;
/// use callgate::mcp::{Mcp, Nonce, Relay, SessionKey, Sessions};
/// use callgate::upstream::BoxFuture;
/// use tokio::sync::broadcast::{Receiver, Sender};
///
/// type Posted = Result<(), Box<dyn std::error::Error + Send + Sync>>;
///
/// /// A channel between the servers of one process. Other servers share a message broker.
/// #[derive(Debug)]
/// struct Channel(Sender<(Nonce, String)>);
///
/// impl Relay for Channel {
///     fn post(&self, session: Nonce, message: String) -> BoxFuture<'_, Posted> {
///         let sent = self.0.send((session, message));
///         Box::pin(async { Ok(sent.map(drop)?) })
///     }
/// }
///
/// /// Receives messages. Each server runs this function.
/// async fn receive(mcp: Arc<Mcp>, mut channel: Receiver<(Nonce, String)>) {
///     while let Ok((session, message)) = channel.recv().await {
///         mcp.deliver(session, &message);
///     }
/// }
///
/// let channel = Arc::new(Channel(Sender::new(64)));
/// let sessions = Sessions::new([SessionKey::generate()?]).with_relay(channel);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Relay: Send + Sync + fmt::Debug {
    /// Sends the message to every other server, because one of them may run the call that the message is for. Each
    /// server passes it to [`Mcp::deliver`].
    fn post(
        &self,
        session: Nonce,
        message: String,
    ) -> BoxFuture<'_, Result<(), Box<dyn std::error::Error + Send + Sync>>>;
}

/// A relay with quotas.
#[derive(Debug)]
pub(crate) struct LimitedRelay {
    relay: Arc<dyn Relay>,
    usage: LruCache<QuotaKey, Arc<Usage>>,
    posts: Arc<Shares>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum QuotaKey {
    Session(Nonce),
    Caller(Principal),
    Anonymous,
}

/// Messages since the beginning of a period.
#[derive(Debug)]
struct Usage {
    started: Instant,
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

impl LimitedRelay {
    pub(crate) fn new(relay: Arc<dyn Relay>) -> Self {
        Self { relay, usage: LruCache::new(MAX_COUNTED), posts: Shares::new(MAX_POSTS) }
    }

    /// Relays a message of a valid session.
    pub(crate) async fn post(
        &self,
        session: &Session,
        principal: Principal,
        message: String,
    ) -> Result<(), McpError> {
        if message.len() > MAX_MESSAGE {
            let problem = format!(
                "the call does not run on this server, and the message is too long to be relayed: \
                 {} bytes, the limit is {MAX_MESSAGE}",
                message.len()
            );
            return Err(McpError::new(413, INVALID_REQUEST, problem));
        }
        let session_key = QuotaKey::Session(session.nonce);
        let is_within = |key, quota| self.use_quota(key, quota, message.len());
        let is_within_quota = is_within(session_key, SESSION_QUOTA)
            && (principal == Principal::Unknown
                || is_within(QuotaKey::Caller(principal), CALLER_QUOTA))
            && (session.user.is_some() || is_within(QuotaKey::Anonymous, ANONYMOUS_QUOTA));
        if !is_within_quota {
            let problem = "too many answers and cancellations for calls on other servers; \
                           wait a minute";
            let retry_after = Some(WINDOW.as_secs());
            return Err(McpError { retry_after, ..McpError::new(429, INVALID_REQUEST, problem) });
        }
        let posted = async {
            let _share = take_share(&self.posts, principal).await?;
            self.relay.post(session.nonce, message).await
        };
        posted.await.map_err(|error| {
            let problem =
                "the call does not run on this server, and other servers cannot be reached";
            tracing::error!(error = error.to_string(), "{problem}");
            McpError::new(503, INTERNAL_ERROR, format!("{problem}; send the message again"))
        })
    }

    /// Counts a message of `message_size` bytes. Returns `false` if the quota would be exceeded.
    fn use_quota(
        &self,
        key: QuotaKey,
        (messages, bytes): (usize, usize),
        message_size: usize,
    ) -> bool {
        let now = Instant::now();
        let usage = self.usage.update(key, |usage| match usage {
            Some(usage) if now.saturating_duration_since(usage.started) < WINDOW => {
                Arc::clone(usage)
            }
            _ => Arc::new(Usage { started: now, messages: 0.into(), bytes: 0.into() }),
        });
        usage.messages.fetch_add(1, Ordering::Relaxed) < messages
            && usage.bytes.fetch_add(message_size, Ordering::Relaxed).saturating_add(message_size)
                <= bytes
    }
}

impl Mcp {
    /// Handles a message that another server relayed with [`Relay::post`]. Ignores a message for a call that does not
    /// run on this server.
    pub fn deliver(&self, session: Nonce, message: &str) {
        if let Ok(message) = read_message(message) {
            self.pass_to_call(Scope::Session(session), &message);
        }
    }
}
