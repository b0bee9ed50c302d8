//! Requirements of methods, and access decisions.

use std::fmt;

use super::{Grant, Grants, Mask, Section};

/// Masks that a caller needs on sections. A caller must have all of them. An empty requirement is open to every caller.
///
/// ```
/// use callgate::access::{GrantSource, Requirement, Section, SectionRequirement};
/// use callgate::{Grants, Mask};
///
/// let mut requirement = Requirement::default();
/// requirement.add(Section::from("users"), Mask::Write);
/// let mut grants = Grants::default();
/// grants.add_role(Section::from("users"), Mask::Read);
/// assert!(!requirement.allows(&grants));
///
/// let decision = requirement.decide(&grants);
/// let [check] = decision.checks() else { panic!() };
/// assert_eq!(check.need, SectionRequirement::AtLeast(Mask::Write));
/// assert_eq!(check.granted.map(|grant| grant.source), Some(GrantSource::Role));
/// let reasons = "denied: section `users` needs write (4), the role's grant is read (2)";
/// assert_eq!(decision.to_string(), reasons);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    // Sorted by section without duplicates, so that equal requirements compare equal.
    sections: Vec<(Section, SectionRequirement)>,
}

/// Requirement on one section.
///
/// Argument of [`Requirement::add`], and part of a [`SectionCheck`]. [`Requirement`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SectionRequirement {
    /// At least this mask.
    AtLeast(Mask),
    /// No caller is allowed, for example because the section does not exist.
    Closed,
}

impl SectionRequirement {
    fn is_met_by(self, granted: Mask) -> bool {
        match self {
            Self::AtLeast(required) => granted >= required,
            Self::Closed => false,
        }
    }
}

impl From<Mask> for SectionRequirement {
    fn from(mask: Mask) -> Self {
        Self::AtLeast(mask)
    }
}

impl fmt::Display for SectionRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(mask) => write!(f, "needs {mask}"),
            Self::Closed => f.write_str("is closed to everybody"),
        }
    }
}

impl Requirement {
    /// The requirement that every caller satisfies.
    pub const OPEN: Self = Self { sections: Vec::new() };

    /// Returns a requirement that nobody satisfies.
    pub fn closed() -> Self {
        let mut requirement = Self::default();
        requirement.add(Section::from("nobody"), SectionRequirement::Closed);
        requirement
    }

    /// Adds a section. If the section was added before, the stricter requirement applies.
    pub fn add(&mut self, section: Section, need: impl Into<SectionRequirement>) {
        let need = need.into();
        match self.sections.binary_search_by(|(existing, _)| existing.cmp(&section)) {
            Ok(index) => {
                if let Some((_, existing)) = self.sections.get_mut(index) {
                    *existing = need.max(*existing);
                }
            }
            Err(index) => self.sections.insert(index, (section, need)),
        }
    }

    /// Returns the required sections, sorted.
    pub fn sections(&self) -> &[(Section, SectionRequirement)] {
        &self.sections
    }

    /// Returns `true` if every caller satisfies the requirement.
    pub fn is_open(&self) -> bool {
        self.sections.is_empty()
    }

    /// Returns `true` if `grants` satisfy the requirement.
    pub fn allows(&self, grants: &Grants) -> bool {
        self.sections.iter().all(|(section, need)| need.is_met_by(grants.mask(section)))
    }

    /// Like [`Self::allows`], but also returns the reasons.
    pub fn decide(&self, grants: &Grants) -> Decision {
        let checks = self.sections.iter().map(|(section, need)| SectionCheck {
            section: section.clone(),
            need: *need,
            granted: grants.get(section),
        });
        Decision { checks: checks.collect() }
    }
}

/// An access decision with its reasons. `Display` prints the reasons.
///
/// Returned by [`Requirement::decide`]. [`Requirement`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    checks: Vec<SectionCheck>,
}

/// The decision for one section.
///
/// Returned by [`Decision::checks`]. [`Requirement`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionCheck {
    /// The required section.
    pub section: Section,
    /// The method's requirement.
    pub need: SectionRequirement,
    /// The caller's grant on the section, if there is one.
    pub granted: Option<Grant>,
}

impl SectionCheck {
    /// Returns `true` if the grant satisfies the requirement.
    pub fn holds(&self) -> bool {
        self.need.is_met_by(self.granted.map_or(Mask::None, |grant| grant.mask))
    }
}

impl Decision {
    /// Returns `true` if all checks pass.
    pub fn is_allowed(&self) -> bool {
        self.checks.iter().all(SectionCheck::holds)
    }

    /// Returns the checks, sorted by section.
    pub fn checks(&self) -> &[SectionCheck] {
        &self.checks
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.checks.is_empty() {
            return f.write_str("allowed: the method names no section");
        }
        f.write_str(if self.is_allowed() { "allowed: " } else { "denied: " })?;
        let reasons = self.checks.iter().filter(|check| check.holds() == self.is_allowed());
        for (index, check) in reasons.enumerate() {
            write!(f, "{}{check}", if index > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for SectionCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "section `{}` {}, ", self.section, self.need)?;
        match self.granted {
            Some(Grant { mask, source }) => write!(f, "{source} is {mask}"),
            None => f.write_str("nothing is granted"),
        }
    }
}
