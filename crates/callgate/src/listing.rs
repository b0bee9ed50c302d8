//! The catalog as one set of grants may see it: a list of ordinals, and pages as slices of bytes.

use std::sync::Arc;

use bytes::Bytes;
use moka::sync::Cache;

use crate::access::Mask;
use crate::catalog::Catalog;

/// All listings of one catalog together take no more than this; the least used go first.
const MAX_CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// The tools that one set of grants may use, in the catalog's order.
#[derive(Debug)]
pub struct Listing {
    ordinals: Box<[u32]>,
}

/// A part of a listing.
#[derive(Debug)]
pub struct Page {
    /// The tools as JSON, commas between them, to be sent one after the other.
    pub tools: Vec<Bytes>,
    /// Where the next page starts, unless this is the last.
    pub next: Option<usize>,
}

impl Listing {
    pub(crate) fn new(ordinals: Box<[u32]>) -> Self {
        Self { ordinals }
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.ordinals.len()
    }

    /// Whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.ordinals.is_empty()
    }

    /// Up to `size` tools from `offset` on; past the end there are none. The catalog must be the
    /// one that the listing was made from.
    pub fn page(&self, catalog: &Catalog, offset: usize, size: usize) -> Page {
        let end = offset.saturating_add(size).min(self.ordinals.len());
        let ordinals = self.ordinals.get(offset..end).unwrap_or_default();
        let mut tools = Vec::new();
        let mut runs = ordinals.chunk_by(|a, b| a + 1 == *b).peekable();
        while let Some(run) = runs.next() {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let entries = catalog.entries();
            let (Some(first), Some(last)) =
                (entries.get(*first as usize), entries.get(*last as usize))
            else {
                continue;
            };
            let comma = usize::from(runs.peek().is_some());
            tools.push(catalog.slice(first.tool.start..last.tool.end + comma));
        }
        Page { tools, next: (end < self.ordinals.len()).then_some(end) }
    }
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

impl Listings {
    pub(crate) fn get_or_make(
        &self,
        key: Arc<[Mask]>,
        make: impl FnOnce() -> Listing,
    ) -> Arc<Listing> {
        self.cache.get_with(key, || Arc::new(make()))
    }
}
