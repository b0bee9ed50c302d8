//! `prompts/list` and `prompts/get`: prompts that the embedding program provides.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::pagination::{self, ListItem};
use crate::access::Caller;
use crate::mcp::{CallContext, CallTarget, EncodedMessage, McpError, McpResponse, RequestContext};
use crate::upstream::local::{Context, Error};
use crate::upstream::{BoxFuture, Content, Role};
use crate::wire::strict_json;

/// The prompts of a server.
///
/// Argument of [`Builder::prompts_of`](crate::Builder::prompts_of). Prompts that are known at compile time are
/// functions with the attribute [`prompt`](crate::prompt) instead.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Arc;
/// use callgate::mcp::{GetPromptResult, Prompt, Prompts};
/// use callgate::upstream::BoxFuture;
/// use callgate::{Callgate, Caller, Context, Error};
///
/// /// Prompts by name. A real application has them in a database.
/// #[derive(Debug)]
/// struct StoredPrompts(BTreeMap<&'static str, &'static str>);
///
/// impl Prompts for StoredPrompts {
///     fn list<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, Result<Vec<Prompt>, Error>> {
///         let prompts = self.0.keys().map(|name| Prompt::new(*name, "A stored prompt."));
///         let prompts = prompts.collect();
///         Box::pin(async { Ok(prompts) })
///     }
///
///     fn get(
///         self: Arc<Self>,
///         _: Context,
///         name: String,
///         _: BTreeMap<String, String>,
///     ) -> BoxFuture<'static, Result<Option<GetPromptResult>, Error>> {
///         let text = self.0.get(name.as_str()).copied();
///         Box::pin(async move { Ok(text.map(|text| GetPromptResult::default().user(text))) })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let prompts = StoredPrompts(BTreeMap::from([("review", "Review the last change.")]));
/// let server = Callgate::builder().prompts_of(prompts).build()?;
/// let prompt = server.test_client(Caller::anonymous()).prompt("review", ()).await?;
/// assert_eq!(prompt["messages"][0]["content"]["text"], "Review the last change.");
/// # Ok(())
/// # }
/// ```
pub trait Prompts: Send + Sync + fmt::Debug {
    /// Returns the prompts that the caller may use.
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Result<Vec<Prompt>, Error>>;

    /// Returns the messages of a prompt, or `None` if the prompt does not exist. Called only for prompts that
    /// [`list`](Self::list) returns for the caller, and only with all required arguments.
    fn get(
        self: Arc<Self>,
        context: Context,
        name: String,
        arguments: BTreeMap<String, String>,
    ) -> BoxFuture<'static, Result<Option<GetPromptResult>, Error>>;
}

/// A prompt in `prompts/list`.
///
/// [`Prompts`] has an example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prompt {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    arguments: Vec<PromptArgument>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct PromptArgument {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    required: bool,
}

impl Prompt {
    /// Creates a prompt without arguments.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::named(name).description(description)
    }

    /// Creates a prompt without a description or arguments.
    #[doc(hidden)]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), title: None, description: None, arguments: Vec::new() }
    }

    /// Sets the description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the name that is shown to users.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Adds a required argument.
    #[must_use]
    pub fn required(self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.argument(name.into(), description.into(), true)
    }

    /// Adds an optional argument.
    #[must_use]
    pub fn optional(self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.argument(name.into(), description.into(), false)
    }

    fn argument(mut self, name: String, description: String, required: bool) -> Self {
        self.arguments.push(PromptArgument { name, description, required });
        self
    }

    fn missing_argument(&self, arguments: &BTreeMap<String, String>) -> Option<&str> {
        let mut required = self.arguments.iter().filter(|argument| argument.required);
        required.find(|argument| !arguments.contains_key(&argument.name)).map(|it| it.name.as_str())
    }
}

impl ListItem for Prompt {
    fn key(&self) -> &str {
        &self.name
    }
}

/// The result of `prompts/get`.
///
/// [`Prompts`] has an example. Functions with the attribute [`prompt`](crate::prompt) can return this type too.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GetPromptResult {
    description: Option<String>,
    messages: Vec<(Role, Content)>,
}

impl GetPromptResult {
    /// Adds a message with the role user.
    #[must_use]
    pub fn user(self, content: impl Into<Content>) -> Self {
        self.message(Role::User, content)
    }

    /// Adds a message.
    #[must_use]
    pub fn message(mut self, role: Role, content: impl Into<Content>) -> Self {
        self.messages.push((role, content.into()));
        self
    }

    /// Sets the description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }
}

/// A result with one message of the role user.
impl<T: Into<Content>> From<T> for GetPromptResult {
    fn from(content: T) -> Self {
        Self::default().user(content)
    }
}

/// `prompts/list`
pub(crate) fn list(context: &RequestContext<'_>) -> Result<McpResponse, McpError> {
    let load_prompts = context
        .mcp
        .services
        .prompts
        .clone()
        .map(|prompts| |context: Context| async move { prompts.list(&context.caller).await });
    pagination::list(context, ("prompts/list", "prompts"), load_prompts, Vec::new())
}

/// `prompts/get`
pub(crate) fn get(context: &RequestContext<'_>) -> Result<McpResponse, McpError> {
    let params = &context.request.params;
    let name = params.required_text("name")?.into_owned();
    let arguments = params.get("arguments").filter(|arguments| arguments.get() != "null");
    let argument_values = string_map(arguments)
        .ok_or_else(|| McpError::invalid_params("`arguments` must be an object of strings"))?;
    let Some(prompts) = context.mcp.services.prompts.clone() else { return Err(not_found(&name)) };
    let arguments = arguments.map(ToOwned::to_owned);
    let target = CallTarget { method: "prompts/get", name: name.clone(), arguments };
    let run = |context: Context| async move {
        let listed = prompts.list(&context.caller).await?;
        let Some(prompt) = listed.iter().find(|prompt| prompt.name == name) else {
            return Ok(Err(not_found(&name)));
        };
        if let Some(missing_argument) = prompt.missing_argument(&argument_values) {
            let problem = format!("the argument `{missing_argument}` is missing");
            return Ok(Err(McpError::invalid_params(problem)));
        }
        let result = prompts.get(context, name.clone(), argument_values).await?;
        Ok(result.ok_or_else(|| not_found(&name)))
    };
    context.run(target, run, |prompt, call| Ok(write(prompt?, call)))
}

/// Reads an object whose values are strings. Returns `None` for duplicate keys and for too many members. An absent
/// object counts as empty.
pub(super) fn string_map(object: Option<&RawValue>) -> Option<BTreeMap<String, String>> {
    let members = strict_json::few_members(object.map_or("{}", RawValue::get)).ok()?;
    let text = |(name, raw): (Cow<'_, str>, &RawValue)| {
        Some((name.into_owned(), strict_json::text(raw)?.into_owned()))
    };
    members.into_iter().map(text).collect()
}

fn write(prompt: GetPromptResult, call: &CallContext) -> EncodedMessage {
    let revision = call.negotiated.revision;
    let mut result = call.result(200);
    if let Some(description) = &prompt.description {
        result.value("description", description);
    }
    let messages = prompt
        .messages
        .into_iter()
        .map(|(role, content)| json!({"role": role, "content": content.for_revision(revision)}));
    result.value("messages", &messages.collect::<Vec<_>>());
    call.finish(result)
}

pub(super) fn not_found(name: &str) -> McpError {
    let name: String = name.chars().take(200).collect();
    McpError::invalid_params(format!("Prompt '{name}' not found"))
}
