//! `resources/list`, `resources/templates/list` and `resources/read`: the resources that the embedding program
//! provides, and the caller's tools as an additional resource.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;

use super::pagination::{self, ListItem};
use crate::access::Caller;
use crate::mcp::{CallTarget, McpError, McpResponse, RequestContext, write_json};
use crate::model::tool::ToolFormat;
use crate::upstream::local::{Context, Error};
use crate::upstream::{BoxFuture, ResourceContents};
use crate::wire::Revision;

/// URI of the resource that contains the caller's tools.
const TOOLS_URI: &str = "callgate://tools";
/// Error code of legacy revisions for an unknown resource.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// The resources of a server.
///
/// Argument of [`Builder::resources_of`](crate::Builder::resources_of). Resources that are known at compile time are
/// functions with the attribute [`resource`](crate::resource) instead.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Arc;
/// use callgate::mcp::{Resource, Resources};
/// use callgate::upstream::{BoxFuture, ResourceContents};
/// use callgate::{Callgate, Caller, Context, Error};
///
/// /// Notes by URI. A real application has them in a database.
/// #[derive(Debug)]
/// struct Notes(BTreeMap<&'static str, &'static str>);
///
/// impl Resources for Notes {
///     fn list<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, Result<Vec<Resource>, Error>> {
///         let notes = self.0.keys().map(|uri| Resource::new(*uri, "note").mime_type("text/plain"));
///         let notes = notes.collect();
///         Box::pin(async { Ok(notes) })
///     }
///
///     fn read(
///         self: Arc<Self>,
///         _: Context,
///         uri: String,
///     ) -> BoxFuture<'static, Result<Option<Vec<ResourceContents>>, Error>> {
///         let text = self.0.get(uri.as_str()).copied();
///         Box::pin(async move { Ok(text.map(|text| vec![ResourceContents::text(uri, text)])) })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let notes = Notes(BTreeMap::from([("notes://1", "Water the plants.")]));
/// let server = Callgate::builder().resources_of(notes).build()?;
/// let note = server.test_client(Caller::anonymous()).read("notes://1").await?;
/// assert_eq!(note["contents"][0]["text"], "Water the plants.");
/// # Ok(())
/// # }
/// ```
pub trait Resources: Send + Sync + fmt::Debug {
    /// Returns the resources that the caller may read.
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Result<Vec<Resource>, Error>>;

    /// Returns the resource templates that the caller may read.
    fn templates<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Result<Vec<Resource>, Error>> {
        let _ = caller;
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Returns the contents of a resource, or `None` if the caller has no resource with this URI.
    fn read(
        self: Arc<Self>,
        context: Context,
        uri: String,
    ) -> BoxFuture<'static, Result<Option<Vec<ResourceContents>>, Error>>;

    /// Returns `true` if the caller may read the resource. Only callers for which this function returns `true` are
    /// notified of changes of the resource. The default implementation returns `false` for every caller.
    fn can_read(&self, caller: &Caller, uri: &str) -> bool {
        let _ = (caller, uri);
        false
    }

    /// Returns `true` if clients may subscribe to resources.
    ///
    /// [`Mcp::resource_updated`](crate::mcp::Mcp::resource_updated) notifies the clients that subscribed to a resource
    /// and whose callers [can read](Self::can_read) it.
    fn can_subscribe(&self) -> bool {
        false
    }
}

/// A resource in `resources/list`, or a template such as `file:///{path}` in `resources/templates/list`.
///
/// [`Resources`] has an example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resource {
    uri: String,
    #[serde(flatten)]
    pub(super) info: ResourceInfo,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceInfo {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mime_type: Option<String>,
}

impl Resource {
    /// Creates a resource.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        let info = ResourceInfo { name: name.into(), description: None, mime_type: None };
        Self { uri: uri.into(), info }
    }

    /// Sets the description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.info.description = Some(description.into());
        self
    }

    /// Sets the MIME type, such as `text/plain`.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.info.mime_type = Some(mime_type.into());
        self
    }
}

impl ListItem for Resource {
    fn key(&self) -> &str {
        &self.uri
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Template {
    uri_template: String,
    #[serde(flatten)]
    info: ResourceInfo,
}

impl From<Resource> for Template {
    fn from(Resource { uri, info }: Resource) -> Self {
        Self { uri_template: uri, info }
    }
}

impl ListItem for Template {
    fn key(&self) -> &str {
        &self.uri_template
    }
}

/// `resources/list`
pub(crate) fn list(context: &RequestContext<'_>) -> Result<McpResponse, McpError> {
    let tools = Resource::new(TOOLS_URI, "tools")
        .description("The tools that you may use, as JSON.")
        .mime_type("application/json");
    let load_resources =
        context.mcp.services.resources.clone().map(|resources| {
            |context: Context| async move { resources.list(&context.caller).await }
        });
    pagination::list(context, ("resources/list", "resources"), load_resources, vec![tools])
}

/// `resources/templates/list`
pub(crate) fn list_templates(context: &RequestContext<'_>) -> Result<McpResponse, McpError> {
    let load_templates = context.mcp.services.resources.clone().map(|resources| {
        |context: Context| async move {
            let templates = resources.templates(&context.caller).await?;
            Ok(templates.into_iter().map(Template::from).collect())
        }
    });
    pagination::list(
        context,
        ("resources/templates/list", "resourceTemplates"),
        load_templates,
        Vec::new(),
    )
}

/// `resources/read`
pub(crate) fn read(context: &RequestContext<'_>) -> Result<McpResponse, McpError> {
    let uri = context.request.params.required_text("uri")?.into_owned();
    let revision = context.negotiated.revision;
    if uri == TOOLS_URI {
        return read_tools(context);
    }
    let Some(resources) = context.mcp.services.resources.clone() else {
        return Err(not_found(&uri, revision));
    };
    let target = CallTarget { method: "resources/read", name: uri.clone(), arguments: None };
    let run = move |context| resources.read(context, uri);
    context.run(target, run, move |contents, call| {
        let contents = contents.ok_or_else(|| not_found(&call.target.name, revision))?;
        let mut result = call.result(200);
        result.value("contents", &contents);
        result.cache(call.mcp.gateway.settings().list_ttl_ms, "private");
        Ok(call.finish(result))
    })
}

pub(super) fn not_found(uri: &str, revision: Revision) -> McpError {
    let uri: String = uri.chars().take(2000).collect();
    let message = format!("Resource '{uri}' not found");
    let error = if revision.is_modern() {
        McpError::invalid_params(message)
    } else {
        McpError::new(200, RESOURCE_NOT_FOUND, message)
    };
    error.with_data(json!({"uri": uri}))
}

fn read_tools(context: &RequestContext<'_>) -> Result<McpResponse, McpError> {
    let RequestContext { mcp, inbound, negotiated, .. } = *context;
    let text = mcp.gateway.resource_text(inbound.caller, ToolFormat::of(negotiated.revision));
    let settings = mcp.gateway.settings();
    let mut result = context.result(0);
    let out = result.member("contents");
    out.extend_from_slice(b"[{\"uri\":");
    write_json(out, TOOLS_URI);
    out.extend_from_slice(b",\"mimeType\":\"application/json\",\"text\":");
    result.slices(vec![text]);
    result.bytes(b"}]");
    result.cache(settings.list_ttl_ms, "private");
    let message = result.finish(&settings);
    Ok(McpResponse::Message(mcp.reserve(inbound.caller, message)?))
}
