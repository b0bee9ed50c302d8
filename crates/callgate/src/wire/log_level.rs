//! Severity of log messages (RFC 5424).

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Severity of a log message. The variants are in ascending order.
///
/// ```
/// use callgate::mcp::LogLevel;
/// use callgate::{Context, method};
///
/// /// Imports the orders, and returns how many there are.
/// #[method(destructive)]
/// async fn import(ctx: &Context) -> u32 {
///     ctx.log(LogLevel::Warning, "import", "order 7 has no customer");
///     41
/// }
///
/// assert!(LogLevel::Warning < LogLevel::Error);
/// assert_eq!("warning".parse(), Ok(LogLevel::Warning));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// `debug`
    Debug,
    /// `info`
    Info,
    /// `notice`
    Notice,
    /// `warning`
    Warning,
    /// `error`
    Error,
    /// `critical`
    Critical,
    /// `alert`
    Alert,
    /// `emergency`
    Emergency,
}

const ALL: [(LogLevel, &str); 8] = [
    (LogLevel::Debug, "debug"),
    (LogLevel::Info, "info"),
    (LogLevel::Notice, "notice"),
    (LogLevel::Warning, "warning"),
    (LogLevel::Error, "error"),
    (LogLevel::Critical, "critical"),
    (LogLevel::Alert, "alert"),
    (LogLevel::Emergency, "emergency"),
];

/// The text is not a log level.
///
/// Error of parsing a [`LogLevel`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the log level must be one of {}", ALL.map(|(_, name)| name).join(", "))]
pub struct LogLevelError;

impl FromStr for LogLevel {
    type Err = LogLevelError;

    fn from_str(text: &str) -> Result<Self, LogLevelError> {
        ALL.iter().find(|(_, name)| *name == text).map(|(level, _)| *level).ok_or(LogLevelError)
    }
}

impl LogLevel {
    /// Returns the level's name.
    pub fn as_str(self) -> &'static str {
        ALL.iter().find(|(level, _)| *level == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
