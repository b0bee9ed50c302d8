//! `tools/list` and `tools/call`, in the format of each revision.

use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;

use super::pagination;
use crate::access::Caller;
use crate::catalog::listing::PageLimit;
use crate::gateway::{BlockingChecks, CallResult, FoundTool, ToolRef};
use crate::mcp::calls::negotiated::META_LOG_LEVEL;
use crate::mcp::calls::notifier::{self, Notifier};
use crate::mcp::parse::param_headers;
use crate::mcp::reply::compact::compact;
use crate::mcp::{
    CallContext, CallReply, CallTarget, EncodedMessage, Mcp, McpError, McpResponse, Negotiated,
    RequestContext, ResultWriter, write_json,
};
use crate::model::method::DefinitionError;
use crate::model::output::CompiledOutput;
use crate::model::tool::{OutputKind, ToolFormat};
use crate::upstream::local::TOOL_ERROR;
use crate::upstream::{CallError, CallFailure, CallOutput, Client, MAX_INLINE, ToolContent};
use crate::wire::LogLevel;
use crate::wire::cursor::encode_after;
use crate::wire::jsonrpc::{INVALID_REQUEST, RpcError};

/// Maximum size of a page, in bytes. It is large because many clients read only the first page.
pub(crate) const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Maximum length of an upstream's error data in a result.
const MAX_ERROR_DATA: usize = 2 * 1024;

/// `tools/list`
pub(crate) fn list(context: &RequestContext<'_>) -> Result<McpResponse, McpError> {
    let RequestContext { mcp, inbound, negotiated, .. } = *context;
    let settings = mcp.gateway.settings();
    let after = pagination::after(context)?;
    let limit = PageLimit { tools: settings.page_size as usize, bytes: MAX_PAGE_BYTES };
    let format = ToolFormat::of(negotiated.revision);
    let (tools, last) = mcp.gateway.list_after(inbound.caller, format, after.as_deref(), limit);
    let mut result = context.result(0);
    result.member("tools").push(b'[');
    result.slices(tools);
    result.bytes(b"]");
    if after.is_some() {
        mcp.unread_pages.record_next_page(negotiated.scope);
    } else if last.is_some() {
        mcp.unread_pages.record_first_page(negotiated.scope);
    }
    if let Some(last) = last {
        result.value("nextCursor", &encode_after(last.as_str()));
    }
    result.cache(settings.list_ttl_ms, "private");
    let message = result.finish(&settings);
    // The tools are shared bytes, so no memory is reserved for them.
    if inbound.caller.batch().is_some_and(|batch| !batch.add(message.len())) {
        return Err(McpError::batch_full());
    }
    Ok(McpResponse::Message(message))
}

/// `tools/call`
pub(crate) async fn call(context: &RequestContext<'_>) -> Result<McpResponse, McpError> {
    let RequestContext { mcp, inbound, request, ref negotiated } = *context;
    mcp.unread_pages.warn_if_unread(negotiated.scope, inbound.caller);
    let notifier = Notifier::new(request, negotiated.revision)?;
    let name = request.params.required_text("name")?;
    let arguments = request.params.get("arguments").filter(|arguments| arguments.get() != "null");
    if arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) {
        return Err(McpError::invalid_params("`arguments` must be an object"));
    }
    let tool = mcp.gateway.find(inbound.caller, ToolRef::Name(&name), inbound.is_read_only());
    let tool = tool.map_err(|error| match error {
        CallError::NotReadOnly(_) => {
            McpError::new(405, INVALID_REQUEST, format!("{error}; use POST"))
        }
        error => McpError::invalid_params(error.to_string()),
    })?;
    if let (true, Some(headers)) = (negotiated.revision.is_modern(), inbound.headers) {
        param_headers::check(&tool.entry.headers, arguments, headers)?;
    }
    if can_reply_immediately(context, &tool, arguments) {
        let (caller, id, client) = (inbound.caller, request.id, Client::default());
        let call = ToolCall { mcp, caller, id, negotiated, tool: &tool, name: &name, arguments };
        return Ok(McpResponse::Message(call.run(&client).await.message));
    }
    let channel = tool.uses_client().then(|| notifier.open(negotiated));
    let arguments = arguments.map(ToOwned::to_owned);
    let target = CallTarget { method: "tools/call", name: name.into_owned(), arguments };
    context.start(notifier, channel, target, |call| async move {
        Ok(ToolCall::of(&call, &tool).run(&call.client()).await)
    })
}

