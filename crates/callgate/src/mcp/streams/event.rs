//! What streams to clients carry, and the changes that open streams hear of.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;

use crate::access::Caller;
use crate::mcp::calls::running_call::Answer;
use crate::mcp::features::tasks::Task;
use crate::mcp::reply::message::OutMessage;
use crate::upstream::BoxFuture;

/// Interval between signs of life on a stream, and between checks of its caller's credential.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Maximum number of changes that wait for a slow listener. Beyond, it is told that everything changed.
const MAX_WAITING: usize = 256;

/// One event of a stream.
#[derive(Debug)]
pub enum Event {
    /// A message.
    Message(OutMessage),
    /// The end of a call.
    Reply(Answer),
    /// Only a sign of life.
    KeepAlive,
    /// Only an id to resume after; with a time, the client disconnects and comes back after it.
    Retry(Option<Duration>),
}

impl Event {
    /// Returns the messages of the event.
    pub fn into_messages(self) -> Vec<OutMessage> {
        match self {
            Self::Message(message) => vec![message],
            Self::Reply(Answer { mut notes, reply, .. }) => {
                notes.push(reply);
                notes
            }
            Self::KeepAlive | Self::Retry(_) => Vec::new(),
        }
    }
}

/// The caller of a stream as of now: a token may be revoked, and grants may change, while it is open.
pub trait Identify: Send + Sync {
    /// Returns the caller.
    fn identify(&self) -> BoxFuture<'_, Result<Caller, Unidentified>>;
}

/// Why the caller is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unidentified {
    /// The credential is not good.
    #[error("the credential is not, or no longer, good")]
    Refused,
    /// The credential cannot be checked now.
    #[error("the credential cannot be checked just now; try again")]
    Unavailable,
}

/// Always the same caller.
impl Identify for Caller {
    fn identify(&self) -> BoxFuture<'_, Result<Caller, Unidentified>> {
        let caller = self.clone();
        Box::pin(async { Ok(caller) })
    }
}

/// A change that the embedder announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Prompts,
    Resources,
    /// The contents of the resource with this address.
    Resource(Arc<str>),
}

/// Publishes changes to open streams. Tasks are apart, since they change often.
#[derive(Debug, Clone)]
pub(crate) struct EventBus {
    pub(crate) changes: broadcast::Sender<Change>,
    pub(crate) tasks: broadcast::Sender<Arc<Task>>,
}

impl Default for EventBus {
    fn default() -> Self {
        let (changes, tasks) =
            (broadcast::Sender::new(MAX_WAITING), broadcast::Sender::new(MAX_WAITING));
        Self { changes, tasks }
    }
}

impl EventBus {
    pub(crate) fn task_changed(&self, task: &Task) {
        if self.tasks.receiver_count() > 0 {
            let _ = self.tasks.send(Arc::new(task.clone()));
        }
    }
}
