//! The immutable, checked snapshot of every tool.
//!
//! A [`CatalogBuilder`] takes methods one by one, writes each as bytes at once and keeps no trees;
//! [`CatalogBuilder::finish`] sorts them, gives them their names and lays the bytes out in order,
//! with a comma behind each. A wrong definition is quarantined with its reason and the rest is
//! served. What did not change since the last catalog is copied from it, by fingerprint.

mod arena;
mod builder;
pub(crate) mod listing;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use crate::access::VisibleMethods;
use crate::access::{Grants, Mask, Requirement, Section};
use crate::model::arguments::{CachedInput, ParamStyle};
use crate::model::finding::Finding;
use crate::model::method::{InvalidMethod, MethodId, Safety};
use crate::model::tool::{HeaderParam, OutputKind, ToolFormat, ToolOffsets};
use crate::model::tool_name::{Prefix, ToolName};
use listing::{Listings, VisibleListings};

pub use crate::wire::{CursorError, OffsetCursor};
pub(crate) use arena::{Arena, without_comma};
pub use builder::CatalogBuilder;
pub use listing::{Listing, Page};

/// Every tool, sorted by method id, found by id and by tool name.
#[derive(Debug)]
pub struct Catalog {
    entries: Vec<Entry>,
    by_name: Vec<u32>,
    /// The tools in each [`ToolFormat`].
    arenas: [Arena; ToolFormat::ALL.len()],
    requirements: Vec<Requirement>,
    sections: Vec<Section>,
    quarantined: Vec<InvalidMethod>,
    prefix: Prefix,
    listings: Listings,
    visible_listings: VisibleListings,
    /// Which catalog it is, of all that this process made.
    number: u64,
}

/// A method in the catalog.
#[derive(Debug, Clone)]
pub struct Entry {
    pub(crate) id: MethodId,
    pub(crate) name: ToolName,
    pub(crate) given_name: Option<Box<str>>,
    /// The place in the catalog's order.
    pub(crate) ordinal: u32,
    pub(crate) parts: ToolOffsets,
    pub(crate) output: OutputKind,
    /// The schema that arguments are checked against, where it is not the advertised one.
    pub(crate) own_check: Option<Bytes>,
    pub(crate) plan: CachedInput,
    pub(crate) headers: Box<[HeaderParam]>,
    pub(crate) safety: Safety,
    pub(crate) requirement: u32,
    pub(crate) upstream: Arc<str>,
    /// Where it is not that of the upstream.
    pub(crate) param_style: Option<ParamStyle>,
    pub(crate) findings: Box<[Finding]>,
    pub(crate) fingerprint: u64,
}

impl Entry {
    /// The method's id.
    pub fn id(&self) -> &MethodId {
        &self.id
    }

    /// The tool's name over MCP.
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// Whether calls change anything.
    pub fn safety(&self) -> Safety {
        self.safety
    }

    /// The name of the upstream that runs it.
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    /// What is worth a look.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

impl Default for Catalog {
    fn default() -> Self {
        CatalogBuilder::new(Prefix::default(), None).finish()
    }
}

impl Catalog {
    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All tools, sorted by id.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What is not served, and why.
    pub fn quarantined(&self) -> &[InvalidMethod] {
        &self.quarantined
    }

    /// Takes the quarantined definitions out.
    pub fn take_quarantined(&mut self) -> Vec<InvalidMethod> {
        std::mem::take(&mut self.quarantined)
    }

    /// What stands before every tool name.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// The bytes of all tools together, in every format; shapes that are the same are kept once.
    pub fn serialised_bytes(&self) -> usize {
        let distinct = self.arenas.chunk_by(Arena::is_same);
        distinct.filter_map(<[Arena]>::first).map(Arena::len).sum()
    }

