//! Methods that services list for a caller.

use std::sync::Arc;

use super::MethodSet;

/// Name of a service and the methods that it lists; `None` if the list is unknown.
type Listed = (Arc<str>, Option<Arc<MethodSet>>);

/// Methods that services list for a caller. Only services with a
/// [`MethodLister`](crate::upstream::MethodLister) are included.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct VisibleMethods(Box<[Listed]>);

impl VisibleMethods {
    pub(crate) fn new(listed: impl IntoIterator<Item = Listed>) -> Self {
        Self(listed.into_iter().collect())
    }

    /// Merges the lists of several services.
    pub(crate) fn merge(each: &[Arc<Self>]) -> Self {
        Self::new(each.iter().flat_map(|one| one.0.iter().cloned()))
    }

    pub(crate) fn services(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().map(|(name, _)| name)
    }

    /// Returns the list of a service. The outer `None` means that the service does not restrict its methods; the inner `None`
    /// means that the list is unknown.
    pub(crate) fn of(&self, service: &str) -> Option<&Option<Arc<MethodSet>>> {
        self.0.iter().find(|(name, _)| **name == *service).map(|(_, listed)| listed)
    }

    /// Returns `true` if the upstream lists the method, or does not restrict its methods.
    pub(crate) fn contains(&self, upstream: &str, id: &str) -> bool {
        let lists = |listed: &Option<Arc<MethodSet>>| {
            listed.as_ref().is_some_and(|methods| methods.contains(id))
        };
        self.of(upstream).is_none_or(lists)
    }
}
