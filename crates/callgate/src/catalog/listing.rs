//! The tools that a caller can see, and pages of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::access::Mask;
use crate::access::VisibleMethods;
use crate::catalog::{Arena, Catalog, without_comma};
use crate::lru_cache::LruCache;
use crate::model::tool::ToolFormat;

/// Maximum size of a cache of listings or documents, in bytes.
pub(crate) const MAX_CACHE_BYTES: usize = 64 * 1024 * 1024;

/// The tools that a caller can see, in the catalog's order.
///
/// Returned by [`Catalog::listing`]. [`Catalog`] has an example.
#[derive(Debug)]
pub struct Listing {
    /// Unique number in this process.
    pub(crate) number: u64,
    pub(crate) ordinals: Box<[u32]>,
    /// Hash of the tools, computed on demand.
    pub(crate) hash: OnceLock<u64>,
    /// Summary of the tools, computed on demand.
    pub(crate) summary: OnceLock<String>,
}

/// A page of a listing.
///
/// Returned by [`Gateway::list`](crate::gateway::Gateway::list).
#[derive(Debug)]
pub struct Page {
    /// The tools as JSON, separated by commas. The slices are sent in this order.
    pub tools: Vec<Bytes>,
    /// Catalog index of the last tool on this page.
    pub(crate) last: Option<u32>,
    /// Offset of the next page.
    pub next: Option<usize>,
}

/// Maximum size of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageLimit {
    pub(crate) tools: usize,
    pub(crate) bytes: usize,
}

impl Listing {
    pub(crate) fn new(ordinals: Box<[u32]>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self { number, ordinals, hash: OnceLock::new(), summary: OnceLock::new() }
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.ordinals.len()
    }

    /// Returns `true` if there are no tools.
    pub fn is_empty(&self) -> bool {
        self.ordinals.is_empty()
    }

    /// Returns the offset of the first tool after this method id. The method itself need not exist.
    pub(crate) fn position_after(&self, catalog: &Catalog, id: &str) -> usize {
        let is_before =
            |ordinal: &u32| catalog.entry(*ordinal).is_some_and(|entry| entry.id.as_str() <= id);
        self.ordinals.partition_point(is_before)
    }

    /// Returns the tools from `offset` that fit into `limit`, but at least one. `catalog` must be the catalog of this
    /// listing.
    pub(crate) fn page(
        &self,
        catalog: &Catalog,
        format: ToolFormat,
        offset: usize,
        limit: PageLimit,
    ) -> Page {
        let arena = catalog.arena(format);
        let rest = self.ordinals.get(offset..).unwrap_or_default();
        let rest = rest.get(..limit.tools).unwrap_or(rest);
        let ordinals = if arena.len() <= limit.bytes { rest } else { fitting(rest, arena, limit) };
        let runs = ordinals.chunk_by(|a, b| a + 1 == *b);
        let runs = runs.filter_map(|run| Some(arena.run(*run.first()?, *run.last()?)));
        let mut tools: Vec<Bytes> = runs.collect();
        if let Some(last) = tools.pop() {
            tools.push(without_comma(last));
        }
        let end = offset.saturating_add(ordinals.len());
        let next = (end < self.ordinals.len()).then_some(end);
        Page { tools, last: ordinals.last().copied(), next }
    }
}

/// Returns as many of the first tools as fit into the limit, but at least one.
fn fitting<'a>(ordinals: &'a [u32], arena: &Arena, limit: PageLimit) -> &'a [u32] {
    let mut bytes = 0;
    let fits = |ordinal: &&u32| {
        bytes += arena.size(**ordinal);
        bytes <= limit.bytes
    };
    let count = ordinals.iter().take_while(fits).count();
    ordinals.get(..count.max(1)).unwrap_or_default()
}

/// Listings. The key consists of the caller's masks on all sections that methods require.
pub(crate) type Listings = LruCache<Arc<[Mask]>, Arc<Listing>>;

/// Listings restricted by services. The key consists of the unrestricted listing's number and the visible methods.
pub(crate) type VisibleListings = LruCache<(u64, Arc<VisibleMethods>), Arc<Listing>>;

pub(crate) fn listings() -> Listings {
    LruCache::with_weight(MAX_CACHE_BYTES, |key, listing| key.len() + listing.len() * 4 + 128)
}

pub(crate) fn visible_listings() -> VisibleListings {
    LruCache::with_weight(MAX_CACHE_BYTES, |_, listing| listing.len() * 4 + 256)
}
