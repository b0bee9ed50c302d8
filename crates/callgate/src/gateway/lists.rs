//! What a caller sees, and whether they may use it.

use std::sync::Arc;

use bytes::Bytes;

use super::{Gateway, MAX_LOGGED_ID, NotFound, Snapshot, ToolRef};
use crate::access::Caller;
use crate::catalog::Entry;
use crate::catalog::listing::{Listing, Page, PageLimit};
use crate::gateway::openrpc::OpenRpcError;
use crate::model::method::MethodId;
use crate::model::tool::ToolFormat;

impl Gateway {
    /// The caller's tools: those that their grants allow and that the services behind them list.
    pub(super) fn listing(snapshot: &Snapshot, caller: &Caller) -> Arc<Listing> {
        let granted = snapshot.catalog.listing(&caller.grants);
        match snapshot.visibility.visible(caller) {
            None => granted,
            Some(visible) => snapshot.catalog.visible_listing(&granted, &visible),
        }
    }

    /// A number that stands for the caller's tools: another one, other tools.
    pub(crate) fn content_for(&self, caller: &Caller) -> u64 {
        let snapshot = self.snapshot.load();
        snapshot.catalog.content_of(&Self::listing(&snapshot, caller))
    }

    /// Up to `size` of the caller's tools, from `offset` on. See [`prepare`](Self::prepare).
    pub fn list(&self, caller: &Caller, offset: usize, size: usize) -> Page {
        let snapshot = self.snapshot.load();
        let limit = PageLimit { tools: size, bytes: usize::MAX };
        Self::listing(&snapshot, caller).page(&snapshot.catalog, ToolFormat::Rest, offset, limit)
    }

    /// The caller's tools in the format of a revision, after the method `after`; with them, where
    /// there are more, the method to go on after.
    pub(crate) fn list_after(
        &self,
        caller: &Caller,
        format: ToolFormat,
        after: Option<&str>,
        limit: PageLimit,
    ) -> (Vec<Bytes>, Option<MethodId>) {
        let snapshot = self.snapshot.load();
        let (catalog, listing) = (&snapshot.catalog, Self::listing(&snapshot, caller));
        let offset = after.map_or(0, |id| listing.position_after(catalog, id));
        let page = listing.page(catalog, format, offset, limit);
        let last = page.next.and(page.last).and_then(|last| catalog.entries().get(last as usize));
        (page.tools, last.map(|entry| entry.id().clone()))
    }

    /// One tool as JSON. See [`prepare`](Self::prepare).
    pub fn describe(&self, caller: &Caller, id: &str) -> Result<Bytes, NotFound> {
        let snapshot = self.snapshot.load();
        let entry = Self::decide(&snapshot, caller, ToolRef::Id(id))?;
        Ok(snapshot.catalog.tool(entry))
    }

    /// The caller's methods as an OpenRPC document. See [`prepare`](Self::prepare).
    pub fn open_rpc(&self, caller: &Caller) -> Result<Bytes, OpenRpcError> {
        let snapshot = self.snapshot.load_full();
        let listing = Self::listing(&snapshot, caller);
        self.documents.get(&snapshot.settings, &snapshot.catalog, listing)
    }

    /// Whether the caller may use the method. Denied looks like unknown to the caller, also in how long
    /// it takes, so both are logged; the log says which it was.
    pub(super) fn decide<'a>(
        snapshot: &'a Snapshot,
        caller: &Caller,
        tool: ToolRef<'_>,
    ) -> Result<&'a Entry, NotFound> {
        let catalog = &snapshot.catalog;
        let entry = match tool {
            ToolRef::Id(id) => catalog.by_id(id),
            ToolRef::Name(name) => catalog.by_name(name),
        };
        let decision = match entry {
            Some(entry) if catalog.requirement(entry).allows(&caller.grants) => {
                match snapshot.visibility.decide(caller, entry.upstream(), entry.id().as_str()) {
                    Ok(()) => return Ok(entry),
                    Err(decision) => decision,
                }
            }
            Some(entry) => catalog.requirement(entry).decide(&caller.grants).to_string(),
            None => match (tool, catalog.by_id(tool.as_str())) {
                (ToolRef::Name(_), Some(entry)) => {
                    format!("denied: over MCP this method is called `{}`", entry.name())
                }
                _ => "denied: there is no such method".to_owned(),
            },
        };
        let method: String = tool.as_str().chars().take(MAX_LOGGED_ID).collect();
        tracing::info!(caller = caller.name(), method, decision, "access denied");
        Err(NotFound(tool.as_str().to_owned()))
    }
}
