//! Prompts, and the completion of their arguments.

use std::collections::BTreeMap;
use std::sync::Arc;

use callgate::ask::Elicit;
use callgate::local::Error;
use callgate::mcp::{Complete, Completions, Filled, Prompt, Prompts, ToComplete};
use callgate::{BoxFuture, Caller, Content, Context, ResourceContents};
use serde_json::{Value, json};

use crate::answers::PIXEL;

#[derive(Debug)]
pub(crate) struct AllPrompts;

impl Prompts for AllPrompts {
    fn list<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, Result<Vec<Prompt>, Error>> {
        let prompts = vec![
            Prompt::new("test_simple_prompt", "A text."),
            Prompt::new("test_prompt_with_arguments", "A text with two things in it.")
                .required("arg1", "The one thing")
                .required("arg2", "The other thing"),
            Prompt::new("test_prompt_with_embedded_resource", "A text about a resource.")
                .required("resourceUri", "The resource's address"),
            Prompt::new("test_prompt_with_image", "A text about a picture."),
            Prompt::new("test_input_required_result_prompt", "A text about what you say."),
        ];
        Box::pin(async { Ok(prompts) })
    }

    fn get(
        self: Arc<Self>,
        context: Context,
        name: String,
        arguments: BTreeMap<String, String>,
    ) -> BoxFuture<'static, Result<Option<Filled>, Error>> {
        Box::pin(async move {
            let argument = |name: &str| arguments.get(name).cloned().unwrap_or_default();
            let filled = Filled::default();
            Ok(Some(match name.as_str() {
                "test_simple_prompt" => filled.user("This is a simple prompt for testing."),
                "test_prompt_with_arguments" => filled.user(format!(
                    "Prompt with arguments: arg1='{}', arg2='{}'",
                    argument("arg1"),
                    argument("arg2")
                )),
                "test_prompt_with_embedded_resource" => {
                    let text = "Embedded resource content for testing.";
                    let resource = ResourceContents::text(argument("resourceUri"), text);
                    let resource = Content::resource(resource.mime_type("text/plain"));
                    filled.user(resource).user("Please process the embedded resource above.")
                }
                "test_prompt_with_image" => {
                    let image = Content::image(PIXEL, "image/png");
                    filled.user(image).user("Please analyze the image above.")
                }
                "test_input_required_result_prompt" => filled.user(asked(&context).await?),
                _ => return Ok(None),
            }))
        })
    }
}

async fn asked(context: &Context) -> Result<String, Error> {
    let schema = json!({
        "type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"],
    });
    let question = Elicit::form("What context should the prompt use?", schema);
    let said = context.client.ask("user_context", question).await?;
    let about = said.content.get("context").and_then(Value::as_str).unwrap_or("nothing");
    Ok(format!("Let us talk about {about}."))
}

#[derive(Debug)]
pub(crate) struct Cities;

impl Complete for Cities {
    fn complete(
        self: Arc<Self>,
        _: Context,
        argument: ToComplete,
    ) -> BoxFuture<'static, Result<Completions, Error>> {
        let cities = ["paris", "park", "party", "tessaloniki", "testaccio"];
        let fitting = cities.into_iter().filter(|city| city.starts_with(&argument.value));
        let completions = Completions::new(fitting);
        Box::pin(async { Ok(completions) })
    }
}
