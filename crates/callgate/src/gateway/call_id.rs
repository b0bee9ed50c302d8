//! Unique ids of calls.

use std::sync::atomic::{AtomicU64, Ordering};

/// Generates ids: `mcp_`, a random number of the process, and a counter.
#[derive(Debug)]
pub(super) struct CallIds {
    /// `mcp_` and the random number of the process.
    prefix: Box<str>,
    count: AtomicU64,
}

impl Default for CallIds {
    fn default() -> Self {
        // If no random number is available, ids are unique in this process only, which is acceptable for logs.
        let process = getrandom::u64().unwrap_or_default();
        Self { prefix: format!("mcp_{process:016x}").into(), count: AtomicU64::new(0) }
    }
}

impl CallIds {
    pub(super) fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut id = String::with_capacity(self.prefix.len() + 16);
        id.push_str(&self.prefix);
        // At least 8 hexadecimal digits. `write!` would take most of the time of this function.
        let digits = (u64::BITS - count.leading_zeros()).div_ceil(4).max(8);
        id.extend((0..digits).rev().map(|digit| hexadecimal(count >> (4 * digit))));
        id
    }
}

/// Returns the last hexadecimal digit of a number.
fn hexadecimal(number: u64) -> char {
    match (number & 0xf) as u8 {
        digit @ 0..10 => char::from(b'0' + digit),
        digit => char::from(b'a' - 10 + digit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_end_with_at_least_eight_digits() {
        let ids = CallIds { prefix: "mcp_".into(), count: AtomicU64::new(0xdead) };
        assert_eq!([ids.next(), ids.next()], ["mcp_0000dead", "mcp_0000deae"]);
        ids.count.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(ids.next(), "mcp_ffffffffffffffff");
    }
}
