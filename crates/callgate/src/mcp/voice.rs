//! What a client hears while its request runs, in the words of its revision.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Terms;
use super::classify::Asked;
use super::envelope::is_id;
use super::message::OutMessage;
use super::reject::Reject;
use super::watch::Event;
use crate::client::{Capabilities, Client, Line, Said};
use crate::log_level::LogLevel;
use crate::revision::Revision;

/// The line of a request, and what it takes to put what is said on it into messages.
#[derive(Debug)]
pub(crate) struct Voice {
    line: Arc<Line>,
    token: Option<Box<RawValue>>,
    revision: Revision,
    /// Whether the method tells by itself how far it is.
    tells_progress: bool,
    /// How far it was last.
    progress: f64,
}

impl Voice {
    /// For a request of a client that can do this.
    pub(super) fn new(
        asked: &Asked<'_>,
        terms: Terms,
        capabilities: Capabilities,
    ) -> Result<Self, Reject> {
        let token = asked.meta.get("progressToken");
        if token.is_some_and(|token| !is_id(token.get())) {
            return Err(Reject::invalid_params("`progressToken` must be a string or an integer"));
        }
        let line = Arc::new(Line::new(capabilities, token.is_some(), terms.log_level));
        let token = token.map(ToOwned::to_owned);
        Ok(Self { line, token, revision: terms.revision, tells_progress: false, progress: 0.0 })
    }

    pub(crate) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// The other end of the line.
    pub(crate) fn client(&self) -> Client {
        Client::new(Arc::clone(&self.line))
    }

    /// Whether the client wants to hear how far it is.
    pub(crate) fn has_progress(&self) -> bool {
        self.token.is_some()
    }

    /// Whether to tell how much time has passed, since the method says nothing by itself.
    pub(crate) fn tells_time(&self) -> bool {
        self.token.is_some() && !self.tells_progress
    }

    /// What was said already.
    pub(crate) fn heard_already(&mut self) -> Vec<OutMessage> {
        let mut messages = Vec::new();
        while let Some(said) = self.line.heard_already() {
            if let Some(Event::Message(message)) = self.event(said) {
                messages.push(message);
            }
        }
        messages
    }

    /// As it goes to the client.
    pub(crate) fn event(&mut self, said: Said) -> Option<Event> {
        Some(Event::Message(match said {
            Said::ComeBack { retry } => return Some(Event::ComeBack(retry)),
            Said::Progress { progress, total, message } => {
                self.tells_progress = true;
                self.progress(progress, total, message)?
            }
            Said::Log { level, logger, data } => log(level, &logger, &data),
            Said::Request { id, method, params } => OutMessage::request(&id, method, &params),
        }))
    }

    /// How much time has passed: all that is known of a method that runs elsewhere.
    pub(crate) fn elapsed(&mut self, elapsed: Duration) -> Option<OutMessage> {
        let seconds = elapsed.as_secs();
        let message = format!("still running after {seconds} s");
        #[expect(clippy::cast_precision_loss, reason = "nobody waits that long")]
        self.progress(seconds as f64, None, Some(message))
    }

    /// Nothing where it would go back, or is no number.
    fn progress(
        &mut self,
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    ) -> Option<OutMessage> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            progress_token: &'a RawValue,
            #[serde(serialize_with = "whole")]
            progress: f64,
            #[serde(skip_serializing_if = "Option::is_none", serialize_with = "whole_too")]
            total: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<String>,
        }
        if !progress.is_finite() || progress < self.progress {
            return None;
        }
        self.progress = progress;
        let total = total.filter(|total| total.is_finite());
        let message = message.filter(|_| self.revision > Revision::V2024_11_05);
        let params = Params { progress_token: self.token.as_deref()?, progress, total, message };
        Some(OutMessage::notification("notifications/progress", &params))
    }
}

/// Whole numbers without a fraction, as people write them.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn whole<S: serde::Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    #[expect(clippy::cast_possible_truncation, reason = "compared right after")]
    let integer = *number as i64;
    #[expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "exactly that is asked")]
    if integer as f64 == *number {
        return serializer.serialize_i64(integer);
    }
    serializer.serialize_f64(*number)
}

#[expect(clippy::ref_option, reason = "serde wants it so")]
fn whole_too<S: serde::Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => whole(number, serializer),
        None => serializer.serialize_none(),
    }
}

/// `notifications/message`
pub(super) fn log(level: LogLevel, logger: &str, data: &impl Serialize) -> OutMessage {
    #[derive(Serialize)]
    struct Params<'a, D> {
        level: &'static str,
        logger: &'a str,
        data: &'a D,
    }
    let params = Params { level: level.as_str(), logger, data };
    OutMessage::notification("notifications/message", &params)
}
