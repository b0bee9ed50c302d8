//! Tools that show the user a form, with all kinds of fields.

use callgate::ask::{Elicit, Elicited};
use callgate::local::MethodFunction;
use callgate::{Content, Context, Error, method, methods};
use serde_json::{Value, json};

pub(crate) fn methods() -> impl IntoIterator<Item = MethodFunction> {
    methods![person, defaults, enums]
}

/// Asks for a user name and an email address.
#[method(id = "forms.person", tool_name = "test_elicitation", read_only)]
async fn person(ctx: &Context, message: String) -> Result<Content, Error> {
    let schema = json!({
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    });
    let elicited = ctx.ask("person", Elicit::form(message, schema)).await?;
    Ok(summary("User response", &elicited))
}

/// Shows a form with default values.
#[method(id = "forms.defaults", tool_name = "test_elicitation_sep1034_defaults", read_only)]
async fn defaults(ctx: &Context) -> Result<Content, Error> {
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
    let elicited = ctx.ask("defaults", Elicit::form("Is this right?", schema)).await?;
    Ok(summary("Elicitation completed", &elicited))
}

/// Shows a form with choices.
#[method(id = "forms.enums", tool_name = "test_elicitation_sep1330_enums", read_only)]
async fn enums(ctx: &Context) -> Result<Content, Error> {
    let titled = |noun: &str| {
        let titles = ["First", "Second", "Third"].into_iter().zip(1..);
        let choice = |(title, number)| json!({"const": format!("value{number}"), "title": format!("{title} {noun}")});
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
    let elicited = ctx.ask("enums", Elicit::form("Choose.", schema)).await?;
    Ok(summary("Elicitation completed", &elicited))
}

fn summary(start: &str, elicited: &Elicited) -> Content {
    format!(
        "{start}: action={:?}, content={}",
        elicited.action,
        Value::Object(elicited.content.clone())
    )
    .into()
}
