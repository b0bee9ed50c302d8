//! A cache of limited size.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashlink::LinkedHashMap;

/// A cache with a limit for the total weight of its entries. If the limit is exceeded, the least recently used entries
/// are removed. Values are cloned when they are read, so they should be references such as `Arc`.
pub(crate) struct LruCache<K, V> {
    entries: Mutex<LruEntries<K, V>>,
    max_weight: usize,
    weigh: fn(&K, &V) -> usize,
}

struct LruEntries<K, V> {
    /// Values with their weights, the least recently used first.
    by_key: LinkedHashMap<K, (V, usize), foldhash::fast::RandomState>,
    weight: usize,
}

impl<K: Hash + Eq, V: Clone> LruCache<K, V> {
    /// Creates a cache for at most `max` entries.
    pub(crate) fn new(max: usize) -> Self {
        Self::with_weight(max, |_, _| 1)
    }

    /// Creates a cache for entries with a total weight of at most `max_weight`.
    pub(crate) fn with_weight(max_weight: usize, weigh: fn(&K, &V) -> usize) -> Self {
        let entries = Mutex::new(LruEntries { by_key: LinkedHashMap::default(), weight: 0 });
        Self { entries, max_weight, weigh }
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.lock().by_key.to_back(key).map(|(value, _)| value.clone())
    }

    /// Adds an entry, or replaces the entry with the same key. An entry that exceeds the limit by itself is not kept.
    pub(crate) fn insert(&self, key: K, value: V) {
        self.update(key, |_| value);
    }

    /// Returns the value of a key. If there is no value, calls `make` without holding the lock, and stores the result.
    /// If two threads make a value for the same key, both return the value that was stored first.
    pub(crate) fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> V {
        if let Some(value) = self.get(&key) {
            return value;
        }
        let value = make();
        self.update(key, |stored| stored.cloned().unwrap_or(value))
    }

    /// Calls `change` with the value of a key, or with `None` if there is no value. Stores and returns the result. The
    /// cache is locked while `change` runs.
    pub(crate) fn update(&self, key: K, change: impl FnOnce(Option<&V>) -> V) -> V {
        // Dropped after the lock is released, because dropping many values can take long.
        let mut removed = Vec::new();
        let mut entries = self.lock();
        let value = change(entries.by_key.get(&key).map(|(value, _)| value));
        let weight = (self.weigh)(&key, &value);
        let replaced = if weight > self.max_weight {
            entries.by_key.remove(&key)
        } else {
            entries.weight += weight;
            entries.by_key.insert(key, (value.clone(), weight))
        };
        if let Some((old, weight)) = replaced {
            entries.weight -= weight;
            removed.push(old);
        }
        while entries.weight > self.max_weight
            && let Some((_, (oldest, weight))) = entries.by_key.pop_front()
        {
            entries.weight -= weight;
            removed.push(oldest);
        }
        drop(entries);
        value
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().by_key.len()
    }

    fn lock(&self) -> MutexGuard<'_, LruEntries<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> fmt::Debug for LruCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LruCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_least_recently_used_entries_are_removed() {
        let cache = LruCache::with_weight(100, |_: &u32, weight: &usize| *weight);
        (0..4).for_each(|key| cache.insert(key, 25));
        assert_eq!(cache.get(&0), Some(25));
        cache.insert(4, 30);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|key| cache.get(&key).is_some()),
            [true, false, false, true, true]
        );
        cache.insert(3, 101);
        assert_eq!((cache.get(&3), cache.len()), (None, 2), "it exceeds the limit by itself");
        cache.insert(5, 100);
        assert_eq!((cache.get(&5), cache.len()), (Some(100), 1));
    }

    #[test]
    fn a_value_is_computed_once_and_updated_atomically() {
        let cache = LruCache::new(10);
        assert_eq!(cache.get_or_insert_with("a", || 1), 1);
        assert_eq!(cache.get_or_insert_with("a", || unreachable!()), 1);
        assert_eq!(cache.update("a", |old| old.copied().unwrap_or_default() + 1), 2);
        assert_eq!(cache.update("b", |old| old.copied().unwrap_or(7)), 7);
        assert_eq!((cache.get("a"), cache.len()), (Some(2), 2));
    }

    proptest! {
        /// The limit always holds, and a cache whose limit is not reached behaves like a map.
        #[test]
        fn the_total_weight_never_exceeds_the_limit(
            inserted in prop::collection::vec((0_u8..10, 0_usize..120), 0..100),
        ) {
            let cache = LruCache::with_weight(100, |_: &u8, weight: &usize| *weight);
            let unlimited = LruCache::with_weight(usize::MAX, |_: &u8, weight: &usize| *weight);
            let mut map = HashMap::new();
            for (key, weight) in inserted {
                cache.insert(key, weight);
                unlimited.insert(key, weight);
                map.insert(key, weight);
                let total: usize = (0..10).filter_map(|key| cache.get(&key)).sum();
                prop_assert!(total <= 100);
                prop_assert_eq!(cache.lock().weight, total);
                prop_assert_eq!(cache.get(&key), (weight <= 100).then_some(weight));
            }
            for key in 0..10 {
                prop_assert_eq!(unlimited.get(&key), map.get(&key).copied());
            }
        }
    }
}
