//! What is worth a person's look about a method that is served all the same.

use std::fmt;

use crate::access::Section;
use crate::type_expr::ClassName;

/// A finding about one method. It prints as a sentence with the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Neither read-only nor destructive.
    MissingSafety,
    /// The annotations contradict the safety, or each other.
    SafetyConflict,
    /// A class that nobody defined.
    UndefinedClass(ClassName),
    /// A parameter's name that clients refuse.
    RenamedParam {
        /// The method's name for it.
        from: String,
        /// The advertised one.
        to: String,
    },
    /// A default that is not of the parameter's own type.
    WrongDefault(String),
    /// A property inside of a class or a schema whose name clients may refuse.
    OddProperty(String),
    /// Unions at the root of the input schema are checked but not shown.
    HiddenRootUnion,
    /// The id is one of the REST face's own paths.
    NoUrl,
    /// The name is longer than some clients take.
    LongName(usize),
    /// The method names a section, and no action says which mask it needs.
    SectionWithoutAction(Section),
    /// The method needs a section that does not exist.
    MissingSection(Section),
    /// An action's mask is not on the ladder.
    NoMask(Section, String),
    /// Nothing runs the method.
    NoUpstream(String),
}

impl Finding {
    /// Whether it keeps everybody out.
    pub fn closes(&self) -> bool {
        matches!(self, Self::SectionWithoutAction(_) | Self::MissingSection(_) | Self::NoMask(..))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingSafety => f.write_str(
                "neither read-only nor destructive, so shown as destructive; declare one",
            ),
            Self::SafetyConflict => {
                f.write_str("the annotations' hints contradict the safety, which wins; remove them")
            }
            Self::UndefinedClass(class) => {
                write!(f, "class `{class}` is not defined, so shown as an open object; define it")
            }
            Self::RenamedParam { from, to } => {
                write!(f, "parameter `{from}` is shown as `{to}`, since clients refuse the name")
            }
            Self::WrongDefault(name) => {
                write!(f, "the default of parameter `{name}` is not of its type; mend it")
            }
            Self::OddProperty(name) => write!(
                f,
                "the property `{name}` is not up to 64 letters, digits, `_`, `.` and `-`, so some \
                 clients may refuse it"
            ),
            Self::HiddenRootUnion => f.write_str(
                "unions at the root of the input schema are checked but not shown, \
                 since clients refuse them",
            ),
            Self::NoUrl => {
                f.write_str("the id is a path of the REST face, so the tool has no URL of its own")
            }
            Self::LongName(length) => {
                write!(f, "the tool name has {length} characters; some clients drop over 60")
            }
            Self::SectionWithoutAction(section) => write!(
                f,
                "section `{section}` is named without an action that says which mask it needs, \
                 so nobody may call; add the action"
            ),
            Self::MissingSection(section) => {
                write!(f, "section `{section}` does not exist, so nobody may call; add it")
            }
            Self::NoMask(section, mask) => write!(
                f,
                "the mask `{mask}` on section `{section}` is not 2, 4 or 6, so nobody may call; \
                 mend the action"
            ),
            Self::NoUpstream(name) => {
                write!(f, "upstream `{name}` is not configured, so every call fails")
            }
        }
    }
}
