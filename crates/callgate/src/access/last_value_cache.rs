//! A cache for one value, stored beside the data from which the value was computed.

use std::any::Any;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;

/// Keeps a weak reference to the last value that was computed from the data beside this cache.
///
/// A request that needs the same value again finds it here. It does not have to hash the data in order to look up
/// the value in a larger cache. The type of the value is erased, because a higher layer defines the type.
#[derive(Debug, Default)]
pub(crate) struct LastValueCache(ArcSwapOption<(u64, Weak<dyn Any + Send + Sync>)>);

impl LastValueCache {
    /// Returns the value if it was stored for this key and is still alive.
    pub(crate) fn get<T: Any + Send + Sync>(&self, key: u64) -> Option<Arc<T>> {
        let last = self.0.load();
        let (last_key, value) = &**last.as_ref()?;
        (*last_key == key).then(|| value.upgrade()?.downcast().ok())?
    }

    pub(crate) fn set<T: Any + Send + Sync>(&self, key: u64, value: &Arc<T>) {
        let value: Weak<dyn Any + Send + Sync> = Arc::<T>::downgrade(value);
        self.0.store(Some(Arc::new((key, value))));
    }

    /// Removes the value.
    pub(crate) fn clear(&mut self) {
        // Replaces a value only if there is one, because a replacement takes much longer than this check.
        if self.0.load().is_some() {
            *self = Self::default();
        }
    }
}

/// A clone starts empty, because the data beside it may change.
impl Clone for LastValueCache {
    fn clone(&self) -> Self {
        Self::default()
    }
}
