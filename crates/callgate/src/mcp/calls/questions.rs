//! Questions of a method to its client.
//!
//! In the modern era, the result contains the questions (`inputRequests`), and the method runs again with the answers.
//! A signed `requestState` contains the earlier answers, so that any server can continue the call. In the legacy era,
//! the method waits for the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::context::{CallContext, RequestContext};
use super::in_flight::{InFlight, InFlightGuard, InFlightKey, Scope};
use super::running_call::CallReply;
use crate::access::Caller;
use crate::mcp::features::tasks::{self, StartedTask};
use crate::mcp::parse::classify::RpcResult;
use crate::mcp::parse::method::McpMethod;
use crate::mcp::random_id::random_id;
use crate::mcp::sessions::seconds;
use crate::mcp::{EncodedMessage, Mcp, McpError, McpRequest, ResultWriter, write_json};
use crate::upstream::client::{CallChannel, ClientRequest, Outgoing, PendingQuestion, TaskRequest};
use crate::upstream::local::ask::Answers;
use crate::upstream::{BoxFuture, Capability};
use crate::wire::jsonrpc::{INTERNAL_ERROR, RpcError};
use crate::wire::strict_json;

/// First byte of the signed content of a `requestState`. The content of session ids begins with a different byte.
const CONTENT_KIND: u8 = 2;
/// Time for which a `requestState` is valid. The client must answer in this time.
const LIFETIME: Duration = Duration::from_hours(1);
/// Maximum size of the content of a `requestState` (earlier answers and digests of open questions), in bytes.
const MAX_STATE: usize = 256 * 1024;
/// Maximum number of open questions of one call.
const MAX_OPEN: usize = 32;
const DISCONNECTED: &str = "the client disconnected";

/// Open questions to the clients of sessions and connections.
pub(crate) type Questions = InFlight<PendingQuestion>;

/// The method, name and arguments of a request. Answers are valid only for a request with the same method, name and
/// arguments.
#[derive(Debug)]
pub(crate) struct CallTarget {
    pub(crate) method: &'static str,
    /// Name of the tool or prompt, or URI of the resource.
    pub(crate) name: String,
    pub(crate) arguments: Option<Box<RawValue>>,
}

impl CallTarget {
    /// Creates a target that consists only of a method.
    pub(crate) fn of(method: &'static str) -> Self {
        Self { method, name: String::new(), arguments: None }
    }

