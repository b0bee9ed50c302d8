//! Methods of a Drupal site: the tools of the module `jsonrpc_mcp`, which say everything, or else the
//! methods of `jsonrpc_discovery`. Both are filtered for whoever asks.

mod methods;
mod tools;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, bail};
use callgate::ParamStyle;
use callgate::forward::{AskError, Target};
use callgate_registry::MethodRow;
use serde_json::Value;
use tokio::time::timeout;

use super::service::{Service, Tried};
use super::{Proposal, Refusal, Source};
use crate::errors::hinted;

/// Where the methods are, below the site.
const ENDPOINT: &str = "/jsonrpc";
const TOOLS: &str = "/mcp/tools/list";
const METHODS: &str = "/jsonrpc/methods";

/// A site with more methods, or more pages of them, is refused.
const MAX_METHODS: usize = 10_000;
const MAX_PAGES: usize = 1_000;
/// All pages together may take so long.
const TIME_LIMIT: Duration = Duration::from_mins(5);

/// What a site has.
#[derive(Debug)]
pub(crate) enum Found {
    Tools(Vec<Value>),
    Methods(Vec<Value>),
}

/// Where the methods of a site are, by the URL of either.
pub(crate) fn endpoint(site: &Target) -> anyhow::Result<Target> {
    Ok(site.with_path(&format!("{}{ENDPOINT}", base(site)))?)
}

/// The path of the site.
fn base(target: &Target) -> &str {
    let path = target.path().trim_end_matches('/');
    path.strip_suffix(ENDPOINT).unwrap_or(path)
}

/// Asks a site for what it has; `None` where it has neither module.
pub(crate) async fn ask(service: &Service, tried: &mut Tried) -> anyhow::Result<Option<Found>> {
    if let Some(tools) = tools(service, tried).await? {
        return Ok(Some(Found::Tools(tools)));
    }
    if tried.is_over() {
        return Ok(None);
    }
    let what = format!("GET {}{METHODS}", base(service.target()));
    let page = match page(service, METHODS).await? {
        Ok(page) => page,
        Err(error) => {
            tried.failed(&what, &error);
            return Ok(None);
        }
    };
    match serde_json::from_str(&page).ok().and_then(methods::list) {
        Some(methods) if methods.len() > MAX_METHODS => Err(too_many(service)),
        Some(methods) => Ok(Some(Found::Methods(methods))),
        None => {
            tried.other(&what, "the answer has no list of methods");
            Ok(None)
        }
    }
}

async fn page(service: &Service, path: &str) -> anyhow::Result<Result<String, AskError>> {
    let path = format!("{}{path}", base(service.target()));
    Ok(service.at(&path)?.get().await)
}

/// All pages of tools; `None` where the first is none.
async fn tools(service: &Service, tried: &mut Tried) -> anyhow::Result<Option<Vec<Value>>> {
    let what = format!("GET {}{TOOLS}", base(service.target()));
    let first = match page(service, TOOLS).await? {
        Ok(page) => tools::Page::read(&page),
        Err(error) => {
            tried.failed(&what, &error);
            return Ok(None);
        }
    };
    let Some(first) = first else {
        tried.other(&what, "the answer has no list of tools");
        return Ok(None);
    };
    match timeout(TIME_LIMIT, pages(service, first)).await {
        Ok(tools) => tools.map(Some),
        Err(_) => bail!("{} takes more than {TIME_LIMIT:?} to list its tools", service.target()),
    }
}

async fn pages(service: &Service, first: tools::Page) -> anyhow::Result<Vec<Value>> {
    let (mut all, mut next) = (first.tools, first.next_cursor);
    let mut seen = BTreeSet::new();
    while let Some(cursor) = next {
        if seen.len() >= MAX_PAGES || all.len() > MAX_METHODS {
            return Err(too_many(service));
        }
        let path = format!("{TOOLS}?cursor={}", tools::encoded(&cursor));
        let place = || format!("{}, page {} of the tools", service.target(), seen.len() + 2);
        let page = page(service, &path).await?.with_context(place)?;
        let Some(page) = tools::Page::read(&page) else { bail!("{}: no list of tools", place()) };
        all.extend(page.tools);
        next = page.next_cursor;
        if !seen.insert(cursor) {
            bail!("{} gives the same page of tools again and again", service.target());
        }
    }
    if all.len() > MAX_METHODS { Err(too_many(service)) } else { Ok(all) }
}

fn too_many(service: &Service) -> anyhow::Error {
    hinted(
        format!("{} has more than {MAX_METHODS} methods", service.target()),
        "ask as a user who may use fewer",
    )
}

/// Makes methods of what a site has.
pub(crate) fn read(found: &Found, upstream: &str) -> Source {
    let (what, all) = match found {
        Found::Tools(all) => ("tools of jsonrpc_mcp", all),
        Found::Methods(all) => ("methods of jsonrpc_discovery", all),
    };
    let mut source = Source {
        name: "Drupal site".to_owned(),
        upstreams: BTreeSet::from([upstream.to_owned()]),
        notes: vec![format!("it has {} {what}", all.len())],
        ..Source::default()
    };
    for (number, one) in all.iter().enumerate() {
        let read = match found {
            Found::Tools(_) => tools::proposal(one),
            Found::Methods(_) => methods::proposal(one),
        };
        match read {
            Ok(mut proposal) => {
                proposal.row.upstream = Some(upstream.to_owned());
                source.methods.push(proposal);
            }
            Err(reason) => source.refused.push(Refusal { id: format!("#{}", number + 1), reason }),
        }
    }
    source
}

/// How parameters of these names are sent: Drupal takes a list where they are numbers.
fn style<'a>(names: impl IntoIterator<Item = &'a String>) -> ParamStyle {
    let mut names = names.into_iter().peekable();
    let is_number = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    if names.peek().is_some() && names.all(is_number) {
        ParamStyle::Positional
    } else {
        ParamStyle::Named
    }
}

/// A proposal with what both have.
fn proposed(id: &str, description: Option<&str>) -> Proposal {
    let guess = super::safety::guess(id, description.unwrap_or_default());
    let row = MethodRow {
        rpc_method: id.to_owned(),
        description: description.map(ToOwned::to_owned),
        safety: guess.map(|safety| safety.as_str().to_owned()),
        ..MethodRow::default()
    };
    Proposal { row, safety_is_guess: guess.is_some(), ..Proposal::default() }
}

/// A text that says something.
fn text<'v>(part: &'v Value, key: &str) -> Option<&'v str> {
    part.get(key)?.as_str().map(str::trim).filter(|text| !text.is_empty())
}
