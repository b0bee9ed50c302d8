//! Types in signatures and doc comments, with full names of classes. `callgate::model::Types` converts them to JSON Schema.

use callgate::model::{Literal, TypeError, TypeExpr};
use serde_json::Value;

use super::evaluate::evaluate;
use super::symbols::{Context, Symbols};
use super::syntax::{Class, Expression, Kind};

/// Maximum number of cases of an enum. The values of an enum with more cases are not listed.
const MAX_CASES: usize = 1_000;

/// Names of types that are not classes.
const BUILT_IN: &[&str] = &[
    "array", "bool", "boolean", "callable", "closure", "double", "false", "float", "int",
    "integer", "iterable", "list", "max", "min", "mixed", "never", "null", "numeric", "object",
    "resource", "scalar", "stdclass", "string", "true", "void",
];

/// Parses a type. An enum is replaced by its values.
fn read(at: Context<'_>, text: &str) -> Result<TypeExpr, TypeError> {
    let resolve = |name: &str| {
        let name = at.resolve(name);
        let class = at.symbols.class(&name).filter(|class| class.kind == Kind::Enum);
        let values = class.and_then(|class| values(class, at.symbols));
        values.map_or_else(|| format!("\\{name}"), |values| format!("({values})"))
    };
    with_full_names(text, &resolve).parse()
}

/// Combines the types of a signature and of a doc comment. If there is neither, the result is `mixed`. If the doc
/// comment is invalid and therefore ignored, also returns its error.
pub(super) fn read_both(
    at: Context<'_>,
    native: Option<&str>,
    documented: Option<&str>,
) -> Result<(TypeExpr, Option<TypeError>), TypeError> {
    let native = native.map(|text| read(at, text));
    let documented = documented.map(|text| read(at, text));
    Ok(match (native, documented) {
        (None, None) => (TypeExpr::Mixed, None),
        (Some(Ok(native)), None) => (native, None),
        (Some(Ok(native)), Some(Ok(documented))) => (refined(native, documented), None),
        (Some(Ok(native)), Some(Err(error))) => (native, Some(error)),
        (None | Some(Err(_)), Some(Ok(documented))) => (documented, None),
        (None, Some(Err(error))) => (TypeExpr::Mixed, Some(error)),
        (Some(Err(error)), _) => return Err(error),
    })
}

/// Returns the documented type if it is narrower than the native type. The signature decides whether null is allowed,
/// because PHP checks it.
fn refined(native: TypeExpr, documented: TypeExpr) -> TypeExpr {
    match (native, documented) {
        (TypeExpr::Nullable(native), TypeExpr::Nullable(documented)) => {
            refined(*native, *documented).or_null()
        }
        (TypeExpr::Nullable(native), documented) => refined(*native, documented).or_null(),
        (TypeExpr::Mixed, documented) if documented != TypeExpr::Null => documented,
        (native, TypeExpr::Nullable(documented)) => refined(native, *documented),
        (native, documented) if is_narrower(&native, &documented) => documented,
        (native, _) => native,
    }
}

fn is_narrower(native: &TypeExpr, other: &TypeExpr) -> bool {
    use TypeExpr as T;
    match (native, other) {
        (T::Union(natives), T::Union(all)) => all
            .iter()
            .all(|one| natives.iter().any(|native| native == one || is_narrower(native, one))),
        (T::Union(natives), other) => natives.iter().any(|native| is_narrower(native, other)),
        (native, T::Union(all)) => all.iter().all(|one| is_narrower(native, one)),
        (T::Array, T::List(_) | T::Map(_) | T::Tuple(_) | T::Shape(_))
        | (T::Object, T::Class(_) | T::Shape(_))
        | (T::Int { min: None, max: None }, T::Int { .. })
        | (T::Float, T::Int { .. } | T::Literal(Literal::Number(_)))
        | (T::String, T::Literal(Literal::String(_)))
        | (T::Bool, T::Literal(Literal::Bool(_))) => true,
        (T::Int { min: None, max: None }, T::Literal(Literal::Number(number))) => number.is_i64(),
        _ => false,
    }
}

