//! Tools that ask the user or the client's model, or request the client's roots.
//!
//! The code is the same for all protocol versions. In the modern era, a function ends at its question and runs again
//! from its beginning with the answer; in the legacy era, it waits for the answer.

use callgate::ask::{Elicit, Elicited, ListRoots, Sample};
use callgate::local::MethodFunction;
use callgate::upstream::Capability;
use callgate::{Content, Context, Error, method, methods};
use serde_json::{Value, json};

pub(crate) fn methods() -> impl IntoIterator<Item = MethodFunction> {
    methods![
        name,
        name_again,
        capital,
        requires_sampling,
        model,
        roots,
        confirm,
        confirm_again,
        three_questions,
        two_rounds,
        by_capability,
    ]
}

/// Returns a form with one field.
fn field(message: &str, name: &str, kind: &str) -> Elicit {
    let schema =
        json!({"type": "object", "properties": {name: {"type": kind}}, "required": [name]});
    Elicit::form(message, schema)
}

fn answer(elicited: &Elicited, field: &str) -> String {
    elicited.content.get(field).and_then(Value::as_str).unwrap_or("nobody").to_owned()
}

/// Asks for a name.
#[method(
    id = "asking.elicitation",
    tool_name = "test_input_required_result_elicitation",
    read_only
)]
async fn name(ctx: &Context) -> Result<Content, Error> {
    let name = ctx.ask("user_name", field("What is your name?", "name", "string")).await?;
    Ok(format!("Hello, {}!", answer(&name, "name")).into())
}

/// Asks for a name during the call.
#[method(id = "asking.name_again", tool_name = "test_streaming_elicitation", read_only)]
async fn name_again(ctx: &Context) -> Result<Content, Error> {
    name(ctx).await
}

/// Asks the client's model for a capital.
#[method(id = "asking.sampling", tool_name = "test_input_required_result_sampling", read_only)]
async fn capital(ctx: &Context) -> Result<Content, Error> {
    let question = Sample::new("What is the capital of France?", 100);
    Ok(ctx.ask("capital_question", question).await?.text().into())
}

/// Asks the client's model for a capital. Fails if the client does not support sampling.
#[method(id = "asking.lacks", tool_name = "test_missing_capability", read_only)]
async fn requires_sampling(ctx: &Context) -> Result<Content, Error> {
    capital(ctx).await
}

/// Passes a prompt to the client's model.
#[method(id = "asking.model", tool_name = "test_sampling", read_only)]
async fn model(ctx: &Context, prompt: String) -> Result<Content, Error> {
    let sampled = ctx.ask("prompt", Sample::new(prompt, 100)).await?;
    Ok(format!("LLM response: {}", sampled.text()).into())
}

/// Requests the client's roots.
#[method(id = "asking.list_roots", tool_name = "test_input_required_result_list_roots", read_only)]
async fn roots(ctx: &Context) -> Result<Content, Error> {
    let roots = ctx.ask("client_roots", ListRoots).await?.roots;
    let roots: Vec<String> = roots.into_iter().map(|root| root.uri).collect();
    Ok(roots.join("\n").into())
}

/// Asks the user for a confirmation.
#[method(
    id = "asking.request_state",
    tool_name = "test_input_required_result_request_state",
    read_only
)]
async fn confirm(ctx: &Context) -> Result<Content, Error> {
    let confirmed = ctx.ask("confirm", field("Go on?", "ok", "boolean")).await?;
    Ok(format!("state-ok: {:?}", confirmed.action).into())
}

/// Asks the user for a confirmation, to test a request state that the client changed.
#[method(
    id = "asking.tampered_state",
    tool_name = "test_input_required_result_tampered_state",
    read_only
)]
async fn confirm_again(ctx: &Context) -> Result<Content, Error> {
    confirm(ctx).await
}

/// Asks three questions at once.
#[method(
    id = "asking.multiple_inputs",
    tool_name = "test_input_required_result_multiple_inputs",
    read_only
)]
async fn three_questions(ctx: &Context) -> Result<Content, Error> {
    // Questions that are awaited together are sent together.
    let (name, greeting, roots) = tokio::try_join!(
        ctx.ask("user_name", field("What is your name?", "name", "string")),
        ctx.ask("greeting", Sample::new("Generate a greeting", 50)),
        ctx.ask("client_roots", ListRoots),
    )?;
    let name = answer(&name, "name");
    Ok(format!("{name}: {} ({} roots)", greeting.text(), roots.roots.len()).into())
}

/// Asks two questions, one after the other.
#[method(
    id = "asking.multi_round",
    tool_name = "test_input_required_result_multi_round",
    read_only
)]
async fn two_rounds(ctx: &Context) -> Result<Content, Error> {
    let name = ctx.ask("step1", field("Step 1: What is your name?", "name", "string")).await?;
    let question = field("Step 2: What is your favorite color?", "color", "string");
    let color = ctx.ask("step2", question).await?;
    Ok(format!("{} likes {}.", answer(&name, "name"), answer(&color, "color")).into())
}

/// Asks a question that the client supports.
#[method(
    id = "asking.capabilities",
    tool_name = "test_input_required_result_capabilities",
    read_only
)]
async fn by_capability(ctx: &Context) -> Result<Content, Error> {
    // Uses only capabilities that the client declared.
    if ctx.supports(Capability::Elicitation) {
        return name(ctx).await;
    }
    if ctx.supports(Capability::Sampling) {
        return capital(ctx).await;
    }
    Ok("The client supports no questions.".into())
}
