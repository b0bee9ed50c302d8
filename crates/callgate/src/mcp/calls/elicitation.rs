//! Questions of a method to its client. In the modern era the reply carries them, and the method runs
//! again with the answers, which a signed state has, so that any server can go on. In the legacy era the
//! method waits for the answers.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::context::{CallContext, RequestContext};
use super::in_flight::{Key, Registered, Registry, Scope};
use super::running_call::Answer;
use crate::access::Caller;
use crate::mcp::Mcp;
use crate::mcp::parse::classify::{McpRequest, Outcome};
use crate::mcp::reply::error::Reject;
use crate::mcp::reply::message::{OutMessage, ResultWriter, write_json};
use crate::mcp::sessions::session::{random_id, seconds, user_of};
use crate::upstream::client::{
    CallChannel, Capability, ClientRequest, Outgoing, PendingQuestion, TaskRequest,
};
use crate::upstream::local::ask::Answers;
use crate::wire::jsonrpc::{INTERNAL_ERROR, RpcError};
use crate::wire::revision::Revision;
use crate::wire::strict_json;

/// First byte of a sealed state; session ids begin otherwise.
const FORM: u8 = 2;
/// How long the client may take to answer.
const LIFETIME: Duration = Duration::from_hours(1);
/// Maximum size of the answers of one request together, in bytes.
const MAX_STATE: usize = 256 * 1024;
/// Maximum number of open questions of one call.
const MAX_OPEN: usize = 32;
const GONE: &str = "the client has gone";

/// Questions that wait for the clients of sessions and connections.
pub(crate) type Questions = Registry<PendingQuestion>;

/// What a request is about: the answers to one are not answers to another.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) method: &'static str,
    /// Name of the tool or prompt, or the address of the resource.
    pub(crate) name: String,
    pub(crate) arguments: Option<Box<RawValue>>,
}

impl Subject {
    /// A request that asks nothing.
    pub(crate) fn of(method: &'static str) -> Self {
        Self { method, name: String::new(), arguments: None }
    }

    /// The same for the same arguments, in whatever order they are written.
    fn digest(&self) -> String {
        let arguments = self.arguments.as_deref().map(|raw| match strict_json::value(raw.get()) {
            Ok(mut arguments) => {
                arguments.sort_all_objects();
                arguments
            }
            Err(_) => Value::String(raw.get().to_owned()),
        });
        digest(&(self.method, &self.name, arguments))
    }
}