/// Returns `true` if a call needs no [`RunningCall`](crate::mcp::RunningCall), because it sends no notifications and
/// waits for nothing except the check of a large result. Returns `false` over stdio and in a batch, because the
/// call must not delay other messages.
fn can_reply_immediately(
    context: &RequestContext<'_>,
    tool: &FoundTool,
    arguments: Option<&RawValue>,
) -> bool {
    let RequestContext { inbound, request, negotiated, .. } = context;
    let has_param = |name: &str| request.params.get(name).is_some();
    tool.is_immediate()
        && arguments.is_none_or(|arguments| arguments.get().len() <= MAX_INLINE)
        && inbound.connection.is_none()
        && inbound.caller.batch().is_none()
        && negotiated.log_level.is_none()
        && request.meta.get(META_LOG_LEVEL).is_none()
        && !has_param("requestState")
        && !has_param("inputResponses")
}

/// Returns a result with `isError` for a call that did not start.
pub(crate) fn error_result(context: &RequestContext<'_>, problem: &str) -> EncodedMessage {
    write_error(context.result(problem.len() + 100), &[Text::Plain(problem)])
        .finish(&context.mcp.gateway.settings())
}

fn write_error(mut writer: ResultWriter, texts: &[Text<'_>]) -> ResultWriter {
    write_text(writer.member("content"), texts);
    writer.value("isError", &true);
    writer
}

/// A call of a tool that the caller may use.
#[derive(Debug, Clone, Copy)]
struct ToolCall<'a> {
    mcp: &'a Mcp,
    caller: &'a Caller,
    id: &'a RawValue,
    negotiated: &'a Negotiated,
    tool: &'a FoundTool,
    name: &'a str,
    arguments: Option<&'a RawValue>,
}

impl<'a> ToolCall<'a> {
    fn of(context: &'a CallContext, tool: &'a FoundTool) -> Self {
        let CallContext { mcp, caller, id, negotiated, target, .. } = context;
        let CallTarget { name, arguments, .. } = target;
        let arguments = arguments.as_deref();
        Self { mcp, caller, id, negotiated, tool, name, arguments }
    }

    fn result(&self, capacity: usize) -> ResultWriter {
        ResultWriter::new(self.id, self.negotiated.revision, capacity)
    }

    fn finish(&self, result: ResultWriter) -> EncodedMessage {
        result.finish(self.tool.settings())
    }

    async fn run(&self, client: &Client) -> CallReply {
        let Self { mcp, caller, tool, arguments, .. } = *self;
        match mcp.gateway.invoke(tool, caller, arguments, client).await {
            Ok(CallResult { value, reservation }) => {
                let message = match value {
                    CallOutput::Json(result) => self.json_result(&result).await,
                    CallOutput::Content(content) => self.content_result(content).await,
                };
                match reservation.at_least(message.len()) {
                    Ok(()) => message.with_reservation(reservation).into(),
                    Err(exceeded) => {
                        let (error, id) = (CallError::from(exceeded), mcp.gateway.next_call_id());
                        self.error_reply(error.logged(caller, self.name, id))
                    }
                }
            }
            Err(error) => self.error_reply(error),
        }
    }

    /// Writes a result from content blocks that the method itself returned.
    async fn content_result(&self, content: ToolContent) -> EncodedMessage {
        let ToolContent { content, structured_content, is_error } = content;
        let revision = self.negotiated.revision;
        let mut writer = self.result(200);
        let content: Vec<_> = content.into_iter().map(|it| it.for_revision(revision)).collect();
        writer.value("content", &content);
        match structured_content {
            Some(value) => {
                let json = value.to_string();
                match self.structured(&json).await {
                    Ok(structured) => structured.write(&json, &mut writer),
                    Err(problem) => return self.error_result(&problem, Some(&json)),
                }
            }
            // Clients would reject a result without structured content, because the tool declares an output schema.
            None if !is_error && !matches!(self.declared_output(), Structured::No) => {
                let problem = "The method ran, but returned no data, although its output schema requires data";
                return self.error_result(problem, None);
            }
            None => {}
        }
        if is_error {
            writer.value("isError", &true);
        }
        self.finish(writer)
    }

    async fn json_result(&self, result: &RawValue) -> EncodedMessage {
        let compact = compact(result.get());
        let structured = match self.structured(&compact).await {
            Ok(structured) => structured,
            Err(problem) => return self.error_result(&problem, Some(&compact)),
        };
        let mut writer = self.result(compact.len() * 3);
        write_text(writer.member("content"), &[Text::Json(&compact)]);
        structured.write(&compact, &mut writer);
        self.finish(writer)
    }