    /// Returns a digest that does not depend on the order of the arguments.
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

/// How a method gets answers to its questions.
#[derive(Debug)]
pub(crate) enum AnswerMode {
    /// The client sends the request again with its answers, and the method runs again.
    Rerun(RecordedAnswers),
    /// The client answers while the method waits.
    Live(Scope),
    /// The client cannot be asked. The text is the reason.
    Never(&'static str),
}

impl AnswerMode {
    pub(crate) fn of(request: &RequestContext<'_>, target: &CallTarget) -> Result<Self, McpError> {
        use McpMethod::{PromptsGet, ResourcesRead, ToolsCall};
        if !matches!(request.request.method, ToolsCall | PromptsGet | ResourcesRead) {
            return Ok(Self::Never("this method does not ask clients"));
        }
        if request.negotiated.revision.is_modern() {
            return Ok(Self::Rerun(answers(request, target)?));
        }
        Ok(match request.negotiated.scope {
            Some(scope) if request.inbound.accepts_events => Self::Live(scope),
            Some(_) => Self::Never(
                "the client cannot be asked: its request does not accept an event stream",
            ),
            None => Self::Never("the client cannot be asked: it has no session"),
        })
    }
}

/// The questions of one run: open ones, and answered ones with their answers.
#[derive(Debug, Default)]
struct AskedQuestions {
    unanswered: Vec<PendingQuestion>,
    answers: RecordedAnswers,
}

/// Runs a call and handles its requests to the client. The call may continue as a task.
pub(crate) async fn run_with_questions(
    call: &CallContext,
    mut work: BoxFuture<'static, Result<CallReply, McpError>>,
) -> Result<CallReply, McpError> {
    let Some(channel) = call.channel.clone() else { return work.await };
    let (mut live, mut questions) = (LiveQuestions::default(), AskedQuestions::default());
    loop {
        let request = tokio::select! {
            biased;
            reply = &mut work => return reply,
            request = next_request(&channel, &questions) => request,
        };
        let question = match request {
            Some(ClientRequest::Question(question)) => question,
            Some(ClientRequest::Disconnected) => {
                live.disconnect();
                continue;
            }
            Some(ClientRequest::Task(request)) if questions.unanswered.is_empty() => {
                match start_task(call, &channel, request).await? {
                    Some((task, request)) => return Ok(task.run(channel, work, request)),
                    None => continue,
                }
            }
            // The method makes no progress until its questions are answered.
            Some(ClientRequest::Task(_)) | None => {
                return Ok(input_required(call, questions)?.into());
            }
        };
        let needs = question.needs;
        let is_offered = channel.capabilities().has(needs);
        match &call.mode {
            AnswerMode::Never(reason) => question.answer(Err((*reason).to_owned())),
            AnswerMode::Rerun(_) if !is_offered => {
                return Err(McpError::missing_capability(needs));
            }
            AnswerMode::Rerun(answers) => questions.add(question, answers),
            AnswerMode::Live(_) if !is_offered => {
                question.answer(Err(format!("the client does not offer {needs}")));
            }
            AnswerMode::Live(scope) => live.send(&call.mcp.questions, *scope, question, &channel),
        }
    }
}

/// Waits for the next request of the method. If a question is unanswered, returns only requests that are already
/// queued.
async fn next_request(channel: &CallChannel, questions: &AskedQuestions) -> Option<ClientRequest> {
    if questions.unanswered.is_empty() {
        return Some(channel.next_request().await);
    }
    channel.try_next_request()
}

/// Starts a task, or tells the method that the call is not a task. Fails if the method requires a task and none can be
/// started.
async fn start_task(
    call: &CallContext,
    channel: &CallChannel,
    request: TaskRequest,
) -> Result<Option<(StartedTask, TaskRequest)>, McpError> {
    let is_offered = call.can_become_task();
    if is_offered && channel.capabilities().has(Capability::Tasks) {
        match tasks::start(call).await {
            Ok(task) => return Ok(Some((task, request))),
            Err(error) if request.is_required => return Err(error),
            Err(_) => request.answer(Ok(false)),
        }
    } else if !request.is_required {
        request.answer(Ok(false));
    } else if is_offered {
        return Err(McpError::missing_capability(Capability::Tasks));
    } else {
        request.answer(Err(
            "this method runs only as a task, and tasks are not available for this request"
                .to_owned(),
        ));
    }
    Ok(None)
}

impl AskedQuestions {
    /// Answers the question if `recorded` contains a valid answer to the same question. Otherwise adds the question to
    /// the unanswered ones.
    fn add(&mut self, question: PendingQuestion, recorded: &RecordedAnswers) {
        match recorded.get(&question.key).filter(|recorded| recorded.is_valid_for(&question)) {
            Some(RecordedAnswer { answer, .. }) => {
                let answered =
                    RecordedAnswer { question: Some(digest_of(&question)), answer: answer.clone() };
                self.answers.insert(question.key.clone(), answered);
                question.answer(Ok(answer.clone()));
            }
            None => self.unanswered.push(question),
        }
    }
}

#[derive(Debug, Default)]
struct LiveQuestions {
    open: Vec<InFlightGuard<PendingQuestion>>,
    is_disconnected: bool,
}

impl LiveQuestions {
    /// Sends a question with an unguessable id.
    fn send(
        &mut self,
        questions: &Arc<Questions>,
        scope: Scope,
        question: PendingQuestion,
        channel: &CallChannel,
    ) {
        self.open.retain(|open| open.is_some_and(PendingQuestion::is_awaited));
        let problem = match random_id() {
            _ if self.is_disconnected => DISCONNECTED,
            _ if self.open.len() >= MAX_OPEN => "too many questions are open",
            None => "no random number is available for the id of the question",
            Some(id) => {
                let (method, params) = (question.method, question.params.clone());
                self.open.push(questions.insert(
                    scope,
                    InFlightKey::Question(id.clone()),
                    question,
                ));
                return channel.send(Outgoing::Request { id, method, params });
            }
        };
        question.answer(Err(problem.to_owned()));
    }

