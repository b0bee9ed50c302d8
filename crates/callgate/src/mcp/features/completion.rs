//! `completion/complete`: values for an argument of a prompt or a resource template, provided by the embedding program.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::pagination::ListItem as _;
use super::prompts::string_map;
use super::{prompts, resources};
use crate::access::Caller;
use crate::mcp::{
    CallTarget, McpError, McpRequest, McpResponse, RequestContext, Resource, Services,
};
use crate::upstream::BoxFuture;
use crate::upstream::local::{Context, Error};
use crate::wire::strict_json;

/// Maximum number of values in a result.
const MAX_VALUES: usize = 100;

/// Completes arguments.
///
/// Argument of [`Builder::completion`](crate::Builder::completion).
///
/// ```
/// use std::sync::Arc;
/// use callgate::mcp::{Complete, CompletionReference, CompletionRequest, Completions};
/// use callgate::upstream::BoxFuture;
/// use callgate::{Callgate, Caller, Context, Error, prompt, prompts};
/// use serde_json::json;
///
/// /// Completes the argument `language` of the prompt `translate`.
/// #[derive(Debug)]
/// struct Languages;
///
/// impl Complete for Languages {
///     fn complete(
///         self: Arc<Self>,
///         _: Context,
///         argument: CompletionRequest,
///     ) -> BoxFuture<'static, Result<Completions, Error>> {
///         let mut languages = match (argument.reference, argument.name.as_str()) {
///             (CompletionReference::Prompt { name }, "language") if name == "translate" => {
///                 vec!["English", "Estonian"]
///             }
///             _ => Vec::new(),
///         };
///         languages.retain(|language| language.starts_with(&argument.value));
///         Box::pin(async { Ok(Completions::new(languages)) })
///     }
/// }
///
/// /// Translates a text.
/// #[prompt]
/// fn translate(text: String, language: String) -> String {
///     format!("Translate this text to {language}:\n\n{text}")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server =
///     Callgate::builder().prompts(prompts![translate]).completion(Languages).build()?;
/// let client = server.test_client(Caller::anonymous());
/// let params = json!({
///     "ref": {"type": "ref/prompt", "name": "translate"},
///     "argument": {"name": "language", "value": "Es"},
/// });
/// let result = client.request("completion/complete", params).await?;
/// assert_eq!(result["completion"]["values"], json!(["Estonian"]));
/// # Ok(())
/// # }
/// ```
pub trait Complete: Send + Sync + fmt::Debug {
    /// Returns values that complete the argument. Called only for prompts, resources and templates that the caller sees
    /// in the server's lists.
    fn complete(
        self: Arc<Self>,
        context: Context,
        argument: CompletionRequest,
    ) -> BoxFuture<'static, Result<Completions, Error>>;
}

/// The argument to complete.
///
/// [`Complete`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionRequest {
    /// The prompt or resource template.
    pub reference: CompletionReference,
    /// Name of the argument.
    pub name: String,
    /// The part of the value that the user has typed.
    pub value: String,
    /// Values of other arguments that are already known.
    pub arguments: BTreeMap<String, String>,
}

/// The prompt or resource template that has the argument.
///
/// [`Complete`] has an example.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum CompletionReference {
    /// A prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// Name of the prompt.
        name: String,
    },
    /// A resource template.
    #[serde(rename = "ref/resource")]
    Template {
        /// URI template.
        uri: String,
    },
}

/// Values that complete an argument.
///
/// [`Complete`] has an example.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Completions {
    values: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    has_more: bool,
}

impl Completions {
    /// Creates a list of values. Only the first hundred are sent.
    pub fn new(values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        let total = u64::try_from(values.len()).ok();
        let has_more = values.len() > MAX_VALUES;
        values.truncate(MAX_VALUES);
        Self { values, total, has_more }
    }

    /// Sets the total number of values, including those that are not sent.
    #[must_use]
    pub fn total(mut self, total: u64) -> Self {
        self.total = Some(total);
        self.has_more = total > self.values.len() as u64;
        self
    }
}

/// `completion/complete`
pub(crate) fn complete(context: &RequestContext<'_>) -> Result<McpResponse, McpError> {
    #[derive(Deserialize)]
    struct Argument {
        name: String,
        value: String,
    }
    #[derive(Deserialize)]
    struct Others<'a> {
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let RequestContext { mcp, request, negotiated, .. } = context;
    let Some(completion) = mcp.services.completion.clone() else {
        return Err(McpError::method_not_found(
            &request.method_name,
            negotiated.revision.is_modern(),
        ));
    };
    let reference: CompletionReference = required_param(request, "ref")?;
    let Argument { name, value } = required_param(request, "argument")?;
    let arguments = match request.params.get("context") {
        Some(_) => required_param::<Others<'_>>(request, "context")?.arguments,
        None => None,
    };
    let arguments = string_map(arguments).ok_or_else(|| {
        McpError::invalid_params("`context`: `arguments` must be an object of strings")
    })?;
    let argument = CompletionRequest { reference, name, value, arguments };
    let (services, revision) = (mcp.services.clone(), negotiated.revision);
    let run = move |context: Context| async move {
        if !is_listed(&services, &context.caller, &argument.reference).await? {
            return Ok(Err(match &argument.reference {
                CompletionReference::Prompt { name } => prompts::not_found(name),
                CompletionReference::Template { uri } => resources::not_found(uri, revision),
            }));
        }
        completion.complete(context, argument).await.map(Ok)
    };
    context.run(CallTarget::of("completion/complete"), run, |completions, call| {
        let mut result = call.result(200);
        result.value("completion", &completions?);
        Ok(call.finish(result))
    })
}

/// Returns `true` if the caller sees the prompt, resource or template in a list.
async fn is_listed(
    services: &Services,
    caller: &Caller,
    reference: &CompletionReference,
) -> Result<bool, Error> {
    match reference {
        CompletionReference::Prompt { name } => {
            let Some(prompts) = &services.prompts else { return Ok(false) };
            Ok(prompts.list(caller).await?.iter().any(|prompt| prompt.key() == name))
        }
        CompletionReference::Template { uri } => {
            let Some(resources) = &services.resources else { return Ok(false) };
            let is_match = |resource: &Resource| resource.key() == uri;
            Ok(resources.templates(caller).await?.iter().any(is_match)
                || resources.list(caller).await?.iter().any(is_match))
        }
    }
}

fn required_param<'a, T: Deserialize<'a>>(
    request: &McpRequest<'a>,
    name: &str,
) -> Result<T, McpError> {
    let Some(raw) = request.params.get(name) else {
        return Err(McpError::invalid_params(format!("`{name}` is missing")));
    };
    strict_json::deserialize_short(raw).map_err(|error| {
        McpError::invalid_params(format!("`{name}`: {}", strict_json::problem(&error)))
    })
}
