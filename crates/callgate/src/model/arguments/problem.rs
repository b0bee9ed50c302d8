//! Error messages for invalid arguments. Each message has the name of the argument, the expected and the actual value.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;
use strsim::generic_levenshtein;
use thiserror::Error;

use super::{CompiledInput, CompiledParam};
use crate::wire::{shortened, strict_json};

/// Maximum number of problems per error.
const MAX_PROBLEMS: usize = 8;
/// Maximum number of characters of a value that a message shows.
const MAX_SHOWN: usize = 60;
/// Maximum number of parameters that are compared with an unknown name to find a similar one.
const MAX_COMPARED: usize = 256;

/// Arguments that do not match the input schema. The method did not run.
///
/// Part of [`CallError::Arguments`](crate::upstream::CallError::Arguments).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", .0.join("; "))]
pub struct ArgumentsError(pub(super) Vec<String>);

impl ArgumentsError {
    /// Returns one sentence per problem.
    pub fn problems(&self) -> &[String] {
        &self.0
    }

    pub(crate) fn single(problem: String) -> Self {
        Self(vec![shortened(problem)])
    }

    #[expect(clippy::needless_pass_by_value, reason = "`map_err` passes the error by value")]
    pub(super) fn json(error: serde_json::Error) -> Self {
        Self::single(format!("arguments: {}", strict_json::problem(&error)))
    }

    pub(super) fn gap(argument: &str) -> Self {
        Self::single(format!(
            "argument `{argument}` has no default and must be given if a later argument is given"
        ))
    }

    /// Lists invalid arguments without the reasons.
    pub(super) fn mismatches<'a>(
        arguments: impl Iterator<Item = (&'a str, &'a Value)>,
        input: &CompiledInput,
    ) -> Self {
        let problems_of = arguments.map(|(name, value)| {
            let hint = null_hint(name, value, input);
            let found = describe_value(value);
            format!("argument `{name}` does not match its schema, found {found}{hint}")
        });
        let mut problems: Vec<String> = problems_of.take(MAX_PROBLEMS).collect();
        if problems.is_empty() {
            problems.push("the arguments do not match the input schema".to_owned());
        }
        Self(problems)
    }

    pub(super) fn from_validation<'a>(
        errors: impl Iterator<Item = ValidationError<'a>>,
        input: &CompiledInput,
    ) -> Self {
        let mut problems: Vec<String> = Vec::new();
        for error in errors.take(MAX_PROBLEMS) {
            let path = error.instance_path().as_str();
            let parameter = path.strip_prefix('/').filter(|name| !name.contains('/'));
            let name = parameter.map(|name| name.replace("~1", "/").replace("~0", "~"));
            let hint = name.map_or("", |name| null_hint(&name, error.instance(), input));
            let problem = describe_error(&error, &input.params) + hint;
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        Self(problems)
    }
}

/// Hint for clients that send `null` for absent arguments.
fn null_hint(parameter: &str, value: &Value, input: &CompiledInput) -> &'static str {
    let is_optional_null = value.is_null() && !input.is_required(parameter);
    if is_optional_null { "; omit the argument, since null is not allowed" } else { "" }
}

/// Reports arguments that are not declared. Suggests similar parameters that were not given.
pub(super) fn unknown_arguments<'a>(
    arguments: impl Iterator<Item = &'a str>,
    params: &[CompiledParam],
    is_given: &dyn Fn(&str) -> bool,
) -> String {
    let names = arguments.take(MAX_PROBLEMS).map(|name| {
        let params = params.iter().map(|param| param.name.as_str()).take(MAX_COMPARED);
        let similar = most_similar(name, params.filter(|name| !is_given(name)));
        let hint = similar.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"));
        format!("`{}`{hint}", truncate(name))
    });
    format!("unknown argument {}", names.collect::<Vec<_>>().join(", "))
}

/// Returns the known name that the client most likely meant, if one is similar enough.
fn most_similar<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let lowercase = |name: &str| name.to_lowercase().chars().take(MAX_SHOWN).collect::<Vec<_>>();
    let name = lowercase(name);
    let max_distance = (name.len() / 3).max(1).min(name.len().saturating_sub(1));
    let distances = known.map(|known| (generic_levenshtein(&name, &lowercase(known)), known));
    let (_, nearest) = distances.filter(|(distance, _)| *distance <= max_distance).min()?;
    Some(nearest)
}

fn describe_error(error: &ValidationError<'_>, params: &[CompiledParam]) -> String {
    let path = dotted_path(error.instance_path().as_str());
    let found = describe_value(error.instance());
    let expected =
        |description: &str| format!("argument `{path}`: expected {description}, found {found}");
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let missing = property.as_str().unwrap_or_default();
            match path.as_str() {
                "" => format!("argument `{missing}` is missing"),
                _ => format!("argument `{path}`: the property `{}` is missing", truncate(missing)),
            }
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let names = unexpected.iter().map(String::as_str);
            if path.is_empty() {
                return unknown_arguments(names, params, &|name| {
                    error.instance().get(name).is_some()
                });
            }
            let names = names.take(MAX_PROBLEMS).map(|name| format!("`{}`", truncate(name)));
            format!("argument `{path}`: unknown property {}", names.collect::<Vec<_>>().join(", "))
        }
        ValidationErrorKind::Type { kind: TypeKind::Single(name) } => expected(&name.to_string()),
        ValidationErrorKind::Type { kind: TypeKind::Multiple(types) } => {
            let names: Vec<_> = types.iter().map(|name| name.to_string()).collect();
            expected(&names.join(" or "))
        }
        ValidationErrorKind::Enum { options } => {
            let options: Vec<String> =
                options.as_array().into_iter().flatten().map(ToString::to_string).collect();
            expected(&format!("one of {}", truncate(&options.join(", "))))
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let types = expected_types(error, context);
            if types.is_empty() || path.is_empty() {
                format!("{}: {found} matches none of the alternatives", subject(&path))
            } else {
                expected(&types.join(" or "))
            }
        }
        _ => format!("{}: {}", subject(&path), truncate_to(&error.to_string(), 200)),
    }
}

/// Returns the types that the alternatives of a union expect for the value itself, not for its parts.
fn expected_types(
    union: &ValidationError<'_>,
    alternatives: &[Vec<ValidationError<'static>>],
) -> Vec<String> {
    let mut expected: Vec<String> = Vec::new();
    for inner in alternatives.iter().flatten() {
        if inner.instance_path() == union.instance_path()
            && let ValidationErrorKind::Type { kind: TypeKind::Single(name) } = inner.kind()
            && !expected.contains(&name.to_string())
        {
            expected.push(name.to_string());
        }
    }
    expected
}

fn subject(path: &str) -> String {
    if path.is_empty() { "arguments".to_owned() } else { format!("argument `{path}`") }
}

/// Converts a JSON pointer to dots: `/filter/0/name` to `filter.0.name`.
fn dotted_path(pointer: &str) -> String {
    truncate(
        &pointer.trim_start_matches('/').replace('/', ".").replace("~1", "/").replace("~0", "~"),
    )
}

fn describe_value(value: &Value) -> String {
    let kind = JsonType::from(value);
    match value {
        Value::Null => "null".to_owned(),
        Value::Object(_) | Value::Array(_) => kind.to_string(),
        scalar => format!("{kind} {}", truncate(&scalar.to_string())),
    }
}

fn truncate(text: &str) -> String {
    truncate_to(text, MAX_SHOWN)
}

fn truncate_to(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    text.chars().take(length).chain(['…']).collect()
}
