//! Which methods of a source are meant: patterns, in which `*` stands for anything.

use clap::Args;

/// What `--select` and `--exclude` say.
#[derive(Debug, Default, Args)]
pub(crate) struct Selection {
    /// Only methods whose id is like this, such as `user.*`; may repeat
    #[arg(long, value_name = "PATTERN")]
    select: Vec<String>,
    /// No methods whose id is like this; may repeat
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
}

impl Selection {
    /// Whether a method is meant.
    pub(crate) fn has(&self, id: &str) -> bool {
        (self.select.is_empty() || self.select.iter().any(|pattern| is_like(id, pattern)))
            && !self.exclude.iter().any(|pattern| is_like(id, pattern))
    }

    /// The patterns that none of the ids is like.
    pub(crate) fn idle<'a>(&'a self, ids: &[&str]) -> Vec<&'a str> {
        let patterns = self.select.iter().chain(&self.exclude).map(String::as_str);
        patterns.filter(|pattern| !ids.iter().any(|id| is_like(id, pattern))).collect()
    }
}

/// Each part between two `*` is taken where it first occurs, which is enough.
fn is_like(id: &str, pattern: &str) -> bool {
    let Some((first, others)) = pattern.split_once('*') else { return id == pattern };
    let Some(mut rest) = id.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = others.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (id, pattern) in [
            ("user.get", "user.get"),
            ("user.get", "user.*"),
            ("user.get", "*.get"),
            ("user.get", "*"),
            ("user.get", "u*r*t"),
            ("user.get", "**user.get**"),
            ("aab", "*ab"),
        ] {
            assert!(is_like(id, pattern), "{id} {pattern}");
        }
        for (id, pattern) in [
            ("user.get", "user"),
            ("user.get", "user.*t.get"),
            ("user.get", ""),
            ("user.get", "*.set"),
            ("ab", "ab*b"),
            ("user.get", "u?er.get"),
        ] {
            assert!(!is_like(id, pattern), "{id} {pattern}");
        }
    }
}
