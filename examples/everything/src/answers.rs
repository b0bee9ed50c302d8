//! Tools that answer: text, pictures, sounds, resources, errors; with progress and log messages.

use std::time::Duration;

use callgate::local::Error;
use callgate::{Content, Context, Local, LogLevel, Param, ResourceContents, ToolContent};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{Nothing, method, tool};

/// One red pixel.
pub(crate) const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 12, b'I', b'D', b'A', b'T',
    0x08, 0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0, 0, 3, 1, 1, 0, 0x18, 0xdd, 0x8d, 0xb0, 0, 0, 0, 0, b'I',
    b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// A sound without samples.
const SILENCE: &[u8] =
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\0\0\0";

pub(crate) fn add(local: &mut Local) -> anyhow::Result<()> {
    tool(local, ["answers.audio", "test_audio_content", "Gives a sound."], audio)?;
    tool(
        local,
        ["answers.embedded", "test_embedded_resource", "Gives a resource, whole."],
        embedded,
    )?;
    tool(local, ["answers.error", "test_error_handling", "Fails, and says so."], error)?;
    let with =
        method("answers.header", "test_x_mcp_header", "Takes an argument that is also a header.")?;
    local.content_method(with.input_schema(header_schema())?, header);
    tool(local, ["answers.image", "test_image_content", "Gives a picture."], image)?;
    tool(local, ["answers.logging", "test_tool_with_logging", "Logs while it runs."], logging)?;
    tool(local, ["answers.logs_once", "test_logging_tool", "Logs one message."], logs_once)?;
    tool(
        local,
        ["answers.mixed", "test_multiple_content_types", "Gives a text, a picture and a resource."],
        mixed,
    )?;
    tool(local, ["answers.progress", "test_tool_with_progress", "Tells how far it is."], progress)?;
    tool(
        local,
        [
            "answers.reconnection",
            "test_reconnection",
            "Lets its client go, and has its result later.",
        ],
        reconnection,
    )?;
    let with =
        method("answers.schema", "json_schema_2020_12_tool", "Has a schema with much in it.")?;
    local.method(with.exact_input_schema(large_schema())?, echo);
    tool(local, ["answers.text", "test_simple_text", "Gives a text."], text)?;
    let with = method("answers.greet", "greet", "Greets somebody.")?
        .param(Param::new("name", "string".parse()?));
    local.content_method(with, greet);
    Ok(())
}

async fn text(_: Context, _: Nothing) -> Result<Content, Error> {
    Ok("This is a simple text response for testing.".into())
}

async fn image(_: Context, _: Nothing) -> Result<Content, Error> {
    Ok(Content::image(PIXEL, "image/png"))
}

async fn audio(_: Context, _: Nothing) -> Result<Content, Error> {
    Ok(Content::audio(SILENCE, "audio/wav"))
}

async fn embedded(_: Context, _: Nothing) -> Result<Content, Error> {
    let text = "This is an embedded resource content.";
    Ok(Content::resource(
        ResourceContents::text("test://embedded-resource", text).mime_type("text/plain"),
    ))
}

async fn mixed(_: Context, _: Nothing) -> Result<ToolContent, Error> {
    let resource = json!({"test": "data", "value": 123}).to_string();
    let resource = ResourceContents::text("test://mixed-content-resource", resource);
    Ok(ToolContent::new([
        "Multiple content types test:".into(),
        Content::image(PIXEL, "image/png"),
        Content::resource(resource.mime_type("application/json")),
    ]))
}

async fn error(_: Context, _: Nothing) -> Result<Content, Error> {
    Err(Error::tool("This tool intentionally returns an error for testing"))
}

async fn progress(context: Context, _: Nothing) -> Result<Content, Error> {
    for done in [0.0, 50.0, 100.0] {
        context.client.progress(done, Some(100.0), None);
        sleep(Duration::from_millis(50)).await;
    }
    Ok("Done in three steps.".into())
}

async fn logging(context: Context, _: Nothing) -> Result<Content, Error> {
    for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        context.client.log(LogLevel::Info, "everything", message);
        sleep(Duration::from_millis(50)).await;
    }
    Ok("Logged three messages.".into())
}

async fn logs_once(context: Context, _: Nothing) -> Result<Content, Error> {
    context.client.log(LogLevel::Info, "everything", "for those who want to know");
    Ok("Logged one message.".into())
}

/// The client's stream ends before the result is there; it comes back for it.
async fn reconnection(context: Context, _: Nothing) -> Result<Content, Error> {
    context.client.let_go(Duration::from_millis(500));
    sleep(Duration::from_millis(300)).await;
    Ok("Reconnection test completed: you came back.".into())
}

#[derive(Deserialize)]
struct Greet {
    name: String,
}

async fn greet(_: Context, arguments: Greet) -> Result<Content, Error> {
    Ok(format!("Hello, {}!", arguments.name).into())
}

#[derive(Deserialize)]
struct Header {
    region: String,
}

async fn header(_: Context, arguments: Header) -> Result<Content, Error> {
    Ok(format!("Region: {}", arguments.region).into())
}

/// Proxies between can route by the header, which must say what the argument says.
fn header_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    })
}

async fn echo(_: Context, arguments: Value) -> Result<Value, Error> {
    Ok(arguments)
}

fn large_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}
