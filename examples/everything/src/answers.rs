//! Tools that return text, images, audio, resources and errors, with progress and log messages.

use std::time::Duration;

use callgate::local::{Local, MethodFunction};
use callgate::mcp::LogLevel;
use callgate::model::{Method, Safety};
use callgate::upstream::{ResourceContents, ToolContent};
use callgate::{Content, Context, Error, method, methods};
use serde_json::{Value, json};
use tokio::time::sleep;

/// A PNG image of one red pixel.
pub(crate) const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 12, b'I', b'D', b'A', b'T',
    0x08, 0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0, 0, 3, 1, 1, 0, 0x18, 0xdd, 0x8d, 0xb0, 0, 0, 0, 0, b'I',
    b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// A WAV file without samples.
const SILENCE: &[u8] =
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\0\0\0";

pub(crate) fn methods() -> impl IntoIterator<Item = MethodFunction> {
    methods![
        text,
        greet,
        header,
        image,
        audio,
        embedded,
        mixed,
        error,
        progress,
        logging,
        logs_once,
        reconnection,
    ]
}

/// Returns a text.
#[method(id = "answers.text", tool_name = "test_simple_text", read_only)]
fn text() -> Content {
    "This is a simple text response for testing.".into()
}

/// Greets somebody.
#[method(id = "answers.greet", tool_name = "greet", read_only)]
fn greet(name: String) -> Content {
    format!("Hello, {name}!").into()
}

/// Takes an argument that clients repeat in a header.
#[method(id = "answers.header", tool_name = "test_x_mcp_header", read_only)]
fn header(#[schemars(extend("x-mcp-header" = "Region"))] region: String) -> Content {
    // Proxies can route by the header, which must be equal to the argument.
    format!("Region: {region}").into()
}

/// Returns an image.
#[method(id = "answers.image", tool_name = "test_image_content", read_only)]
fn image() -> Content {
    Content::image(PIXEL, "image/png")
}

/// Returns audio.
#[method(id = "answers.audio", tool_name = "test_audio_content", read_only)]
fn audio() -> Content {
    Content::audio(SILENCE, "audio/wav")
}

/// Returns a resource with its contents.
#[method(id = "answers.embedded", tool_name = "test_embedded_resource", read_only)]
fn embedded() -> Content {
    let text = "This is an embedded resource content.";
    Content::resource(
        ResourceContents::text("test://embedded-resource", text).mime_type("text/plain"),
    )
}

/// Returns a text, an image and a resource.
#[method(id = "answers.mixed", tool_name = "test_multiple_content_types", read_only)]
fn mixed() -> ToolContent {
    let resource = json!({"test": "data", "value": 123}).to_string();
    let resource = ResourceContents::text("test://mixed-content-resource", resource);
    ToolContent::new([
        "Multiple content types test:".into(),
        Content::image(PIXEL, "image/png"),
        Content::resource(resource.mime_type("application/json")),
    ])
}

/// Returns an error.
#[method(id = "answers.error", tool_name = "test_error_handling", read_only)]
fn error() -> Result<Content, Error> {
    Err(Error::tool("This tool intentionally returns an error for testing"))
}

/// Reports its progress.
#[method(id = "answers.progress", tool_name = "test_tool_with_progress", read_only)]
async fn progress(ctx: &Context) -> Content {
    for done in [0.0, 50.0, 100.0] {
        ctx.progress(done, Some(100.0), None);
        sleep(Duration::from_millis(50)).await;
    }
    "Done in three steps.".into()
}

/// Logs three messages.
#[method(id = "answers.logging", tool_name = "test_tool_with_logging", read_only)]
async fn logging(ctx: &Context) -> Content {
    for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        ctx.log(LogLevel::Info, "everything", message);
        sleep(Duration::from_millis(50)).await;
    }
    "Logged three messages.".into()
}

/// Logs one message.
#[method(id = "answers.logs_once", tool_name = "test_logging_tool", read_only)]
fn logs_once(ctx: &Context) -> Content {
    ctx.log(LogLevel::Info, "everything", "a log message");
    "Logged one message.".into()
}

/// Closes the event stream, and returns the result after the client has reconnected.
#[method(id = "answers.reconnection", tool_name = "test_reconnection", read_only)]
async fn reconnection(ctx: &Context) -> Content {
    // The stream ends before the result; the client reconnects to get the result.
    ctx.client.close_stream(Duration::from_millis(500));
    sleep(Duration::from_millis(300)).await;
    "Reconnection test completed: the client reconnected.".into()
}

/// Defines a method with a schema that no Rust type has.
pub(crate) fn with_explicit_schema() -> anyhow::Result<Local> {
    let method = Method::new("answers.schema".parse()?)
        .tool_name("json_schema_2020_12_tool")
        .description("Has a schema with many keywords of JSON Schema.")
        .safety(Safety::ReadOnly)
        .exact_input_schema(large_schema())?;
    let mut local = Local::default();
    local.method(method, async |_, arguments: Value| Ok(arguments));
    Ok(local)
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
