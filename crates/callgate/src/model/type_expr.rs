//! Type notation of PHP signatures and doc comments.
//!
//! Examples: `int`, `?string`, `int[]`, `A|B`, `list<T>`, `array<string, T>`, `array{id: int, name?:
//! string}`, `'asc'|'desc'`, `Plugin\Model\User[]`. A [`TypeExpr`] is in normal form: unions are flat
//! without duplicates, null is outside of unions as [`TypeExpr::Nullable`], and equivalent notations
//! (`T[]`, `list<T>`, `array<int, T>`) are equal. Parsing a printed type returns the same value.
//!
//! [`crate::model::schema`] converts types to JSON Schema.

pub(crate) mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Number, Value};

pub use parse::TypeError;

/// Type of a parameter, a field or a result.
///
/// ```
/// use callgate::model::TypeExpr;
///
/// let sort: TypeExpr = "null|'asc'|'desc'".parse()?;
/// assert_eq!(sort.to_string(), "'asc'|'desc'|null");
/// # Ok::<(), callgate::model::TypeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TypeExpr {
    /// `int`, with bounds for `int<0, 100>` and `positive-int`.
    Int {
        /// Minimum.
        min: Option<i64>,
        /// Maximum.
        max: Option<i64>,
    },
    /// `float`.
    Float,
    /// `string`.
    String,
    /// `bool`.
    Bool,
    /// `null`, also `void`: no value.
    Null,
    /// `mixed`: any value.
    Mixed,
    /// `array` without element types: a map. As an argument, a list is accepted too.
    Array,
    /// `object`, `stdClass`: an object with unknown properties.
    Object,
    /// One exact value: `'asc'`, `3`, `true`.
    Literal(Literal),
    /// `T[]`, `list<T>`, `array<int, T>`.
    List(Box<TypeExpr>),
    /// `array<string, T>`.
    Map(Box<TypeExpr>),
    /// `array{int, string}`: an array of fixed length; never empty.
    Tuple(Vec<TypeExpr>),
    /// `array{id: int, name?: string}`.
    Shape(Vec<Field>),
    /// A class. The registry may define its fields.
    Class(ClassName),
    /// `?T`, `T|null`; never contains `mixed`, `null` or another nullable.
    Nullable(Box<TypeExpr>),
    /// `A|B`: two or more different members; nested unions and null are not members.
    Union(Vec<TypeExpr>),
}

/// A literal value in a type.
///
/// Part of [`TypeExpr::Literal`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Literal {
    /// `'asc'`
    String(String),
    /// `3`, `-1.5`
    Number(Number),
    /// `true`, `false`
    Bool(bool),
}

/// Field of an array shape.
///
/// Part of [`TypeExpr::Shape`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// Name of the key.
    pub name: String,
    /// Whether the key may be absent, as in `name?: string`.
    pub optional: bool,
    /// Type of the value.
    pub ty: TypeExpr,
}

/// Class name with namespace, without a leading backslash.
///
/// [`Types`](crate::model::Types) has an example.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassName(Arc<str>);

impl TypeExpr {
    /// `int` without bounds.
    pub const INT: Self = Self::Int { min: None, max: None };

    /// Returns the union of `members` in normal form.
    pub fn union_of(members: impl IntoIterator<Item = Self>) -> Self {
        let mut flat = Vec::new();
        let mut null = false;
        for member in members {
            flatten(member, &mut flat, &mut null);
        }
        if flat.contains(&Self::Mixed) {
            return Self::Mixed;
        }
        let union = match flat.len() {
            0 => return Self::Null,
            1 => flat.remove(0),
            _ => Self::Union(flat),
        };
        if null { Self::Nullable(Box::new(union)) } else { union }
    }

    /// Returns the nullable form of this type.
    #[must_use]
    pub fn or_null(self) -> Self {
        Self::union_of([self, Self::Null])
    }

    /// Returns `true` if the JSON type of a value matches this type. Used to find invalid defaults.
    pub(crate) fn accepts_type_of(&self, value: &Value) -> bool {
        match self {
            Self::Int { .. } => value.is_i64() || value.is_u64(),
            Self::Float => value.is_number(),
            Self::String => value.is_string(),
            Self::Bool => value.is_boolean(),
            Self::Null => value.is_null(),
            Self::Mixed => true,
            Self::Array => value.is_object() || value.is_array(),
            // PHP writes an empty map as an empty list.
            Self::Object | Self::Map(_) | Self::Shape(_) | Self::Class(_) => {
                value.is_object() || value.as_array().is_some_and(Vec::is_empty)
            }
            Self::List(_) | Self::Tuple(_) => value.is_array(),
            Self::Literal(Literal::String(text)) => value.as_str() == Some(text),
            Self::Literal(Literal::Number(number)) => value.as_number() == Some(number),
            Self::Literal(Literal::Bool(flag)) => value.as_bool() == Some(*flag),
            Self::Nullable(inner) => value.is_null() || inner.accepts_type_of(value),
            Self::Union(members) => members.iter().any(|member| member.accepts_type_of(value)),
        }
    }

