//! Sections, masks, and what a caller has been granted.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use thiserror::Error;

use super::memo::Memo;

/// The ident of a section of the application, such as `content`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Section(Arc<str>);

/// The ident of [`Section::authenticated`].
const AUTHENTICATED: &str = "@authenticated";

impl Section {
    /// The ident.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the built-in section on which every user has read, and callers without a credential have
    /// nothing. A method that needs read on it is for everybody who is logged in.
    pub fn authenticated() -> Self {
        static IDENT: LazyLock<Arc<str>> = LazyLock::new(|| AUTHENTICATED.into());
        Self(Arc::clone(&IDENT))
    }
}

impl From<&str> for Section {
    fn from(ident: &str) -> Self {
        Self(ident.into())
    }
}

impl From<String> for Section {
    fn from(ident: String) -> Self {
        Self(ident.into())
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A rung of the ladder: who may execute may also write, and who may write may also read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Mask {
    /// Nothing. As a user's own grant it denies what the role would allow.
    #[default]
    None = 0,
    /// Read.
    Read = 2,
    /// Write, and read.
    Write = 4,
    /// Everything.
    Execute = 6,
}

impl Mask {
    /// What a stored value grants: the highest rung that it reaches.
    pub fn granted(value: i64) -> Self {
        match value {
            ..2 => Self::None,
            2..4 => Self::Read,
            4..6 => Self::Write,
            _ => Self::Execute,
        }
    }

    /// What a stored value requires: the lowest rung that reaches it, and read at least. Past the
    /// ladder's end nothing can be enough.
    pub fn required(value: i64) -> Option<Self> {
        match value {
            ..=2 => Some(Self::Read),
            3..=4 => Some(Self::Write),
            5..=6 => Some(Self::Execute),
            _ => None,
        }
    }

    /// The number in the registry.
    pub fn value(self) -> i64 {
        self as i64
    }
}

/// A word that is no mask.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a mask; expected none, read, write, execute, or 0, 2, 4, 6")]
pub struct MaskError(String);

impl FromStr for Mask {
    type Err = MaskError;

    fn from_str(text: &str) -> Result<Self, MaskError> {
        match text {
            "none" | "0" => Ok(Self::None),
            "read" | "2" => Ok(Self::Read),
            "write" | "4" => Ok(Self::Write),
            "execute" | "6" => Ok(Self::Execute),
            other => Err(MaskError(other.to_owned())),
        }
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
        };
        write!(f, "{word} ({})", self.value())
    }
}

/// What a caller has on one section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// How much.
    pub mask: Mask,
    /// Through which row.
    pub source: GrantSource,
}

/// Where a grant comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantSource {
    /// The user's own row, which wins.
    User,
    /// The row of the user's role.
    Role,
    /// The built-in grant that every user has, see [`Section::authenticated`].
    Authenticated,
}

impl fmt::Display for GrantSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "the user's own grant",
            Self::Role => "the role's grant",
            Self::Authenticated => "the grant of every user",
        })
    }
}

/// All that a caller has been granted.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    pub(super) by_section: BTreeMap<Section, Grant>,
    /// The last listing of the tools that these grants allow, by the number of its catalog.
    pub(crate) listing: Memo,
}

impl Grants {
    /// Takes a row of the user's role in; of several for one section, the lowest counts.
    pub fn add_role(&mut self, section: Section, mask: Mask) {
        self.add(section, Grant { mask, source: GrantSource::Role });
    }

    /// Takes a row of the user's own in: it wins over the role's, also when it grants less.
    pub fn add_user(&mut self, section: Section, mask: Mask) {
        self.add(section, Grant { mask, source: GrantSource::User });
    }

    /// Adds the built-in grant of every user, unless a row grants or denies the section.
    pub(crate) fn add_authenticated(&mut self) {
        let grant = Grant { mask: Mask::Read, source: GrantSource::Authenticated };
        self.by_section.entry(Section::authenticated()).or_insert(grant);
    }

    /// Removes what rows grant on [`Section::authenticated`], for callers without a credential.
    pub(crate) fn remove_authenticated(&mut self) {
        self.by_section.remove(&Section::authenticated());
    }

    fn add(&mut self, section: Section, new: Grant) {
        self.listing = Memo::default();
        self.by_section
            .entry(section)
            .and_modify(|old| match (old.source, new.source) {
                (GrantSource::User, GrantSource::Role) => {}
                (GrantSource::Role, GrantSource::User) | (GrantSource::Authenticated, _) => {
                    *old = new;
                }
                _ => old.mask = old.mask.min(new.mask),
            })
            .or_insert(new);
    }

    /// The grant on a section, if there is a row for it.
    pub fn get(&self, section: &Section) -> Option<Grant> {
        self.by_section.get(section).copied()
    }

    /// How much is granted on a section.
    pub fn mask(&self, section: &Section) -> Mask {
        self.get(section).map_or(Mask::None, |grant| grant.mask)
    }
}

impl<S: Into<Section>> FromIterator<(S, Mask)> for Grants {
    /// A user's own grants.
    fn from_iter<I: IntoIterator<Item = (S, Mask)>>(rows: I) -> Self {
        let mut grants = Self::default();
        for (section, mask) in rows {
            grants.add_user(section.into(), mask);
        }
        grants
    }
}