/// Returns `true` for the `Response` that display methods fill.
pub(super) fn is_response(ty: &TypeExpr) -> bool {
    match ty {
        TypeExpr::Class(name) => name.short() == "Response",
        TypeExpr::Nullable(inner) => is_response(inner),
        _ => false,
    }
}

/// Returns the values of an enum, or the names of its cases if they have no values.
fn values(class: &Class, symbols: &Symbols) -> Option<TypeExpr> {
    let value = |(name, value): &(String, Option<Expression>)| {
        let value = match value {
            None => Some(Value::String(name.clone())),
            Some(value) => evaluate(symbols.at(class), value),
        };
        match value? {
            Value::String(text) => Some(Literal::String(text)),
            Value::Number(number) => Some(Literal::Number(number)),
            _ => None,
        }
    };
    let first = class.cases.iter().take(MAX_CASES).map(value).collect::<Option<Vec<Literal>>>()?;
    let is_text = matches!(first.first()?, Literal::String(_));
    let union = TypeExpr::union_of(first.into_iter().map(TypeExpr::Literal));
    let is_whole = class.cases.len() <= MAX_CASES && union.to_string().parse::<TypeExpr>().is_ok();
    Some(match (is_whole, is_text) {
        (true, _) => union,
        // There are too many values to list them.
        (false, true) => TypeExpr::String,
        (false, false) => TypeExpr::INT,
    })
}

/// Replaces each class name in the text of a type by the result of `resolve`.
fn with_full_names(text: &str, resolve: &dyn Fn(&str) -> String) -> String {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\\' | '-' | '$');
    let mut full = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\'' | '"' => quoted_length(rest, c),
            c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (part, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        let begins = c.is_alphabetic() || matches!(c, '_' | '\\' | '$') || !c.is_ascii();
        if begins && !is_built_in(part) && !is_key(behind) {
            full.push_str(&resolve(part));
        } else {
            full.push_str(part);
        }
        rest = behind;
    }
    full
}

/// Returns the length of the text up to and including the closing quote.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

fn is_built_in(part: &str) -> bool {
    // A type such as `positive-int`.
    part.contains('-') || BUILT_IN.contains(&part.to_ascii_lowercase().as_str())
}

/// Returns `true` if a colon follows, as after a key of an array shape.
fn is_key(behind: &str) -> bool {
    let behind = behind.trim_start();
    let behind = behind.strip_prefix('?').unwrap_or(behind).trim_start();
    behind.starts_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_in_types_get_their_namespace() {
        let resolve = |name: &str| format!("\\A\\{}", name.trim_start_matches('\\'));
        for (text, full) in [
            ("int", "int"),
            ("?User", "?\\A\\User"),
            ("User[]|null", "\\A\\User[]|null"),
            ("array<string, User>", "array<string, \\A\\User>"),
            ("array{id: int, User?: User}", "array{id: int, User?: \\A\\User}"),
            ("'User'|\"a\\\"User\"", "'User'|\"a\\\"User\""),
            ("positive-int|non-empty-list<User>", "positive-int|non-empty-list<\\A\\User>"),
            ("int<0, max>", "int<0, max>"),
            ("-1|2", "-1|2"),
            ("STRING", "STRING"),
            ("$this", "\\A\\$this"),
        ] {
            assert_eq!(with_full_names(text, &resolve), full);
        }
    }

    #[test]
    fn a_narrower_doc_comment_wins() {
        for (native, documented, expected) in [
            ("array", "int[]", "int[]"),
            ("array", "array<string, int>", "array<string, int>"),
            ("?array", "int[]", "?int[]"),
            ("array", "int[]|null", "int[]"),
            ("string", "'a'|'b'", "'a'|'b'"),
            ("int", "positive-int", "int<1, max>"),
            ("int", "string", "int"),
            ("string", "int[]", "string"),
            ("array|string", "int[]|string", "int[]|string"),
            ("mixed", "int|string", "int|string"),
            ("object", "User", "User"),
            ("User", "Other", "User"),
            ("int", "mixed", "int"),
            ("float", "int", "int"),
        ] {
            let parse = |text: &str| text.parse::<TypeExpr>().unwrap();
            let refined = refined(parse(native), parse(documented));
            assert_eq!(refined, parse(expected), "{native} {documented}");
        }
    }
}
