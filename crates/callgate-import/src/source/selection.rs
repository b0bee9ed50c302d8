//! Selection of methods by patterns, in which `*` matches any text.

use callgate::internal::matches_pattern;

/// Patterns for the ids of methods.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// If not empty, an id must match one of these.
    pub select: Vec<String>,
    /// An id must match none of these.
    pub exclude: Vec<String>,
}

impl Selection {
    pub(crate) fn matches(&self, id: &str) -> bool {
        (self.select.is_empty() || self.select.iter().any(|pattern| matches_pattern(pattern, id)))
            && !self.exclude.iter().any(|pattern| matches_pattern(pattern, id))
    }

    /// Returns the patterns that match none of the ids.
    pub(crate) fn unused<'a>(&'a self, ids: &[&str]) -> Vec<&'a str> {
        let patterns = self.select.iter().chain(&self.exclude).map(String::as_str);
        patterns.filter(|pattern| !ids.iter().any(|id| matches_pattern(pattern, id))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_text() {
        for (id, pattern) in [
            ("user.get", "user.get"),
            ("user.get", "user.*"),
            ("user.get", "*.get"),
            ("user.get", "*"),
            ("user.get", "u*r*t"),
            ("user.get", "**user.get**"),
            ("aab", "*ab"),
        ] {
            assert!(matches_pattern(pattern, id), "{id} {pattern}");
        }
        for (id, pattern) in [
            ("user.get", "user"),
            ("user.get", "user.*t.get"),
            ("user.get", ""),
            ("user.get", "*.set"),
            ("ab", "ab*b"),
            ("user.get", "u?er.get"),
        ] {
            assert!(!matches_pattern(pattern, id), "{id} {pattern}");
        }
    }
}
