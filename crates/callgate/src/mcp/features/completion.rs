//! `completion/complete`: what an argument of a prompt or of a resource template could be, from an
//! embedder.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::mcp::Reply;
use crate::mcp::calls::context::RequestContext;
use crate::mcp::parse::classify::McpRequest;
use crate::mcp::reply::error::Reject;
use crate::upstream::BoxFuture;
use crate::upstream::local::Error;
use crate::upstream::local::context::Context;

/// More proposals than this are not sent.
const MAX_VALUES: usize = 100;

/// Completes arguments.
pub trait Complete: Send + Sync + fmt::Debug {
    /// What the argument could be.
    fn complete(
        self: Arc<Self>,
        context: Context,
        argument: ToComplete,
    ) -> BoxFuture<'static, Result<Completions, Error>>;
}

/// An argument that a person is typing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToComplete {
    /// Of what.
    pub of: CompletionOf,
    /// Which argument.
    pub name: String,
    /// As far as it is typed.
    pub value: String,
    /// The other arguments, as far as they are there.
    pub others: BTreeMap<String, String>,
}

/// What has the argument.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum CompletionOf {
    /// A prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// Its name.
        name: String,
    },
    /// A template of resources.
    #[serde(rename = "ref/resource")]
    Template {
        /// The template.
        uri: String,
    },
}

/// Proposals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Completions {
    values: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    has_more: bool,
}

impl Completions {
    /// These, of which the first hundred are sent.
    pub fn new(values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        let total = u64::try_from(values.len()).ok();
        let has_more = values.len() > MAX_VALUES;
        values.truncate(MAX_VALUES);
        Self { values, total, has_more }
    }

    /// Says how many there are in all.
    #[must_use]
    pub fn total(mut self, total: u64) -> Self {
        self.total = Some(total);
        self.has_more = total > self.values.len() as u64;
        self
    }
}

/// `completion/complete`
pub(crate) fn complete(context: &RequestContext<'_>) -> Result<Reply, Reject> {
    #[derive(Deserialize)]
    struct Argument {
        name: String,
        value: String,
    }
    #[derive(Deserialize, Default)]
    struct Others {
        #[serde(default)]
        arguments: BTreeMap<String, String>,
    }
    let RequestContext { mcp, request, terms, .. } = context;
    let Some(completion) = mcp.services.completion.clone() else {
        return Err(Reject::no_such_method(&request.method, terms.revision.is_modern()));
    };
    let of: CompletionOf = required(request, "ref")?;
    let Argument { name, value } = required(request, "argument")?;
    let others = match request.params.get("context") {
        Some(_) => required(request, "context")?,
        None => Others::default(),
    };
    let argument = ToComplete { of, name, value, others: others.arguments };
    let run = move |context| completion.complete(context, argument);
    context.run("completion/complete", run, |completions, call| {
        let mut result = call.result(200);
        result.value("completion", &completions);
        Ok(call.finish(result))
    })
}

fn required<T: serde::de::DeserializeOwned>(
    request: &McpRequest<'_>,
    name: &str,
) -> Result<T, Reject> {
    let Some(raw) = request.params.get(name) else {
        return Err(Reject::invalid_params(format!("`{name}` is missing")));
    };
    serde_json::from_str(raw.get()).map_err(|error| {
        Reject::invalid_params(format!("`{name}`: {}", crate::wire::strict_json::problem(&error)))
    })
}
