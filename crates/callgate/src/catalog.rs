//! The immutable set of all tools.
//!
//! A [`CatalogBuilder`] serializes each method when it is added. [`CatalogBuilder::finish`] sorts the tools, assigns
//! names and concatenates the bytes, so that a page of a list consists of a few slices. Invalid definitions are left
//! out and reported with the reason. A method whose fingerprint has not changed can be copied from the previous
//! catalog.
//!
//! ```
//! use callgate::catalog::CatalogBuilder;
//! use callgate::model::{Method, Prefix, Types};
//!
//! let mut builder = CatalogBuilder::new(Prefix::default(), None);
//! builder.add(Method::new("user.get".parse()?), 1, &Types::default(), []);
//! let catalog = builder.finish();
//! assert!(catalog.by_name("user_get").is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arena;
mod builder;
pub(crate) mod listing;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::access::VisibleMethods;
use crate::access::{Grants, Mask, Requirement, Section};
use crate::model::arguments::{CompiledInput, ParamStyle};
use crate::model::finding::Finding;
use crate::model::method::{InvalidMethod, MethodId, Safety};
use crate::model::output::CompiledOutput;
use crate::model::schema::cache::CachedSchema;
use crate::model::tool::{HeaderParam, ToolFormat, ToolParts};
use crate::model::tool_name::{Prefix, ToolName};
use listing::{Listings, VisibleListings};

pub(crate) use arena::{Arena, without_comma};
pub use builder::CatalogBuilder;
pub use listing::{Listing, Page};

/// All tools, sorted by method id, with lookup by id and tool name.
///
/// ```
/// use callgate::catalog::CatalogBuilder;
/// use callgate::model::{Finding, Method, Prefix, Types};
/// use callgate::{Grants, Mask};
///
/// let mut builder = CatalogBuilder::new(Prefix::default(), None);
/// let delete = Method::new("user.delete".parse()?).requires("users", Mask::Execute);
/// builder.add(delete, 1, &Types::default(), []);
/// builder.add(Method::new("user.get".parse()?), 1, &Types::default(), []);
/// let catalog = builder.finish();
///
/// let entry = catalog.by_name("user_get").ok_or("there is no such tool")?;
/// assert_eq!(entry.id().as_str(), "user.get");
/// assert_eq!(entry.findings(), [Finding::MissingSafety]);
/// assert_eq!(catalog.listing(&Grants::default()).len(), 1, "nobody granted execute on `users`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Catalog {
    entries: Vec<Arc<Entry>>,
    by_name: Vec<u32>,
    /// The tools in each [`ToolFormat`].
    arenas: [Arena; ToolFormat::ALL.len()],
    /// The sections that the tools require.
    sections: Vec<Section>,
    quarantined: Vec<InvalidMethod>,
    prefix: Prefix,
    listings: Listings,
    visible_listings: VisibleListings,
    /// Unique number of the catalog in this process.
    number: u64,
}

/// A tool in the catalog.
///
/// Returned by [`Catalog::by_id`] and [`Catalog::by_name`]. [`Catalog`] has an example.
#[derive(Debug, Clone)]
pub struct Entry {
    pub(crate) id: MethodId,
    pub(crate) name: ToolName,
    pub(crate) preferred_name: Option<Box<str>>,
    /// Index in the catalog.
    pub(crate) ordinal: u32,
    pub(crate) parts: ToolParts,
    /// Schema against which arguments are checked, if it differs from the schema that clients see.
    pub(crate) check_schema: Option<Bytes>,
    pub(crate) input: CachedSchema<CompiledInput>,
    pub(crate) output_check: CachedSchema<CompiledOutput>,
    pub(crate) headers: Box<[HeaderParam]>,
    pub(crate) safety: Safety,
    pub(crate) call_safety: Safety,
    /// Requirement for callers. Tools with equal requirements share one `Arc`.
    pub(crate) requirement: Arc<Requirement>,
    pub(crate) upstream: Arc<str>,
    /// Name of the method at its service, if it differs from the id.
    pub(crate) remote_name: Option<Box<str>>,
    /// How parameters are sent. A style other than [`ParamStyle::Either`] overrides the style of the upstream.
    pub(crate) param_style: Option<ParamStyle>,
    pub(crate) findings: Box<[Finding]>,
    pub(crate) fingerprint: u64,
}

impl Entry {
    /// Returns the method's id.
    pub fn id(&self) -> &MethodId {
        &self.id
    }

    /// Returns the tool name.
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// Returns whether calls have side effects. The value may be a guess.
    pub fn safety(&self) -> Safety {
        self.safety
    }

    /// Returns the safety that decides whether a failed call may be repeated. A guess counts as destructive.
    pub(crate) fn call_safety(&self) -> Safety {
        self.call_safety
    }

    /// Returns the name of the upstream.
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    /// Returns the name of the method at its upstream. Defaults to the id.
    pub fn remote_name(&self) -> &str {
        self.remote_name.as_deref().unwrap_or(self.id.as_str())
    }

    /// Returns the length of the check schema.
    pub(crate) fn check_schema_len(&self) -> usize {
        self.check_schema.as_ref().map_or_else(|| self.parts.input_range().len(), Bytes::len)
    }