    fn disconnect(&mut self) {
        self.is_disconnected = true;
        for question in self.open.drain(..).filter_map(|open| open.take()) {
            question.answer(Err(DISCONNECTED.to_owned()));
        }
    }
}

impl Questions {
    /// Delivers a client's answer. Returns `true` if a call on this server was waiting for it.
    pub(crate) fn answer(&self, scope: Scope, id: &RawValue, outcome: RpcResult<'_>) -> bool {
        let question = strict_json::text(id)
            .and_then(|id| self.remove(scope, InFlightKey::Question(id.into_owned())));
        let Some(question) = question else { return false };
        question.answer(outcome.map(ToOwned::to_owned).map_err(|error| {
            let error = strict_json::deserialize_short::<RpcError>(error);
            let reason = error.map_or("no reason given".to_owned(), |error| error.to_string());
            format!("the client did not answer: {reason}")
        }));
        true
    }
}

/// Answers by the key of their question.
pub(crate) type RecordedAnswers = BTreeMap<String, RecordedAnswer>;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecordedAnswer {
    /// Digest of the question, if known. It is compared, because a later run of the method may ask a different
    /// question with the same key.
    question: Option<String>,
    answer: Box<RawValue>,
}

impl RecordedAnswer {
    /// Returns `true` if the answer was given to the same question and is valid.
    fn is_valid_for(&self, question: &PendingQuestion) -> bool {
        self.question.as_ref().is_none_or(|previous| *previous == digest_of(question))
            && (question.check)(&self.answer).is_ok()
    }
}

fn digest_of(question: &PendingQuestion) -> String {
    digest(&(question.method, &question.params))
}

fn digest(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).unwrap_or_default();
    URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}

/// Content of `requestState`, which the client returns with its answers.
#[derive(Serialize, Deserialize)]
struct RequestState {
    user: Option<i64>,
    ends_at: u64,
    target: String,
    answers: RecordedAnswers,
    /// Digests of the unanswered questions, by key.
    asked: BTreeMap<String, String>,
}

impl RequestState {
    fn open(mcp: &Mcp, caller: &Caller, state: &str, target: &CallTarget) -> Option<Self> {
        let content = mcp.sessions.unseal(state)?;
        let state: Self = serde_json::from_slice(content.strip_prefix(&[CONTENT_KIND])?).ok()?;
        let is_valid = state.user == caller.user_id()
            && state.ends_at > seconds(SystemTime::now())
            && state.target == target.digest();
        is_valid.then_some(state)
    }
}

pub(crate) fn responses(request: &McpRequest<'_>) -> Result<Option<Answers>, McpError> {
    let Some(raw) = request.params.get("inputResponses") else { return Ok(None) };
    let Ok(members) = strict_json::few_members(raw.get()) else {
        return Err(McpError::invalid_params("`inputResponses` must be an object"));
    };
    let answers = members.into_iter().map(|(key, raw)| (key.into_owned(), raw.to_owned()));
    Ok(Some(answers.collect()))
}

/// Returns the answers in a request and in its `requestState`.
fn answers(context: &RequestContext<'_>, target: &CallTarget) -> Result<RecordedAnswers, McpError> {
    let request = context.request;
    let state = request.params.text("requestState")?;
    let responses = responses(request)?.unwrap_or_default();
    let (mut answers, mut questions) = match state {
        Some(state) => {
            let state = RequestState::open(context.mcp, context.inbound.caller, &state, target);
            let state = state.ok_or_else(|| {
                let problem = "`requestState` was not issued for this request, or has expired";
                McpError::invalid_params(problem)
            })?;
            (state.answers, state.asked)
        }
        None => (RecordedAnswers::default(), BTreeMap::new()),
    };
    for (key, answer) in responses {
        answers.insert(key.clone(), RecordedAnswer { question: questions.remove(&key), answer });
    }
    Ok(answers)
}

/// Writes a result of type `input_required`.
fn input_required(
    call: &CallContext,
    questions: AskedQuestions,
) -> Result<EncodedMessage, McpError> {
    let AskedQuestions { unanswered, answers } = questions;
    let state = RequestState {
        user: call.caller.user_id(),
        ends_at: seconds(SystemTime::now() + LIFETIME),
        target: call.target.digest(),
        answers,
        asked: unanswered.iter().map(|it| (it.key.clone(), digest_of(it))).collect(),
    };
    let mut content = vec![CONTENT_KIND];
    write_json(&mut content, &state);
    if content.len() > MAX_STATE {
        return Err(McpError::invalid_params(format!(
            "the answers and the open questions exceed {MAX_STATE} bytes"
        )));
    }
    let Some(state) = call.mcp.sessions.seal(&content) else {
        let problem = "the server cannot ask the client: it has no key to sign the request state";
        return Err(McpError::new(200, INTERNAL_ERROR, problem));
    };
    let mut result = ResultWriter::of_type(&call.id, "input_required");
    result.value("inputRequests", &client_requests(unanswered.iter().map(|it| (&it.key, it))));
    result.value("requestState", &state);
    Ok(result.finish(&call.mcp.gateway.settings()))
}

/// Returns questions as `inputRequests`, by key.
pub(crate) fn client_requests<'a>(
    questions: impl Iterator<Item = (&'a String, &'a PendingQuestion)>,
) -> BTreeMap<String, Value> {
    let request = |it: &PendingQuestion| json!({"method": it.method, "params": it.params});
    questions.map(|(key, question)| (key.clone(), request(question))).collect()
}
