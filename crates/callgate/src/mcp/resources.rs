//! `resources/*`: those of an embedder, and the caller's tools as one more.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;

use super::Reply;
use super::input_required::Subject;
use super::message::{OutMessage, ResultWriter, write_json};
use super::page::{Item, PageOf};
use super::reject::Reject;
use super::requested::Requested;
use crate::access::Caller;
use crate::content::ResourceContents;
use crate::context::Context;
use crate::listing::PageLimit;
use crate::local::Error;
use crate::revision::Revision;
use crate::upstream::BoxFuture;

/// The caller's tools.
const TOOLS_URI: &str = "callgate://tools";
/// The tools' resource shows no more than this of them; `tools/list` has the rest.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// What legacy revisions say of a resource that is not there.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// The resources of a server.
pub trait Resources: Send + Sync + fmt::Debug {
    /// Those that the caller may read.
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Result<Vec<Resource>, Error>>;

    /// Families of resources that the caller may read.
    fn templates<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Vec<ResourceTemplate>, Error>> {
        let _ = caller;
        Box::pin(async { Ok(Vec::new()) })
    }

    /// A resource; `None` where there is none of that address for the caller.
    fn read(
        self: Arc<Self>,
        context: Context,
        uri: String,
    ) -> BoxFuture<'static, Result<Option<Vec<ResourceContents>>, Error>>;

    /// Whether the caller may hear that this resource changed; whoever may read it, may.
    fn may_hear(&self, caller: &Caller, uri: &str) -> bool {
        let _ = (caller, uri);
        true
    }

    /// Whether clients may ask to be told of changes. What changes is told with
    /// [`Mcp::resource_updated`](super::Mcp::resource_updated), to clients that named its address and
    /// [`may_hear`](Self::may_hear) of it.
    fn can_subscribe(&self) -> bool {
        false
    }
}

/// A resource, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    uri: String,
    #[serde(flatten)]
    about: About,
}

/// A family of resources, with parts of the address to fill in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceTemplate {
    uri_template: String,
    #[serde(flatten)]
    about: About,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct About {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
}

impl About {
    fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), description: None, mime_type: None }
    }
}

impl Resource {
    /// A resource.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), about: About::named(name) }
    }

    /// What it is about.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.about.description = Some(description.into());
        self
    }

    /// Such as `text/plain`.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.about.mime_type = Some(mime_type.into());
        self
    }
}

impl ResourceTemplate {
    /// A family, such as `file:///{path}`.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri_template: uri_template.into(), about: About::named(name) }
    }

    /// What they are about.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.about.description = Some(description.into());
        self
    }

    /// Such as `text/plain`.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.about.mime_type = Some(mime_type.into());
        self
    }
}

impl Item for Resource {
    fn key(&self) -> &str {
        &self.uri
    }
}

impl Item for ResourceTemplate {
    fn key(&self) -> &str {
        &self.uri_template
    }
}

/// `resources/list`
pub(super) fn list(request: &Requested<'_>) -> Result<Reply, Reject> {
    let page = PageOf::of(request, "resources")?;
    let tools = Resource::new(TOOLS_URI, "tools")
        .description("The tools that you may use, as JSON.")
        .mime_type("application/json");
    let Some(resources) = request.mcp.resources.clone() else {
        return Ok(Reply::Message(page.write(vec![tools])));
    };
    let run = |context: Context| -> BoxFuture<'static, _> {
        Box::pin(async move { resources.list(&context.caller).await })
    };
    request.run(None, run, |mut resources| {
        resources.push(tools);
        Ok(page.write(resources))
    })
}

/// `resources/templates/list`
pub(super) fn list_templates(request: &Requested<'_>) -> Result<Reply, Reject> {
    let page = PageOf::of(request, "resourceTemplates")?;
    let Some(resources) = request.mcp.resources.clone() else {
        return Ok(Reply::Message(page.write(Vec::<ResourceTemplate>::new())));
    };
    let run = |context: Context| -> BoxFuture<'static, _> {
        Box::pin(async move { resources.templates(&context.caller).await })
    };
    request.run(None, run, |templates| Ok(page.write(templates)))
}

/// `resources/read`
pub(super) fn read(request: &Requested<'_>) -> Result<Reply, Reject> {
    let uri = request.asked.params.required_text("uri").map_err(Reject::invalid_params)?;
    let revision = request.terms.revision;
    if uri == TOOLS_URI {
        return Ok(Reply::Message(read_tools(request)));
    }
    let Some(resources) = request.mcp.resources.clone() else {
        return Err(not_found(&uri, revision));
    };
    let subject = Subject { method: "resources/read", name: &uri, arguments: None };
    let (mcp, id) = (Arc::clone(request.mcp), request.asked.id.to_owned());
    let uri = uri.clone().into_owned();
    let wanted = uri.clone();
    request.run(
        Some(subject),
        move |context| resources.read(context, wanted),
        move |contents| {
            let contents = contents.ok_or_else(|| not_found(&uri, revision))?;
            let settings = mcp.gateway.settings();
            let mut result = ResultWriter::new(&id, revision, 200);
            result.value("contents", &contents);
            result.cache(settings.list_ttl_ms, "private");
            Ok(result.finish(&settings))
        },
    )
}

fn not_found(uri: &str, revision: Revision) -> Reject {
    let uri: String = uri.chars().take(2000).collect();
    let message = format!("Resource '{uri}' not found");
    let reject = if revision.is_modern() {
        Reject::invalid_params(message)
    } else {
        Reject::with_status(200, RESOURCE_NOT_FOUND, message)
    };
    reject.with_data(json!({"uri": uri}))
}

fn read_tools(request: &Requested<'_>) -> OutMessage {
    let Requested { mcp, caller, asked, terms, .. } = *request;
    let limit = PageLimit { tools: usize::MAX, bytes: MAX_BYTES };
    let (tools, more) = mcp.gateway.list_after(caller, terms.revision.shape(), None, limit);
    let mut text = b"{\"tools\":[".to_vec();
    text.extend(tools.iter().flatten());
    text.extend_from_slice(if more.is_some() { b"],\"more\":true}" } else { b"]}" });
    let settings = mcp.gateway.settings();
    let mut result = ResultWriter::new(asked.id, terms.revision, text.len() + text.len() / 8);
    let out = result.member("contents");
    out.extend_from_slice(b"[{\"uri\":");
    write_json(out, TOOLS_URI);
    out.extend_from_slice(b",\"mimeType\":\"application/json\",\"text\":");
    write_json(out, &String::from_utf8_lossy(&text));
    out.extend_from_slice(b"}]");
    result.cache(settings.list_ttl_ms, "private");
    result.finish(&settings)
}
