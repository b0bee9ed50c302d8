//! The client behind a call: what a method can tell it while it runs, and what it can ask it.
//!
//! A method puts notifications and requests into a channel; what answers the call takes them out, in the
//! way of the client's revision.

mod capability;
mod channel;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::to_raw_value;

use crate::upstream::local::Error;
use crate::upstream::local::ask::Question;
use crate::wire::log_level::LogLevel;

pub use capability::Capability;
pub(crate) use capability::{Capabilities, TASKS_EXTENSION};
pub(crate) use channel::{CallChannel, ClientRequest, Outgoing, PendingQuestion, TaskRequest};

/// The client behind a call. A call that came without one has a client that hears nothing and cannot
/// be asked.
#[derive(Debug, Clone, Default)]
pub struct Client(Option<Arc<CallChannel>>);

impl Client {
    pub(crate) fn new(channel: Option<Arc<CallChannel>>) -> Self {
        Self(channel)
    }

    /// Tells how far the call is, where the client wants to know. Each must be more than the last.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(channel) = self.0.as_ref().filter(|channel| channel.wants_progress()) {
            let message = message.map(ToOwned::to_owned);
            channel.send(Outgoing::Progress { progress, total, message });
        }
    }

    /// Logs something for the client, where it wants what is so severe.
    pub fn log(&self, level: LogLevel, logger: &str, data: impl Serialize) {
        let wants = |channel: &&Arc<CallChannel>| channel.wants_log(level);
        if let (Some(channel), Ok(data)) = (self.0.as_ref().filter(wants), to_raw_value(&data)) {
            channel.send(Outgoing::Log { level, logger: logger.to_owned(), data });
        }
    }

    /// For how long the method has waited for answers of the client, and whether it does now.
    pub(crate) fn waited(&self) -> (Duration, bool) {
        self.0.as_ref().map_or((Duration::ZERO, false), |channel| channel.waited())
    }

    /// Whether nobody waits for the method.
    pub(crate) fn is_task(&self) -> bool {
        self.0.as_ref().is_some_and(|channel| channel.is_task())
    }

    /// Whether the client can be asked for this, or can do it.
    pub fn supports(&self, capability: Capability) -> bool {
        self.0.as_ref().is_some_and(|channel| channel.capabilities().has(capability))
    }

    /// Asks the client. A key tells the questions of one method apart.
    ///
    /// In the modern era a method that asks ends here, and **runs again from its beginning** when the
    /// answers are there; so nothing before it may have effects. In the legacy era, and in a task, it
    /// waits. To ask several things at once, await them together (`tokio::join!`).
    pub async fn ask<Q: Question>(&self, key: &str, question: Q) -> Result<Q::Answer, Error> {
        let Some(channel) = &self.0 else { return Err(Error::tool("there is no client to ask")) };
        let answer = channel.ask(key, question).await?;
        crate::upstream::local::ask::read(&answer).map_err(Error::tool)
    }

    /// Lets the client go with a task to come back for, where it can, and says whether it did. The
    /// method runs on, for as long as it takes; what it asks from here on it waits for.
    pub async fn become_task(&self) -> Result<bool, Error> {
        match &self.0 {
            Some(channel) => channel.become_task(false).await,
            None => Ok(false),
        }
    }

    /// Like [`become_task`](Self::become_task), for a method that does not run for clients that cannot
    /// come back.
    pub async fn require_task(&self) -> Result<(), Error> {
        match &self.0 {
            Some(channel) => channel.become_task(true).await.map(drop),
            None => Err(Error::tool("this method runs as a task only, over MCP")),
        }
    }

    /// Lets the client go for a while: it comes back after this long, and hears what was said since.
    /// Only where what is said is kept for it.
    pub fn close_stream(&self, retry: Duration) {
        if let Some(channel) = &self.0 {
            channel.send(Outgoing::Retry(retry));
        }
    }
}
