//! Resources: two that are listed, a family of them, and one that can be watched.

use std::sync::Arc;

use callgate::local::Error;
use callgate::mcp::{Resource, ResourceTemplate, Resources};
use callgate::{BoxFuture, Caller, Context, ResourceContents};
use serde_json::json;

use crate::answers::PIXEL;

/// The resource that clients can be told about.
pub(crate) const WATCHED: &str = "test://watched-resource";
const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";

#[derive(Debug)]
pub(crate) struct AllResources;

impl Resources for AllResources {
    fn list<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, Result<Vec<Resource>, Error>> {
        let resources = vec![
            Resource::new(TEXT, "static-text").description("A text.").mime_type("text/plain"),
            Resource::new(BINARY, "static-binary").description("A picture.").mime_type("image/png"),
            Resource::new(WATCHED, "watched").description("It changes.").mime_type("text/plain"),
        ];
        Box::pin(async { Ok(resources) })
    }

    fn templates<'a>(
        &'a self,
        _: &'a Caller,
    ) -> BoxFuture<'a, Result<Vec<ResourceTemplate>, Error>> {
        let template = ResourceTemplate::new("test://template/{id}/data", "data")
            .description("The data of an id.")
            .mime_type("application/json");
        Box::pin(async { Ok(vec![template]) })
    }

    fn read(
        self: Arc<Self>,
        _: Context,
        uri: String,
    ) -> BoxFuture<'static, Result<Option<Vec<ResourceContents>>, Error>> {
        Box::pin(async move { Ok(contents(&uri).map(|contents| vec![contents])) })
    }

    fn can_subscribe(&self) -> bool {
        true
    }
}

fn contents(uri: &str) -> Option<ResourceContents> {
    let text = |text: &str| ResourceContents::text(uri, text).mime_type("text/plain");
    Some(match uri {
        TEXT => text("This is the content of the static text resource."),
        WATCHED => text("This is the content of the watched resource."),
        BINARY => ResourceContents::bytes(uri, PIXEL).mime_type("image/png"),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data = format!("Data for ID: {id}");
            let data = json!({"id": id, "templateTest": true, "data": data});
            ResourceContents::text(uri, data.to_string()).mime_type("application/json")
        }
    })
}
