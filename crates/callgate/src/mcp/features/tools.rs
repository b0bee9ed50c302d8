//! `tools/list` and `tools/call`, in the format of each revision.

use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;

use super::{pagination, tasks};
use crate::catalog::listing::PageLimit;
use crate::gateway::{CallResult, FoundTool, ToolRef};
use crate::mcp::Reply;
use crate::mcp::calls::context::{CallContext, RequestContext};
use crate::mcp::calls::elicitation;
use crate::mcp::calls::elicitation::{AnswerMode, AskedQuestions, CallStep, Subject};
use crate::mcp::calls::notifier;
use crate::mcp::calls::running_call::Answer;
use crate::mcp::parse::param_headers;
use crate::mcp::reply::compact::compact;
use crate::mcp::reply::error::Reject;
use crate::mcp::reply::message::{OutMessage, ResultWriter, write_json};
use crate::model::tool::{OutputKind, ToolFormat};
use crate::upstream::client::CallChannel;
use crate::upstream::content::ToolContent;
use crate::upstream::local::TOOL_ERROR;
use crate::upstream::{BoxFuture, CallOutput};
use crate::upstream::{CallError, CallFailure};
use crate::wire::cursor::AfterCursor;
use crate::wire::jsonrpc::{INVALID_REQUEST, RpcError};
use crate::wire::log_level::LogLevel;

/// A page holds no more than this, since many clients read only the first and then choke on it.
const MAX_PAGE_BYTES: usize = 1024 * 1024;
/// Of an upstream's error data, this much is shown.
const MAX_ERROR_DATA: usize = 2 * 1024;

/// `tools/list`
pub(crate) fn list(context: &RequestContext<'_>) -> Result<Reply, Reject> {
    let RequestContext { mcp, inbound, terms, .. } = *context;
    let settings = mcp.gateway.settings();
    let after = pagination::after(context)?;
    let limit = PageLimit { tools: settings.page_size as usize, bytes: MAX_PAGE_BYTES };
    let format = ToolFormat::of(terms.revision);
    let (tools, last) = mcp.gateway.list_after(inbound.caller, format, after.as_deref(), limit);
    let mut result = context.result(0);
    result.member("tools").push(b'[');
    result.slices(tools);
    result.bytes(b"]");
    if let Some(last) = last {
        result.value("nextCursor", &AfterCursor::encode(last.as_str()));
    }
    result.cache(settings.list_ttl_ms, "private");
    Ok(Reply::Message(result.finish(&settings)))
}

/// A call that is allowed.
#[derive(Debug)]
struct ToolCall {
    context: CallContext,
    tool: FoundTool,
}

/// `tools/call`
pub(crate) fn call(context: &RequestContext<'_>) -> Result<Reply, Reject> {
    let RequestContext { mcp, inbound, request, terms } = *context;
    let mut notifier = context.notifier()?;
    let name = request.params.required_text("name")?;
    let arguments = request.params.get("arguments").filter(|arguments| arguments.get() != "null");
    if arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) {
        return Err(Reject::invalid_params("`arguments` must be an object"));
    }
    let tool = mcp.gateway.find(inbound.caller, ToolRef::Name(&name), terms.read_only);
    let tool = tool.map_err(|error| match error {
        CallError::NotReadOnly(_) => {
            Reject::with_status(405, INVALID_REQUEST, format!("{error}; use POST"))
        }
        error => Reject::invalid_params(error.to_string()),
    })?;
    if let (true, Some(headers), Some(entry)) =
        (terms.revision.is_modern(), inbound.headers, tool.entry())
    {
        param_headers::check(&entry.headers, arguments, headers)?;
    }
    if tool.uses_client() {
        notifier.open(&terms);
    }
    let arguments = arguments.map(ToOwned::to_owned);
    let subject = Subject { method: "tools/call", name: name.into_owned(), arguments };
    let mode = AnswerMode::of(context, &subject, mcp.tasks.is_some())?;
    Ok(context.start(notifier, subject, mode, |context| ToolCall { context, tool }.run()))
}

impl ToolCall {
    /// Runs the call. Dropping the future cancels it.
    async fn run(self) -> Answer {
        let Some(channel) = self.context.channel.clone() else { return self.answer().await };
        if self.context.mcp.tasks.is_some() {
            return Arc::new(self).run_or_become_task(channel).await;
        }
        elicitation::run_without_tasks(&self.context, &channel, self.answer()).await
    }

    /// Runs a call that may outlive its request.
    async fn run_or_become_task(self: Arc<Self>, channel: Arc<CallChannel>) -> Answer {
        let (call, context) = (Arc::clone(&self), &self.context);
        let mut work: BoxFuture<'static, Answer> = Box::pin(async move { call.answer().await });
        let mut asked = AskedQuestions::default();
        loop {
            match elicitation::run(context, &channel, asked, &mut work).await {
                CallStep::Answered(answer) => return answer,
                CallStep::Task(request, before) => match tasks::begin(context).await {
                    Ok(task) => return task.run(channel, work, request),
                    Err(_) if !request.is_required => {
                        request.answer(Ok(false));
                        asked = before;
                    }
                    Err(reject) => return reject.of(&context.id).into(),
                },
            }
        }
    }

