//! What a method asks of its callers, and the decision about one of them.

use std::fmt;

use super::{Grant, Grants, Mask, Section};

/// Sections and the masks needed on them; all must hold. Without any, a method is open to every
/// caller that may reach the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    // Sorted by section, each once: so equal requirements are equal values.
    needs: Vec<(Section, Need)>,
}

/// What is needed on one section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    /// This mask or a higher one.
    AtLeast(Mask),
    /// More than any mask: nobody may. So it is where the definition has a hole.
    Closed,
}

impl Need {
    fn is_met_by(self, granted: Mask) -> bool {
        match self {
            Self::AtLeast(required) => granted >= required,
            Self::Closed => false,
        }
    }
}

impl From<Mask> for Need {
    fn from(mask: Mask) -> Self {
        Self::AtLeast(mask)
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(mask) => write!(f, "needs {mask}"),
            Self::Closed => f.write_str("is closed to everybody"),
        }
    }
}

impl Requirement {
    /// Open to every caller.
    pub const OPEN: Self = Self { needs: Vec::new() };

    /// Closed to everybody.
    pub fn closed() -> Self {
        let mut requirement = Self::default();
        requirement.add(Section::from("nobody"), Need::Closed);
        requirement
    }

    /// Adds a section; where it is already named, the higher need counts.
    pub fn add(&mut self, section: Section, need: impl Into<Need>) {
        let need = need.into();
        match self.needs.binary_search_by(|(known, _)| known.cmp(&section)) {
            Ok(at) => {
                if let Some((_, known)) = self.needs.get_mut(at) {
                    *known = need.max(*known);
                }
            }
            Err(at) => self.needs.insert(at, (section, need)),
        }
    }

    /// What is needed, sorted by section.
    pub fn needs(&self) -> &[(Section, Need)] {
        &self.needs
    }

    /// Whether every caller will do.
    pub fn is_open(&self) -> bool {
        self.needs.is_empty()
    }

    /// Whether `grants` are enough.
    pub fn allows(&self, grants: &Grants) -> bool {
        self.needs.iter().all(|(section, need)| need.is_met_by(grants.mask(section)))
    }

    /// Whether `grants` are enough, and why.
    pub fn decide(&self, grants: &Grants) -> Decision {
        let checks = self.needs.iter().map(|(section, need)| SectionCheck {
            section: section.clone(),
            need: *need,
            granted: grants.get(section),
        });
        Decision { checks: checks.collect() }
    }
}

/// Whether a caller may use a method, and why: it prints as the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    checks: Vec<SectionCheck>,
}

/// One section's part in a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionCheck {
    /// The section.
    pub section: Section,
    /// What the method needs on it.
    pub need: Need,
    /// What the caller has on it, if there is a row at all.
    pub granted: Option<Grant>,
}

impl SectionCheck {
    /// Whether this part holds.
    pub fn holds(&self) -> bool {
        self.need.is_met_by(self.granted.map_or(Mask::None, |grant| grant.mask))
    }
}

impl Decision {
    /// Whether all parts hold.
    pub fn is_allowed(&self) -> bool {
        self.checks.iter().all(SectionCheck::holds)
    }

    /// The parts, sorted by section.
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
        let telling = self.checks.iter().filter(|check| check.holds() == self.is_allowed());
        for (index, check) in telling.enumerate() {
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
