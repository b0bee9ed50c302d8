//! Questions to the client: forms for the user, completions by the client's model, and roots.
//!
//! [`Elicit`], [`Sample`] and [`ListRoots`] have examples. [`Context::ask_for`](crate::Context::ask_for) has an example
//! of a form.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::upstream::client::Capability;
use crate::upstream::content::{Content, Role};
#[cfg(feature = "macros")]
use crate::upstream::local::Error;

/// A question to the client: [`Elicit`], [`Sample`] or [`ListRoots`].
///
/// Argument of [`Context::ask`](crate::Context::ask). Applications cannot implement this trait.
pub trait Question: sealed::Sealed {
    /// Type of the answer.
    type Answer: DeserializeOwned;
    /// MCP method of the request.
    #[doc(hidden)]
    const METHOD: &'static str;

    /// Returns the required capability.
    #[doc(hidden)]
    fn needs(&self) -> Capability;

    /// Returns the parameters of the request.
    #[doc(hidden)]
    fn params(&self) -> Value;

    /// Checks an answer. The error describes the problem.
    #[doc(hidden)]
    fn check(&self, answer: &RawValue) -> Result<(), String> {
        read::<Self::Answer>(answer).map(drop)
    }
}

mod sealed {
    pub trait Sealed: Clone + Send + Sync + 'static {}
    impl Sealed for super::Elicit {}
    impl Sealed for super::Sample {}
    impl Sealed for super::ListRoots {}
}

/// Asks the user to fill in a form or to visit a page.
///
/// ```
/// use callgate::ask::{Action, Elicit, Elicited};
/// use callgate::{Callgate, Caller, Context, Error, method, methods};
///
/// /// Connects the user's calendar.
/// #[method(destructive)]
/// async fn connect_calendar(ctx: &Context) -> Result<bool, Error> {
///     let url = "https://calendar.example.com/sign-in";
///     let page = Elicit::url("Sign in to your calendar", url, "calendar");
///     let answer = ctx.ask("sign-in", page).await?;
///     Ok(answer.action == Action::Accept)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Callgate::builder().methods(methods![connect_calendar]).build()?;
/// let client = server.test_client(Caller::anonymous()).answering(|_| Elicited::decline());
/// let result = client.call("connect_calendar", ()).await?;
/// assert_eq!(result["content"][0]["text"], "false");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Elicit {
    message: String,
    mode: ElicitMode,
}

#[derive(Debug, Clone)]
enum ElicitMode {
    Form(Value),
    Url { url: String, id: String },
}

impl Elicit {
    /// Creates a form. The schema must be a flat object of strings, numbers, booleans and enums, because clients cannot
    /// show anything else.
    pub fn form(message: impl Into<String>, schema: Value) -> Self {
        Self { message: message.into(), mode: ElicitMode::Form(schema) }
    }

    /// Creates a form with the fields of `T`.
    ///
    /// # Errors
    ///
    /// Fails if `T` is not a struct of strings, numbers, booleans and enums without data, or `Option`s of them.
    #[cfg(feature = "macros")]
    pub fn form_for<T: schemars::JsonSchema>(message: impl Into<String>) -> Result<Self, Error> {
        match crate::model::schema::of_rust::form::<T>() {
            Ok(schema) => Ok(Self::form(message, schema)),
            Err(problem) => {
                let name = T::schema_name();
                Err(format!("cannot create a form for the type `{name}`: {problem}").into())
            }
        }
    }

    /// Creates a request to visit a page. Use it for data that must not pass through the client. `id` identifies the
    /// elicitation.
    pub fn url(message: impl Into<String>, url: impl Into<String>, id: impl Into<String>) -> Self {
        Self { message: message.into(), mode: ElicitMode::Url { url: url.into(), id: id.into() } }
    }
}

/// Answer of the user.
///
/// Answer to an [`Elicit`]. [`Elicit`] has an example.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct Elicited {
    /// What the user did.
    pub action: Action,
    /// Values of the fields.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub content: Map<String, Value>,
}

