//! Methods of a Drupal site: the tools of the module `jsonrpc_mcp`, or, where that is asked for, all
//! methods that `jsonrpc_discovery` shows. Both are filtered for whoever asks.

mod auth;
mod methods;
mod schema;
mod tools;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use anyhow::{Context as _, bail};
use callgate::forward::{AskError, Outcome, Target, ToolPath};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::hint::hinted;
use crate::service::{Attempts, Service};
use crate::source::{Refusal, Source, UpstreamKeys};

/// Path of the JSON-RPC endpoint below the site.
const ENDPOINT: &str = "/jsonrpc";
const TOOLS: &str = "/mcp/tools/list";
const METHODS: &str = "/jsonrpc/methods";
/// The endpoint for all tools that `jsonrpc_mcp` had before 1.4, when each tool got a URL of its own.
const INVOKE: &str = "/mcp/tools/invoke";

/// Names of the sources; methods of the first are never replaced by those of the second.
const TOOLS_SOURCE: &str = "Drupal site";
const DISCOVERY_SOURCE: &str = "Drupal discovery";

/// Maximum number of methods and of pages of them that a site may have.
const MAX_METHODS: usize = 10_000;
const MAX_PAGES: usize = 1_000;
/// Maximum time for all pages together.
const TIME_LIMIT: Duration = Duration::from_mins(5);

/// Which description of a site is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The tools of `jsonrpc_mcp`: methods that are marked as tools.
    Tools,
    /// All methods of `jsonrpc_discovery` that the user who asks may use, marked or not.
    Discovery,
}

/// Returns the JSON-RPC endpoint of a site, given the URL of either.
pub fn endpoint(site: &Target) -> anyhow::Result<Target> {
    Ok(site.with_path(&format!("{}{ENDPOINT}", site.site_path()))?)
}

/// Returns the keys of an upstream that a site should be called with, less those that it has.
pub(crate) async fn upstream_keys(
    service: &Service,
    from: From,
    notes: &mut Vec<String>,
) -> anyhow::Result<UpstreamKeys> {
    let mut keys = Vec::new();
    if from == From::Tools && service.options().tool_path.is_none() {
        match has_tool_urls(service).await? {
            Ok(true) => keys.push(("calls", json!("per_tool"))),
            Ok(false) => {}
            Err(problem) => notes.push(format!(
                "note: whether each tool has a URL of its own is not known ({problem}); if so, the \
                 upstream needs `calls = \"per_tool\"`, since `/jsonrpc` does not check scopes"
            )),
        }
    }
    if !service.options().null_is_absent {
        keys.push(("null_is_absent", json!(true)));
    }
    Ok(keys)
}

/// Sets how a site is called that has no configuration.
pub async fn set_options(service: &mut Service, from: From) -> anyhow::Result<()> {
    let mut options = service.options().clone();
    options.null_is_absent = true;
    if from == From::Tools && has_tool_urls(service).await? != Ok(false) {
        options.tool_path = Some(ToolPath::beside(service.target()));
    }
    service.set_options(options);
    Ok(())
}

/// Returns whether each tool of the site has a URL of its own, or why that is not known.
async fn has_tool_urls(service: &Service) -> anyhow::Result<Result<bool, String>> {
    // Before 1.4 the path takes POST alone, which is HTTP 405; since then it is not there.
    Ok(match page(service, INVOKE).await? {
        Err(AskError::Failed { status: Some(404), .. }) => Ok(true),
        Err(AskError::Failed { status: Some(405), .. }) => Ok(false),
        Err(error) => Err(format!("GET {}{INVOKE}: {error}", service.target().site_path())),
        Ok(_) => Err(format!("GET {}{INVOKE}: there is a page", service.target().site_path())),
    })
}

async fn page(service: &Service, path: &str) -> anyhow::Result<Result<String, AskError>> {
    let target = service.target();
    let page = target.with_path(&format!("{}{path}", target.site_path()))?;
    Ok(service.get(Some(&page)).await)
}

