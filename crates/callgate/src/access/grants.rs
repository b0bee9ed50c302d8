//! Sections, masks and grants.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use thiserror::Error;

use super::last_value_cache::LastValueCache;

/// Identifier of a section of the application, such as `content`.
///
/// [`Requirement`](super::Requirement) has an example.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Section(Arc<str>);

const AUTHENTICATED: &str = "@authenticated";

impl Section {
    /// Returns the identifier.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the built-in section `@authenticated`. By default, every user has the mask read on it. Anonymous callers
    /// have no grant on it. A method that requires read on this section is open to all authenticated users.
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

/// Permission on a section. Each mask includes the lower ones.
///
/// ```
/// use callgate::Mask;
///
/// assert!(Mask::Execute > Mask::Read);
/// assert_eq!(Mask::granted(5), Mask::Write);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Mask {
    /// No permission. A user's own grant with this mask overrides the grant of the role.
    #[default]
    None = 0,
    /// Read.
    Read = 2,
    /// Write and read.
    Write = 4,
    /// Execute, write and read.
    Execute = 6,
}

impl Mask {
    /// Converts a mask value of a grant in the registry. A value between two masks is rounded down.
    pub fn granted(value: i64) -> Self {
        match value {
            ..2 => Self::None,
            2..4 => Self::Read,
            4..6 => Self::Write,
            _ => Self::Execute,
        }
    }

    /// Converts a mask value of a requirement in the registry. A value between two masks is rounded
    /// up, and a value below [`Self::Read`] becomes [`Self::Read`]. Returns `None` if the value
    /// is above the highest mask, because no grant satisfies such a requirement.
    pub fn required(value: i64) -> Option<Self> {
        match value {
            ..=2 => Some(Self::Read),
            3..=4 => Some(Self::Write),
            5..=6 => Some(Self::Execute),
            _ => None,
        }
    }

    /// Returns the number that the registry stores for the mask.
    pub fn value(self) -> i64 {
        self as i64
    }
}

/// The text is not a mask.
///
/// Error of parsing a [`Mask`].
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
        let name = match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
        };
        write!(f, "{name} ({})", self.value())
    }
}

/// Permission of a caller on one section.
///
/// Returned by [`Grants::get`]. [`Requirement`](super::Requirement) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The granted mask.
    pub mask: Mask,
    /// Where the grant comes from.
    pub source: GrantSource,
}

/// Origin of a grant.
///
/// Part of a [`Grant`]. [`Requirement`](super::Requirement) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantSource {
    /// The user has the grant. It overrides grants of the other sources.
    User,
    /// The user's role has the grant.
    Role,
    /// The built-in grant on [`Section::authenticated`].
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

/// Grants of a caller, by section.
///
/// ```
/// use callgate::{Grants, Mask};
///
/// let mut grants = Grants::default();
/// grants.add_role("users".into(), Mask::Execute);
/// grants.add_user("users".into(), Mask::Read);
/// assert_eq!(grants.mask(&"users".into()), Mask::Read, "the user's own grant overrides the role's");
/// assert_eq!(grants.mask(&"mail".into()), Mask::None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Grants {
    pub(super) by_section: BTreeMap<Section, Grant>,
    /// The last listing that was computed for these grants. The key is the number of the catalog.
    pub(crate) listing: LastValueCache,
}

impl Grants {
    /// Adds a grant of the user's role. If the role has several grants on the same section, the lowest mask applies.
    pub fn add_role(&mut self, section: Section, mask: Mask) {
        self.add(section, Grant { mask, source: GrantSource::Role });
    }

    /// Adds a grant of the user. This grant overrides the grants of the role, even if the mask of the user is lower.
    pub fn add_user(&mut self, section: Section, mask: Mask) {
        self.add(section, Grant { mask, source: GrantSource::User });
    }

    /// Adds the built-in grant on [`Section::authenticated`], unless there already is a grant on that section.
    pub fn add_authenticated(&mut self) {
        let grant = Grant { mask: Mask::Read, source: GrantSource::Authenticated };
        self.by_section.entry(Section::authenticated()).or_insert(grant);
    }

    /// Removes all grants on [`Section::authenticated`], for anonymous callers.
    pub(crate) fn remove_authenticated(&mut self) {
        self.by_section.remove(&Section::authenticated());
    }

    fn add(&mut self, section: Section, new: Grant) {
        self.listing.clear();
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

    /// Returns the grant on a section.
    pub fn get(&self, section: &Section) -> Option<Grant> {
        self.by_section.get(section).copied()
    }

    /// Returns the granted mask on a section.
    pub fn mask(&self, section: &Section) -> Mask {
        self.get(section).map_or(Mask::None, |grant| grant.mask)
    }
}

impl<S: Into<Section>> FromIterator<(S, Mask)> for Grants {
    /// Creates grants of a user (see [`Grants::add_user`]).
    fn from_iter<I: IntoIterator<Item = (S, Mask)>>(rows: I) -> Self {
        let mut grants = Self::default();
        for (section, mask) in rows {
            grants.add_user(section.into(), mask);
        }
        grants
    }
}
