//! `tools/list` and `tools/call`, in the shape of each revision.

use std::pin::pin;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::compact::compact;
use super::converse::{Asks, Conversed, Way, converse};
use super::headers::Headers;
use super::input_required::{self, Subject};
use super::message::{OutMessage, ResultWriter, write_json};
use super::reject::Reject;
use super::running::Answer;
use super::voice::{self, Voice};
use super::{Mcp, Requested, Terms, param_headers, tasks};
use crate::access::Caller;
use crate::client::{Client, Line};
use crate::content::ToolContent;
use crate::cursor::AfterCursor;
use crate::gateway::{CallError, CallFailure, Outcome, Tool, ToolRef};
use crate::jsonrpc::{INVALID_REQUEST, RpcError};
use crate::listing::PageLimit;
use crate::local::TOOL_ERROR;
use crate::log_level::LogLevel;
use crate::tool::{Output, Shape};
use crate::upstream::{BoxFuture, Returned};

/// A page holds no more than this, since many clients read only the first and then choke on it.
const MAX_PAGE_BYTES: usize = 1024 * 1024;
/// Of an upstream's error data, this much is shown.
const MAX_ERROR_DATA: usize = 2 * 1024;

/// `tools/list`
pub(super) fn list(request: &Requested<'_>) -> Result<OutMessage, Reject> {
    let Requested { mcp, caller, asked, terms, .. } = *request;
    let settings = mcp.gateway.settings();
    let cursor = asked.params.text("cursor").map_err(Reject::invalid_params)?.unwrap_or_default();
    let after = AfterCursor::decode(&cursor)
        .map_err(|error| Reject::invalid_params(format!("`cursor`: {error}")))?;
    let after = after.as_ref().map(|AfterCursor(id)| id.as_str());
    let limit = PageLimit { tools: settings.page_size as usize, bytes: MAX_PAGE_BYTES };
    let (tools, last) = mcp.gateway.list_after(caller, terms.revision.shape(), after, limit);
    let mut result = ResultWriter::new(asked.id, terms.revision, 0);
    result.member("tools").push(b'[');
    result.slices(tools);
    result.bytes(b"]");
    if let Some(last) = last {
        result.value("nextCursor", &AfterCursor::encode(last.as_str()));
    }
    result.cache(settings.list_ttl_ms, "private");
    Ok(result.finish(&settings))
}

/// A call that may be made: found, allowed, and not yet run.
#[derive(Debug)]
pub(crate) struct ToolCall {
    pub(super) mcp: Arc<Mcp>,
    pub(super) caller: Caller,
    tool: Tool,
    pub(super) id: Box<RawValue>,
    arguments: Option<Box<RawValue>>,
    terms: Terms,
    pub(super) line: Arc<Line>,
    way: Way,
}

/// What a call comes to, under way.
pub(super) type Running = BoxFuture<'static, Result<Outcome, CallError>>;

/// `tools/call`: finds the tool and takes the arguments along.
pub(super) fn call(
    request: &Requested<'_>,
    voice: &Voice,
    headers: Option<&dyn Headers>,
) -> Result<ToolCall, Reject> {
    let Requested { mcp, caller, asked, terms, .. } = *request;
    let name = asked.params.required_text("name").map_err(Reject::invalid_params)?;
    let arguments = asked.params.get("arguments").filter(|arguments| arguments.get() != "null");
    if arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) {
        return Err(Reject::invalid_params("`arguments` must be an object"));
    }
    let tool = mcp.gateway.find(caller, ToolRef::Name(&name), terms.read_only);
    let tool = tool.map_err(|error| match error {
        CallError::NotReadOnly(_) => {
            Reject::with_status(405, INVALID_REQUEST, format!("{error}; use POST"))
        }
        error => Reject::invalid_params(error.to_string()),
    })?;
    if let (true, Some(headers), Some(entry)) = (terms.revision.is_modern(), headers, tool.entry())
    {
        param_headers::check(&entry.headers, arguments, headers)?;
    }
    let subject = Subject { method: "tools/call", name: &name, arguments };
    let way = request.way(subject, mcp.tasks.is_some())?;
    Ok(ToolCall {
        mcp: Arc::clone(mcp),
        caller: caller.clone(),
        tool,
        id: asked.id.to_owned(),
        arguments: arguments.map(ToOwned::to_owned),
        terms,
        line: Arc::clone(voice.line()),
        way,
    })
}

