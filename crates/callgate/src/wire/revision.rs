//! The revisions of MCP.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A revision of MCP, older ones first.
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

/// How a client and a server come to terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// With `initialize` first.
    Legacy,
    /// By what every request says in its `_meta`.
    Modern,
}

/// A text that is no revision.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not a revision of MCP; known are {known}", known = Revision::ALL.map(Revision::as_str).join(", "))]
pub struct RevisionError;

impl Revision {
    /// Every revision, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];
    /// The newest one.
    pub const NEWEST: Self = Self::V2026_07_28;
    /// The newest one that begins with `initialize`.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;

    /// As it stands in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Those up to this one, oldest first.
    pub fn and_older(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |revision| *revision <= self)
    }

    /// The era that it belongs to.
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// Whether requests carry their own terms.
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
