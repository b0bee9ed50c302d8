//! Methods of a Drupal site: the tools of the module `jsonrpc_mcp`, or all methods of `jsonrpc_discovery`.
//!
//! Both modules list only methods that the user of the request may use.

mod auth;
mod schema;

mod method;
mod tool;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use anyhow::{Context as _, bail};
use callgate::forward::{CallOutcome, QueryError, Target, ToolPath};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::hinted::hinted;
use crate::limits::MAX_METHODS;
use crate::service::{Attempts, Service};
use crate::source::{Refusal, Source, UpstreamKeys};
use crate::text::counted;

/// Path of the JSON-RPC endpoint, relative to the path of the site.
const ENDPOINT: &str = "/jsonrpc";
const TOOLS: &str = "/mcp/tools/list";
const METHODS: &str = "/jsonrpc/methods";
/// Endpoint for all tools in `jsonrpc_mcp` before 1.4. Since 1.4, each tool has its own URL.
const INVOKE: &str = "/mcp/tools/invoke";

/// Name of the source that [`Module::Mcp`] reads. An import of [`Module::Discovery`] never changes the methods of
/// this source.
const TOOLS_SOURCE: &str = "Drupal site";
const DISCOVERY_SOURCE: &str = "Drupal discovery";

/// Maximum number of pages.
const MAX_PAGES: usize = 1_000;
/// Maximum time for all pages together.
const TIME_LIMIT: Duration = Duration::from_mins(5);

/// The module whose list is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Module {
    /// The tools of `jsonrpc_mcp`: methods that are marked as tools.
    Mcp,
    /// All methods of `jsonrpc_discovery`, whether or not they are marked as tools.
    Discovery,
}

/// Returns the JSON-RPC endpoint of a site. `site` is the URL of the site or of the endpoint.
pub fn endpoint(site: &Target) -> anyhow::Result<Target> {
    Ok(site.with_path(&format!("{}{ENDPOINT}", site.site_path()))?)
}

/// Returns the configuration keys that a site needs, except those that the upstream already has.
pub(crate) async fn upstream_keys(
    service: &Service,
    module: Module,
    notes: &mut Vec<String>,
) -> anyhow::Result<UpstreamKeys> {
    let mut keys = Vec::new();
    if module == Module::Mcp && service.options.tool_path.is_none() {
        match has_tool_urls(service).await? {
            Ok(true) => keys.push(("calls", json!("per_tool"))),
            Ok(false) => {}
            Err(problem) => notes.push(format!(
                "note: it is not known whether each tool has its own URL ({problem}); if each has its own, set \
                 `calls = \"per_tool\"` for the upstream, since `/jsonrpc` does not check scopes"
            )),
        }
    }
    if !service.options.null_is_absent {
        keys.push(("null_is_absent", json!(true)));
    }
    Ok(keys)
}

/// Sets the options for calls to a site that is not configured as an upstream.
pub async fn set_options(service: &mut Service, module: Module) -> anyhow::Result<()> {
    service.options.null_is_absent = true;
    if module == Module::Mcp && has_tool_urls(service).await? != Ok(false) {
        service.options.tool_path = Some(ToolPath::beside(service.target()));
    }
    Ok(())
}

/// Returns whether each tool of the site has its own URL, or the reason why this is not known.
async fn has_tool_urls(service: &Service) -> anyhow::Result<Result<bool, String>> {
    // Before 1.4 this path accepts only POST. Since 1.4 it does not exist.
    Ok(match page(service, INVOKE).await? {
        Err(QueryError::Failed { status: Some(404), .. }) => Ok(true),
        Err(QueryError::Failed { status: Some(405), .. }) => Ok(false),
        Err(error) => Err(format!("GET {}{INVOKE}: {error}", service.target().site_path())),
        Ok(_) => Err(format!("GET {}{INVOKE}: unexpected success", service.target().site_path())),
    })
}

async fn page(service: &Service, path: &str) -> anyhow::Result<Result<String, QueryError>> {
    let target = service.target();
    let page = target.with_path(&format!("{}{path}", target.site_path()))?;
    Ok(service.get(Some(&page)).await)
}

/// Returns the tools or the methods of all pages. Returns `None` if the site does not have the module.
async fn list(
    service: &Service,
    module: Module,
    attempts: &mut Attempts,
) -> anyhow::Result<Option<Vec<Value>>> {
    let target = service.target();
    let site = target.with_path(&format!("{}/", target.site_path()))?;
    let (path, problem, permission) = match module {
        Module::Mcp => (
            TOOLS,
            "the reply has no list of tools",
            "the user needs the permission `access mcp tool discovery`, and a credential that the route \
             accepts: an OAuth bearer token, not HTTP Basic",
        ),
        Module::Discovery => (
            METHODS,
            "the reply has no list of methods",
            "the user needs the permission `use jsonrpc services`, and a credential that the route \
             accepts: HTTP Basic or a bearer token",
        ),
    };
    let request = format!("GET {}{path}", target.site_path());
    let reply = page(service, path).await?;
    let is_refused = matches!(reply, Err(QueryError::Failed { outcome: CallOutcome::Refused, .. }));
    let permission = is_refused.then_some(permission);
    let parse = |text: String| Page::parse(&text, module).ok_or(problem);
    let Some(first) = attempts.parse_reply(&site, &request, reply, permission, parse)? else {
        return Ok(None);
    };
    match timeout(TIME_LIMIT, all_items(service, first)).await {
        Ok(all) => all.map(Some),
        Err(_) => bail!(
            "{target} takes more than {} minutes to list its tools",
            TIME_LIMIT.as_secs() / 60
        ),
    }
}

