//! The client of a call. A method can send notifications and questions to the client.
//!
//! Notifications and questions are queued in a channel. The MCP layer sends them in the format of the client's
//! revision.

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

/// The client of a call.
///
/// If the call did not arrive over MCP, notifications are ignored and questions fail. Functions get the client in a
/// [`Context`](crate::Context), and upstreams get the client in a [`Call`](crate::upstream::Call).
/// [`Upstream`](crate::upstream::Upstream) has an example.
#[derive(Debug, Clone, Default)]
pub struct Client(Option<Arc<CallChannel>>);

impl Client {
    pub(crate) fn new(channel: Option<Arc<CallChannel>>) -> Self {
        Self(channel)
    }

    /// Sends a progress notification, if the client requested progress. `progress` must increase.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(channel) = self.0.as_ref().filter(|channel| channel.wants_progress()) {
            let message = message.map(ToOwned::to_owned);
            channel.send(Outgoing::Progress { progress, total, message });
        }
    }

    /// Sends a log message, if the client's log level includes it.
    pub fn log(&self, level: LogLevel, logger: &str, data: impl Serialize) {
        let includes_level = |channel: &&Arc<CallChannel>| channel.wants_log(level);
        if let (Some(channel), Ok(data)) =
            (self.0.as_ref().filter(includes_level), to_raw_value(&data))
        {
            channel.send(Outgoing::Log { level, logger: logger.to_owned(), data });
        }
    }

    /// Returns how long the method has waited for answers, and whether it waits now.
    pub(crate) fn waited(&self) -> (Duration, bool) {
        self.0.as_ref().map_or((Duration::ZERO, false), |channel| channel.waited())
    }

    /// Returns `true` if the call runs as a task.
    pub(crate) fn is_task(&self) -> bool {
        self.0.as_ref().is_some_and(|channel| channel.is_task())
    }

    /// Returns `true` if the client supports the capability.
    pub fn supports(&self, capability: Capability) -> bool {
        self.0.as_ref().is_some_and(|channel| channel.capabilities().has(capability))
    }

    /// Asks the client a question. `key` identifies the question within the method.
    ///
    /// In the modern era, a call that is not a task ends at an unanswered question. The client repeats the call
    /// with the answer, and the method **runs again from its beginning**. It must therefore have no side effects
    /// before the question. In the legacy era and in tasks, the method waits for the answer. To ask several
    /// questions at once, await them together (`tokio::join!`).
    pub async fn ask<Q: Question>(&self, key: &str, question: Q) -> Result<Q::Answer, Error> {
        let Some(channel) = &self.0 else { return Err(Error::tool("there is no client to ask")) };
        let answer = channel.ask(key, question).await?;
        crate::upstream::local::ask::read(&answer).map_err(Error::tool)
    }

    /// Continues the call as a task if the client supports tasks. Returns `true` if the call is now a task.
    /// The time limit of calls does not apply to a task, and a task waits for answers.
    pub async fn become_task(&self) -> Result<bool, Error> {
        match &self.0 {
            Some(channel) => channel.become_task(false).await,
            None => Ok(false),
        }
    }

    /// Like [`become_task`](Self::become_task), but fails if the client does not support tasks.
    pub async fn require_task(&self) -> Result<(), Error> {
        match &self.0 {
            Some(channel) => channel.become_task(true).await.map(drop),
            None => Err(Error::tool(
                "this method runs only as a task, and tasks are available only over MCP",
            )),
        }
    }

    /// Closes the client's event stream. The client reconnects after `retry` and receives the events that it missed.
    /// Has an effect only if an [`EventStore`](crate::mcp::EventStore) stores the events.
    pub fn close_stream(&self, retry: Duration) {
        if let Some(channel) = &self.0 {
            channel.send(Outgoing::Retry(retry));
        }
    }
}
