//! What a method can ask the client for while it runs: an answer of the person, a completion of the
//! client's model, the client's roots.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::upstream::client::Capability;
use crate::upstream::content::{Content, Role};

/// Something that a client can be asked. See [`Elicit`], [`Sample`] and [`ListRoots`].
pub trait Question: sealed::Sealed {
    /// What it is answered with.
    type Answer: DeserializeOwned;
    /// The method of the request.
    #[doc(hidden)]
    const METHOD: &'static str;

    /// What the client must be able to do.
    #[doc(hidden)]
    fn needs(&self) -> Capability;

    /// The parameters of the request.
    #[doc(hidden)]
    fn params(&self) -> Value;

    /// Returns what is wrong with an answer, in words for the client.
    #[doc(hidden)]
    fn check(&self, answer: &RawValue) -> Result<(), String> {
        read::<Self::Answer>(answer).map(drop)
    }
}

mod sealed {
    /// Only questions of this module can be asked.
    pub trait Sealed: Clone + Send + Sync + 'static {}
    impl Sealed for super::Elicit {}
    impl Sealed for super::Sample {}
    impl Sealed for super::ListRoots {}
}

/// Asks the person: a form with a few fields, or a page to visit.
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
    /// A form. The schema is an object of strings, numbers, booleans and choices, nothing nested:
    /// that is all that clients show.
    pub fn form(message: impl Into<String>, schema: Value) -> Self {
        Self { message: message.into(), mode: ElicitMode::Form(schema) }
    }

    /// A page to visit, for what must not go through the client. The id tells one from another.
    pub fn url(message: impl Into<String>, url: impl Into<String>, id: impl Into<String>) -> Self {
        Self { message: message.into(), mode: ElicitMode::Url { url: url.into(), id: id.into() } }
    }
}

/// What the person said.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct Elicited {
    /// Whether they answered.
    pub action: Action,
    /// What they put into the fields.
    #[serde(default, deserialize_with = "or_nothing")]
    pub content: Map<String, Value>,
}

/// Some clients write null for nothing.
fn or_nothing<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Map<String, Value>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Elicited {
    /// The fields, where the person answered and they are of this form.
    pub fn accepted<T: DeserializeOwned>(self) -> Option<T> {
        if self.action != Action::Accept {
            return None;
        }
        serde_json::from_value(Value::Object(self.content)).ok()
    }
}

/// What a person did with a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// They answered.
    Accept,
    /// They said no.
    Decline,
    /// They closed it.
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
        // A schema that cannot be compiled checks nothing; the client has shown it somehow.
        let Ok(validator) = crate::model::method::compile(schema) else { return Ok(()) };
        let content = Value::Object(elicited.content);
        validator.validate(&content).map_err(|error| error.to_string())
    }
}

/// Asks the client's model.
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
    /// What the person would say, and how long the answer may be.
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

    /// What the model is told first.
    #[must_use]
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = Some(prompt.into());
        self
    }
}

/// What the client's model said.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sampled {
    /// Who says it.
    pub role: Role,
    /// One piece of content, or a list of them.
    pub content: Value,
    /// Which model it was.
    pub model: String,
    /// Why it stopped.
    #[serde(default)]
    pub stop_reason: Option<String>,
}

impl Sampled {
    /// The words of it.
    pub fn text(&self) -> String {
        let pieces = match &self.content {
            Value::Array(pieces) => pieces.as_slice(),
            one => std::slice::from_ref(one),
        };
        pieces.iter().filter_map(|piece| piece.get("text")?.as_str()).collect()
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

/// Asks which directories the client works in.
#[derive(Debug, Clone, Copy)]
pub struct ListRoots;

/// Where the client works.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Roots {
    /// The directories.
    pub roots: Vec<Root>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Root {
    /// `file://…`
    pub uri: String,
    /// What it is called.
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

/// Reads an answer.
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
    fn an_answer_must_fit_its_question() {
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
    fn questions_have_the_form_of_the_protocol() {
        let page = Elicit::url("Sign in", "http://localhost/sign-in", "1");
        let sample = Sample::new("Why?", 10).system_prompt("Be brief.");
        insta::assert_json_snapshot!([page.params(), sample.params(), ListRoots.params()]);
    }
}
