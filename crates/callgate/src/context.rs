//! What a function knows of its call.

use serde::Serialize;
use tokio::sync::watch;

use crate::access::Caller;
use crate::ask::Question;
use crate::client::{Capability, Client};
use crate::local::Error;
use crate::log_level::LogLevel;

/// What a function knows of its call, and what it can tell and ask its client.
#[derive(Debug, Clone)]
pub struct Context {
    /// Who is asking.
    pub caller: Caller,
    /// The call's id, the same as in the logs.
    pub call_id: String,
    /// Who hears how it goes, and can be asked.
    pub client: Client,
    lifetime: watch::Receiver<()>,
}

/// The call is over when this is dropped.
#[derive(Debug)]
pub(crate) struct CallGuard {
    _lifetime: watch::Sender<()>,
}

impl Context {
    pub(crate) fn new(caller: Caller, call_id: String, client: Client) -> (Self, CallGuard) {
        let (sender, lifetime) = watch::channel(());
        (Self { caller, call_id, client, lifetime }, CallGuard { _lifetime: sender })
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
    pub fn can(&self, capability: Capability) -> bool {
        self.client.can(capability)
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
    pub fn is_over(&self) -> bool {
        self.lifetime.has_changed().is_err()
    }

    /// Waits until the call is over.
    pub async fn over(&self) {
        // Nothing is ever sent: it ends when the sender is dropped.
        let _ = self.lifetime.clone().changed().await;
    }
}