/// Treats null as an empty object, because some clients send null if there is no content.
fn null_as_empty<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Map<String, Value>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Elicited {
    /// Creates the answer of a user who submitted these fields, for tests.
    pub fn accept(fields: impl Serialize) -> Self {
        let content = match serde_json::to_value(fields) {
            Ok(Value::Object(content)) => content,
            _ => Map::new(),
        };
        Self { action: Action::Accept, content }
    }

    /// Creates the answer of a user who declined, for tests.
    pub fn decline() -> Self {
        Self { action: Action::Decline, content: Map::new() }
    }

    /// Returns the fields if the user accepted and the fields can be deserialized.
    pub fn accepted<T: DeserializeOwned>(self) -> Option<T> {
        if self.action != Action::Accept {
            return None;
        }
        serde_json::from_value(Value::Object(self.content)).ok()
    }
}

impl From<Elicited> for Value {
    fn from(elicited: Elicited) -> Self {
        serde_json::to_value(elicited).unwrap_or_default()
    }
}

/// What the user did with a form, or with a request to visit a page.
///
/// Part of [`Elicited`]. [`Elicit`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// The user submitted the form, or agreed to visit the page.
    Accept,
    /// The user declined.
    Decline,
    /// The user dismissed the form or the request.
    Cancel,
}

impl Question for Elicit {
    type Answer = Elicited;
    const METHOD: &'static str = "elicitation/create";

    fn needs(&self) -> Capability {
        match self.mode {
            ElicitMode::Form(_) => Capability::Elicitation,
            ElicitMode::Url { .. } => Capability::ElicitationUrl,
        }
    }

    fn params(&self) -> Value {
        match &self.mode {
            ElicitMode::Form(schema) => json!({"message": self.message, "requestedSchema": schema}),
            ElicitMode::Url { url, id } => json!({
                "mode": "url", "message": self.message, "url": url, "elicitationId": id,
            }),
        }
    }

    fn check(&self, answer: &RawValue) -> Result<(), String> {
        let elicited: Elicited = read(answer)?;
        let ElicitMode::Form(schema) = &self.mode else { return Ok(()) };
        if elicited.action != Action::Accept {
            return Ok(());
        }
        // If the schema does not compile, nothing is checked.
        let Ok(validator) = crate::model::schema::validator::compile(schema) else { return Ok(()) };
        let content = Value::Object(elicited.content);
        validator.validate(&content).map_err(|error| error.to_string())
    }
}

/// Asks the client's model for a completion.
///
/// ```
/// use callgate::ask::{Sample, Sampled};
/// use callgate::upstream::{Capability, Role};
/// use callgate::{Callgate, Caller, Context, Error, method, methods};
/// use serde_json::json;
///
/// /// Summarises a text.
/// #[method(read_only)]
/// async fn summary(ctx: &Context, text: String) -> Result<String, Error> {
///     if !ctx.supports(Capability::Sampling) {
///         return Ok(text);
///     }
///     let question = Sample::new(text, 200).system_prompt("Summarise in one sentence.");
///     Ok(ctx.ask("summary", question).await?.text())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Callgate::builder().methods(methods![summary]).build()?;
/// let client = server.test_client(Caller::anonymous()).answering(|_| {
///     let content = json!({"type": "text", "text": "Short."});
///     json!(Sampled { role: Role::Assistant, content, model: "test".to_owned(), stop_reason: None })
/// });
/// let result = client.call("summary", json!({"text": "A long text."})).await?;
/// assert_eq!(result["content"][0]["text"], "Short.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    messages: Vec<SampleMessage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<String>,
    max_tokens: u32,
}

#[derive(Debug, Clone, Serialize)]
struct SampleMessage {
    role: Role,
    content: Content,
}

impl Sample {
    /// Creates a request with one message of the user. `max_tokens` is the maximum length of the answer in tokens.
    pub fn new(text: impl Into<String>, max_tokens: u32) -> Self {
        let sample = Self { messages: Vec::new(), system_prompt: None, max_tokens };
        sample.message(Role::User, Content::text(text))
    }