/// How questions are answered.
#[derive(Debug)]
pub(crate) enum AnswerMode {
    /// The method runs again with the answers.
    Rerun {
        answers: Recorded,
        /// Whether the method may become a task instead.
        tasks: bool,
    },
    /// The client answers while the method waits.
    Live(Scope),
    /// The client cannot be asked, for this reason.
    Never(&'static str),
}

impl AnswerMode {
    pub(crate) fn of(
        request: &RequestContext<'_>,
        subject: &Subject,
        tasks: bool,
    ) -> Result<Self, Reject> {
        if request.terms.revision.is_modern() {
            return Ok(Self::Rerun { answers: answers(request, subject)?, tasks });
        }
        Ok(match request.terms.scope {
            Some(scope) if request.terms.accepts_events => Self::Live(scope),
            Some(_) => Self::Never("the client cannot be asked: it accepts no stream"),
            None => Self::Never("the client cannot be asked: it has no session"),
        })
    }
}

/// How far a method came.
pub(crate) enum CallStep {
    Answered(Answer),
    /// It becomes a task, with the questions that it asked before.
    Task(TaskRequest, AskedQuestions),
}

/// The questions of one run: those without an answer, and the answers of the others.
#[derive(Debug, Default)]
pub(crate) struct AskedQuestions {
    unanswered: Vec<PendingQuestion>,
    answers: Recorded,
}

/// Runs a method and answers its requests. One that becomes a task can be run on.
pub(crate) async fn run(
    call: &CallContext,
    channel: &CallChannel,
    mut asked: AskedQuestions,
    work: &mut (impl Future<Output = Answer> + Unpin),
) -> CallStep {
    let mut live = LiveQuestions::default();
    loop {
        let request = tokio::select! {
            biased;
            answer = &mut *work => return CallStep::Answered(answer),
            request = next_request(channel, &asked) => request,
        };
        let question = match request {
            Some(ClientRequest::Question(question)) => question,
            Some(ClientRequest::Disconnected) => {
                live.disconnect();
                continue;
            }
            Some(ClientRequest::Task(request)) if asked.unanswered.is_empty() => {
                match offer_task(call, channel, request) {
                    TaskOffer::Accepted(request) => return CallStep::Task(request, asked),
                    TaskOffer::Failed => return lacks(call, Capability::Tasks),
                    TaskOffer::Declined => continue,
                }
            }
            // Nothing more comes before an answer does.
            Some(ClientRequest::Task(_)) | None => {
                let reply = input_required(call, asked);
                return CallStep::Answered(
                    reply.map_or_else(|it| it.of(&call.id).into(), Into::into),
                );
            }
        };
        let needs = question.needs;
        let is_offered = channel.capabilities().has(needs);
        match &call.mode {
            AnswerMode::Never(why) => question.answer(Err((*why).to_owned())),
            AnswerMode::Rerun { .. } if !is_offered => return lacks(call, needs),
            AnswerMode::Rerun { answers, .. } => asked.add(question, answers),
            AnswerMode::Live(_) if !is_offered => {
                question.answer(Err(format!("the client does not offer {needs}")));
            }
            AnswerMode::Live(scope) => live.send(&call.mcp.questions, *scope, question, channel),
        }
    }
}

/// Runs a method that is not offered to become a task.
pub(crate) async fn run_without_tasks(
    call: &CallContext,
    channel: &CallChannel,
    work: impl Future<Output = Answer>,
) -> Answer {
    match run(call, channel, AskedQuestions::default(), &mut pin!(work)).await {
        CallStep::Answered(answer) => answer,
        CallStep::Task(..) => {
            Reject::with_status(200, INTERNAL_ERROR, "Failed").of(&call.id).into()
        }
    }
}

/// Waits for a request, unless a question has no answer yet.
async fn next_request(channel: &CallChannel, asked: &AskedQuestions) -> Option<ClientRequest> {
    if asked.unanswered.is_empty() {
        return Some(channel.next_request().await);
    }
    channel.try_next_request()
}

fn lacks(call: &CallContext, capability: Capability) -> CallStep {
    CallStep::Answered(Reject::lacks(capability).of(&call.id).into())
}

enum TaskOffer {
    Accepted(TaskRequest),
    /// The method needs a task, and the client has none.
    Failed,
    /// The method goes on, or fails by itself.
    Declined,
}

fn offer_task(call: &CallContext, channel: &CallChannel, request: TaskRequest) -> TaskOffer {
    let can = channel.capabilities().has(Capability::Tasks);
    match &call.mode {
        AnswerMode::Rerun { tasks: true, .. } if can => return TaskOffer::Accepted(request),
        AnswerMode::Rerun { tasks: true, .. } if request.is_required => return TaskOffer::Failed,
        _ if request.is_required => {
            request.answer(Err("this runs as a task only, and here it cannot".to_owned()));
        }
        _ => request.answer(Ok(false)),
    }
    TaskOffer::Declined
}

impl AskedQuestions {
    /// Answers a question if an answer to the same question was given and fits.
    fn add(&mut self, question: PendingQuestion, given: &Recorded) {
        match given.answer_to(&question) {
            Some(answer) => {
                let answered =
                    Answered { question: Some(digest_of(&question)), answer: answer.to_owned() };
                self.answers.0.insert(question.key.clone(), answered);
                question.answer(Ok(answer.to_owned()));
            }
            None => self.unanswered.push(question),
        }
    }
}

/// Questions of one call that were sent to its client.
#[derive(Debug, Default)]
struct LiveQuestions {
    open: Vec<Registered<PendingQuestion>>,
    is_disconnected: bool,
}

impl LiveQuestions {
    /// Sends a question under an id that cannot be guessed.
    fn send(
        &mut self,
        questions: &Arc<Questions>,
        scope: Scope,
        question: PendingQuestion,
        channel: &CallChannel,
    ) {
        self.open.retain(|open| open.is_some_and(PendingQuestion::is_awaited));
        let problem = match random_id() {
            _ if self.is_disconnected => GONE,
            _ if self.open.len() >= MAX_OPEN => "too many questions are open",
            None => "the question has no id: there is no randomness",
            Some(id) => {
                let (method, params) = (question.method, question.params.clone());
                self.open.push(questions.insert(scope, Key::Question(id.clone()), question));
                return channel.send(Outgoing::Request { id, method, params });
            }
        };
        question.answer(Err(problem.to_owned()));
    }

    fn disconnect(&mut self) {
        self.is_disconnected = true;
        for question in self.open.drain(..).filter_map(|open| open.take()) {
            question.answer(Err(GONE.to_owned()));
        }
    }
}

impl Questions {
    /// Delivers a client's answer. Returns `true` if a call on this server was waiting for it.
    pub(crate) fn answer(&self, scope: Scope, id: &RawValue, outcome: Outcome<'_>) -> bool {
        let question =
            strict_json::text(id).and_then(|id| self.remove(scope, Key::Question(id.into_owned())));
        let Some(question) = question else { return false };
        question.answer(outcome.map(ToOwned::to_owned).map_err(|error| {
            let error = serde_json::from_str::<RpcError>(error.get());
            let words = error.map_or("it gave no reason".to_owned(), |error| error.to_string());
            format!("the client did not answer: {words}")
        }));
        true
    }
}

/// Answers by the key of their question.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Recorded(BTreeMap<String, Answered>);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Answered {
    /// Digest of the question, if known: the method may ask something else under the same key.
    question: Option<String>,
    answer: Box<RawValue>,
}