impl ToolCall {
    /// Runs it. To drop the future is to cancel the call.
    pub(crate) async fn run(self) -> Answer {
        if self.mcp.tasks.is_some() {
            return Arc::new(self).run_or_begin_task().await;
        }
        let mut run = pin!(self.result());
        let conversed = converse(&self.line, &self.way, Asks::default(), &mut run).await;
        self.conversed(conversed)
    }

    /// The same, for what may outlive the request.
    async fn run_or_begin_task(self: Arc<Self>) -> Answer {
        let call = Arc::clone(&self);
        let mut run: Running = Box::pin(async move { call.result().await });
        let mut asks = Asks::default();
        loop {
            match converse(&self.line, &self.way, asks, &mut run).await {
                Conversed::Task(wish, asked) => match tasks::begin(&self).await {
                    Ok(begun) => return begun.run_on(self, run, wish),
                    Err(_) if !wish.is_required => {
                        wish.answer(Ok(false));
                        asks = asked;
                    }
                    Err(reject) => return reject.of(&self.id).into(),
                },
                conversed => return self.conversed(conversed),
            }
        }
    }

    async fn result(&self) -> Result<Outcome, CallError> {
        let client = Client::new(Arc::clone(&self.line));
        let arguments = self.arguments.as_deref();
        self.mcp.gateway.invoke(&self.tool, &self.caller, arguments, &client).await
    }

    fn conversed(&self, conversed: Conversed<Result<Outcome, CallError>>) -> Answer {
        match conversed {
            Conversed::Over(result) => self.over(result),
            Conversed::Asks(asks) => self.asks(asks),
            Conversed::Lacks(capability) => Reject::lacks(capability).of(&self.id).into(),
            // It was not offered.
            Conversed::Task(..) => self.told("Tool execution failed", None).into(),
        }
    }

    pub(super) fn over(&self, result: Result<Outcome, CallError>) -> Answer {
        let Outcome { value, hold } = match result {
            Ok(outcome) => outcome,
            Err(error) => return self.failure(error),
        };
        let reply = match value {
            Returned::Json(result) => self.success(&result),
            Returned::Content(content) => self.pieces(content),
        };
        reply.kept_by(hold).into()
    }

    fn asks(&self, asks: Asks) -> Answer {
        let name = self.tool.entry().map_or("", |entry| entry.name().as_str());
        let arguments = self.arguments.as_deref();
        let subject = Subject { method: "tools/call", name, arguments };
        input_required::answer(&self.mcp, &self.caller, &self.id, subject, asks)
    }

    /// A result that the method put together by itself.
    fn pieces(&self, content: ToolContent) -> OutMessage {
        let ToolContent { content, structured_content, is_error } = content;
        let revision = self.terms.revision;
        let mut writer = ResultWriter::new(&self.id, revision, 200);
        let content: Vec<_> = content.into_iter().map(|it| it.for_revision(revision)).collect();
        writer.value("content", &content);
        match structured_content {
            Some(value) => {
                let json = value.to_string();
                match self.structured(&json) {
                    Ok(structured) => structured.write(&json, &mut writer),
                    Err(problem) => return self.told(&problem, Some(&json)),
                }
            }
            // A client would refuse the whole reply.
            None if !is_error && !matches!(self.promised(), Structured::No) => {
                return self.told("The method ran, but gave no data, as it declares to", None);
            }
            None => {}
        }
        if is_error {
            writer.value("isError", &true);
        }
        writer.finish(&self.mcp.gateway.settings())
    }

    fn success(&self, result: &RawValue) -> OutMessage {
        let compact = compact(result.get());
        let structured = match self.structured(&compact) {
            Ok(structured) => structured,
            Err(problem) => return self.told(&problem, Some(&compact)),
        };
        let mut writer = ResultWriter::new(&self.id, self.terms.revision, compact.len() * 3);
        write_text(writer.member("content"), &[Text::Json(&compact)]);
        structured.write(&compact, &mut writer);
        writer.finish(&self.mcp.gateway.settings())
    }

    /// Whether and how the result is also given as data. What is promised to the client is checked:
    /// it would refuse the whole reply, with less to say about it.
    fn structured(&self, result: &str) -> Result<Structured, String> {
        let structured = self.promised();
        let (false, Some(entry)) = (matches!(structured, Structured::No), self.tool.entry()) else {
            return Ok(Structured::No);
        };
        if self.tool.trusts_results() {
            return Ok(structured);
        }
        let schema = self.tool.catalog().output_schema(entry).unwrap_or_default();
        self.mcp.outputs.check(&schema, result).map_err(|problem| {
            tracing::warn!(method = %entry.id(), problem, "a result is not what was declared");
            format!("The method ran, but its result is not what it declares: {problem}")
        })?;
        Ok(structured)
    }