/// Returns the tools or the methods of all pages; `None` if the site does not have the module for it.
async fn ask(
    service: &Service,
    from: From,
    attempts: &mut Attempts,
) -> anyhow::Result<Option<Vec<Value>>> {
    let target = service.target();
    let site = target.with_path(&format!("{}/", target.site_path()))?;
    let (path, problem, permission) = match from {
        From::Tools => (
            TOOLS,
            "the answer has no list of tools",
            "who asks needs the permission `access mcp tool discovery`, and a credential that the route \
             takes: an OAuth bearer token, not HTTP Basic",
        ),
        From::Discovery => (
            METHODS,
            "the answer has no list of methods",
            "who asks needs the permission `use jsonrpc services`, and a credential that the route \
             takes: HTTP Basic or a bearer token",
        ),
    };
    let what = format!("GET {}{path}", target.site_path());
    let answer = page(service, path).await?;
    let is_refused = matches!(answer, Err(AskError::Failed { outcome: Outcome::Refused, .. }));
    let permission = is_refused.then_some(permission);
    let read = |text: String| Page::read(&text, from).ok_or(problem);
    let Some(first) = attempts.read(&site, &what, answer, permission, read)? else {
        return Ok(None);
    };
    match timeout(TIME_LIMIT, pages(service, first)).await {
        Ok(all) => all.map(Some),
        Err(_) => bail!("{target} takes more than {TIME_LIMIT:?} to list its tools"),
    }
}

/// Returns what is on a page and on those behind it.
async fn pages(service: &Service, first: Page) -> anyhow::Result<Vec<Value>> {
    let (mut all, mut next) = (first.items, first.next_cursor);
    let mut seen = BTreeSet::new();
    while let Some(cursor) = next {
        if seen.len() >= MAX_PAGES || all.len() > MAX_METHODS {
            return Err(too_many(service));
        }
        let place = || format!("{}, page {} of the tools", service.target(), seen.len() + 2);
        let list = format!("{}{TOOLS}", service.target().site_path());
        let list = service.target().with_parameter(&list, "cursor", &cursor)?;
        let page = service.get(Some(&list)).await.with_context(place)?;
        let Some(page) = Page::read(&page, From::Tools) else {
            bail!("{}: no list of tools", place())
        };
        all.extend(page.items);
        next = page.next_cursor;
        if !seen.insert(cursor) {
            bail!("{} gives the same page of tools again and again", service.target());
        }
    }
    if all.len() > MAX_METHODS { Err(too_many(service)) } else { Ok(all) }
}

/// A page of tools; all methods are on one.
struct Page {
    items: Vec<Value>,
    next_cursor: Option<String>,
}

impl Page {
    /// Reads a page; `None` if it is none. A cursor of another type is an error too, since the tools
    /// behind it would be taken for removed.
    fn read(text: &str, from: From) -> Option<Self> {
        let mut page: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()?;
        if from == From::Discovery {
            return Some(Self { items: methods::list(page)?, next_cursor: None });
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

fn too_many(service: &Service) -> anyhow::Error {
    hinted(
        format!("{} has more than {MAX_METHODS} methods", service.target()),
        "ask as a user who may use fewer",
    )
}

/// Reads what a site has; `None` if it does not have the module for it.
pub(crate) async fn read(
    service: &Service,
    from: From,
    upstream: &str,
    attempts: &mut Attempts,
) -> anyhow::Result<Option<Source>> {
    let Some(all) = ask(service, from, attempts).await? else { return Ok(None) };
    let mut source = match from {
        From::Tools => Source {
            states_access: true,
            supersedes: &[DISCOVERY_SOURCE],
            notes: vec![format!("it has {} tools of jsonrpc_mcp", all.len())],
            ..Source::new(TOOLS_SOURCE, upstream)
        },
        From::Discovery => Source {
            yields_to: &[TOOLS_SOURCE],
            notes: vec![format!("it has {} methods of jsonrpc_discovery", all.len())],
            ..Source::new(DISCOVERY_SOURCE, upstream)
        },
    };
    for (number, one) in all.iter().enumerate() {
        let read = match from {
            From::Tools => tools::proposal(one),
            From::Discovery => methods::proposal(one),
        };
        source.add(read.map_err(|reason| {
            let id = tools::id(one).map_or_else(|| format!("#{}", number + 1), ToOwned::to_owned);
            // One that is open and cannot be read otherwise stays as it was.
            let hides = !matches!(tools::needs(one), Ok(None));
            Refusal { id, reason, hides }
        }));
    }
    refuse_twins(&mut source);
    Ok(Some(source))
}

/// Refuses tools of one name: what one of them asks of callers, another may not.
fn refuse_twins(source: &mut Source) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for method in &source.methods {
        *counts.entry(method.row.rpc_method.clone()).or_default() += 1;
    }
    counts.retain(|_, count| *count > 1);
    source.methods.retain(|method| !counts.contains_key(&method.row.rpc_method));
    let reason = || "the site has several of this name".to_owned();
    let twins = counts.into_keys().map(|id| Refusal { id, reason: reason(), hides: true });
    source.refused.extend(twins);
}

/// Returns a member that is a text and not empty.
fn text<'v>(part: &'v Value, key: &str) -> Option<&'v str> {
    part.get(key)?.as_str().map(str::trim).filter(|text| !text.is_empty())
}
