//! Compact sets of the method ids that a service lists for a caller. Equal sets are shared.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Maximum number of ids in [`BitNumbers`]. If there would be more, a new [`BitNumbers`] is used.
const MAX_NUMBERED: usize = 65_536;

/// Unused sets are dropped only if there are at least this many sets.
const MIN_SHARED: usize = 64;

/// A set of method ids, with one bit for each id in [`BitNumbers`].
#[derive(Clone)]
pub(crate) struct MethodSet {
    numbers: Arc<BitNumbers>,
    /// The bits, without zero words at the end, so that equal sets compare equal.
    bits: Box<[u64]>,
}

/// The bit number of each id.
#[derive(Default)]
struct BitNumbers(RwLock<HashMap<Box<str>, usize>>);

impl BitNumbers {
    fn get(&self, id: &str) -> Option<usize> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(id).copied()
    }
}

impl MethodSet {
    pub(crate) fn contains(&self, id: &str) -> bool {
        let is_set = |number: usize| {
            self.bits.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
        };
        self.numbers.get(id).is_some_and(is_set)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    fn new(numbers: &Arc<BitNumbers>, mut bits: Vec<u64>) -> Self {
        bits.truncate(bits.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1));
        Self { numbers: Arc::clone(numbers), bits: bits.into() }
    }

    fn without(&self, id: &str) -> Self {
        let mut bits = self.bits.to_vec();
        if let Some(number) = self.numbers.get(id)
            && let Some(word) = bits.get_mut(number / 64)
        {
            *word &= !(1 << (number % 64));
        }
        Self::new(&self.numbers, bits)
    }
}

impl PartialEq for MethodSet {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits && (self.is_empty() || Arc::ptr_eq(&self.numbers, &other.numbers))
    }
}

impl Eq for MethodSet {}

impl Hash for MethodSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits.hash(state);
    }
}

impl fmt::Debug for MethodSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count: u32 = self.bits.iter().map(|word| word.count_ones()).sum();
        write!(f, "MethodSet({count})")
    }
}

/// Creates the sets of one service. Equal sets share memory.
#[derive(Default)]
pub(crate) struct MethodSets(Mutex<MethodSetPool>);

#[derive(Default)]
struct MethodSetPool {
    numbers: Arc<BitNumbers>,
    sets: HashSet<Arc<MethodSet>>,
    /// Number of sets at which unused ones are dropped.
    limit: usize,
}

impl MethodSets {
    pub(crate) fn of(&self, ids: &[String]) -> Arc<MethodSet> {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bits = pool.assign_bits(ids);
        let set = MethodSet::new(&pool.numbers, bits);
        pool.intern(set)
    }

    pub(crate) fn without(&self, set: &MethodSet, id: &str) -> Arc<MethodSet> {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pool.intern(set.without(id))
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sets.len()
    }
}

impl MethodSetPool {
    /// Returns the bits of these ids. Assigns numbers to new ids.
    fn assign_bits(&mut self, ids: &[String]) -> Vec<u64> {
        let known = self.numbers.0.read().unwrap_or_else(PoisonError::into_inner).len();
        let new = ids.iter().filter(|id| self.numbers.get(id).is_none()).count();
        if known + new > MAX_NUMBERED {
            self.numbers = Arc::default();
        }
        let mut numbers = self.numbers.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut bits = Vec::new();
        for id in ids {
            let next = numbers.len();
            let number = *numbers.entry(id.as_str().into()).or_insert(next);
            if bits.len() <= number / 64 {
                bits.resize(number / 64 + 1, 0_u64);
            }
            if let Some(word) = bits.get_mut(number / 64) {
                *word |= 1 << (number % 64);
            }
        }
        bits
    }

    fn intern(&mut self, set: MethodSet) -> Arc<MethodSet> {
        if let Some(existing) = self.sets.get(&set) {
            return Arc::clone(existing);
        }
        if self.sets.len() >= self.limit.max(MIN_SHARED) {
            self.sets.retain(|set| Arc::strong_count(set) > 1);
            self.limit = self.sets.len() * 2;
        }
        let set = Arc::new(set);
        self.sets.insert(Arc::clone(&set));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
        numbers.into_iter().map(|number| format!("method{number}")).collect()
    }

    #[test]
    fn a_set_contains_exactly_the_listed_ids() {
        let sets = MethodSets::default();
        let (all, even) = (sets.of(&ids(0..200)), sets.of(&ids((0..200).step_by(2))));
        for number in 0..200 {
            let id = format!("method{number}");
            assert!(all.contains(&id));
            assert_eq!(even.contains(&id), number % 2 == 0);
            assert!(!sets.without(&all, &id).contains(&id));
        }
        assert!(!all.contains("method200"));
        assert!(sets.of(&[]).is_empty());
        assert!(sets.without(&sets.of(&ids([7])), "method7").is_empty());
    }

    #[test]
    fn equal_sets_share_memory_and_unused_sets_are_dropped() {
        let sets = MethodSets::default();
        let first = sets.of(&ids(0..10));
        assert!(Arc::ptr_eq(&first, &sets.of(&ids((0..10).rev()))));
        for number in 0..10_000 {
            drop(sets.of(&ids([number])));
        }
        assert!(sets.count() <= 2 * MIN_SHARED, "{}", sets.count());
        assert!(Arc::ptr_eq(&first, &sets.of(&ids(0..10))), "one in use stays");
    }

    #[test]
    fn the_number_of_stored_ids_is_bounded_and_earlier_sets_stay_valid() {
        let sets = MethodSets::default();
        let old = sets.of(&ids([1]));
        for start in (0..MAX_NUMBERED * 2).step_by(10_000) {
            drop(sets.of(&ids(start..start + 10_000)));
        }
        let numbers = Arc::clone(&sets.0.lock().unwrap().numbers);
        assert!(numbers.0.read().unwrap().len() <= MAX_NUMBERED);
        assert!(old.contains("method1"), "earlier sets still hold");
        assert!(!old.contains("method70000"));
    }
}
