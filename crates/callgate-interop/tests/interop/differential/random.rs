//! Pseudo-random numbers, the same in every run.

/// A generator that hashes a counter.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap();
        usize::try_from(self.next() % limit).unwrap()
    }

    pub(crate) fn integer(&mut self) -> i64 {
        i64::try_from(self.next() % 2_000_001).unwrap() - 1_000_000
    }

    /// Returns text with special characters.
    pub(crate) fn text(&mut self) -> String {
        const CHARACTERS: [char; 12] =
            ['a', 'Z', '0', ' ', '"', '\\', '\n', '\u{e9}', '\u{1f980}', '{', '/', '\u{1}'];
        let length = self.below(12);
        (0..length).map(|_| CHARACTERS[self.below(CHARACTERS.len())]).collect()
    }

    /// Returns `count` of these items, in their order.
    pub(crate) fn sample<T>(&mut self, mut items: Vec<T>, count: usize) -> Vec<T> {
        while items.len() > count {
            items.remove(self.below(items.len()));
        }
        items
    }
}
