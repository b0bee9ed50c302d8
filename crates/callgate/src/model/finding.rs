//! Warnings about methods. A method with warnings is served nevertheless.

use thiserror::Error;

use crate::access::Section;
use crate::model::type_expr::ClassName;

/// A warning about a method. `Display` prints a sentence, with the remedy if there is one.
///
/// Returned by [`Entry::findings`](crate::catalog::Entry::findings). [`Catalog`](crate::catalog::Catalog) has an
/// example.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Finding {
    /// The method is declared neither read-only nor destructive.
    #[error(
        "declared neither read-only nor destructive, so clients see it as destructive; declare one of the two"
    )]
    MissingSafety,
    /// The safety was guessed, for example from the name.
    #[error(
        "the safety is guessed, so a failed call is never repeated; declare the method read-only or destructive"
    )]
    GuessedSafety,
    /// The annotations contradict the declared safety, or each other.
    #[error(
        "the annotations contradict the declared safety or each other; the declared safety applies, and a method \
         without one counts as destructive; correct the annotations"
    )]
    SafetyConflict,
    /// A class is not defined.
    #[error(
        "class `{0}` is not defined, so it is shown as an object with any properties; define it"
    )]
    UndefinedClass(ClassName),
    /// A parameter is renamed for clients, because some clients reject the original name.
    #[error("parameter `{from}` is shown as `{to}`, because some clients refuse its name")]
    RenamedParam {
        /// The method's own name.
        from: String,
        /// The advertised name.
        to: String,
    },
    /// The default does not match the type of the parameter.
    #[error(
        "the default of parameter `{0}` does not match the type of the parameter; correct the default"
    )]
    DefaultMismatch(String),
    /// Clients may reject the name of a nested property.
    #[error(
        "the property name `{0}` must consist of at most 64 letters, digits, `_`, `.` and `-`, or some clients \
         refuse it"
    )]
    UnportableProperty(String),
    /// A pattern needs look-around or back-references, or is too large. Values are not checked against the pattern,
    /// because a match could take too long.
    #[error(
        "the pattern `{0}` cannot be matched in linear time; clients see it, but values are not checked against it; simplify it"
    )]
    UncheckedPattern(String),
    /// Unions at the root of the input schema are checked but not advertised.
    #[error(
        "unions at the root of the input schema are checked but not shown, since clients refuse them"
    )]
    HiddenRootUnion,
    /// The id is a reserved path of the REST endpoint, so the method has no URL there.
    #[error("the id is a reserved path of the REST endpoint, so the tool has no URL")]
    ReservedId,
    /// The tool name is longer than some clients allow.
    #[error(
        "the tool name has {0} characters, and some clients drop tools whose names have over 60; set a \
         shorter `tool_name`"
    )]
    LongToolName(usize),
    /// The tool name ends with a hash of the id, because another method would have the same tool name.
    #[error(
        "the tool name ends with a hash of the id, because another method would have the same tool name; a client \
         that sees this tool can tell that the other method exists, so set `tool_name`"
    )]
    NameCollision,
    /// The method names no section, and the setting `open_methods` refuses methods without a section.
    #[error(
        "the method names no section, and `open_methods` is `refuse`, so nobody may call it; add a section"
    )]
    NoSection,
    /// The section has no action that defines the required mask.
    #[error(
        "section `{0}` has no action that defines the required mask, so nobody may call the method; \
         add the action"
    )]
    SectionWithoutAction(Section),
    /// The required section does not exist.
    #[error("section `{0}` does not exist, so nobody may call the method; add the section")]
    MissingSection(Section),
    /// The mask of an action is not a valid value.
    #[error(
        "the mask `{1}` on section `{0}` is not 2, 4 or 6, so nobody may call the method; correct the action"
    )]
    InvalidMask(Section, String),
    /// The upstream is not configured.
    #[error("upstream `{0}` is not configured, so every call fails")]
    UnknownUpstream(String),
}

impl Finding {
    /// Returns `true` if nobody can call the method.
    pub fn closes(&self) -> bool {
        matches!(
            self,
            Self::NoSection
                | Self::SectionWithoutAction(_)
                | Self::MissingSection(_)
                | Self::InvalidMask(..)
        )
    }
}
