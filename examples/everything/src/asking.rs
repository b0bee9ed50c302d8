//! Tools that ask: the person, the client's model, where the client works.
//!
//! None of them knows which revision its client speaks. In the modern era such a function ends at its
//! question and runs again, from its beginning, with the answer; in the legacy era it waits for it.

use callgate::ask::{Elicit, Elicited, ListRoots, Sample};
use callgate::local::Error;
use callgate::{Capability, Content, Context, Local, Param};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Nothing, method, tool};

pub(crate) fn add(local: &mut Local) -> anyhow::Result<()> {
    asks(local, "capabilities", "Asks what the client can do.", by_capability)?;
    tool(
        local,
        ["asking.lacks", "test_missing_capability", "Asks the client's model, which it must have."],
        capital,
    )?;
    let with = method("asking.model", "test_sampling", "Asks the client's model.")?
        .param(Param::new("prompt", "string".parse()?));
    local.content_method(with, model);
    asks(local, "elicitation", "Asks for a name.", greet)?;
    tool(
        local,
        ["asking.name_again", "test_streaming_elicitation", "Asks for a name, too."],
        greet,
    )?;
    asks(local, "list_roots", "Asks where the client works.", roots)?;
    asks(local, "sampling", "Asks the client's model for a capital.", capital)?;
    asks(local, "multiple_inputs", "Asks three things at once.", several)?;
    asks(local, "request_state", "Asks to confirm.", confirm)?;
    asks(local, "multi_round", "Asks one thing after the other.", steps)?;
    asks(local, "tampered_state", "Asks to confirm, too.", confirm)?;
    Ok(())
}

/// Adds a tool whose answer may be that it has to ask.
fn asks<Ran>(
    local: &mut Local,
    name: &str,
    description: &str,
    function: impl Fn(Context, Nothing) -> Ran + Send + Sync + 'static,
) -> anyhow::Result<()>
where
    Ran: Future<Output = Result<Content, Error>> + Send + 'static,
{
    let (id, name) = (format!("asking.{name}"), format!("test_input_required_result_{name}"));
    tool(local, [&id, &name, description], function)
}

/// A form with one field.
fn field(message: &str, name: &str, kind: &str) -> Elicit {
    let schema =
        json!({"type": "object", "properties": {name: {"type": kind}}, "required": [name]});
    Elicit::form(message, schema)
}

fn answer(elicited: &Elicited, field: &str) -> String {
    elicited.content.get(field).and_then(Value::as_str).unwrap_or("nobody").to_owned()
}

async fn greet(context: Context, _: Nothing) -> Result<Content, Error> {
    let name =
        context.client.ask("user_name", field("What is your name?", "name", "string")).await?;
    Ok(format!("Hello, {}!", answer(&name, "name")).into())
}

async fn capital(context: Context, _: Nothing) -> Result<Content, Error> {
    let question = Sample::new("What is the capital of France?", 100);
    let said = context.client.ask("capital_question", question).await?;
    Ok(said.text().into())
}

async fn roots(context: Context, _: Nothing) -> Result<Content, Error> {
    let roots = context.client.ask("client_roots", ListRoots).await?.roots;
    let roots: Vec<String> = roots.into_iter().map(|root| root.uri).collect();
    Ok(roots.join("\n").into())
}

async fn confirm(context: Context, _: Nothing) -> Result<Content, Error> {
    let confirmed = context.client.ask("confirm", field("Go on?", "ok", "boolean")).await?;
    Ok(format!("state-ok: {:?}", confirmed.action).into())
}

/// Awaited together, so asked together.
async fn several(context: Context, _: Nothing) -> Result<Content, Error> {
    let client = &context.client;
    let (name, greeting, roots) = tokio::try_join!(
        client.ask("user_name", field("What is your name?", "name", "string")),
        client.ask("greeting", Sample::new("Generate a greeting", 50)),
        client.ask("client_roots", ListRoots),
    )?;
    let name = answer(&name, "name");
    Ok(format!("{name}: {} ({} roots)", greeting.text(), roots.roots.len()).into())
}

async fn steps(context: Context, _: Nothing) -> Result<Content, Error> {
    let client = &context.client;
    let name = client.ask("step1", field("Step 1: What is your name?", "name", "string")).await?;
    let question = field("Step 2: What is your favorite color?", "color", "string");
    let color = client.ask("step2", question).await?;
    Ok(format!("{} likes {}.", answer(&name, "name"), answer(&color, "color")).into())
}

/// Asks nothing that the client did not offer.
async fn by_capability(context: Context, _: Nothing) -> Result<Content, Error> {
    if context.client.can(Capability::Elicitation) {
        return greet(context, Nothing {}).await;
    }
    if context.client.can(Capability::Sampling) {
        return capital(context, Nothing {}).await;
    }
    Ok("You cannot be asked anything.".into())
}

#[derive(Deserialize)]
struct Prompt {
    prompt: String,
}

async fn model(context: Context, arguments: Prompt) -> Result<Content, Error> {
    let said = context.client.ask("prompt", Sample::new(arguments.prompt, 100)).await?;
    Ok(format!("LLM response: {}", said.text()).into())
}
