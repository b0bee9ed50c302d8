//! What is worth a person's look about a method that is served all the same.

use thiserror::Error;

use crate::access::Section;
use crate::model::type_expr::ClassName;

/// A finding about one method. It prints as a sentence with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Finding {
    /// Neither read-only nor destructive.
    #[error("neither read-only nor destructive, so shown as destructive; declare one")]
    MissingSafety,
    /// The annotations contradict the safety, or each other.
    #[error("the annotations' hints contradict the safety, which wins; remove them")]
    SafetyConflict,
    /// A class that nobody defined.
    #[error("class `{0}` is not defined, so shown as an open object; define it")]
    UndefinedClass(ClassName),
    /// A parameter's name that clients refuse.
    #[error("parameter `{from}` is shown as `{to}`, since clients refuse the name")]
    RenamedParam {
        /// The method's name for it.
        from: String,
        /// The advertised one.
        to: String,
    },
    /// A default that is not of the parameter's own type.
    #[error("the default of parameter `{0}` is not of its type; mend it")]
    DefaultMismatch(String),
    /// A property inside of a class or a schema whose name clients may refuse.
    #[error(
        "the property `{0}` is not up to 64 letters, digits, `_`, `.` and `-`, so some clients may \
         refuse it"
    )]
    UnportableProperty(String),
    /// Unions at the root of the input schema are checked but not shown.
    #[error(
        "unions at the root of the input schema are checked but not shown, since clients refuse them"
    )]
    HiddenRootUnion,
    /// The id is one of the REST face's own paths.
    #[error("the id is a path of the REST face, so the tool has no URL of its own")]
    ReservedId,
    /// The name is longer than some clients take.
    #[error("the tool name has {0} characters; some clients drop over 60")]
    LongToolName(usize),
    /// The method names a section, and no action says which mask it needs.
    #[error(
        "section `{0}` is named without an action that says which mask it needs, so nobody may call; \
         add the action"
    )]
    SectionWithoutAction(Section),
    /// The method needs a section that does not exist.
    #[error("section `{0}` does not exist, so nobody may call; add it")]
    MissingSection(Section),
    /// An action's mask is not on the ladder.
    #[error(
        "the mask `{1}` on section `{0}` is not 2, 4 or 6, so nobody may call; mend the action"
    )]
    InvalidMask(Section, String),
    /// Nothing runs the method.
    #[error("upstream `{0}` is not configured, so every call fails")]
    UnknownUpstream(String),
}

impl Finding {
    /// Whether it keeps everybody out.
    pub fn closes(&self) -> bool {
        matches!(
            self,
            Self::SectionWithoutAction(_) | Self::MissingSection(_) | Self::InvalidMask(..)
        )
    }
}
