//! Parses PHP files into declarations. Names and expressions are kept as they are written.

mod parse;

mod docblock;
mod expression;
mod string;

mod ast;

mod declarations;

use std::borrow::Cow;

pub(super) use ast::{Attribute, Class, File, Kind, Method, Param, Property, Scope};
pub(super) use docblock::{Docblock, TypedTag};
pub(super) use expression::{Argument, Element, Expression, argument};
pub(super) use parse::Parser;

/// Parses a file. Returns its declarations, and an error if a declaration cannot be parsed.
///
/// The grammar does not cover all of PHP. A declaration with an unknown construct is skipped, unless the construct is
/// in the body of a function.
pub(super) fn read(
    parser: &mut Parser,
    text: &str,
    file: &str,
) -> anyhow::Result<(File, Option<anyhow::Error>)> {
    let (tree, text): (_, Cow<'_, str>) = parser.parse(text)?;
    let error = parse::first_error(tree.root_node()).map(|node| parse::syntax_error(node, &text));
    Ok((declarations::read(tree.root_node(), &text, file), error))
}

/// Returns a name without its namespace.
pub(super) fn short(name: &str) -> &str {
    name.rsplit('\\').next().unwrap_or(name)
}

pub(super) fn joined(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}\\{name}") }
}
