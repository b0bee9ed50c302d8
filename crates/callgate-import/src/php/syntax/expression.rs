//! Expressions in attributes, defaults and constants.

use serde_json::{Number, Value};
use tree_sitter::Node;

use super::parse::{children_without_comments, field, is_name, text};
use super::string;

/// Maximum nesting depth. Deeper expressions become [`Expression::Unknown`].
const MAX_DEPTH: usize = 150;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    Scalar(Value),
    Array(Vec<Element>),
    /// `Foo::BAR`, `PHP_INT_MAX`, or a case of an enum.
    Constant {
        class: Option<String>,
        name: String,
    },
    /// `t('…')` or `new Foo(…)`.
    Call {
        is_new: bool,
        name: String,
        arguments: Vec<Argument>,
    },
    /// An operation such as `-1` or `1 + 2`. The second operand of `->` is the name of a member. The second operand of
    /// `[]` is a key.
    Operation {
        operator: String,
        operands: Vec<Expression>,
    },
    /// An expression that can be evaluated only by running PHP.
    Unknown,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Element {
    Item(Expression),
    Pair(Expression, Expression),
    Spread(Expression),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Argument {
    pub(crate) name: Option<String>,
    pub(crate) value: Expression,
}

/// Returns the argument with this name, or else the argument at this position.
pub(crate) fn argument<'a>(
    arguments: &'a [Argument],
    name: &str,
    position: usize,
) -> Option<&'a Expression> {
    let named = arguments.iter().find(|argument| argument.name.as_deref() == Some(name));
    let positional = || arguments.get(position).filter(|argument| argument.name.is_none());
    named.or_else(positional).map(|argument| &argument.value)
}

impl Expression {
    pub(crate) fn read(node: Node<'_>, source: &str) -> Self {
        Self::read_nested(node, source, 0).unwrap_or(Self::Unknown)
    }

    fn read_nested(node: Node<'_>, source: &str, depth: usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some(value) = scalar(node, source) {
            return Some(Self::Scalar(value));
        }
        let node_text = text(node, source);
        let text = |node: Node<'_>| text(node, source).to_owned();
        let inner =
            |node: Node<'_>| Self::read_nested(node, source, depth + 1).unwrap_or(Self::Unknown);
        let operation = |operator: &str, operands: Vec<Self>| Self::Operation {
            operator: operator.to_owned(),
            operands,
        };
        let parts = children_without_comments(node);
        Some(match (node.kind(), parts.as_slice()) {
            ("array_creation_expression", elements) => {
                let element = |node: &Node<'_>| element(*node, inner);
                Self::Array(elements.iter().map(element).collect::<Option<_>>()?)
            }
            ("name" | "qualified_name" | "relative_name", _) => {
                Self::Constant { class: None, name: node_text.to_owned() }
            }
            ("parenthesized_expression", [expression, ..]) => inner(*expression),
            ("class_constant_access_expression", [class, name])
                if is_name(class) || class.kind() == "relative_scope" =>
            {
                Self::Constant { class: Some(text(*class)), name: text(*name) }
            }
            ("object_creation_expression", [class, rest @ ..]) if is_name(class) => {
                let list = rest.first().map(|list| arguments(*list, source, depth + 1));
                let arguments = list.unwrap_or_default();
                Self::Call { is_new: true, name: text(*class), arguments }
            }
            ("function_call_expression", _) => Self::Call {
                is_new: false,
                name: text(field(node, "function")?),
                arguments: arguments(field(node, "arguments")?, source, depth + 1),
            },
            ("unary_op_expression", _) => {
                let operand = inner(field(node, "argument")?);
                operation(&text(field(node, "operator")?), vec![operand])
            }
            ("binary_expression", _) => {
                let operands = vec![inner(field(node, "left")?), inner(field(node, "right")?)];
                operation(&text(field(node, "operator")?), operands)
            }
            ("subscript_expression", [object, key]) => {
                operation("[]", vec![inner(*object), inner(*key)])
            }
            ("member_access_expression", _) => {
                let name = Self::Scalar(Value::String(text(field(node, "name")?)));
                operation("->", vec![inner(field(node, "object")?), name])
            }
            _ => return None,
        })
    }
}

fn element(node: Node<'_>, read: impl Fn(Node<'_>) -> Expression) -> Option<Element> {
    match children_without_comments(node).as_slice() {
        [item] if item.kind() == "variadic_unpacking" => {
            Some(Element::Spread(read(*children_without_comments(*item).first()?)))
        }
        [item] => Some(Element::Item(read(*item))),
        [key, value] => Some(Element::Pair(read(*key), read(*value))),
        _ => None,
    }
}

pub(crate) fn arguments(node: Node<'_>, source: &str, depth: usize) -> Vec<Argument> {
    let argument = |node: Node<'_>| {
        let name = field(node, "name").map(|name| text(name, source).to_owned());
        let value =
            children_without_comments(node).last().copied().filter(|_| node.kind() == "argument");
        let value = value.and_then(|value| Expression::read_nested(value, source, depth));
        Argument { name, value: value.unwrap_or(Expression::Unknown) }
    };
    children_without_comments(node).into_iter().map(argument).collect()
}

fn scalar(node: Node<'_>, source: &str) -> Option<Value> {
    let text = text(node, source);
    match node.kind() {
        "integer" => integer(text),
        "float" => float(text),
        "boolean" => Some(Value::Bool(text.eq_ignore_ascii_case("true"))),
        "null" => Some(Value::Null),
        _ => string::read(node, source).map(Value::String),
    }
}

/// Parses an integer. As in PHP, a number that does not fit into 64 bits becomes a float.
fn integer(text: &str) -> Option<Value> {
    let digits = text.replace('_', "").to_ascii_lowercase();
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x', ..] => (digits.get(2..)?, 16),
        [b'0', b'b', ..] => (digits.get(2..)?, 2),
        [b'0', b'o', ..] => (digits.get(2..)?, 8),
        [b'0', _, ..] => (digits.get(1..)?, 8),
        _ => (digits.as_str(), 10),
    };
    match i64::from_str_radix(digits, radix) {
        Ok(number) => Some(Value::from(number)),
        Err(_) if radix == 10 => float(digits),
        Err(_) => None,
    }
}

fn float(text: &str) -> Option<Value> {
    let number: f64 = text.replace('_', "").parse().ok()?;
    Number::from_f64(number).map(Value::Number)
}