/// Returns the items of a page and of all pages after it.
async fn all_items(service: &Service, first: Page) -> anyhow::Result<Vec<Value>> {
    let (mut items, mut next) = (first.items, first.next_cursor);
    let target = service.target();
    let mut cursors = BTreeSet::new();
    while let Some(cursor) =
        next.take_if(|_| cursors.len() < MAX_PAGES && items.len() <= MAX_METHODS)
    {
        let page_name = || format!("{target}, page {} of the tools", cursors.len() + 2);
        let list = format!("{}{TOOLS}", target.site_path());
        let list = target.with_parameter(&list, "cursor", &cursor)?;
        let page = service.get(Some(&list)).await.with_context(page_name)?;
        let Some(page) = Page::parse(&page, Module::Mcp) else {
            bail!("{}: no list of tools", page_name())
        };
        items.extend(page.items);
        next = page.next_cursor;
        if !cursors.insert(cursor) {
            bail!("{target} returns the same page of tools repeatedly");
        }
    }
    if next.is_some() || items.len() > MAX_METHODS {
        return Err(hinted(
            format!("{target} has more than {MAX_METHODS} methods"),
            "use the credentials of a user who may use fewer methods",
        ));
    }
    Ok(items)
}

/// A page of tools, or the only page of methods.
struct Page {
    items: Vec<Value>,
    next_cursor: Option<String>,
}

impl Page {
    /// Parses a page. A cursor that is not a string is an error: if it were ignored, the tools on later pages would
    /// seem to be removed.
    fn parse(text: &str, module: Module) -> Option<Self> {
        let mut page: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()?;
        if module == Module::Discovery {
            return Some(Self { items: method::list(page)?, next_cursor: None });
        }
        let next_cursor = match page.get_mut("nextCursor").map(Value::take) {
            None | Some(Value::Null) => None,
            Some(Value::String(cursor)) => Some(cursor).filter(|cursor| !cursor.is_empty()),
            Some(_) => return None,
        };
        match page.get_mut("tools").map(Value::take)? {
            Value::Array(items) => Some(Self { items, next_cursor }),
            _ => None,
        }
    }
}

/// Reads the list of a module. Returns `None` if the site does not have the module.
pub(crate) async fn read(
    service: &Service,
    module: Module,
    upstream: &str,
    attempts: &mut Attempts,
) -> anyhow::Result<Option<Source>> {
    let Some(items) = list(service, module, attempts).await? else { return Ok(None) };
    let mut source = match module {
        Module::Mcp => Source {
            combines_sections: true,
            supersedes: &[DISCOVERY_SOURCE],
            notes: vec![format!("{} of jsonrpc_mcp", counted(items.len(), "tool"))],
            ..Source::new(TOOLS_SOURCE, upstream)
        },
        Module::Discovery => Source {
            preferred_sources: &[TOOLS_SOURCE],
            notes: vec![format!("{} of jsonrpc_discovery", counted(items.len(), "method"))],
            ..Source::new(DISCOVERY_SOURCE, upstream)
        },
    };
    for (number, item) in items.iter().enumerate() {
        let proposal = match module {
            Module::Mcp => tool::proposal(item),
            Module::Discovery => method::proposal(item),
        };
        source.add(proposal.map_err(|reason| {
            let id = tool::id(item).map_or_else(|| format!("#{}", number + 1), ToOwned::to_owned);
            // If a tool is invalid, the method that was imported for it before is hidden, unless the tool is open to
            // everybody.
            let hides = !matches!(tool::needs(item), Ok(None));
            Refusal { hides, ..Refusal::new(id, reason) }
        }))?;
    }
    refuse_duplicates(&mut source);
    Ok(Some(source))
}

/// Refuses all tools that share a name, because their restrictions may differ.
fn refuse_duplicates(source: &mut Source) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for method in &source.methods {
        *counts.entry(method.row.rpc_method.clone()).or_default() += 1;
    }
    counts.retain(|_, count| *count > 1);
    source.methods.retain(|method| !counts.contains_key(&method.row.rpc_method));
    let reason = || "the site has several tools of this name".to_owned();
    let duplicates = counts.into_keys().map(|id| Refusal { id, reason: reason(), hides: true });
    source.refused.extend(duplicates);
}

/// Returns a string without surrounding white space, or `None` if it is empty.
fn text<'v>(part: &'v Value, key: &str) -> Option<&'v str> {
    part.get(key)?.as_str().map(str::trim).filter(|text| !text.is_empty())
}
