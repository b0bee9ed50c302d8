//! Methods that services list for a caller.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::MethodSet;
use super::last_value_cache::LastValueCache;

/// Name of a service and the methods that it lists; `None` if the list is unknown.
type ServiceList = (Arc<str>, Option<Arc<MethodSet>>);

/// Methods that services list for a caller. Only services with a
/// [`MethodLister`](crate::upstream::MethodLister) are included.
#[derive(Debug)]
pub(crate) struct VisibleMethods {
    listed: Box<[ServiceList]>,
    /// Listing of the last catalog, restricted to these methods. The key is the number of the unrestricted listing.
    pub(crate) listing: LastValueCache,
}

impl VisibleMethods {
    pub(crate) fn new(listed: impl IntoIterator<Item = ServiceList>) -> Self {
        Self { listed: listed.into_iter().collect(), listing: LastValueCache::default() }
    }

    /// Merges the lists of several services.
    pub(crate) fn merge(lists: &[Arc<Self>]) -> Self {
        Self::new(lists.iter().flat_map(|list| list.listed.iter().cloned()))
    }

    pub(crate) fn services(&self) -> impl Iterator<Item = &Arc<str>> {
        self.listed.iter().map(|(name, _)| name)
    }

    /// Returns the list of a service. The outer `None` means that the service does not restrict its methods; the inner
    /// `None` means that the list is unknown.
    pub(crate) fn of(&self, service: &str) -> Option<&Option<Arc<MethodSet>>> {
        self.listed.iter().find(|(name, _)| **name == *service).map(|(_, listed)| listed)
    }

    /// Returns `true` if the upstream lists the method, or does not restrict its methods.
    pub(crate) fn contains(&self, upstream: &str, id: &str) -> bool {
        let contains_id = |listed: &Option<Arc<MethodSet>>| {
            listed.as_ref().is_some_and(|methods| methods.contains(id))
        };
        self.of(upstream).is_none_or(contains_id)
    }
}

impl PartialEq for VisibleMethods {
    fn eq(&self, other: &Self) -> bool {
        self.listed == other.listed
    }
}

impl Eq for VisibleMethods {}

impl Hash for VisibleMethods {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.listed.hash(state);
    }
}
