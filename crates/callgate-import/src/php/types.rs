//! Types as PHP and its doc comments write them, with whole names of classes.

use callgate::model::{Literal, TypeError, TypeExpr};
use serde_json::Value;

use super::evaluate::{Context, evaluate};
use super::expression::Expression;
use super::model::{Class, Kind};
use super::tree::Tree;

/// The values of enums with more cases are not told.
const MAX_CASES: usize = 1_000;

/// Words that are no classes, in lower case.
const WORDS: &[&str] = &[
    "array", "bool", "boolean", "callable", "closure", "double", "false", "float", "int",
    "integer", "iterable", "list", "max", "min", "mixed", "never", "null", "numeric", "object",
    "resource", "scalar", "stdclass", "string", "true", "void",
];

/// A type with its classes by their whole names, and enums as the values that they have.
fn read(tree: &Tree, at: Context<'_>, text: &str) -> Result<TypeExpr, TypeError> {
    let whole = |name: &str| {
        let name = tree.resolve(at, name);
        let class = tree.class(&name).filter(|class| class.kind == Kind::Enum);
        let values = class.and_then(|class| values(class, tree));
        values.map_or_else(|| format!("\\{name}"), |values| format!("({values})"))
    };
    with_whole_names(text, &whole).parse()
}

/// Reads what a signature and a doc comment say of a type; nothing said is `mixed`. Returns also what is
/// wrong with the doc comment where that does not count.
pub(super) fn read_both(
    tree: &Tree,
    at: Context<'_>,
    native: Option<&str>,
    said: Option<&str>,
) -> Result<(TypeExpr, Option<TypeError>), TypeError> {
    let native = native.map(|text| read(tree, at, text));
    let said = said.map(|text| read(tree, at, text));
    Ok(match (native, said) {
        (None, None) => (TypeExpr::Mixed, None),
        (Some(Ok(native)), None) => (native, None),
        (Some(Ok(native)), Some(Ok(said))) => (refined(native, said), None),
        (Some(Ok(native)), Some(Err(error))) => (native, Some(error)),
        (None | Some(Err(_)), Some(Ok(said))) => (said, None),
        (None, Some(Err(error))) => (TypeExpr::Mixed, Some(error)),
        (Some(Err(error)), _) => return Err(error),
    })
}

/// What a signature and a doc comment say together: the doc comment where it says more.
///
/// The signature decides on null, since PHP checks it.
fn refined(native: TypeExpr, said: TypeExpr) -> TypeExpr {
    match (native, said) {
        (TypeExpr::Nullable(native), TypeExpr::Nullable(said)) => refined(*native, *said).or_null(),
        (TypeExpr::Nullable(native), said) => refined(*native, said).or_null(),
        (native @ TypeExpr::Mixed, said) => {
            if said == TypeExpr::Null {
                native
            } else {
                said
            }
        }
        (native, TypeExpr::Nullable(said)) => refined(native, *said),
        (native, said) => {
            if says_more(&native, &said) {
                said
            } else {
                native
            }
        }
    }
}

fn says_more(native: &TypeExpr, said: &TypeExpr) -> bool {
    use TypeExpr as T;
    match (native, said) {
        (T::Union(natives), T::Union(all)) => all
            .iter()
            .all(|said| natives.iter().any(|native| native == said || says_more(native, said))),
        (T::Union(natives), said) => natives.iter().any(|native| says_more(native, said)),
        (native, T::Union(all)) => all.iter().all(|said| says_more(native, said)),
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

/// Whether it is the `Response` of display methods, which is made for them.
pub(super) fn is_response(ty: &TypeExpr) -> bool {
    match ty {
        TypeExpr::Class(name) => name.short() == "Response",
        TypeExpr::Nullable(inner) => is_response(inner),
        _ => false,
    }
}

/// The values of an enum; the names of its cases where it has none, which is how they are shown.
fn values(class: &Class, tree: &Tree) -> Option<TypeExpr> {
    let value = |(name, value): &(String, Option<Expression>)| {
        let value = match value {
            None => Some(Value::String(name.clone())),
            Some(value) => evaluate(tree, Context::of(class), value),
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
        // What is too long to be told is at least known to be a text or a number.
        (false, true) => TypeExpr::String,
        (false, false) => TypeExpr::INT,
    })
}

/// The text of a type in which each class stands as `resolve` has it.
fn with_whole_names(text: &str, resolve: &dyn Fn(&str) -> String) -> String {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\\' | '-' | '$');
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\'' | '"' => quoted_length(rest, c),
            c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (part, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        let begins = c.is_alphabetic() || matches!(c, '_' | '\\' | '$') || !c.is_ascii();
        if begins && !is_word(part) && !is_key(behind) {
            whole.push_str(&resolve(part));
        } else {
            whole.push_str(part);
        }
        rest = behind;
    }
    whole
}

/// Up to and with the closing quote.
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

fn is_word(part: &str) -> bool {
    // `positive-int` and the like.
    part.contains('-') || WORDS.contains(&part.to_ascii_lowercase().as_str())
}

/// Whether a colon follows, as behind the keys of a shape.
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
        for (text, whole) in [
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
            assert_eq!(with_whole_names(text, &resolve), whole);
        }
    }

    #[test]
    fn a_doc_comment_wins_where_it_says_more() {
        for (native, said, together) in [
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
            assert_eq!(refined(parse(native), parse(said)), parse(together), "{native} {said}");
        }
    }
}
