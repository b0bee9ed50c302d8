//! `prompts/*`: texts that a person starts a conversation with, from an embedder.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::pagination;
use super::pagination::Item;
use crate::access::Caller;
use crate::mcp::Reply;
use crate::mcp::calls::context::{CallContext, RequestContext};
use crate::mcp::calls::elicitation::Subject;
use crate::mcp::reply::error::Reject;
use crate::mcp::reply::message::OutMessage;
use crate::upstream::BoxFuture;
use crate::upstream::content::{Content, Role};
use crate::upstream::local::Error;
use crate::upstream::local::context::Context;
use crate::wire::strict_json;

/// The prompts of a server.
pub trait Prompts: Send + Sync + fmt::Debug {
    /// Those that the caller may use.
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Result<Vec<Prompt>, Error>>;

    /// A prompt, filled in; `None` where there is none of that name. Only what [`list`](Self::list)
    /// has for the caller is asked for, with every argument that it requires.
    fn get(
        self: Arc<Self>,
        context: Context,
        name: String,
        arguments: BTreeMap<String, String>,
    ) -> BoxFuture<'static, Result<Option<Filled>, Error>>;
}

/// A prompt, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prompt {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    arguments: Vec<Argument>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Argument {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    required: bool,
}

impl Prompt {
    /// A prompt without arguments.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::named(name).description(description)
    }

    pub(crate) fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), title: None, description: None, arguments: Vec::new() }
    }

    #[cfg(feature = "macros")]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What it is for.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// A name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Adds an argument that must be given.
    #[must_use]
    pub fn required(self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.argument(name.into(), description.into(), true)
    }

    /// Adds an argument that may be given.
    #[must_use]
    pub fn optional(self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.argument(name.into(), description.into(), false)
    }

    fn argument(mut self, name: String, description: String, required: bool) -> Self {
        self.arguments.push(Argument { name, description, required });
        self
    }

    fn missing(&self, given: &BTreeMap<String, String>) -> Option<&str> {
        let mut required = self.arguments.iter().filter(|argument| argument.required);
        required.find(|argument| !given.contains_key(&argument.name)).map(|it| it.name.as_str())
    }
}

impl Item for Prompt {
    fn key(&self) -> &str {
        &self.name
    }
}

/// A prompt, filled in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filled {
    description: Option<String>,
    messages: Vec<(Role, Content)>,
}

impl Filled {
    /// Adds what the person says.
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

    /// Says what it is about.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }
}

/// The person says it.
impl<T: Into<Content>> From<T> for Filled {
    fn from(content: T) -> Self {
        Self::default().user(content)
    }
}

/// `prompts/list`
pub(crate) fn list(context: &RequestContext<'_>) -> Result<Reply, Reject> {
    let all = context
        .mcp
        .services
        .prompts
        .clone()
        .map(|prompts| |context: Context| async move { prompts.list(&context.caller).await });
    pagination::list(context, ("prompts/list", "prompts"), all, Vec::new())
}

/// `prompts/get`
pub(crate) fn get(context: &RequestContext<'_>) -> Result<Reply, Reject> {
    let params = &context.request.params;
    let name = params.required_text("name")?.into_owned();
    let arguments = params.get("arguments").filter(|arguments| arguments.get() != "null");
    let given = arguments.map_or_else(|| Some(BTreeMap::new()), texts);
    let given =
        given.ok_or_else(|| Reject::invalid_params("`arguments` must be an object of strings"))?;
    let Some(prompts) = context.mcp.services.prompts.clone() else { return Err(not_found(&name)) };
    let arguments = arguments.map(ToOwned::to_owned);
    let subject = Subject { method: "prompts/get", name: name.clone(), arguments };
    let run = |context: Context| async move {
        let listed = prompts.list(&context.caller).await?;
        let Some(prompt) = listed.iter().find(|prompt| prompt.name == name) else {
            return Ok(Err(not_found(&name)));
        };
        if let Some(missing) = prompt.missing(&given) {
            let problem = format!("the argument `{missing}` is missing");
            return Ok(Err(Reject::invalid_params(problem)));
        }
        let filled = prompts.get(context, name.clone(), given).await?;
        Ok(filled.ok_or_else(|| not_found(&name)))
    };
    context.run_about(subject, run, |filled, call| Ok(write(filled?, call)))
}

/// The members of an object of strings, none of them twice.
fn texts(object: &RawValue) -> Option<BTreeMap<String, String>> {
    let members = strict_json::members(object.get()).ok()?;
    let text = |(name, raw): (Cow<'_, str>, &RawValue)| {
        Some((name.into_owned(), strict_json::text(raw)?.into_owned()))
    };
    members.into_iter().map(text).collect()
}

fn write(filled: Filled, call: &CallContext) -> OutMessage {
    let revision = call.terms.revision;
    let mut result = call.result(200);
    if let Some(description) = &filled.description {
        result.value("description", description);
    }
    let messages = filled
        .messages
        .into_iter()
        .map(|(role, content)| json!({"role": role, "content": content.for_revision(revision)}));
    result.value("messages", &messages.collect::<Vec<_>>());
    call.finish(result)
}

fn not_found(name: &str) -> Reject {
    let name: String = name.chars().take(200).collect();
    Reject::invalid_params(format!("Prompt '{name}' not found"))
}
