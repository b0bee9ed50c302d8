//! Expressions of the kind that stands in attributes, defaults and constants, out of their tree.
//!
//! Names stay as they are written; `evaluate.rs` knows what they mean.

use serde_json::{Number, Value};
use tree_sitter::Node;

use super::parse::{children, field, text};
use super::string;

/// Deeper expressions are not looked into.
const MAX_DEPTH: usize = 150;

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    /// A number, a text, true, false, null.
    Scalar(Value),
    Array(Vec<Element>),
    /// `Foo::BAR`, also of an enum.
    ClassConstant {
        class: String,
        name: String,
    },
    /// `PHP_INT_MAX`
    Constant(String),
    /// `new Foo(…)`
    New {
        class: String,
        arguments: Vec<Argument>,
    },
    /// `t('…')`
    Call {
        function: String,
        arguments: Vec<Argument>,
    },
    Unary {
        operator: char,
        inner: Box<Expression>,
    },
    Binary {
        left: Box<Expression>,
        operator: String,
        right: Box<Expression>,
    },
    /// `Foo::Bar->value`
    Member {
        object: Box<Expression>,
        name: String,
    },
    /// `self::WORDS[0]`
    Subscript {
        object: Box<Expression>,
        key: Box<Expression>,
    },
    /// Nobody knows without running it.
    Unknown,
}

/// A member of an array.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Element {
    Item(Expression),
    Pair(Expression, Expression),
    /// `...OTHERS`
    Spread(Expression),
}

/// An argument of an attribute or a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Argument {
    pub(super) name: Option<String>,
    pub(super) value: Expression,
}

/// The argument of this name, or in this place among those without one.
pub(super) fn argument<'a>(
    arguments: &'a [Argument],
    name: &str,
    place: usize,
) -> Option<&'a Expression> {
    let named = arguments.iter().find(|argument| argument.name.as_deref() == Some(name));
    let placed = || arguments.get(place).filter(|argument| argument.name.is_none());
    named.or_else(placed).map(|argument| &argument.value)
}

impl Expression {
    pub(super) fn read(node: Node<'_>, source: &str) -> Self {
        Self::at(node, source, 0)
    }

    fn at(node: Node<'_>, source: &str, depth: usize) -> Self {
        if depth > MAX_DEPTH {
            return Self::Unknown;
        }
        let inner = |node: Node<'_>| Self::at(node, source, depth + 1);
        let read = match node.kind() {
            "integer" => integer(text(node, source)).map(Self::Scalar),
            "float" => float(text(node, source)).map(Self::Scalar),
            "boolean" => {
                let is_true = text(node, source).eq_ignore_ascii_case("true");
                Some(Self::Scalar(Value::Bool(is_true)))
            }
            "null" => Some(Self::Scalar(Value::Null)),
            "string" | "encapsed_string" | "heredoc" | "nowdoc" => {
                string::read(node, source).map(|text| Self::Scalar(Value::String(text)))
            }
            "array_creation_expression" => {
                let element = |node| element(node, source, depth + 1);
                code(node).into_iter().map(element).collect::<Option<_>>().map(Self::Array)
            }
            "name" | "qualified_name" | "relative_name" => {
                Some(Self::Constant(text(node, source).to_owned()))
            }
            "parenthesized_expression" => code(node).first().map(|node| inner(*node)),
            "class_constant_access_expression" => class_constant(node, source),
            "object_creation_expression" => new(node, source, depth + 1),
            "function_call_expression" => call(node, source, depth + 1),
            "unary_op_expression" => unary(node, source, depth + 1),
            "binary_expression" => binary(node, source, depth + 1),
            "subscript_expression" => match code(node).as_slice() {
                [object, key] => Some(Self::Subscript {
                    object: Box::new(inner(*object)),
                    key: Box::new(inner(*key)),
                }),
                _ => None,
            },
            "member_access_expression" => match (field(node, "object"), field(node, "name")) {
                (Some(object), Some(name)) => Some(Self::Member {
                    object: Box::new(inner(object)),
                    name: text(name, source).to_owned(),
                }),
                _ => None,
            },
            _ => None,
        };
        read.unwrap_or(Self::Unknown)
    }
}

/// The arguments in parentheses.
pub(super) fn arguments(node: Node<'_>, source: &str, depth: usize) -> Vec<Argument> {
    let argument = |node: Node<'_>| {
        let name = field(node, "name").map(|name| text(name, source).to_owned());
        let value = code(node).last().copied().filter(|_| node.kind() == "argument");
        let value = value.map_or(Expression::Unknown, |value| Expression::at(value, source, depth));
        Argument { name, value }
    };
    code(node).into_iter().map(argument).collect()
}

/// The children that are no comments.
fn code(node: Node<'_>) -> Vec<Node<'_>> {
    let mut all = children(node);
    all.retain(|child| !child.is_extra());
    all
}

fn element(node: Node<'_>, source: &str, depth: usize) -> Option<Element> {
    let read = |node: &Node<'_>| Expression::at(*node, source, depth);
    match code(node).as_slice() {
        [one] if one.kind() == "variadic_unpacking" => {
            Some(Element::Spread(code(*one).first().map(read)?))
        }
        [one] => Some(Element::Item(read(one))),
        [key, value] => Some(Element::Pair(read(key), read(value))),
        _ => None,
    }
}

fn class_constant(node: Node<'_>, source: &str) -> Option<Expression> {
    let [class, name] = code(node).try_into().ok()?;
    let is_name =
        matches!(class.kind(), "name" | "qualified_name" | "relative_name" | "relative_scope");
    is_name.then(|| Expression::ClassConstant {
        class: text(class, source).to_owned(),
        name: text(name, source).to_owned(),
    })
}

fn new(node: Node<'_>, source: &str, depth: usize) -> Option<Expression> {
    let parts = code(node);
    let class = parts.first()?;
    if !matches!(class.kind(), "name" | "qualified_name" | "relative_name") {
        return None;
    }
    let given = parts.get(1).map(|node| arguments(*node, source, depth));
    Some(Expression::New {
        class: text(*class, source).to_owned(),
        arguments: given.unwrap_or_default(),
    })
}

fn call(node: Node<'_>, source: &str, depth: usize) -> Option<Expression> {
    let (function, given) = (field(node, "function")?, field(node, "arguments")?);
    Some(Expression::Call {
        function: text(function, source).to_owned(),
        arguments: arguments(given, source, depth),
    })
}

fn unary(node: Node<'_>, source: &str, depth: usize) -> Option<Expression> {
    let (operator, inner) = (field(node, "operator")?, field(node, "argument")?);
    Some(Expression::Unary {
        operator: text(operator, source).chars().next()?,
        inner: Box::new(Expression::at(inner, source, depth)),
    })
}

fn binary(node: Node<'_>, source: &str, depth: usize) -> Option<Expression> {
    let part = |name| field(node, name).map(|node| Expression::at(node, source, depth));
    Some(Expression::Binary {
        left: Box::new(part("left")?),
        operator: text(field(node, "operator")?, source).to_owned(),
        right: Box::new(part("right")?),
    })
}

/// A number past 64 bits is a float, as in PHP.
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
