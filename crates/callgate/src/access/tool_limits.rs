//! Limits of single tools, as configured: `mail.send 10/min per caller, report.* 2 concurrent`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::rate_limits::{LimitError, NONE, Rate, positive};

/// Limits of single tools: `mail.send 10/min per caller, report.* 2 concurrent, report.* 30 seconds`.
///
/// Each limit begins with the id of a method, in which `*` matches any characters. All limits that match a method
/// apply to it. A limit that matches several methods is counted for each of them separately.
///
/// [`RateLimits`](super::RateLimits) has an example.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ToolLimits(Arc<[ToolLimit]>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ToolLimit {
    pattern: String,
    pub(super) value: LimitValue,
    /// Whether the limit applies to each caller separately. Otherwise all callers share it.
    pub(super) per_caller: bool,
}

/// What a limit of a tool restricts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum LimitValue {
    Rate(Rate),
    /// Maximum number of calls at the same time.
    Concurrent(u32),
    Seconds(u32),
    ArgumentBytes(u32),
    ResultBytes(u32),
}

/// Limits that apply to each call by itself: its time and its sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CallBounds {
    pub(crate) time: Option<Duration>,
    pub(crate) argument_bytes: Option<usize>,
    pub(crate) result_bytes: Option<usize>,
}

impl ToolLimit {
    /// Returns the pattern, and whether the limit is per caller. Together they identify the limit even after its value
    /// has changed.
    pub(super) fn scope(&self) -> (&str, bool) {
        (&self.pattern, self.per_caller)
    }
}

const PER_CALLER: &str = " per caller";
const CONCURRENT: &str = "concurrent";
const SECONDS: &str = "seconds";
const ARGUMENT_BYTES: &str = "argument bytes";
const RESULT_BYTES: &str = "result bytes";

impl ToolLimits {
    /// Returns the limits of a method.
    pub(super) fn of(&self, method: &str) -> impl Iterator<Item = &ToolLimit> {
        self.0.iter().filter(move |limit| matches_pattern(&limit.pattern, method))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the limits of time and size for calls of this method. If several limits match, the lowest applies.
    pub(crate) fn bounds(&self, method: &str) -> CallBounds {
        let mut bounds = CallBounds::default();
        for limit in self.of(method) {
            match limit.value {
                LimitValue::Rate(_) | LimitValue::Concurrent(_) => {}
                LimitValue::Seconds(max) => {
                    lower(&mut bounds.time, Duration::from_secs(max.into()));
                }
                LimitValue::ArgumentBytes(max) => {
                    lower(&mut bounds.argument_bytes, max as usize);
                }
                LimitValue::ResultBytes(max) => lower(&mut bounds.result_bytes, max as usize),
            }
        }
        bounds
    }
}

fn lower<T: Ord + Copy>(limit: &mut Option<T>, other: T) {
    *limit = Some(limit.map_or(other, |limit| limit.min(other)));
}

/// Returns `true` if `text` matches `pattern`, in which `*` matches any characters.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(start).and_then(|text| text.strip_suffix(end)) else {
        return false;
    };
    let mut parts = middle.split('*');
    parts.try_fold(text, |text, part| text.split_once(part).map(|(_, after)| after)).is_some()
}

impl fmt::Display for LimitValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => rate.fmt(f),
            Self::Concurrent(max) => write!(f, "{max} {CONCURRENT}"),
            Self::Seconds(max) => write!(f, "{max} {SECONDS}"),
            Self::ArgumentBytes(max) => write!(f, "{max} {ARGUMENT_BYTES}"),
            Self::ResultBytes(max) => write!(f, "{max} {RESULT_BYTES}"),
        }
    }
}