    /// Returns how the result is written as `structuredContent`.
    ///
    /// Fails if the result does not match the declared output schema, because the client would reject the whole result
    /// with a less helpful message. Also fails if the result cannot be checked at the moment.
    async fn structured(&self, result: &str) -> Result<Structured, String> {
        let structured = self.declared_output();
        if matches!(structured, Structured::No) || self.tool.trusts_results() {
            return Ok(structured);
        }
        let entry = &self.tool.entry;
        let schema = || self.tool.catalog().output_schema(entry).unwrap_or_default();
        let Self { mcp, caller, .. } = *self;
        let is_inline = BlockingChecks::is_inline(caller, result.len(), entry.output_schema_len());
        let checked = if is_inline {
            check_output(mcp.outputs.get(&entry.output_check, schema), result)
        } else {
            let schema = schema();
            let (outputs, result) = (mcp.outputs.clone(), result.to_owned());
            let check = move || check_output(outputs.compiled(&schema), &result);
            let checked = Box::pin(mcp.gateway.checks.run(caller, check)).await;
            checked.map_err(|error| {
                format!(
                    "The method ran, but its result could not be checked against its output schema: {error}. \
                     Retry later if the tool is read-only."
                )
            })?
        };
        checked.map_err(|problem| {
            tracing::warn!(method = %entry.id(), problem, "a result does not match its output schema");
            format!("The method ran, but its result does not match its output schema: {problem}")
        })?;
        Ok(structured)
    }

    /// Returns the output that the tool declares to clients of this revision.
    fn declared_output(&self) -> Structured {
        match (ToolFormat::of(self.negotiated.revision), self.tool.entry.parts.output) {
            (
                ToolFormat::AnyOutput,
                OutputKind::Object | OutputKind::Wrapped | OutputKind::Unwrappable,
            )
            | (ToolFormat::ObjectOutput, OutputKind::Object) => Structured::Unwrapped,
            (ToolFormat::ObjectOutput, OutputKind::Wrapped) => Structured::Wrapped,
            _ => Structured::No,
        }
    }

    fn error_reply(&self, error: CallError) -> CallReply {
        let CallFailure { message, error_id, .. } = match error {
            CallError::Protocol(error) => {
                return McpError::from_rpc(error).with_id(self.id).into();
            }
            CallError::Rpc(error) => return self.error_result(&error_text(&error), None).into(),
            CallError::Denied { reason, .. } => {
                return self.error_result(&error_text(&reason), None).into();
            }
            CallError::NotFound(_)
            | CallError::NotReadOnly(_)
            | CallError::Arguments(_)
            | CallError::ArgumentsTooLarge { .. }
            | CallError::RateLimited(_)
            | CallError::Busy(_) => {
                return self.error_result(&error.to_string(), None).into();
            }
            CallError::Gone(_, failure)
            | CallError::Unauthorized(failure)
            | CallError::Forbidden(failure, _)
            | CallError::Failed(failure) => failure,
        };
        let mut notifications = Vec::new();
        if self.negotiated.log_level.is_some_and(|level| level <= LogLevel::Error) {
            let message = "the method failed; the server's log has the reason";
            let data = json!({"message": message, "error_id": error_id});
            notifications.push(notifier::log(LogLevel::Error, "callgate", &data));
        }
        let message = self.error_result(&format!("{message} (error id {error_id})"), None);
        CallReply { notifications, ..message.into() }
    }

    /// Writes a result with `isError` and a text for the agent.
    fn error_result(&self, problem: &str, result: Option<&str>) -> EncodedMessage {
        let writer = self.result(problem.len() + 100);
        let texts = [Some(Text::Plain(problem)), result.map(Text::Json)];
        let texts: Vec<Text<'_>> = texts.into_iter().flatten().collect();
        self.finish(write_error(writer, &texts))
    }
}

/// Fails with the reason if a result does not match its schema.
fn check_output(
    output: Result<Arc<CompiledOutput>, DefinitionError>,
    result: &str,
) -> Result<(), String> {
    output.map_err(|error| error.to_string())?.check(result)
}

enum Structured {
    No,
    Unwrapped,
    Wrapped,
}

impl Structured {
    fn write(self, json: &str, writer: &mut ResultWriter) {
        match self {
            Self::No => {}
            Self::Unwrapped => {
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

/// The text of a content block.
enum Text<'a> {
    Plain(&'a str),
    /// Compact JSON. A JSON string is written as its text, any other value as JSON.
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
            Text::Json(json) => write_json_as_text(out, json),
            Text::Plain(text) => write_json(out, *text),
        }
        out.push(b'}');
    }
    out.push(b']');
}

/// Writes compact JSON as a JSON string. Compact JSON has no control characters, so only quotes and backslashes are
/// escaped. `serde_json` is not used here, because it takes three times as long as this function for each escape.
fn write_json_as_text(out: &mut Vec<u8>, json: &str) {
    out.reserve(json.len() + json.len() / 2 + 2);
    out.push(b'"');
    for byte in json.bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// Returns an upstream's error as text: its message, its code, and its data up to a maximum length.
fn error_text(error: &RpcError) -> String {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        #[test]
        fn compact_json_is_escaped_like_serde_json(text in ".*", number: i64) {
            let json = json!({"a": text, "b": [text, number], "\\\"": null}).to_string();
            let (mut actual, mut expected) = (Vec::new(), Vec::new());
            write_json_as_text(&mut actual, &json);
            write_json(&mut expected, &json);
            prop_assert_eq!(actual, expected);
        }
    }
}
