//! Requests that come back with answers: what was asked is told in the result, what was answered
//! before is in a signed state that the client carries, so that any server can go on.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::classify::Asked;
use super::converse::Way;
use super::message::{OutMessage, ResultWriter};
use super::reject::Reject;
use super::running::Answer;
use super::session::{seconds, user_of};
use super::{Mcp, Terms};
use crate::access::Caller;
use crate::ask::Answers;
use crate::client::Posed;
use crate::strict_json;

/// What states of this form begin with; session ids begin otherwise.
const FORM: u8 = 2;
/// How long the client may take to answer.
const LIFETIME: Duration = Duration::from_hours(1);
/// The answers of one request may be so large together.
const MAX_STATE: usize = 256 * 1024;

/// What a request is about: the answers to one are not answers to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) method: &'a str,
    /// The tool, the prompt or the resource.
    pub(super) name: &'a str,
    pub(super) arguments: Option<&'a RawValue>,
}

impl Subject<'_> {
    /// The same for the same arguments, in whatever order they are written.
    fn digest(&self) -> String {
        let arguments = self.arguments.and_then(|raw| strict_json::value(raw.get()).ok());
        let mut arguments = arguments.unwrap_or_default();
        arguments.sort_all_objects();
        let text = serde_json::to_vec(&(self.method, self.name, arguments)).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(Sha256::digest(text))
    }
}

#[derive(Serialize, Deserialize)]
struct State {
    user: Option<i64>,
    ends_at: u64,
    subject: String,
    answers: Answers,
}

/// The answers that come with a request: those of now, and those of before.
pub(super) fn answers(
    mcp: &Mcp,
    caller: &Caller,
    asked: &Asked<'_>,
    subject: Subject<'_>,
) -> Result<Answers, Reject> {
    let state = asked.params.text("requestState").map_err(Reject::invalid_params)?;
    let mut answers = match state {
        Some(state) => before(mcp, caller, &state, subject).ok_or_else(|| {
            let problem = "`requestState` is not one that this request was given, or is too old";
            Reject::invalid_params(problem)
        })?,
        None => Answers::new(),
    };
    if let Some(now) = asked.params.get("inputResponses") {
        let now: BTreeMap<String, Box<RawValue>> = serde_json::from_str(now.get())
            .map_err(|_| Reject::invalid_params("`inputResponses` must be an object"))?;
        answers.extend(now);
    }
    Ok(answers)
}

fn before(mcp: &Mcp, caller: &Caller, state: &str, subject: Subject<'_>) -> Option<Answers> {
    let content = mcp.sessions.unseal(state)?;
    let state = content.strip_prefix(&[FORM])?;
    let state: State = serde_json::from_slice(state).ok()?;
    let is_ours = state.user == user_of(caller)
        && state.ends_at > seconds(SystemTime::now())
        && state.subject == subject.digest();
    is_ours.then_some(state.answers)
}

/// The answer that asks.
pub(super) fn answer(
    mcp: &Mcp,
    caller: &Caller,
    id: &RawValue,
    subject: Subject<'_>,
    way: &Way,
    posed: &[Posed],
) -> Answer {
    let answers = match way {
        Way::Again { answers, .. } => answers.clone(),
        _ => Answers::new(),
    };
    match result(mcp, caller, id, (subject, answers), posed) {
        Ok(message) => message.into(),
        Err(reject) => reject.of(id).into(),
    }
}

fn result(
    mcp: &Mcp,
    caller: &Caller,
    id: &RawValue,
    (subject, answers): (Subject<'_>, Answers),
    posed: &[Posed],
) -> Result<OutMessage, Reject> {
    #[derive(Serialize)]
    struct Request<'a> {
        method: &'a str,
        params: &'a Value,
    }
    let state = State {
        user: user_of(caller),
        ends_at: seconds(SystemTime::now() + LIFETIME),
        subject: subject.digest(),
        answers,
    };
    let mut content = vec![FORM];
    super::message::write_json(&mut content, &state);
    if content.len() > MAX_STATE {
        return Err(Reject::invalid_params("the answers are too large together"));
    }
    let mut result = ResultWriter::of_type(id, Terms::MODERN.revision, "input_required");
    let requests: BTreeMap<&str, Request<'_>> = posed
        .iter()
        .map(|posed| (posed.key.as_str(), Request { method: posed.method, params: &posed.params }))
        .collect();
    result.value("inputRequests", &requests);
    if let Some(state) = mcp.sessions.seal(&content) {
        result.value("requestState", &state);
    }
    Ok(result.finish(&mcp.gateway.settings()))
}
