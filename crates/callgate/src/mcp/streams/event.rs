//! Events of streams, and the changes that open streams are notified of.

use std::sync::Arc;
use std::time::Duration;

use crate::access::Caller;
use crate::mcp::{CallReply, EncodedMessage};
use crate::upstream::BoxFuture;

/// Interval between keep-alive events, and between checks of the caller's credential.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Maximum number of changes that are queued for a slow stream. If the stream misses a change, it reports all of its
/// lists and resources as changed.
pub(crate) const MAX_WAITING: usize = 256;

/// One event of a stream.
#[derive(Debug)]
pub enum Event {
    /// A JSON-RPC message.
    Message(EncodedMessage),
    /// The end of a call.
    Reply(CallReply),
    /// An event without content.
    KeepAlive,
    /// An id from which the client can resume. If a time is given, the stream ends, and the client reconnects after
    /// that time.
    Retry(Option<Duration>),
}

impl Event {
    /// Returns the messages of the event.
    pub fn into_messages(self) -> Vec<EncodedMessage> {
        match self {
            Self::Message(message) => vec![message],
            Self::Reply(CallReply { mut notifications, message, .. }) => {
                notifications.push(message);
                notifications
            }
            Self::KeepAlive | Self::Retry(_) => Vec::new(),
        }
    }
}

/// Returns the current caller of an open stream. A token can be revoked and grants can change while the stream is open.
///
/// Argument of [`stdio::serve`](crate::stdio::serve). [`Caller`] implements this trait, for callers that do not change.
/// Over HTTP, [`Authenticate`](crate::http::Authenticate) identifies the caller instead.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use callgate::Caller;
/// use callgate::mcp::{Identify, IdentifyError};
/// use callgate::upstream::BoxFuture;
///
/// /// A caller whose login can end while the client is connected.
/// struct Login {
///     caller: Caller,
///     has_ended: AtomicBool,
/// }
///
/// impl Identify for Login {
///     fn identify(&self) -> BoxFuture<'_, Result<Caller, IdentifyError>> {
///         Box::pin(async {
///             if self.has_ended.load(Ordering::Relaxed) {
///                 return Err(IdentifyError::Refused);
///             }
///             Ok(self.caller.clone())
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let login = Login { caller: Caller::anonymous(), has_ended: AtomicBool::new(false) };
/// assert!(login.identify().await.is_ok());
/// login.has_ended.store(true, Ordering::Relaxed);
/// assert_eq!(login.identify().await.unwrap_err(), IdentifyError::Refused);
/// # }
/// ```
pub trait Identify: Send + Sync {
    /// Verifies the credential again.
    fn identify(&self) -> BoxFuture<'_, Result<Caller, IdentifyError>>;

    /// Returns the message to the client for [`IdentifyError::Refused`].
    fn refusal(&self) -> String {
        IdentifyError::Refused.to_string()
    }
}

/// Reason why a caller could not be identified.
///
/// Error of [`Identify::identify`]. [`Identify`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdentifyError {
    /// The credential is invalid or was revoked.
    #[error("the credential is invalid or was revoked")]
    Refused,
    /// The credential cannot be verified at the moment.
    #[error("the credential cannot be verified at the moment; try again")]
    Unavailable,
}

/// Returns the same caller every time.
impl Identify for Caller {
    fn identify(&self) -> BoxFuture<'_, Result<Caller, IdentifyError>> {
        let caller = self.clone();
        Box::pin(async { Ok(caller) })
    }
}

/// A change that the embedding program announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Prompts,
    Resources,
    /// The contents of the resource with this URI changed.
    Resource(Arc<str>),
}