impl Recorded {
    /// Returns the answer if it was given to the same question and fits it.
    fn answer_to(&self, question: &PendingQuestion) -> Option<&RawValue> {
        let Answered { question: answered, answer } = self.0.get(&question.key)?;
        let is_same = answered.as_ref().is_none_or(|answered| *answered == digest_of(question));
        (is_same && (question.check)(answer).is_ok()).then_some(answer)
    }
}

fn digest_of(question: &PendingQuestion) -> String {
    digest(&(question.method, &question.params))
}

fn digest(of: &impl Serialize) -> String {
    let text = serde_json::to_vec(of).unwrap_or_default();
    URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}

/// What the client carries from one run to the next.
#[derive(Serialize, Deserialize)]
struct State {
    user: Option<i64>,
    ends_at: u64,
    subject: String,
    answers: Recorded,
    /// Digests of the questions without an answer, by key.
    asked: BTreeMap<String, String>,
}

impl State {
    fn open(mcp: &Mcp, caller: &Caller, state: &str, subject: &Subject) -> Option<Self> {
        let content = mcp.sessions.unseal(state)?;
        let state: Self = serde_json::from_slice(content.strip_prefix(&[FORM])?).ok()?;
        let is_valid = state.user == user_of(caller)
            && state.ends_at > seconds(SystemTime::now())
            && state.subject == subject.digest();
        is_valid.then_some(state)
    }
}

/// Reads `inputResponses`.
pub(crate) fn responses(request: &McpRequest<'_>) -> Result<Option<Answers>, Reject> {
    let Some(raw) = request.params.get("inputResponses") else { return Ok(None) };
    let Ok(members) = strict_json::members(raw.get()) else {
        return Err(Reject::invalid_params("`inputResponses` must be an object"));
    };
    let answers = members.into_iter().map(|(key, raw)| (key.into_owned(), raw.to_owned()));
    Ok(Some(answers.collect()))
}

/// Returns the answers that come with a request, and those of the state that it carries.
fn answers(context: &RequestContext<'_>, subject: &Subject) -> Result<Recorded, Reject> {
    let request = context.request;
    let state = request.params.text("requestState")?;
    let responses = responses(request)?.unwrap_or_default();
    let (mut answers, mut questions) = match state {
        Some(state) => {
            let state = State::open(context.mcp, context.inbound.caller, &state, subject);
            let state = state.ok_or_else(|| {
                let problem =
                    "`requestState` is not one that this request was given, or is too old";
                Reject::invalid_params(problem)
            })?;
            (state.answers, state.asked)
        }
        None => (Recorded::default(), BTreeMap::new()),
    };
    for (key, answer) in responses {
        answers.0.insert(key.clone(), Answered { question: questions.remove(&key), answer });
    }
    Ok(answers)
}

/// Writes the result that asks the client.
fn input_required(call: &CallContext, asked: AskedQuestions) -> Result<OutMessage, Reject> {
    let AskedQuestions { unanswered, answers } = asked;
    let state = State {
        user: user_of(&call.caller),
        ends_at: seconds(SystemTime::now() + LIFETIME),
        subject: call.subject.digest(),
        answers,
        asked: unanswered.iter().map(|it| (it.key.clone(), digest_of(it))).collect(),
    };
    let mut content = vec![FORM];
    write_json(&mut content, &state);
    if content.len() > MAX_STATE {
        return Err(Reject::invalid_params("the answers are too large together"));
    }
    let Some(state) = call.mcp.sessions.seal(&content) else {
        let problem = "this server cannot ask: it has no key to sign with";
        return Err(Reject::with_status(200, INTERNAL_ERROR, problem));
    };
    let mut result = ResultWriter::of_type(&call.id, Revision::NEWEST, "input_required");
    result.value("inputRequests", &client_requests(unanswered.iter().map(|it| (&it.key, it))));
    result.value("requestState", &state);
    Ok(result.finish(&call.mcp.gateway.settings()))
}

/// The requests for questions as clients see them, by key.
pub(crate) fn client_requests<'a>(
    questions: impl Iterator<Item = (&'a String, &'a PendingQuestion)>,
) -> BTreeMap<String, Value> {
    let request = |it: &PendingQuestion| json!({"method": it.method, "params": it.params});
    questions.map(|(key, question)| (key.clone(), request(question))).collect()
}
