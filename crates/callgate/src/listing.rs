//! The catalog as one set of grants may see it: a list of ordinals, and pages as slices of bytes.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use moka::sync::Cache;

use crate::access::Mask;
use crate::catalog::{Arena, Catalog};
use crate::tool::Shape;
use crate::visibility::Limits;

/// All listings of one catalog together take no more than this; the least used go first.
const MAX_CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// The tools that one set of grants may use, in the catalog's order.
#[derive(Debug)]
pub struct Listing {
    pub(crate) ordinals: Box<[u32]>,
    /// What it shows, as a number, once somebody watches it.
    pub(crate) content: OnceLock<u64>,
}

/// A part of a listing.
#[derive(Debug)]
pub struct Page {
    /// The tools as JSON, commas between them, to be sent one after the other.
    pub tools: Vec<Bytes>,
    /// The ordinal of the last tool.
    pub(crate) last: Option<u32>,
    /// Where the next page starts, unless this is the last.
    pub next: Option<usize>,
}

/// How much a page holds at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageLimit {
    pub(crate) tools: usize,
    pub(crate) bytes: usize,
}

impl Listing {
    pub(crate) fn new(ordinals: Box<[u32]>) -> Self {
        Self { ordinals, content: OnceLock::new() }
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.ordinals.len()
    }

    /// Whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.ordinals.is_empty()
    }

    /// Where the tools begin that come after this method, whether it is still there or not.
    pub(crate) fn position_after(&self, catalog: &Catalog, id: &str) -> usize {
        let is_before = |ordinal: &u32| {
            catalog.entries().get(*ordinal as usize).is_some_and(|entry| entry.id.as_str() <= id)
        };
        self.ordinals.partition_point(is_before)
    }

    /// The tools from `offset` on, as many as `limit` allows and at least one; past the end there
    /// are none. The catalog must be the one that the listing was made from.
    pub(crate) fn page(
        &self,
        catalog: &Catalog,
        shape: Shape,
        offset: usize,
        limit: PageLimit,
    ) -> Page {
        let arena = catalog.arena(shape);
        let rest = self.ordinals.get(offset..).unwrap_or_default();
        let rest = rest.get(..limit.tools).unwrap_or(rest);
        let ordinals = if arena.len() <= limit.bytes { rest } else { fitting(rest, arena, limit) };
        let mut tools = Vec::new();
        let mut runs = ordinals.chunk_by(|a, b| a + 1 == *b).peekable();
        while let Some(run) = runs.next() {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let is_last = runs.peek().is_none();
            tools.push(if is_last {
                arena.run(*first, *last)
            } else {
                arena.run_and_comma(*first, *last)
            });
        }
        let end = offset.saturating_add(ordinals.len());
        let next = (end < self.ordinals.len()).then_some(end);
        Page { tools, last: ordinals.last().copied(), next }
    }
}

/// As many of the first tools as fit, and one at least.
fn fitting<'a>(ordinals: &'a [u32], arena: &Arena, limit: PageLimit) -> &'a [u32] {
    let mut bytes = 0;
    let fits = |ordinal: &&u32| {
        bytes += arena.size(**ordinal);
        bytes <= limit.bytes
    };
    let count = ordinals.iter().take_while(fits).count();
    ordinals.get(..count.max(1)).unwrap_or_default()
}

/// The listings of one catalog, by the whole set of grants on the sections in use.
#[derive(Debug)]
pub(crate) struct Listings {
    cache: Cache<Arc<[Mask]>, Arc<Listing>>,
}

impl Default for Listings {
    fn default() -> Self {
        let weigh = |key: &Arc<[Mask]>, listing: &Arc<Listing>| {
            u32::try_from(key.len() + listing.len() * 4 + 128).unwrap_or(u32::MAX)
        };
        Self { cache: Cache::builder().max_capacity(MAX_CACHE_BYTES).weigher(weigh).build() }
    }
}

/// Listings of one catalog that services limit further, by what grants allow and services list.
#[derive(Debug)]
pub(crate) struct VisibleListings {
    cache: Cache<(usize, Arc<Limits>), Joined>,
}

/// A listing that services limit, and the listing of the grants, whose address is in the key.
type Joined = (Arc<Listing>, Arc<Listing>);

impl Default for VisibleListings {
    fn default() -> Self {
        let weigh = |_: &_, (listing, _): &Joined| {
            u32::try_from(listing.len() * 4 + 256).unwrap_or(u32::MAX)
        };
        Self { cache: Cache::builder().max_capacity(MAX_CACHE_BYTES).weigher(weigh).build() }
    }
}

impl VisibleListings {
    pub(crate) fn get_or_make(
        &self,
        granted: &Arc<Listing>,
        limits: &Arc<Limits>,
        make: impl FnOnce(&Listing, &Limits) -> Listing,
    ) -> Arc<Listing> {
        let key = (Arc::as_ptr(granted).addr(), Arc::clone(limits));
        if let Some((listing, _)) = self.cache.get(&key) {
            return listing;
        }
        let listing = Arc::new(make(granted, limits));
        self.cache.insert(key, (Arc::clone(&listing), Arc::clone(granted)));
        listing
    }
}

impl Listings {
    pub(crate) fn get_or_make(
        &self,
        key: Arc<[Mask]>,
        make: impl FnOnce() -> Listing,
    ) -> Arc<Listing> {
        self.cache.get_with(key, || Arc::new(make()))
    }
}
