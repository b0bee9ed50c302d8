//! Two listed resources, one that clients can subscribe to, and a resource template.

use callgate::mcp::ResourceFunction;
use callgate::{resource, resources};
use serde_json::json;

use crate::answers::PIXEL;

pub(crate) fn resources() -> impl IntoIterator<Item = ResourceFunction> {
    resources![text, picture, watched, data]
}

/// A text.
#[resource(uri = "test://static-text", name = "static-text", mime_type = "text/plain")]
fn text() -> &'static str {
    "This is the content of the static text resource."
}

/// An image.
#[resource(uri = "test://static-binary", name = "static-binary", mime_type = "image/png")]
fn picture() -> &'static [u8] {
    PIXEL
}

/// URI of the resource that clients can subscribe to.
pub(crate) const WATCHED: &str = "test://watched-resource";

/// A resource that clients can subscribe to.
#[resource(uri = "test://watched-resource", mime_type = "text/plain")]
fn watched() -> &'static str {
    "This is the content of the watched resource."
}

/// Data for an id.
#[resource(uri = "test://template/{id}/data", mime_type = "application/json")]
fn data(id: String) -> String {
    json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}).to_string()
}
