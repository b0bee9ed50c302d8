//! What a function knows of its call.

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

/// What a function knows of its call, and what it can tell and ask its client.
#[derive(Debug, Clone)]
pub struct Context {
    /// Who is asking.
    pub caller: Caller,
    /// The call's id, the same as in the logs.
    pub call_id: String,
    /// Who hears how it goes, and can be asked.
    pub client: Client,
    lifetime: Arc<Lifetime>,
}

#[derive(Debug, Default)]
struct Lifetime {
    is_over: AtomicBool,
    ended: Notify,
}

/// The call is over when this is dropped.
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

    /// Tells how far the call is, where the client wants to know. Each must be more than the last.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.client.progress(progress, total, message);
    }

    /// Logs something for the client, where it wants what is so severe.
    pub fn log(&self, level: LogLevel, logger: &str, data: impl Serialize) {
        self.client.log(level, logger, data);
    }

    /// Whether the client can be asked for this, or can do it.
    pub fn supports(&self, capability: Capability) -> bool {
        self.client.supports(capability)
    }

    /// Asks the client. A key tells the questions of one method apart.
    ///
    /// In the modern era a method that asks ends here, and **runs again from its beginning** when the
    /// answers are there; so nothing before it may have effects. See [`Client::ask`].
    pub async fn ask<Q: Question>(&self, key: &str, question: Q) -> Result<Q::Answer, Error> {
        self.client.ask(key, question).await
    }

    /// Lets the client go with a task to come back for, where it can, and says whether it did. See
    /// [`Client::become_task`].
    pub async fn become_task(&self) -> Result<bool, Error> {
        self.client.become_task().await
    }

    /// Like [`become_task`](Self::become_task), for a method that does not run for clients that cannot
    /// come back.
    pub async fn require_task(&self) -> Result<(), Error> {
        self.client.require_task().await
    }

    /// Whether the call is over: cancelled, out of time, or answered.
    ///
    /// A call that is cancelled is dropped at its next `await`, so most functions need not look. What
    /// they started elsewhere, such as a thread, does not end with them and can look here.
    pub fn is_finished(&self) -> bool {
        self.lifetime.is_over.load(Ordering::Acquire)
    }

    /// Waits until the call is over.
    pub async fn finished(&self) {
        let mut ended = pin!(self.lifetime.ended.notified());
        // Before the look, so that an end between the two is not missed.
        ended.as_mut().enable();
        if !self.is_finished() {
            ended.await;
        }
    }
}
