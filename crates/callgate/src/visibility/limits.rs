//! What services list for a caller, as a limit of what the caller sees.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;

use super::MethodSet;
use crate::listing::Listing;

/// What one service lists for a caller; `None` where that is not known.
type Listed = (Arc<str>, Option<Arc<MethodSet>>);

/// What services list for a caller.
#[derive(Debug)]
pub(crate) struct Limits {
    listed: Box<[Listed]>,
    /// The last listing that was limited so: most requests need no other, and need not look for it by
    /// all that is listed.
    last: ArcSwapOption<Last>,
}

#[derive(Debug)]
struct Last {
    /// The number of the catalog.
    catalog: u64,
    /// What grants allow.
    granted: Weak<Listing>,
    listing: Weak<Listing>,
}

impl Limits {
    pub(crate) fn new(listed: impl IntoIterator<Item = Listed>) -> Self {
        Self { listed: listed.into_iter().collect(), last: ArcSwapOption::empty() }
    }

    /// All of them together.
    pub(super) fn all(each: &[Arc<Self>]) -> Self {
        Self::new(each.iter().flat_map(|one| one.listed.iter().cloned()))
    }

    /// The names of the services.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.listed.iter().map(|(name, _)| name)
    }

    /// What a service lists; the outer `None` where it does not limit anything.
    pub(super) fn of(&self, service: &str) -> Option<&Option<Arc<MethodSet>>> {
        self.listed.iter().find(|(name, _)| **name == *service).map(|(_, listed)| listed)
    }

    /// Whether a method of this upstream is listed, or needs not be.
    pub(crate) fn allow(&self, upstream: &str, id: &str) -> bool {
        let lists = |listed: &Option<Arc<MethodSet>>| {
            listed.as_ref().is_some_and(|methods| methods.contains(id))
        };
        self.of(upstream).is_none_or(lists)
    }

    /// The listing of the catalog with this number, if it was the last.
    pub(crate) fn last(&self, catalog: u64, granted: &Arc<Listing>) -> Option<Arc<Listing>> {
        let last = self.last.load();
        let last = last.as_ref()?;
        let is_same = last.catalog == catalog && last.granted.as_ptr() == Arc::as_ptr(granted);
        if is_same { last.listing.upgrade() } else { None }
    }

    pub(crate) fn remember(&self, catalog: u64, granted: &Arc<Listing>, listing: &Arc<Listing>) {
        let (granted, listing) = (Arc::downgrade(granted), Arc::downgrade(listing));
        self.last.store(Some(Arc::new(Last { catalog, granted, listing })));
    }
}

impl PartialEq for Limits {
    fn eq(&self, other: &Self) -> bool {
        self.listed == other.listed
    }
}

impl Eq for Limits {}

impl Hash for Limits {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.listed.hash(state);
    }
}
