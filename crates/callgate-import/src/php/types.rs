//! Types in signatures and doc comments, with full names of classes. `callgate::model::Types` converts them to JSON
//! Schema.

use callgate::internal::parse_type;
use callgate::model::{ClassName, Literal, TypeError, TypeExpr};
use serde_json::Value;

use super::evaluate::evaluate;
use super::symbols::{Context, Symbols};
use super::syntax::{Class, Expression, Kind};

/// Maximum number of cases of an enum. The values of an enum with more cases are not listed.
const MAX_CASES: usize = 1_000;

/// Parses a type. An enum is replaced by its values.
fn read(context: Context<'_>, text: &str) -> Result<TypeExpr, TypeError> {
    let resolve = |name: &str| {
        let name = context.resolve(name);
        let class = context.symbols.class(&name).filter(|class| class.kind == Kind::Enum);
        let values = class.and_then(|class| values(class, context.symbols));
        values.or_else(|| ClassName::parse(&name).map(TypeExpr::Class))
    };
    // With the values of its enums, the type may be too long for the registry.
    parse_type(text, Some(&resolve))?.to_string().parse()
}

/// Combines the types of a signature and of a doc comment. If there is neither, the result is `mixed`. If the doc
/// comment is invalid and therefore ignored, also returns its error.
pub(super) fn read_both(
    context: Context<'_>,
    native: Option<&str>,
    documented: Option<&str>,
) -> Result<(TypeExpr, Option<TypeError>), TypeError> {
    let native = native.map(|text| read(context, text));
    let documented = documented.map(|text| read(context, text));
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
        (T::Union(natives), T::Union(members)) => members.iter().all(|member| {
            natives.iter().any(|native| native == member || is_narrower(native, member))
        }),
        (T::Union(natives), other) => natives.iter().any(|native| is_narrower(native, other)),
        (native, T::Union(members)) => members.iter().all(|member| is_narrower(native, member)),
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

/// Returns `true` for the class `Response`. Festi's display methods fill an object of this class.
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
            Some(value) => evaluate(symbols.context_of(class), value),
        };
        match value? {
            Value::String(text) => Some(Literal::String(text)),
            Value::Number(number) => Some(Literal::Number(number)),
            _ => None,
        }
    };
    let literals =
        class.cases.iter().take(MAX_CASES).map(value).collect::<Option<Vec<Literal>>>()?;
    let is_text = matches!(literals.first()?, Literal::String(_));
    let union = TypeExpr::union_of(literals.into_iter().map(TypeExpr::Literal));
    let is_complete =
        class.cases.len() <= MAX_CASES && union.to_string().parse::<TypeExpr>().is_ok();
    Some(match (is_complete, is_text) {
        (true, _) => union,
        // There are too many values to list them.
        (false, true) => TypeExpr::String,
        (false, false) => TypeExpr::INT,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_names_in_types_are_resolved() {
        let resolve = |name: &str| {
            let name = name.trim_start_matches(['\\', '$']);
            ClassName::parse(&format!("A\\{name}")).map(TypeExpr::Class)
        };
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
            ("$this", "\\A\\this"),
        ] {
            assert_eq!(parse_type(text, Some(&resolve)), full.parse(), "{text}");
        }
    }

    #[test]
    fn a_doc_comment_type_applies_only_if_it_is_narrower() {
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