    /// Returns `true` if `predicate` returns `true` for this type or for a nested type.
    pub(crate) fn any<'a>(&'a self, predicate: &mut dyn FnMut(&'a Self) -> bool) -> bool {
        predicate(self)
            || match self {
                Self::List(inner) | Self::Map(inner) | Self::Nullable(inner) => {
                    inner.any(predicate)
                }
                Self::Tuple(members) | Self::Union(members) => {
                    members.iter().any(|member| member.any(predicate))
                }
                Self::Shape(fields) => fields.iter().any(|field| field.ty.any(predicate)),
                _ => false,
            }
    }

    /// Calls `visit` for each class in this type.
    pub fn for_each_class<'a>(&'a self, visit: &mut dyn FnMut(&'a ClassName)) {
        self.any(&mut |part| {
            if let Self::Class(name) = part {
                visit(name);
            }
            false
        });
    }
}

fn flatten(member: TypeExpr, flat: &mut Vec<TypeExpr>, null: &mut bool) {
    match member {
        TypeExpr::Null => *null = true,
        TypeExpr::Nullable(inner) => {
            *null = true;
            flatten(*inner, flat, null);
        }
        TypeExpr::Union(members) => {
            for member in members {
                flatten(member, flat, null);
            }
        }
        other if flat.contains(&other) => {}
        other => flat.push(other),
    }
}

impl FromStr for TypeExpr {
    type Err = TypeError;

    fn from_str(text: &str) -> Result<Self, TypeError> {
        parse::parse(text, None)
    }
}

impl ClassName {
    /// Parses a class name such as `Plugin\Model\User`. A leading backslash is dropped.
    ///
    /// Returns `None` if the text is not a class name.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_prefix('\\').unwrap_or(text);
        let is_segment = |segment: &str| {
            let mut chars = segment.chars();
            chars.next().is_some_and(parse::starts_name) && chars.all(parse::continues_name)
        };
        (name.len() <= 255 && name.split('\\').all(is_segment)).then(|| Self(name.into()))
    }

    /// Returns a generated name for a definition that is part of this class's schema.
    pub(crate) fn part_of(&self, part: &str) -> Self {
        Self(format!("{self}-{part}").into())
    }

    /// Returns the full name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name without the namespace.
    pub fn short(&self) -> &str {
        self.0.rsplit('\\').next().unwrap_or(&self.0)
    }
}

impl fmt::Display for ClassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for TypeExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int { min: None, max: None } => f.write_str("int"),
            Self::Int { min, max } => {
                let bound = |bound: &Option<i64>, open: &str| {
                    bound.map_or_else(|| open.to_owned(), |bound| bound.to_string())
                };
                write!(f, "int<{}, {}>", bound(min, "min"), bound(max, "max"))
            }
            Self::Float => f.write_str("float"),
            Self::String => f.write_str("string"),
            Self::Bool => f.write_str("bool"),
            Self::Null => f.write_str("null"),
            Self::Mixed => f.write_str("mixed"),
            Self::Array => f.write_str("array"),
            Self::Object => f.write_str("object"),
            Self::Literal(literal) => literal.fmt(f),
            Self::List(inner) => match **inner {
                Self::Union(_) | Self::Nullable(_) => write!(f, "({inner})[]"),
                _ => write!(f, "{inner}[]"),
            },
            Self::Map(inner) => write!(f, "array<string, {inner}>"),
            Self::Tuple(members) => write!(f, "array{{{}}}", joined(members, ", ")),
            Self::Shape(fields) => write!(f, "array{{{}}}", joined(fields, ", ")),
            // A leading backslash distinguishes a class from a type of the same name.
            Self::Class(name)
                if ClassName::parse(name.as_str()).is_some()
                    && name.as_str().parse().as_ref() != Ok(self) =>
            {
                write!(f, "\\{name}")
            }
            Self::Class(name) => name.fmt(f),
            Self::Nullable(inner) => match **inner {
                Self::Union(_) => write!(f, "{inner}|null"),
                _ => write!(f, "?{inner}"),
            },
            Self::Union(members) => f.write_str(&joined(members, "|")),
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(text) => f.write_str(&quoted(text)),
            Self::Number(number) => number.fmt(f),
            Self::Bool(value) => value.fmt(f),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = parse::is_plain_key(&self.name);
        let name = if is_plain { Cow::Borrowed(&*self.name) } else { quoted(&self.name).into() };
        write!(f, "{name}{}: {}", if self.optional { "?" } else { "" }, self.ty)
    }
}

fn joined(items: &[impl fmt::Display], separator: &str) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}
