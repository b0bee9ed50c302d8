//! Tools that show the person a form: what fields can be.

use callgate::ask::{Elicit, Elicited};
use callgate::local::Error;
use callgate::{Content, Context, Local, Param};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Nothing, method, tool};

pub(crate) fn add(local: &mut Local) -> anyhow::Result<()> {
    tool(
        local,
        ["forms.defaults", "test_elicitation_sep1034_defaults", "Asks with answers filled in."],
        defaults,
    )?;
    tool(local, ["forms.enums", "test_elicitation_sep1330_enums", "Asks with choices."], enums)?;
    let with = method("forms.person", "test_elicitation", "Asks the person.")?
        .param(Param::new("message", "string".parse()?));
    local.content_method(with, person);
    Ok(())
}

#[derive(Deserialize)]
struct Message {
    message: String,
}

async fn person(context: Context, arguments: Message) -> Result<Content, Error> {
    let schema = json!({
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    });
    let said = context.client.ask("person", Elicit::form(arguments.message, schema)).await?;
    Ok(told("User response", &said))
}

async fn defaults(context: Context, _: Nothing) -> Result<Content, Error> {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {
                "type": "string", "enum": ["active", "inactive", "pending"], "default": "active",
            },
            "verified": {"type": "boolean", "default": true},
        },
        "required": [],
    });
    let said = context.client.ask("defaults", Elicit::form("Is this right?", schema)).await?;
    Ok(told("Elicitation completed", &said))
}

async fn enums(context: Context, _: Nothing) -> Result<Content, Error> {
    let titled = |word: &str| {
        let titles = ["First", "Second", "Third"].into_iter().zip(1..);
        let choice = |(title, number)| json!({"const": format!("value{number}"), "title": format!("{title} {word}")});
        titles.map(choice).collect::<Value>()
    };
    let options = json!(["option1", "option2", "option3"]);
    let schema = json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled("Option")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
        },
        "required": [],
    });
    let said = context.client.ask("enums", Elicit::form("Choose.", schema)).await?;
    Ok(told("Elicitation completed", &said))
}

fn told(start: &str, said: &Elicited) -> Content {
    format!("{start}: action={:?}, content={}", said.action, Value::Object(said.content.clone()))
        .into()
}