    /// What the tool declares to clients of this revision.
    fn promised(&self) -> Structured {
        let Some(entry) = self.tool.entry() else { return Structured::No };
        match (self.terms.revision.shape(), entry.output) {
            (Shape::AnyOutput, Output::Object | Output::Wrapped | Output::Unwrappable)
            | (Shape::ObjectOutput, Output::Object) => Structured::AsItIs,
            (Shape::ObjectOutput, Output::Wrapped) => Structured::Wrapped,
            _ => Structured::No,
        }
    }

    fn failure(&self, error: CallError) -> Answer {
        let mut notes = Vec::new();
        let reply = match error {
            // Were looked at when the tool was found.
            CallError::NotFound(_) | CallError::NotReadOnly(_) => {
                self.told(&error.to_string(), None)
            }
            CallError::Arguments(error) => self.told(&error.to_string(), None),
            CallError::Rpc(error) => self.told(&described(&error), None),
            CallError::Denied { reason, .. } => self.told(&described(&reason), None),
            CallError::Protocol(error) => return Reject::rpc(error).of(&self.id).into(),
            CallError::Gone(_, failure)
            | CallError::Unauthorized(failure)
            | CallError::Forbidden(failure, _)
            | CallError::Failed(failure) => self.failed(&failure, &mut notes),
        };
        Answer { notes, ..reply.into() }
    }

    /// What is wrong, and where the log has more of it.
    fn failed(&self, failure: &CallFailure, notes: &mut Vec<OutMessage>) -> OutMessage {
        let CallFailure { message, error_id, .. } = failure;
        if self.terms.log_level.is_some_and(|level| level <= LogLevel::Error) {
            notes.push(failure_note(error_id));
        }
        self.told(&format!("{message} (error id {error_id})"), None)
    }

    /// A result that says what went wrong, in words for the agent.
    fn told(&self, problem: &str, result: Option<&str>) -> OutMessage {
        let mut writer = ResultWriter::new(&self.id, self.terms.revision, problem.len() + 100);
        let texts = [Some(Text::Plain(problem)), result.map(Text::Json)];
        let texts: Vec<Text<'_>> = texts.into_iter().flatten().collect();
        write_text(writer.member("content"), &texts);
        writer.value("isError", &true);
        writer.finish(&self.mcp.gateway.settings())
    }
}

enum Structured {
    No,
    AsItIs,
    Wrapped,
}

impl Structured {
    fn write(self, json: &str, writer: &mut ResultWriter) {
        match self {
            Self::No => {}
            Self::AsItIs => {
                writer.member("structuredContent").extend_from_slice(json.as_bytes());
            }
            Self::Wrapped => {
                let out = writer.member("structuredContent");
                out.extend_from_slice(b"{\"result\":");
                out.extend_from_slice(json.as_bytes());
                out.push(b'}');
            }
        }
    }
}

/// What becomes a text of the content.
enum Text<'a> {
    /// Words.
    Plain(&'a str),
    /// Compact JSON: a string is its text, anything else stands as it is.
    Json(&'a str),
}

fn write_text(out: &mut Vec<u8>, texts: &[Text<'_>]) {
    out.push(b'[');
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
        match text {
            Text::Json(json) if json.starts_with('"') => out.extend_from_slice(json.as_bytes()),
            Text::Json(text) | Text::Plain(text) => write_json(out, *text),
        }
        out.push(b'}');
    }
    out.push(b']');
}

/// An upstream's error in words: what it said, its code, and its data up to a limit.
fn described(error: &RpcError) -> String {
    let message = if error.message.is_empty() { "Tool execution failed" } else { &error.message };
    let mut text = match error.code {
        TOOL_ERROR => message.to_owned(),
        code => format!("{message} (code {code})"),
    };
    if let Some(data) = &error.data {
        let data = data.to_string();
        let end = data.floor_char_boundary(MAX_ERROR_DATA);
        text.push('\n');
        text.push_str(data.get(..end).unwrap_or_default());
        if end < data.len() {
            text.push('…');
        }
    }
    text
}

fn failure_note(error_id: &str) -> OutMessage {
    #[derive(Serialize)]
    struct Data<'a> {
        message: &'static str,
        error_id: &'a str,
    }
    let data = Data { message: "the method failed; the server's log has the reason", error_id };
    voice::log(LogLevel::Error, "callgate", &data)
}
