//! `tools/list` and `tools/call`, in the shape of each revision.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::classify::Asked;
use super::compact::compact;
use super::envelope::is_id;
use super::headers::Headers;
use super::log_level::LogLevel;
use super::message::{OutMessage, ResultWriter, write_json};
use super::param_headers;
use super::reject::Reject;
use super::{Mcp, Terms};
use crate::access::Caller;
use crate::cursor::AfterCursor;
use crate::gateway::{CallError, Found, ToolRef};
use crate::jsonrpc::{INVALID_REQUEST, RpcError};
use crate::listing::PageLimit;
use crate::local::TOOL_ERROR;
use crate::revision::Revision;
use crate::tool::{Output, Shape};

/// A page holds no more than this, since many clients read only the first and then choke on it.
const MAX_PAGE_BYTES: usize = 1024 * 1024;
/// Of an upstream's error data, this much is shown.
const MAX_ERROR_DATA: usize = 2 * 1024;

/// `tools/list`
pub(super) fn list(
    mcp: &Mcp,
    caller: &Caller,
    asked: &Asked<'_>,
    terms: Terms,
) -> Result<OutMessage, Reject> {
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
pub struct ToolCall {
    mcp: Arc<Mcp>,
    caller: Caller,
    found: Found,
    id: Box<RawValue>,
    arguments: Option<Box<RawValue>>,
    terms: Terms,
    progress_token: Option<Box<RawValue>>,
}

/// How a call ended.
#[derive(Debug)]
pub struct Answer {
    /// What is told before it, where the client can be told.
    pub notes: Vec<OutMessage>,
    /// The reply.
    pub reply: OutMessage,
}

/// `tools/call`: finds the tool and takes the arguments along.
pub(super) fn call(
    mcp: &Arc<Mcp>,
    caller: &Caller,
    asked: &Asked<'_>,
    terms: Terms,
    headers: Option<&dyn Headers>,
) -> Result<ToolCall, Reject> {
    let name = asked.params.required_text("name").map_err(Reject::invalid_params)?;
    let arguments = asked.params.get("arguments").filter(|arguments| arguments.get() != "null");
    if arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) {
        return Err(Reject::invalid_params("`arguments` must be an object"));
    }
    let progress_token = asked.meta.get("progressToken");
    if progress_token.is_some_and(|token| !is_id(token.get())) {
        return Err(Reject::invalid_params("`progressToken` must be a string or an integer"));
    }
    let found = mcp.gateway.find(caller, ToolRef::Name(&name), terms.read_only);
    let found = found.map_err(|error| match error {
        CallError::NotReadOnly(_) => {
            Reject::with_status(405, INVALID_REQUEST, format!("{error}; use POST"))
        }
        error => Reject::invalid_params(error.to_string()),
    })?;
    if let (true, Some(headers), Some(entry)) = (terms.revision.is_modern(), headers, found.entry())
    {
        param_headers::check(&entry.headers, arguments, headers)?;
    }
    Ok(ToolCall {
        mcp: Arc::clone(mcp),
        caller: caller.clone(),
        found,
        id: asked.id.to_owned(),
        arguments: arguments.map(ToOwned::to_owned),
        terms,
        progress_token: progress_token.map(ToOwned::to_owned),
    })
}

impl ToolCall {
    /// The request's id.
    pub fn id(&self) -> &RawValue {
        &self.id
    }

    /// Whether the client wants to hear how it goes.
    pub(crate) fn progress(&self) -> Option<Progress> {
        let token = self.progress_token.clone()?;
        Some(Progress { token, with_message: self.terms.revision > Revision::V2024_11_05 })
    }

    /// Runs it. To drop the future is to cancel the call.
    pub async fn run(self) -> Answer {
        let arguments = self.arguments.as_deref();
        let gateway = &self.mcp.gateway;
        match gateway.call_found(&self.found, &self.caller, arguments).await {
            Ok(result) => Answer { notes: Vec::new(), reply: self.success(&result) },
            Err(error) => self.failure(error),
        }
    }

    fn success(&self, result: &RawValue) -> OutMessage {
        let compact = compact(result.get());
        let structured = match self.structured(&compact) {
            Ok(structured) => structured,
            Err(problem) => return self.told(&problem, Some(&compact)),
        };
        let mut writer = ResultWriter::new(&self.id, self.terms.revision, compact.len() * 3);
        write_text(writer.member("content"), &[Text::Json(&compact)]);
        match structured {
            Structured::No => {}
            Structured::AsItIs => {
                writer.member("structuredContent").extend_from_slice(compact.as_bytes());
            }
            Structured::Wrapped => {
                let out = writer.member("structuredContent");
                out.extend_from_slice(b"{\"result\":");
                out.extend_from_slice(compact.as_bytes());
                out.push(b'}');
            }
        }
        writer.finish(&self.mcp.gateway.settings())
    }

    /// Whether and how the result is also given as data. What is promised to the client is checked:
    /// it would refuse the whole reply, with less to say about it.
    fn structured(&self, result: &str) -> Result<Structured, String> {
        let Some(entry) = self.found.entry() else { return Ok(Structured::No) };
        let structured = match (self.terms.revision.shape(), entry.output) {
            (Shape::AnyOutput, Output::Object | Output::Wrapped | Output::Unwrappable)
            | (Shape::ObjectOutput, Output::Object) => Structured::AsItIs,
            (Shape::ObjectOutput, Output::Wrapped) => Structured::Wrapped,
            _ => return Ok(Structured::No),
        };
        let schema = self.found.catalog().output_schema(entry).unwrap_or_default();
        self.mcp.outputs.check(&schema, result).map_err(|problem| {
            tracing::warn!(method = %entry.id(), problem, "a result is not what was declared");
            format!("The method ran, but its result is not what it declares: {problem}")
        })?;
        Ok(structured)
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
            CallError::Failed { error_id } => {
                if self.terms.log_level.is_some_and(|level| level <= LogLevel::Error) {
                    notes.push(failure_note(&error_id));
                }
                self.told(&format!("Tool execution failed (error id {error_id})"), None)
            }
        };
        Answer { notes, reply }
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
    struct Params<'a> {
        level: &'static str,
        logger: &'static str,
        data: Data<'a>,
    }
    #[derive(Serialize)]
    struct Data<'a> {
        message: &'static str,
        error_id: &'a str,
    }
    let data = Data { message: "the method failed; the server's log has the reason", error_id };
    let params = Params { level: "error", logger: "callgate", data };
    OutMessage::notification("notifications/message", &params)
}

/// What a client that asked for it hears while a call runs.
#[derive(Debug)]
pub(crate) struct Progress {
    token: Box<RawValue>,
    with_message: bool,
}

impl Progress {
    /// How much time has passed: all that is known of a method that runs elsewhere.
    pub(crate) fn message(&self, elapsed: Duration) -> OutMessage {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            progress_token: &'a RawValue,
            progress: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<String>,
        }
        let seconds = elapsed.as_secs();
        let message = self.with_message.then(|| format!("still running after {seconds} s"));
        let params = Params { progress_token: &self.token, progress: seconds, message };
        OutMessage::notification("notifications/progress", &params)
    }
}
