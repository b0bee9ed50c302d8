//! Prompts, and the completion of their arguments.

use std::sync::Arc;

use callgate::ask::Elicit;
use callgate::mcp::PromptFunction;
use callgate::mcp::{Complete, CompletionRequest, Completions, GetPromptResult};
use callgate::upstream::{BoxFuture, ResourceContents};
use callgate::{Content, Context, Error, prompt, prompts};
use serde_json::{Value, json};

use crate::answers::PIXEL;

pub(crate) fn prompts() -> impl IntoIterator<Item = PromptFunction> {
    prompts![simple, with_arguments, with_resource, with_image, with_elicitation]
}

/// A text.
#[prompt(name = "test_simple_prompt")]
fn simple() -> &'static str {
    "This is a simple prompt for testing."
}

/// A text that contains two arguments.
#[prompt(name = "test_prompt_with_arguments")]
fn with_arguments(
    /// The first argument
    arg1: String,
    /// The second argument
    arg2: String,
) -> String {
    format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
}

/// A text about a resource.
#[prompt(name = "test_prompt_with_embedded_resource")]
fn with_resource(
    /// The resource's address
    #[expect(non_snake_case, reason = "clients use this name")]
    resourceUri: String,
) -> GetPromptResult {
    let text = "Embedded resource content for testing.";
    let resource = ResourceContents::text(resourceUri, text).mime_type("text/plain");
    let resource = Content::resource(resource);
    GetPromptResult::default().user(resource).user("Please process the embedded resource above.")
}

/// A text about an image.
#[prompt(name = "test_prompt_with_image")]
fn with_image() -> GetPromptResult {
    let image = Content::image(PIXEL, "image/png");
    GetPromptResult::default().user(image).user("Please analyze the image above.")
}

/// A text about a topic that the user enters.
#[prompt(name = "test_input_required_result_prompt")]
async fn with_elicitation(ctx: &Context) -> Result<String, Error> {
    let schema = json!({
        "type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"],
    });
    let question = Elicit::form("What context should the prompt use?", schema);
    let elicited = ctx.ask("user_context", question).await?;
    let topic = elicited.content.get("context").and_then(Value::as_str).unwrap_or("nothing");
    Ok(format!("Let us talk about {topic}."))
}

/// Returns cities as completions of any argument.
#[derive(Debug)]
pub(crate) struct Cities;

impl Complete for Cities {
    fn complete(
        self: Arc<Self>,
        _: Context,
        argument: CompletionRequest,
    ) -> BoxFuture<'static, Result<Completions, Error>> {
        let cities = ["paris", "park", "party", "tessaloniki", "testaccio"];
        let matching = cities.into_iter().filter(|city| city.starts_with(&argument.value));
        let completions = Completions::new(matching);
        Box::pin(async { Ok(completions) })
    }
}
