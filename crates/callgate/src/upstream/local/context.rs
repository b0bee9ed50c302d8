//! Context of a call.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use tokio::sync::Notify;

use crate::access::Caller;
use crate::upstream::client::{Capability, Client};
use crate::upstream::local::Error;
use crate::upstream::local::ask::Question;
use crate::wire::log_level::LogLevel;

/// Context of a call: the caller, and the client to notify and ask.
#[derive(Debug, Clone)]
pub struct Context {
    /// The caller.
    pub caller: Caller,
    /// Id of the call, as in the log.
    pub call_id: String,
    /// The client of the call.
    pub client: Client,
    lifetime: Arc<Lifetime>,
}

#[derive(Debug, Default)]
struct Lifetime {
    is_over: AtomicBool,
    ended: Notify,
}

/// Ends the call on drop.
#[derive(Debug)]
pub(crate) struct CallGuard(Arc<Lifetime>);

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.ended.notify_waiters();
    }
}

impl Context {
    pub(crate) fn new(caller: Caller, call_id: String, client: Client) -> (Self, CallGuard) {
        let lifetime = Arc::<Lifetime>::default();
        let guard = CallGuard(Arc::clone(&lifetime));
        (Self { caller, call_id, client, lifetime }, guard)
    }

    /// Sends a progress notification, see [`Client::progress`].
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.client.progress(progress, total, message);
    }

    /// Sends a log message, see [`Client::log`].
    pub fn log(&self, level: LogLevel, logger: &str, data: impl Serialize) {
        self.client.log(level, logger, data);
    }

    /// Returns `true` if the client supports the capability.
    pub fn supports(&self, capability: Capability) -> bool {
        self.client.supports(capability)
    }

    /// Asks the client. `key` identifies the question within the method.
    ///
    /// In the modern era, the call ends here and the method **runs again from its beginning** with the
    /// answers, so it must not have side effects before. See [`Client::ask`].
    pub async fn ask<Q: Question>(&self, key: &str, question: Q) -> Result<Q::Answer, Error> {
        self.client.ask(key, question).await
    }

    /// Continues the call as a task, see [`Client::become_task`].
    pub async fn become_task(&self) -> Result<bool, Error> {
        self.client.become_task().await
    }

    /// Like [`become_task`](Self::become_task), but fails if the client does not support tasks.
    pub async fn require_task(&self) -> Result<(), Error> {
        self.client.require_task().await
    }

    /// Returns `true` if the call has ended: cancelled, timed out or answered.
    ///
    /// A cancelled call is dropped at its next `await`. Threads and tasks that it started are not, and can
    /// check this.
    pub fn is_finished(&self) -> bool {
        self.lifetime.is_over.load(Ordering::Acquire)
    }

    /// Waits until the call has ended.
    pub async fn finished(&self) {
        let mut ended = pin!(self.lifetime.ended.notified());
        // Registered before the check, so that the notification is not missed.
        ended.as_mut().enable();
        if !self.is_finished() {
            ended.await;
        }
    }
}
