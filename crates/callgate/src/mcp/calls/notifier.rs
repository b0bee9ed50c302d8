//! Notifications and requests that a running call sends to its client.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Number;
use serde_json::value::RawValue;

use super::negotiated::Negotiated;
use crate::mcp::parse::envelope::is_id;
use crate::mcp::{EncodedMessage, Event, McpError, McpRequest};
use crate::upstream::client::{CallChannel, Outgoing};
use crate::wire::{LogLevel, Revision};

/// Encodes the notifications of a method for the client's revision.
#[derive(Debug)]
pub(crate) struct Notifier {
    token: Option<Box<RawValue>>,
    revision: Revision,
    /// Whether the method itself has reported progress.
    has_method_progress: bool,
    /// The last progress value that was reported.
    progress: f64,
}

impl Notifier {
    pub(crate) fn new(request: &McpRequest<'_>, revision: Revision) -> Result<Self, McpError> {
        let token = request.meta.get("progressToken");
        if token.is_some_and(|token| !is_id(token.get())) {
            return Err(McpError::invalid_params("`progressToken` must be a string or an integer"));
        }
        let token = token.map(ToOwned::to_owned);
        Ok(Self { token, revision, has_method_progress: false, progress: 0.0 })
    }

    /// Opens the channel of a method that may send notifications or questions to its client.
    pub(crate) fn open(&self, negotiated: &Negotiated) -> Arc<CallChannel> {
        let Negotiated { capabilities, log_level, .. } = *negotiated;
        Arc::new(CallChannel::new(capabilities, self.has_progress(), log_level))
    }

    /// Returns `true` if the client requested progress notifications.
    pub(crate) fn has_progress(&self) -> bool {
        self.token.is_some()
    }

    /// Returns `true` if the client requested progress and the method itself has not reported any.
    pub(crate) fn reports_elapsed_time(&self) -> bool {
        self.token.is_some() && !self.has_method_progress
    }

    /// Returns the messages that were not sent yet.
    pub(crate) fn take_messages(&mut self, channel: &CallChannel) -> Vec<EncodedMessage> {
        let outgoing = channel.take_outgoing().into_iter();
        let events = outgoing.filter_map(|outgoing| self.event(outgoing));
        events.flat_map(Event::into_messages).collect()
    }

    pub(crate) fn event(&mut self, outgoing: Outgoing) -> Option<Event> {
        Some(Event::Message(match outgoing {
            Outgoing::Retry(retry) => return Some(Event::Retry(Some(retry))),
            Outgoing::Progress { progress, total, message } => {
                self.has_method_progress = true;
                self.progress(progress, total, message)?
            }
            Outgoing::Log { level, logger, data } => log(level, &logger, &data),
            Outgoing::Request { id, method, params } => {
                EncodedMessage::request(&id, method, &params)
            }
        }))
    }

    /// Reports the elapsed time as progress.
    pub(crate) fn elapsed(&mut self, elapsed: Duration) -> Option<EncodedMessage> {
        let seconds = elapsed.as_secs();
        let message = format!("still running after {seconds} s");
        #[expect(clippy::cast_precision_loss, reason = "no call runs for 2^53 seconds")]
        self.progress(seconds as f64, None, Some(message))
    }

    /// Writes a progress notification. Returns `None` if the progress decreases or is not finite.
    fn progress(
        &mut self,
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    ) -> Option<EncodedMessage> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ProgressParams<'a> {
            progress_token: &'a RawValue,
            progress: Number,
            #[serde(skip_serializing_if = "Option::is_none")]
            total: Option<Number>,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<String>,
        }
        if progress < self.progress {
            return None;
        }
        let params = ProgressParams {
            progress_token: self.token.as_deref()?,
            progress: number(progress)?,
            total: total.and_then(number),
            message: message.filter(|_| self.revision > Revision::V2024_11_05),
        };
        self.progress = progress;
        Some(EncodedMessage::notification("notifications/progress", &params))
    }
}

/// Converts a number to JSON, whole numbers without a fraction. Returns `None` if the number is not finite.
fn number(number: f64) -> Option<Number> {
    #[expect(clippy::cast_possible_truncation, reason = "compared right after")]
    let integer = number as i64;
    #[expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "tests for a whole number")]
    if integer as f64 == number { Some(integer.into()) } else { Number::from_f64(number) }
}

/// Writes a `notifications/message`.
pub(crate) fn log(level: LogLevel, logger: &str, data: &impl Serialize) -> EncodedMessage {
    #[derive(Serialize)]
    struct LogParams<'a, D> {
        level: &'static str,
        logger: &'a str,
        data: &'a D,
    }
    let params = LogParams { level: level.as_str(), logger, data };
    EncodedMessage::notification("notifications/message", &params)
}