    /// Adds a message.
    #[must_use]
    pub fn message(mut self, role: Role, content: Content) -> Self {
        self.messages.push(SampleMessage { role, content });
        self
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = Some(prompt.into());
        self
    }
}

/// Completion of the client's model.
///
/// Answer to a [`Sample`]. [`Sample`] has an example.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sampled {
    /// Author of the message.
    pub role: Role,
    /// A content block, or an array of them.
    pub content: Value,
    /// Name of the model.
    pub model: String,
    /// Reason why the model stopped.
    #[serde(default)]
    pub stop_reason: Option<String>,
}

impl Sampled {
    /// Returns the text blocks, concatenated.
    pub fn text(&self) -> String {
        let blocks = match &self.content {
            Value::Array(blocks) => blocks.as_slice(),
            block => std::slice::from_ref(block),
        };
        blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect()
    }
}

impl Question for Sample {
    type Answer = Sampled;
    const METHOD: &'static str = "sampling/createMessage";

    fn needs(&self) -> Capability {
        Capability::Sampling
    }

    fn params(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// Asks for the directories in which the client works.
///
/// ```
/// use callgate::ask::{ListRoots, Root, Roots};
/// use callgate::{Callgate, Caller, Context, Error, method, methods};
/// use serde_json::json;
///
/// /// Counts the directories of the client.
/// #[method(read_only)]
/// async fn count_roots(ctx: &Context) -> Result<usize, Error> {
///     let answer = ctx.ask("roots", ListRoots).await?;
///     Ok(answer.roots.len())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Callgate::builder().methods(methods![count_roots]).build()?;
/// let roots = Roots { roots: vec![Root { uri: "file:///home/ada".to_owned(), name: None }] };
/// let client = server.test_client(Caller::anonymous()).answering(|_| json!(roots));
/// let result = client.call("count_roots", ()).await?;
/// assert_eq!(result["content"][0]["text"], "1");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ListRoots;

/// The roots of the client.
///
/// Answer to [`ListRoots`]. [`ListRoots`] has an example.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Roots {
    /// The root directories.
    pub roots: Vec<Root>,
}

/// A root directory.
///
/// Part of [`Roots`]. [`ListRoots`] has an example.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Root {
    /// URI of the directory, `file://…`.
    pub uri: String,
    /// Display name.
    #[serde(default)]
    pub name: Option<String>,
}

impl Question for ListRoots {
    type Answer = Roots;
    const METHOD: &'static str = "roots/list";

    fn needs(&self) -> Capability {
        Capability::Roots
    }

    fn params(&self) -> Value {
        json!({})
    }
}

pub(crate) fn read<T: DeserializeOwned>(answer: &RawValue) -> Result<T, String> {
    serde_json::from_str(answer.get()).map_err(|error| crate::wire::strict_json::problem(&error))
}

/// Answers by the key of their question.
pub(crate) type Answers = BTreeMap<String, Box<RawValue>>;

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).unwrap()
    }

    #[test]
    fn an_answer_is_checked_against_its_question() {
        let schema = json!({
            "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
        });
        let question = Elicit::form("Who?", schema);
        let check = |answer: Value| question.check(&raw(&answer));
        assert_eq!(check(json!({"action": "accept", "content": {"name": "Ada"}})), Ok(()));
        assert_eq!(check(json!({"action": "decline"})), Ok(()));
        assert!(check(json!({"action": "accept", "content": {}})).is_err());
        assert!(check(json!({"action": "maybe"})).is_err());
        assert!(check(json!(12345)).is_err());
        assert!(ListRoots.check(&raw(&json!({"roots": [{"name": "no uri"}]}))).is_err());
    }

    #[test]
    fn questions_have_the_parameters_that_mcp_defines() {
        let page = Elicit::url("Sign in", "http://localhost/sign-in", "1");
        let sample = Sample::new("Why?", 10).system_prompt("Be brief.");
        insta::assert_json_snapshot!([page.params(), sample.params(), ListRoots.params()]);
    }
}