impl FromStr for LimitValue {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
        let bytes = || number.parse().ok().filter(|bytes| (1..=1 << 30).contains(bytes));
        let value = match unit {
            CONCURRENT => positive(number).map(Self::Concurrent),
            SECONDS => positive(number).map(Self::Seconds),
            ARGUMENT_BYTES => bytes().map(Self::ArgumentBytes),
            RESULT_BYTES => bytes().map(Self::ResultBytes),
            _ => text.parse().ok().map(Self::Rate),
        };
        let expected = "one such as `10/min`, `2 concurrent`, `30 seconds`, `4096 argument bytes` or \
                        `65536 result bytes`";
        value.ok_or_else(|| LimitError::new(text, expected))
    }
}

impl fmt::Display for ToolLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str(NONE);
        }
        for (index, ToolLimit { pattern, value, per_caller }) in self.0.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            let per_caller = if *per_caller { PER_CALLER } else { "" };
            write!(f, "{separator}{pattern} {value}{per_caller}")?;
        }
        Ok(())
    }
}

impl FromStr for ToolLimits {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        if text == NONE {
            return Ok(Self::default());
        }
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for ToolLimit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let text = text.trim();
        let (limit, per_caller) = match text.strip_suffix(PER_CALLER) {
            Some(limit) => (limit, true),
            None => (text, false),
        };
        let expected = "a method and its limit, such as `mail.send 10/min per caller`";
        let parts = limit.split_once(char::is_whitespace);
        let (pattern, value) = parts.ok_or_else(|| LimitError::new(text, expected))?;
        let value = value.trim_start().parse()?;
        if per_caller && !matches!(value, LimitValue::Rate(_) | LimitValue::Concurrent(_)) {
            let expected = "`per caller` only after a rate or a number of concurrent calls";
            return Err(LimitError::new(text, expected));
        }
        Ok(Self { pattern: pattern.to_owned(), value, per_caller })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_parse_and_print_unchanged() {
        for text in [
            "mail.send 10/min per caller, report.* 2/s burst 9",
            "report.* 2 concurrent, *.get 1 concurrent per caller",
            "a 30 seconds, b 4096 argument bytes, c 1073741824 result bytes",
            "none",
        ] {
            let limits: ToolLimits = text.parse().unwrap();
            assert_eq!(limits.to_string(), text);
        }
    }

    #[test]
    fn invalid_limits_are_rejected() {
        for text in [
            "",
            "mail.send",
            "mail.send per caller",
            "a 1/s,",
            "a b 1/s",
            "a 0 concurrent",
            "a concurrent",
            "a 1 bytes",
            "a 5 seconds per caller",
            "a 5 argument bytes per caller",
            "a 1073741825 result bytes",
            "a -1 seconds",
            "a 2 concurrent burst 3",
        ] {
            assert!(text.parse::<ToolLimits>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_lowest_of_the_matching_bounds_applies() {
        let text =
            "a.* 9 seconds, a.b 5 seconds, a.* 7 seconds, a.b 10 argument bytes, c 1 seconds";
        let limits: ToolLimits = text.parse().unwrap();
        let bounds = |seconds, argument_bytes| CallBounds {
            time: Some(Duration::from_secs(seconds)),
            argument_bytes,
            result_bytes: None,
        };
        assert_eq!(limits.bounds("a.b"), bounds(5, Some(10)));
        assert_eq!(limits.bounds("a.c"), bounds(7, None));
        assert_eq!(limits.bounds("d"), CallBounds::default());
    }

    #[test]
    fn patterns_match_complete_ids() {
        let cases = [
            ("mail.send", "mail.send", true),
            ("mail.send", "mail.sendAll", false),
            ("mail.*", "mail.send", true),
            ("mail.*", "email.send", false),
            ("*.delete", "user.delete", true),
            ("*.delete", "user.deleted", false),
            ("a*a", "a", false),
            ("*user*delete*", "my.user.x.delete.y", true),
            ("*user*delete*", "my.delete.user", false),
            ("*", "anything", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches_pattern(pattern, text), expected, "{pattern} {text}");
        }
    }
}