    async fn answer(&self) -> Answer {
        let CallContext { mcp, caller, subject, .. } = &self.context;
        let (arguments, client) = (subject.arguments.as_deref(), self.context.client());
        match mcp.gateway.invoke(&self.tool, caller, arguments, &client).await {
            Ok(CallResult { value, reservation }) => {
                let reply = match value {
                    CallOutput::Json(result) => self.success(&result),
                    CallOutput::Content(content) => self.pieces(content),
                };
                reply.kept_by(reservation).into()
            }
            Err(error) => self.failure(error),
        }
    }

    /// A result that the method put together by itself.
    fn pieces(&self, content: ToolContent) -> OutMessage {
        let ToolContent { content, structured_content, is_error } = content;
        let revision = self.context.terms.revision;
        let mut writer = self.context.result(200);
        let content: Vec<_> = content.into_iter().map(|it| it.for_revision(revision)).collect();
        writer.value("content", &content);
        match structured_content {
            Some(value) => {
                let json = value.to_string();
                match self.structured(&json) {
                    Ok(structured) => structured.write(&json, &mut writer),
                    Err(problem) => return self.error_result(&problem, Some(&json)),
                }
            }
            // A client would refuse the whole reply.
            None if !is_error && !matches!(self.promised(), Structured::No) => {
                return self
                    .error_result("The method ran, but gave no data, as it declares to", None);
            }
            None => {}
        }
        if is_error {
            writer.value("isError", &true);
        }
        self.context.finish(writer)
    }

    fn success(&self, result: &RawValue) -> OutMessage {
        let compact = compact(result.get());
        let structured = match self.structured(&compact) {
            Ok(structured) => structured,
            Err(problem) => return self.error_result(&problem, Some(&compact)),
        };
        let mut writer = self.context.result(compact.len() * 3);
        write_text(writer.member("content"), &[Text::Json(&compact)]);
        structured.write(&compact, &mut writer);
        self.context.finish(writer)
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
        self.context.mcp.outputs.check(&schema, result).map_err(|problem| {
            tracing::warn!(method = %entry.id(), problem, "a result is not what was declared");
            format!("The method ran, but its result is not what it declares: {problem}")
        })?;
        Ok(structured)
    }

    /// What the tool declares to clients of this revision.
    fn promised(&self) -> Structured {
        let Some(entry) = self.tool.entry() else { return Structured::No };
        match (ToolFormat::of(self.context.terms.revision), entry.output) {
            (
                ToolFormat::AnyOutput,
                OutputKind::Object | OutputKind::Wrapped | OutputKind::Unwrappable,
            )
            | (ToolFormat::ObjectOutput, OutputKind::Object) => Structured::AsItIs,
            (ToolFormat::ObjectOutput, OutputKind::Wrapped) => Structured::Wrapped,
            _ => Structured::No,
        }
    }

    fn failure(&self, error: CallError) -> Answer {
        let CallFailure { message, error_id, .. } = match error {
            CallError::Protocol(error) => return Reject::rpc(error).of(&self.context.id).into(),
            CallError::Rpc(error) => return self.error_result(&described(&error), None).into(),
            CallError::Denied { reason, .. } => {
                return self.error_result(&described(&reason), None).into();
            }
            CallError::NotFound(_) | CallError::NotReadOnly(_) | CallError::Arguments(_) => {
                return self.error_result(&error.to_string(), None).into();
            }
            CallError::Gone(_, failure)
            | CallError::Unauthorized(failure)
            | CallError::Forbidden(failure, _)
            | CallError::Failed(failure) => failure,
        };
        let mut notes = Vec::new();
        if self.context.terms.log_level.is_some_and(|level| level <= LogLevel::Error) {
            let message = "the method failed; the server's log has the reason";
            let data = json!({"message": message, "error_id": error_id});
            notes.push(notifier::log(LogLevel::Error, "callgate", &data));
        }
        let reply = self.error_result(&format!("{message} (error id {error_id})"), None);
        Answer { notes, ..reply.into() }
    }

    /// A result that says what went wrong, in words for the agent.
    fn error_result(&self, problem: &str, result: Option<&str>) -> OutMessage {
        let mut writer = self.context.result(problem.len() + 100);
        let texts = [Some(Text::Plain(problem)), result.map(Text::Json)];
        let texts: Vec<Text<'_>> = texts.into_iter().flatten().collect();
        write_text(writer.member("content"), &texts);
        writer.value("isError", &true);
        self.context.finish(writer)
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
