//! What services list for a caller, as a limit of what the caller sees.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::MethodSet;
use super::memo::Memo;

/// What one service lists for a caller; `None` where that is not known.
type Listed = (Arc<str>, Option<Arc<MethodSet>>);

/// What services list for a caller.
#[derive(Debug)]
pub(crate) struct VisibleMethods {
    listed: Box<[Listed]>,
    /// The last listing that was limited by this, by the number of the listing before.
    pub(crate) listing: Memo,
}

impl VisibleMethods {
    pub(crate) fn new(listed: impl IntoIterator<Item = Listed>) -> Self {
        Self { listed: listed.into_iter().collect(), listing: Memo::default() }
    }

    /// All of them together.
    pub(crate) fn all(each: &[Arc<Self>]) -> Self {
        Self::new(each.iter().flat_map(|one| one.listed.iter().cloned()))
    }

    /// The names of the services.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.listed.iter().map(|(name, _)| name)
    }

    /// What a service lists; the outer `None` where it does not limit anything.
    pub(crate) fn of(&self, service: &str) -> Option<&Option<Arc<MethodSet>>> {
        self.listed.iter().find(|(name, _)| **name == *service).map(|(_, listed)| listed)
    }

    /// Whether a method of this upstream is listed, or needs not be.
    pub(crate) fn allow(&self, upstream: &str, id: &str) -> bool {
        let lists = |listed: &Option<Arc<MethodSet>>| {
            listed.as_ref().is_some_and(|methods| methods.contains(id))
        };
        self.of(upstream).is_none_or(lists)
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
