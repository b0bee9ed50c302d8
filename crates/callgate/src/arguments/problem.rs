//! What is wrong with a call's arguments: each problem names the argument, what was expected and
//! what came.

use std::fmt;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;
use thiserror::Error;

/// So many problems are told at once.
const MAX_PROBLEMS: usize = 8;
/// So much of a value is shown.
const MAX_SHOWN: usize = 60;

/// Why arguments were refused; nothing has run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", .0.join("; "))]
pub struct ArgumentsError(Vec<String>);

impl ArgumentsError {
    /// The problems, one sentence each.
    pub fn problems(&self) -> &[String] {
        &self.0
    }

    fn one(problem: impl fmt::Display) -> Self {
        Self(vec![problem.to_string()])
    }

    #[expect(clippy::needless_pass_by_value, reason = "fits map_err")]
    pub(super) fn json(error: serde_json::Error) -> Self {
        Self::one(format_args!("expected an object or a list of arguments: {error}"))
    }

    pub(super) fn json_in(argument: &str, error: &serde_json::Error) -> Self {
        Self::one(format_args!("argument `{argument}`: {error}"))
    }

    pub(super) fn too_many(expected: usize, found: usize) -> Self {
        Self::one(format_args!("expected at most {expected} arguments, found {found}"))
    }

    pub(super) fn unknown(argument: &str) -> Self {
        Self::one(format_args!("argument `{argument}` is not known"))
    }

    pub(super) fn gap(argument: &str) -> Self {
        Self::one(format_args!(
            "argument `{argument}` has no default and must be given when a later one is"
        ))
    }

    pub(super) fn from_validation<'a>(errors: impl Iterator<Item = ValidationError<'a>>) -> Self {
        let mut problems: Vec<String> = Vec::new();
        for error in errors.take(MAX_PROBLEMS) {
            let problem = describe(&error);
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        Self(problems)
    }
}

fn describe(error: &ValidationError<'_>) -> String {
    let at = place(error.instance_path().as_str());
    let found = error.instance();
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let missing = property.as_str().unwrap_or_default();
            match at.as_str() {
                "" => format!("argument `{missing}` is missing"),
                _ => format!("argument `{at}`: the property `{missing}` is missing"),
            }
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names: Vec<String> =
                unexpected.iter().map(|name| format!("`{}`", cut(name))).collect();
            match at.as_str() {
                "" => format!("unknown argument {}", names.join(", ")),
                _ => format!("argument `{at}`: unknown property {}", names.join(", ")),
            }
        }
        ValidationErrorKind::Type { kind } => {
            let expected = match kind {
                TypeKind::Single(one) => one.to_string(),
                TypeKind::Multiple(several) => {
                    let names: Vec<_> = several.iter().map(|one| one.to_string()).collect();
                    names.join(" or ")
                }
            };
            format!("argument `{at}`: expected {expected}, found {}", shown(found))
        }
        ValidationErrorKind::Enum { options } => {
            let options: Vec<String> =
                options.as_array().into_iter().flatten().map(ToString::to_string).collect();
            format!(
                "argument `{at}`: expected one of {}, found {}",
                cut(&options.join(", ")),
                shown(found)
            )
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let expected: Vec<String> =
                context.iter().flatten().filter_map(expected_type).collect();
            if expected.is_empty() || at.is_empty() {
                format!("{}: {error}", subject(&at))
            } else {
                format!(
                    "argument `{at}`: expected {}, found {}",
                    expected.join(" or "),
                    shown(found)
                )
            }
        }
        _ => format!("{}: {}", subject(&at), cut_to(&error.to_string(), 200)),
    }
}

fn expected_type(error: &ValidationError<'_>) -> Option<String> {
    match error.kind() {
        ValidationErrorKind::Type { kind: TypeKind::Single(one) } => Some(one.to_string()),
        _ => None,
    }
}

fn subject(at: &str) -> String {
    if at.is_empty() { "arguments".to_owned() } else { format!("argument `{at}`") }
}

/// `/filter/0/name` as people write it: `filter.0.name`.
fn place(pointer: &str) -> String {
    cut(&pointer.trim_start_matches('/').replace('/', ".").replace("~1", "/").replace("~0", "~"))
}

fn shown(value: &Value) -> String {
    let kind = JsonType::from(value);
    match value {
        Value::Null => "null".to_owned(),
        Value::Object(_) | Value::Array(_) => kind.to_string(),
        scalar => format!("{kind} {}", cut(&scalar.to_string())),
    }
}

fn cut(text: &str) -> String {
    cut_to(text, MAX_SHOWN)
}

fn cut_to(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    text.chars().take(length).chain(['…']).collect()
}