    /// Returns the length of the output schema, or 0 if clients see none.
    pub(crate) fn output_schema_len(&self) -> usize {
        self.parts.output_range().map_or(0, |range| range.len())
    }

    /// Returns warnings about the definition.
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
    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if there are no tools.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns all tools, sorted by id.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter().map(AsRef::as_ref)
    }

    /// Returns the tool with this index.
    pub(crate) fn entry(&self, ordinal: u32) -> Option<&Entry> {
        self.entries.get(ordinal as usize).map(AsRef::as_ref)
    }

    /// Returns the methods that are not served.
    pub fn quarantined(&self) -> &[InvalidMethod] {
        &self.quarantined
    }

    /// Removes and returns the methods that are not served.
    pub fn take_quarantined(&mut self) -> Vec<InvalidMethod> {
        std::mem::take(&mut self.quarantined)
    }

    /// Returns the prefix of tool names.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Returns the total size of all tools in all formats, in bytes. Formats with equal content share memory and are
    /// counted once.
    pub fn serialised_bytes(&self) -> usize {
        let distinct = self.arenas.chunk_by(Arena::is_same);
        distinct.filter_map(<[Arena]>::first).map(Arena::len).sum()
    }

    /// Finds a tool by method id.
    pub fn by_id(&self, id: &str) -> Option<&Arc<Entry>> {
        let index = self.entries.binary_search_by(|entry| entry.id.as_str().cmp(id)).ok()?;
        self.entries.get(index)
    }

    /// Finds a tool by tool name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Entry>> {
        let entry = |ordinal: &u32| self.entries.get(*ordinal as usize);
        let index = self
            .by_name
            .binary_search_by(|ordinal| entry(ordinal).map_or("", |e| e.name.as_str()).cmp(name))
            .ok()?;
        self.by_name.get(index).and_then(entry)
    }

    /// Returns the tool as JSON in the REST format.
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

    /// Returns the requirement of a tool.
    pub fn requirement<'a>(&self, entry: &'a Entry) -> &'a Requirement {
        &entry.requirement
    }

    pub(crate) fn check_schema(&self, entry: &Entry) -> Bytes {
        match &entry.check_schema {
            Some(schema) => schema.clone(),
            None => self.part(entry, entry.parts.input_range()),
        }
    }

    /// Returns the output schema, if clients see one.
    pub(crate) fn output_schema(&self, entry: &Entry) -> Option<Bytes> {
        Some(self.part(entry, entry.parts.output_range()?))
    }

    fn part(&self, entry: &Entry, range: Range<usize>) -> Bytes {
        let tool = self.tool(entry);
        if tool.get(range.clone()).is_some() { tool.slice(range) } else { Bytes::new() }
    }

    /// Returns the tools that `grants` allow. The result is cached.
    pub fn listing(&self, grants: &Grants) -> Arc<Listing> {
        if let Some(listing) = grants.listing.get(self.number) {
            return listing;
        }
        let key: Arc<[Mask]> = self.sections.iter().map(|section| grants.mask(section)).collect();
        let listing = self.listings.get_or_insert_with(key, || Arc::new(self.make_listing(grants)));
        grants.listing.set(self.number, &listing);
        listing
    }

    /// Computes a listing. Checks each distinct requirement once.
    fn make_listing(&self, grants: &Grants) -> Listing {
        let mut decisions: HashMap<*const Requirement, bool, foldhash::fast::RandomState> =
            HashMap::default();
        let mut is_allowed = |Entry { requirement, .. }: &Entry| {
            let decision = decisions.entry(Arc::as_ptr(requirement));
            *decision.or_insert_with(|| requirement.allows(grants))
        };
        let ordinals = (0_u32..).zip(&self.entries).filter(|(_, entry)| is_allowed(entry));
        Listing::new(ordinals.map(|(ordinal, _)| ordinal).collect())
    }

    /// Returns those tools of the listing `granted` that the services also list for the caller. The result is cached.
    pub(crate) fn visible_listing(
        &self,
        granted: &Listing,
        visible: &Arc<VisibleMethods>,
    ) -> Arc<Listing> {
        if let Some(listing) = visible.listing.get(granted.number) {
            return listing;
        }
        let key = (granted.number, Arc::clone(visible));
        let listing = self.visible_listings.get_or_insert_with(key, || {
            let is_visible = |ordinal: &u32| {
                let entry = self.entry(*ordinal);
                entry.is_some_and(|entry| visible.contains(&entry.upstream, entry.remote_name()))
            };
            let visible = granted.ordinals.iter().copied().filter(is_visible).collect();
            Arc::new(Listing::new(visible))
        });
        visible.listing.set(granted.number, &listing);
        listing
    }

    /// Returns a summary of the tools of a listing.
    pub(crate) fn summary<'l>(&self, listing: &'l Listing) -> &'l str {
        listing.summary.get_or_init(|| summary::summary(self, listing))
    }

    /// Returns a hash of the tools of a listing. Listings of the same tools have the same hash, even in different
    /// catalogs.
    pub(crate) fn listing_hash(&self, listing: &Listing) -> u64 {
        *listing.hash.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            let arena = self.arena(ToolFormat::AnyOutput);
            for ordinal in &listing.ordinals {
                hasher.write(&arena.tool(*ordinal));
            }
            hasher.finish()
        })
    }
}
