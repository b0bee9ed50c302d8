//! Lists and descriptions of the tools that a caller can see.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::openrpc::{self, OpenRpcError};
use super::{Gateway, Settings, Snapshot, ToolRef};
use crate::access::Caller;
use crate::catalog::listing::{Listing, Page, PageLimit};
use crate::lru_cache::LruCache;
use crate::model::method::MethodId;
use crate::model::tool::{ToolFormat, json};
use crate::upstream::NotFound;

/// Maximum total size of the tools in [`Gateway::resource_text`], in bytes. `tools/list` returns further pages instead.
const MAX_RESOURCE_BYTES: usize = 4 * 1024 * 1024;

/// Documents by the number of the listing that they describe. Callers with equal listings share a document.
pub(super) type DocumentCache = LruCache<(u64, Document), Bytes>;

/// A document that describes the tools of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Document {
    /// Text of [`Gateway::resource_text`].
    Resource(ToolFormat),
    /// OpenRPC document, which contains the server's name and version from the settings.
    OpenRpc(Arc<Settings>),
}

impl Gateway {
    /// Returns the tools that the caller's grants and the services allow.
    pub(super) fn listing(snapshot: &Snapshot, caller: &Caller) -> Arc<Listing> {
        let granted = snapshot.catalog.listing(&caller.grants);
        match snapshot.visibility.visible(caller) {
            None => granted,
            Some(visible) => snapshot.catalog.visible_listing(&granted, &visible),
        }
    }

    pub(crate) fn tools_hash(&self, caller: &Caller) -> u64 {
        let snapshot = self.snapshot.load();
        snapshot.catalog.listing_hash(&Self::listing(&snapshot, caller))
    }

    pub(crate) fn tools_summary(&self, caller: &Caller) -> String {
        let snapshot = self.snapshot.load();
        snapshot.catalog.summary(&Self::listing(&snapshot, caller)).to_owned()
    }

    /// Returns up to `size` of the caller's tools, starting at `offset`. The caller must be [prepared](Self::prepare).
    pub fn list(&self, caller: &Caller, offset: usize, size: usize) -> Page {
        let snapshot = self.snapshot.load();
        let limit = PageLimit { tools: size, bytes: usize::MAX };
        Self::listing(&snapshot, caller).page(&snapshot.catalog, ToolFormat::Rest, offset, limit)
    }

    /// Returns a page of the caller's tools in the format of a revision, beginning after the method `after`. If there
    /// are more pages, also returns the last method of this page.
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
        let last = page.next.and(page.last).and_then(|last| catalog.entry(last));
        (page.tools, last.map(|entry| entry.id().clone()))
    }

    /// Returns the caller's tools as JSON, encoded once more as a JSON string. Contains at most 4 MiB of tools.
    pub(crate) fn resource_text(&self, caller: &Caller, format: ToolFormat) -> Bytes {
        let snapshot = self.snapshot.load();
        let listing = Self::listing(&snapshot, caller);
        let key = (listing.number, Document::Resource(format));
        if let Some(text) = self.documents.get(&key) {
            return text;
        }
        let limit = PageLimit { tools: usize::MAX, bytes: MAX_RESOURCE_BYTES };
        let Page { tools, next, .. } = listing.page(&snapshot.catalog, format, 0, limit);
        let end = if next.is_some() { "],\"more\":true}" } else { "]}" };
        let tools = tools.iter().map(|slice| String::from_utf8_lossy(slice));
        let text = ["{\"tools\":[".into()].into_iter().chain(tools).chain([end.into()]);
        let mut out = Vec::new();
        json(&mut out, &text.collect::<Vec<Cow<'_, str>>>().concat());
        let text = Bytes::from(out.into_boxed_slice());
        self.documents.insert(key, text.clone());
        text
    }

    /// Returns a tool as JSON. The caller must be [prepared](Self::prepare).
    pub fn describe(&self, caller: &Caller, id: &str) -> Result<Bytes, NotFound> {
        let snapshot = self.snapshot.load();
        let entry = Self::authorize(&snapshot, caller, ToolRef::Id(id))?;
        Ok(snapshot.catalog.tool(entry))
    }

    /// Returns the caller's methods as an OpenRPC document. The caller must be [prepared](Self::prepare).
    pub fn open_rpc(&self, caller: &Caller) -> Result<Bytes, OpenRpcError> {
        let snapshot = self.snapshot.load_full();
        let listing = Self::listing(&snapshot, caller);
        let key = (listing.number, Document::OpenRpc(Arc::clone(&snapshot.settings)));
        if let Some(document) = self.documents.get(&key) {
            return Ok(document);
        }
        let document = openrpc::document(&snapshot.settings, &snapshot.catalog, &listing)?;
        self.documents.insert(key, document.clone());
        Ok(document)
    }
}
