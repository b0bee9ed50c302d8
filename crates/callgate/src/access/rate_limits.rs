//! Limits of requests, written as in the configuration: `1000/s burst 10000`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::tool_limits::ToolLimits;

/// Rate limit of a caller if none is configured.
const DEFAULT_PER_CALLER: Rate = Rate { count: 1_000, unit: Unit::Second, burst: 10_000 };

/// Maximum rate at which a caller may change the state of sessions. Each state is stored until its session expires.
pub(super) const SESSION_CHANGES: Rate = Rate { count: 30, unit: Unit::Minute, burst: 1_000 };

pub(super) const NONE: &str = "none";

/// A number of requests per unit of time: `100/s`, `10/min burst 20`, `5/h`.
///
/// Part of a [`RateLimit`]. [`RateLimits`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    count: u32,
    unit: Unit,
    /// Number of requests that are allowed at once.
    burst: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Unit {
    Second,
    Minute,
    Hour,
}

impl Unit {
    const ALL: [Self; 3] = [Self::Second, Self::Minute, Self::Hour];

    fn as_str(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "min",
            Self::Hour => "h",
        }
    }

    fn nanoseconds(self) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        match self {
            Self::Second => SECOND,
            Self::Minute => 60 * SECOND,
            Self::Hour => 3_600 * SECOND,
        }
    }
}

impl Rate {
    /// Returns the time between two requests at this rate, in nanoseconds, and the number of requests that are allowed
    /// at once. Both apply to one server, if `servers` servers share the limit.
    pub(super) fn share(self, servers: u32) -> (u64, u64) {
        let interval = self.unit.nanoseconds() / u64::from(self.count);
        (interval.saturating_mul(servers.into()), u64::from(self.burst.div_ceil(servers)))
    }

    fn half(self) -> Self {
        Self { count: self.count.div_ceil(2), burst: self.burst.div_ceil(2), ..self }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, self.unit.as_str())?;
        if self.burst != self.count {
            write!(f, " burst {}", self.burst)?;
        }
        Ok(())
    }
}

/// The text is not a limit.
///
/// Error of parsing a [`Rate`], a [`RateLimit`] or [`ToolLimits`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a limit; expected {expected}")]
pub struct LimitError {
    text: String,
    expected: &'static str,
}

impl LimitError {
    pub(super) fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.chars().take(80).collect(), expected }
    }
}

impl FromStr for Rate {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let mut tokens = text.split_whitespace();
        let rate = tokens.next().and_then(|rate| {
            let (count, unit) = rate.split_once('/')?;
            let unit = Unit::ALL.into_iter().find(|candidate| candidate.as_str() == unit)?;
            let count = positive(count)?;
            let burst = match (tokens.next(), tokens.next(), tokens.next()) {
                (None, ..) => count,
                (Some("burst"), Some(burst), None) => positive(burst)?,
                _ => return None,
            };
            Some(Self { count, unit, burst })
        });
        let expected = "one such as `100/s`, `10/min burst 20` or `5/h`";
        rate.ok_or_else(|| LimitError::new(text, expected))
    }
}

/// Parses a number from 1 to a million. With these bounds, an empty bucket is full after at most 10^6 hours, which fits
/// in a `u64` of nanoseconds.
pub(super) fn positive(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| (1..=1_000_000).contains(number))
}

/// A rate, or no limit (`none`).
///
/// [`RateLimits`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateLimit {
    /// No limit.
    Unlimited,
    /// At most this rate.
    AtMost(Rate),
}

impl RateLimit {
    fn rate(self) -> Option<Rate> {
        match self {
            Self::Unlimited => None,
            Self::AtMost(rate) => Some(rate),
        }
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str(NONE),
            Self::AtMost(rate) => rate.fmt(f),
        }
    }
}

impl FromStr for RateLimit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        if text == NONE { Ok(Self::Unlimited) } else { text.parse().map(Self::AtMost) }
    }
}

/// Limits of requests and of tools. `None` means that the limit is not configured.
///
/// ```
/// use callgate::access::{LimitScope, RateLimit, RateLimits};
/// use callgate::upstream::CallError;
/// use callgate::{Callgate, Caller, method, methods};
///
/// /// Sends the weekly report.
/// #[method(id = "report.send", destructive)]
/// fn send_report() {}
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = RateLimits {
///     per_caller: Some("100/s burst 500".parse()?),
///     total: Some(RateLimit::Unlimited),
///     tools: Some("report.* 1/h, report.* 2 concurrent".parse()?),
/// };
/// let server = Callgate::builder().methods(methods![send_report]).rate_limits(limits).build()?;
/// let caller = server.as_caller(Caller::anonymous());
/// caller.call("report.send", ()).await?;
/// let Err(CallError::RateLimited(error)) = caller.call("report.send", ()).await else { panic!() };
/// assert_eq!((error.scope, error.rate), (LimitScope::Tool, "1/h".parse()?));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RateLimits {
    /// Requests of each caller. Defaults to `1000/s burst 10000`, or to half of `total` if that is lower. All callers
    /// that have neither a user nor an address share one count.
    pub per_caller: Option<RateLimit>,
    /// Requests of all callers together. Defaults to no limit.
    pub total: Option<RateLimit>,
    /// Rate, concurrency, time and sizes of calls of single tools. Defaults to no limits.
    pub tools: Option<ToolLimits>,
}

/// The limits that apply. Limits that are not configured have their defaults.
#[derive(Debug, Clone)]
pub(crate) struct ActiveLimits {
    pub(super) per_caller: Option<Rate>,
    pub(super) total: Option<Rate>,
    pub(crate) tools: ToolLimits,
}

impl Default for ActiveLimits {
    fn default() -> Self {
        RateLimits::default().or(&RateLimits::default())
    }
}

impl RateLimits {
    /// Returns these limits. A limit that is not set is taken from `other`, or else from the defaults.
    pub(crate) fn or(&self, other: &Self) -> ActiveLimits {
        let total = self.total.or(other.total).and_then(RateLimit::rate);
        // With this default, a single caller cannot use up a low total.
        let half =
            total.map(Rate::half).filter(|half| half.share(1).0 > DEFAULT_PER_CALLER.share(1).0);
        let default = Some(half.unwrap_or(DEFAULT_PER_CALLER));
        let per_caller = self.per_caller.or(other.per_caller);
        ActiveLimits {
            per_caller: per_caller.map_or(default, RateLimit::rate),
            total,
            tools: self.tools.clone().or_else(|| other.tools.clone()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_parse_and_print_unchanged() {
        for text in ["100/s", "10/min burst 20", "5/h", "none"] {
            let rate: RateLimit = text.parse().unwrap();
            assert_eq!(rate.to_string(), text);
        }
    }

    #[test]
    fn invalid_rates_are_rejected() {
        for text in ["", "100", "0/s", "1/day", "1/s burst", "1/s burst 0", "1/s 5", "1000001/s"] {
            assert!(text.parse::<RateLimit>().is_err(), "{text}");
        }
    }
}
