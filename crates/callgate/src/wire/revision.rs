//! Revisions of the MCP specification.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A revision of the MCP specification. The variants are in ascending order.
///
/// ```
/// use callgate::Callgate;
/// use callgate::gateway::Settings;
/// use callgate::mcp::{Era, Revision};
///
/// let revision: Revision = "2025-06-18".parse()?;
/// assert!(revision < Revision::NEWEST);
/// assert_eq!(revision.era(), Era::Legacy);
///
/// // A server that does not support newer revisions.
/// let settings = Settings { protocol_version: revision, ..Settings::default() };
/// let server = Callgate::builder().settings(settings).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25
    V2025_11_25,
    /// 2026-07-28
    V2026_07_28,
}

/// How a client and a server negotiate the revision and capabilities.
///
/// Returned by [`Revision::era`]. [`Revision`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Client and server negotiate once, in the `initialize` handshake.
    Legacy,
    /// Client and server negotiate in the `_meta` of each request.
    Modern,
}

/// The text is not a revision of MCP.
///
/// Error of parsing a [`Revision`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not a revision of MCP; expected one of {supported}", supported = Revision::ALL.map(Revision::as_str).join(", "))]
pub struct RevisionError;

impl Revision {
    /// All revisions, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];
    /// The newest revision.
    pub const NEWEST: Self = Self::V2026_07_28;
    /// The newest revision with an `initialize` handshake.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;

    /// Returns the date that identifies the revision.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns this revision and all older ones, oldest first.
    pub fn and_older(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |revision| *revision <= self)
    }

    /// Returns the era, which defines how the revision is negotiated.
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => {
                Era::Legacy
            }
        }
    }

    /// Returns `true` for revisions of the modern era.
    pub const fn is_modern(self) -> bool {
        matches!(self.era(), Era::Modern)
    }
}

impl FromStr for Revision {
    type Err = RevisionError;

    fn from_str(text: &str) -> Result<Self, RevisionError> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text).ok_or(RevisionError)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
