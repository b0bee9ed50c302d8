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
use super::converse::Asks;
use super::message::{OutMessage, ResultWriter};
use super::reject::Reject;
use super::running::Answer;
use super::session::{seconds, user_of};
use super::{Mcp, Terms};
use crate::access::Caller;
use crate::ask::Answers;
use crate::client::Posed;
use crate::jsonrpc::INTERNAL_ERROR;
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
        let arguments = self.arguments.map(|raw| match strict_json::value(raw.get()) {
            Ok(mut arguments) => {
                arguments.sort_all_objects();
                arguments
            }
            Err(_) => Value::String(raw.get().to_owned()),
        });
        digest(&(self.method, self.name, arguments))
    }
}

/// Answers by the key of their question.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Recorded(BTreeMap<String, Answered>);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Answered {
    /// What was asked, where that is known: the method may ask something else under the same key.
    question: Option<String>,
    answer: Box<RawValue>,
}

impl Recorded {
    /// The answer to a question, if it is to this one and fits it.
    pub(super) fn answer_to(&self, posed: &Posed) -> Option<&RawValue> {
        let Answered { question, answer } = self.0.get(&posed.key)?;
        let is_same = question.as_ref().is_none_or(|question| *question == digest_of(posed));
        (is_same && (posed.check)(answer).is_ok()).then_some(answer)
    }

    /// Notes that a question had this answer.
    pub(super) fn record(&mut self, posed: &Posed, answer: &RawValue) {
        let answered = Answered { question: Some(digest_of(posed)), answer: answer.to_owned() };
        self.0.insert(posed.key.clone(), answered);
    }
}

fn digest_of(posed: &Posed) -> String {
    digest(&(posed.method, &posed.params))
}

fn digest(of: &impl Serialize) -> String {
    let text = serde_json::to_vec(of).unwrap_or_default();
    URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}

#[derive(Serialize, Deserialize)]
struct State {
    user: Option<i64>,
    ends_at: u64,
    subject: String,
    answers: Recorded,
    /// What is asked now, by key.
    asked: BTreeMap<String, String>,
}

/// The answers of now, by key.
pub(super) fn responses(asked: &Asked<'_>) -> Result<Option<Answers>, Reject> {
    let Some(raw) = asked.params.get("inputResponses") else { return Ok(None) };
    let Ok(members) = strict_json::members(raw.get()) else {
        return Err(Reject::invalid_params("`inputResponses` must be an object"));
    };
    let answers = members.into_iter().map(|(key, raw)| (key.into_owned(), raw.to_owned()));
    Ok(Some(answers.collect()))
}

/// The answers that come with a request: those of now, and those of before.
pub(super) fn answers(
    mcp: &Mcp,
    caller: &Caller,
    asked: &Asked<'_>,
    subject: Subject<'_>,
) -> Result<Recorded, Reject> {
    let state = asked.params.text("requestState").map_err(Reject::invalid_params)?;
    let responses = responses(asked)?.unwrap_or_default();
    let (mut answers, mut questions) = match state {
        Some(state) => {
            let state = opened(mcp, caller, &state, subject).ok_or_else(|| {
                let problem =
                    "`requestState` is not one that this request was given, or is too old";
                Reject::invalid_params(problem)
            })?;
            (state.answers, state.asked)
        }
        None => (Recorded::default(), BTreeMap::new()),
    };
    for (key, answer) in responses {
        let answered = Answered { question: questions.remove(&key), answer };
        answers.0.insert(key, answered);
    }
    Ok(answers)
}

fn opened(mcp: &Mcp, caller: &Caller, state: &str, subject: Subject<'_>) -> Option<State> {
    let content = mcp.sessions.unseal(state)?;
    let state: State = serde_json::from_slice(content.strip_prefix(&[FORM])?).ok()?;
    let is_ours = state.user == user_of(caller)
        && state.ends_at > seconds(SystemTime::now())
        && state.subject == subject.digest();
    is_ours.then_some(state)
}

/// The answer that asks.
pub(super) fn answer(
    mcp: &Mcp,
    caller: &Caller,
    id: &RawValue,
    subject: Subject<'_>,
    asks: Asks,
) -> Answer {
    match result(mcp, caller, id, subject, asks) {
        Ok(message) => message.into(),
        Err(reject) => reject.of(id).into(),
    }
}

fn result(
    mcp: &Mcp,
    caller: &Caller,
    id: &RawValue,
    subject: Subject<'_>,
    asks: Asks,
) -> Result<OutMessage, Reject> {
    #[derive(Serialize)]
    struct Request<'a> {
        method: &'a str,
        params: &'a Value,
    }
    let Asks { unanswered, used } = asks;
    let state = State {
        user: user_of(caller),
        ends_at: seconds(SystemTime::now() + LIFETIME),
        subject: subject.digest(),
        answers: used,
        asked: unanswered.iter().map(|posed| (posed.key.clone(), digest_of(posed))).collect(),
    };
    let mut content = vec![FORM];
    super::message::write_json(&mut content, &state);
    if content.len() > MAX_STATE {
        return Err(Reject::invalid_params("the answers are too large together"));
    }
    let Some(state) = mcp.sessions.seal(&content) else {
        let problem = "this server cannot ask: it has no key to sign with";
        return Err(Reject::with_status(200, INTERNAL_ERROR, problem));
    };
    let mut result = ResultWriter::of_type(id, Terms::MODERN.revision, "input_required");
    let requests: BTreeMap<&str, Request<'_>> = unanswered
        .iter()
        .map(|posed| (posed.key.as_str(), Request { method: posed.method, params: &posed.params }))
        .collect();
    result.value("inputRequests", &requests);
    result.value("requestState", &state);
    Ok(result.finish(&mcp.gateway.settings()))
}