    /// By method id.
    pub fn by_id(&self, id: &str) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| entry.id.as_str().cmp(id)).ok()?;
        self.entries.get(at)
    }

    /// By tool name.
    pub fn by_name(&self, name: &str) -> Option<&Entry> {
        let entry = |ordinal: &u32| self.entries.get(*ordinal as usize);
        let at = self
            .by_name
            .binary_search_by(|ordinal| entry(ordinal).map_or("", |e| e.name.as_str()).cmp(name))
            .ok()?;
        self.by_name.get(at).and_then(entry)
    }

    /// The tool as JSON, as the REST face shows it.
    pub fn tool(&self, entry: &Entry) -> Bytes {
        self.arena(ToolFormat::Rest).tool(entry.ordinal)
    }

    pub(crate) fn arena(&self, format: ToolFormat) -> &Arena {
        let [rest, plain, object_output, any_output] = &self.arenas;
        match format {
            ToolFormat::Rest => rest,
            ToolFormat::Plain => plain,
            ToolFormat::ObjectOutput => object_output,
            ToolFormat::AnyOutput => any_output,
        }
    }

    /// What callers need for a method.
    pub fn requirement(&self, entry: &Entry) -> &Requirement {
        // An entry of another catalog could name one that is not here.
        static CLOSED: LazyLock<Requirement> = LazyLock::new(Requirement::closed);
        self.requirements.get(entry.requirement as usize).unwrap_or(&CLOSED)
    }

    /// The schema that arguments are checked against.
    pub(crate) fn check_schema(&self, entry: &Entry) -> Bytes {
        match &entry.own_check {
            Some(own) => own.clone(),
            None => self.part(entry, entry.parts.input()),
        }
    }

    /// The schema that results are checked against, if one is advertised.
    pub(crate) fn output_schema(&self, entry: &Entry) -> Option<Bytes> {
        Some(self.part(entry, entry.parts.output()?))
    }

    fn part(&self, entry: &Entry, range: Range<usize>) -> Bytes {
        let tool = self.tool(entry);
        if tool.get(range.clone()).is_some() { tool.slice(range) } else { Bytes::new() }
    }

    /// The tools that `grants` may use; made when first asked for and kept.
    pub fn listing(&self, grants: &Grants) -> Arc<Listing> {
        if let Some(listing) = grants.listing.get(self.number) {
            return listing;
        }
        let key: Arc<[Mask]> = self.sections.iter().map(|section| grants.mask(section)).collect();
        let listing = self.listings.get_with(key, || Arc::new(self.make_listing(grants)));
        grants.listing.set(self.number, &listing);
        listing
    }

    /// Decides once per distinct requirement, not once per tool.
    fn make_listing(&self, grants: &Grants) -> Listing {
        let allowed: Vec<bool> =
            self.requirements.iter().map(|requirement| requirement.allows(grants)).collect();
        let is_allowed =
            |entry: &Entry| allowed.get(entry.requirement as usize).copied().unwrap_or(false);
        let ordinals = (0_u32..).zip(&self.entries).filter(|(_, entry)| is_allowed(entry));
        Listing::new(ordinals.map(|(ordinal, _)| ordinal).collect())
    }

    /// The tools of a listing that the services behind them list too; made when first asked for and
    /// kept.
    pub(crate) fn visible_listing(
        &self,
        granted: &Listing,
        visible: &Arc<VisibleMethods>,
    ) -> Arc<Listing> {
        if let Some(listing) = visible.listing.get(granted.number) {
            return listing;
        }
        let key = (granted.number, Arc::clone(visible));
        let listing = self.visible_listings.get_with(key, || {
            let is_visible = |ordinal: &u32| {
                let entry = self.entries.get(*ordinal as usize);
                entry.is_some_and(|entry| visible.allow(&entry.upstream, entry.id.as_str()))
            };
            let visible = granted.ordinals.iter().copied().filter(is_visible).collect();
            Arc::new(Listing::new(visible))
        });
        visible.listing.set(granted.number, &listing);
        listing
    }

    /// A number that stands for what a listing shows: another catalog with the same tools has the
    /// same.
    pub(crate) fn content_of(&self, listing: &Listing) -> u64 {
        *listing.content.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            let arena = self.arena(ToolFormat::AnyOutput);
            for ordinal in &listing.ordinals {
                hasher.write(&arena.tool(*ordinal));
            }
            hasher.finish()
        })
    }
}
