//! Prompts that `#[prompt]` generates from functions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::pagination::ListItem as _;
use crate::access::{Caller, Mask, Requirement, Section};
use crate::mcp::{GetPromptResult, Prompt, Prompts};
use crate::upstream::BoxFuture;
use crate::upstream::local::string_args::StringArgs;
use crate::upstream::local::{Context, Error};

type RunPrompt =
    dyn Fn(Context, StringArgs) -> BoxFuture<'static, Result<GetPromptResult, Error>> + Send + Sync;

/// A prompt with its function.
///
/// Returned by the macro [`prompts!`](crate::prompts!). Argument of [`Builder::prompts`](crate::Builder::prompts).
#[derive(Clone)]
pub struct PromptFunction {
    prompt: Prompt,
    requirement: Requirement,
    run: Arc<RunPrompt>,
}

impl PromptFunction {
    /// Adds a required mask.
    #[doc(hidden)]
    #[must_use]
    pub fn requires(mut self, section: &str, mask: Mask) -> Self {
        self.requirement.add(Section::from(section), mask);
        self
    }

    pub(crate) fn name(&self) -> &str {
        self.prompt.key()
    }

    pub(crate) fn requirement(&self) -> &Requirement {
        &self.requirement
    }
}

impl fmt::Debug for PromptFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PromptFunction").field(&self.prompt).finish()
    }
}

impl Prompt {
    /// Adds the function.
    #[doc(hidden)]
    pub fn run<R, F, Fut>(self, function: F) -> PromptFunction
    where
        R: Into<GetPromptResult>,
        F: Fn(Context, StringArgs) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Error>> + Send + 'static,
    {
        let run = move |context, arguments| -> BoxFuture<'static, _> {
            let result = function(context, arguments);
            Box::pin(async move { Ok(result.await?.into()) })
        };
        let requirement = Requirement::default();
        PromptFunction { prompt: self, requirement, run: Arc::new(run) }
    }
}

/// The prompts that functions of the application implement. A caller sees only the prompts that its grants allow.
#[derive(Debug, Default)]
pub(crate) struct LocalPrompts(pub(crate) Vec<PromptFunction>);

impl Prompts for LocalPrompts {
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Result<Vec<Prompt>, Error>> {
        let allowed = self.0.iter().filter(|function| function.requirement.allows(&caller.grants));
        let prompts: Vec<Prompt> = allowed.map(|function| function.prompt.clone()).collect();
        Box::pin(async { Ok(prompts) })
    }

    fn get(
        self: Arc<Self>,
        context: Context,
        name: String,
        arguments: BTreeMap<String, String>,
    ) -> BoxFuture<'static, Result<Option<GetPromptResult>, Error>> {
        Box::pin(async move {
            // Prompts are only called if they are in the caller's list. Access is checked again here.
            let is_match = |candidate: &&PromptFunction| {
                candidate.name() == name && candidate.requirement.allows(&context.caller.grants)
            };
            let Some(function) = self.0.iter().find(is_match) else { return Ok(None) };
            (function.run)(context, StringArgs(arguments)).await.map(Some)
        })
    }
}
