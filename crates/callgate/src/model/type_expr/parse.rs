//! Recursive descent parser for [`TypeExpr`], limited in length and depth.

use serde_json::Number;
use thiserror::Error;

use super::{ClassName, Field, Literal, TypeExpr};

/// Maximum length of a type in bytes.
const MAX_LENGTH: usize = 8 * 1024;
/// Maximum nesting depth. Limits the stack that parsing needs.
const MAX_DEPTH: usize = 32;

/// The text is not a valid type.
///
/// Error of parsing a [`TypeExpr`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("type `{text}`, column {column}: {problem}")]
pub struct TypeError {
    text: String,
    column: usize,
    problem: TypeProblem,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
enum TypeProblem {
    #[error("expected {expected}, found {found}")]
    Unexpected { expected: &'static str, found: String },
    #[error("`{0}` has no meaning outside its class; write the name of the class")]
    Relative(String),
    #[error("`{0}` cannot be passed as JSON; use a type that can")]
    NotData(String),
    #[error("`{0}` takes {1}")]
    Arguments(String, &'static str),
    #[error(
        "the generic class `{0}<…>` is not supported; use an array of the element type, such as `Item[]`"
    )]
    GenericClass(String),
    #[error("intersections (`A&B`) are not supported; name one class")]
    Intersection,
    #[error("the field `{0}` is duplicated")]
    DuplicateField(String),
    #[error("the bound `{0}` is neither an integer nor `{1}`")]
    Bound(String, &'static str),
    #[error("nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("longer than {MAX_LENGTH} bytes")]
    TooLong,
}

pub(super) fn starts_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

pub(super) fn continues_name(c: char) -> bool {
    starts_name(c) || c.is_ascii_digit()
}

/// Returns `true` if a key needs no quotes.
pub(super) fn is_plain_key(key: &str) -> bool {
    is_index(key)
        || key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn is_index(key: &str) -> bool {
    key == "0" || key.starts_with(|c: char| matches!(c, '1'..='9')) && all_digits(key)
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the type of a class name, or `None` if the name is invalid.
type ResolveClass<'a> = &'a dyn Fn(&str) -> Option<TypeExpr>;

/// Parses a type.
///
/// If `resolve` is set, it resolves the class names, which may be relative (`self`, `$this`). Otherwise all class
/// names are full names.
pub fn parse(text: &str, resolve: Option<ResolveClass<'_>>) -> Result<TypeExpr, TypeError> {
    let mut parser = Parser { rest: text, depth: 0, resolve };
    let result =
        if text.len() > MAX_LENGTH { Err(TypeProblem::TooLong) } else { parser.complete_type() };
    result.map_err(|problem| {
        let parsed = text.len() - parser.rest.len();
        TypeError {
            text: text.chars().take(80).collect(),
            column: text.get(..parsed).unwrap_or(text).chars().count() + 1,
            problem,
        }
    })
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
    resolve: Option<ResolveClass<'a>>,
}

impl Parser<'_> {
    fn complete_type(&mut self) -> Result<TypeExpr, TypeProblem> {
        let ty = self.union()?;
        match self.peek() {
            None => Ok(ty),
            Some('&') => Err(TypeProblem::Intersection),
            Some(_) => Err(self.unexpected("the end of the type")),
        }
    }

    fn union(&mut self) -> Result<TypeExpr, TypeProblem> {
        if self.depth == MAX_DEPTH {
            return Err(TypeProblem::TooDeep);
        }
        self.depth += 1;
        let mut members = vec![self.nullable()?];
        while self.eat("|") {
            members.push(self.nullable()?);
        }
        self.depth -= 1;
        Ok(TypeExpr::union_of(members))
    }

    fn nullable(&mut self) -> Result<TypeExpr, TypeProblem> {
        if self.eat("?") { Ok(self.suffixed()?.or_null()) } else { self.suffixed() }
    }

    /// Parses a type and its `[]` suffixes. The suffixes bind more tightly than `?`, so `?T[]` is a nullable list.
    fn suffixed(&mut self) -> Result<TypeExpr, TypeProblem> {
        let mut ty = self.primary()?;
        let mut depth = self.depth;
        while self.eat("[") {
            self.expect("]", "`]`")?;
            depth += 1;
            if depth > MAX_DEPTH {
                return Err(TypeProblem::TooDeep);
            }
            ty = TypeExpr::List(Box::new(ty));
        }
        Ok(ty)
    }

    fn primary(&mut self) -> Result<TypeExpr, TypeProblem> {
        match self.peek() {
            Some('(') => {
                self.eat("(");
                let inner = self.union()?;
                self.expect(")", "`)`")?;
                Ok(inner)
            }
            Some('\'' | '"') => self.quoted().map(|text| TypeExpr::Literal(Literal::String(text))),
            Some(c) if c.is_ascii_digit() || c == '-' => self.number(),
            Some('$') => {
                let start = self.rest;
                let name = self.take_while(|c| c == '$' || continues_name(c));
                self.relative(&name).inspect_err(|_| self.rest = start)
            }
            Some(c) if starts_name(c) || c == '\\' => self.named(),
            _ => Err(self.unexpected("a type")),
        }
    }

    fn named(&mut self) -> Result<TypeExpr, TypeProblem> {
        let start = self.rest;
        let name = self.take_while(|c| continues_name(c) || c == '\\' || c == '-');
        let result = self.resolve(&name);
        if !matches!(result, Ok(_) | Err(TypeProblem::Unexpected { .. } | TypeProblem::TooDeep)) {
            // The error's column is the start of the name.
            self.rest = start;
        }
        result
    }

    fn resolve(&mut self, name: &str) -> Result<TypeExpr, TypeProblem> {
        // PHP's types are case-insensitive; the aliases used in doc comments are case-sensitive.
        let lower = name.to_ascii_lowercase();
        Ok(match lower.as_str() {
            "int" => return self.int(),
            "float" => TypeExpr::Float,
            "string" => TypeExpr::String,
            "bool" => TypeExpr::Bool,
            "null" | "void" => TypeExpr::Null,
            "mixed" => TypeExpr::Mixed,
            "true" => TypeExpr::Literal(Literal::Bool(true)),
            "false" => TypeExpr::Literal(Literal::Bool(false)),
            "array" | "iterable" | "non-empty-array" => {
                return self.collection(name, TypeExpr::Array);
            }
            "list" | "non-empty-list" => {
                return self.collection(name, TypeExpr::List(Box::new(TypeExpr::Mixed)));
            }
            "object" if self.peek() == Some('{') => return self.shape(),
            "object" | "stdclass" | "\\stdclass" => TypeExpr::Object,
            "self" | "static" | "parent" => return self.relative(name),
            "callable" | "closure" | "\\closure" | "never" => {
                return Err(TypeProblem::NotData(name.to_owned()));
            }
            _ => return self.alias_or_class(name),
        })
    }

    fn alias_or_class(&mut self, name: &str) -> Result<TypeExpr, TypeProblem> {
        let at_least = |min| TypeExpr::Int { min: Some(min), max: None };
        let at_most = |max| TypeExpr::Int { min: None, max: Some(max) };
        Ok(match name {
            "resource" => return Err(TypeProblem::NotData(name.to_owned())),
            "integer" => TypeExpr::INT,
            "double" => TypeExpr::Float,
            "boolean" => TypeExpr::Bool,
            "positive-int" => at_least(1),
            "non-negative-int" => at_least(0),
            "negative-int" => at_most(-1),
            "non-positive-int" => at_most(0),
            "non-empty-string" | "numeric-string" | "literal-string" | "lowercase-string"
            | "class-string" | "non-falsy-string" => {
                if self.peek() == Some('<') {
                    self.generics()?;
                }
                TypeExpr::String
            }
            "array-key" => TypeExpr::union_of([TypeExpr::INT, TypeExpr::String]),
            "scalar" => TypeExpr::union_of([
                TypeExpr::INT,
                TypeExpr::Float,
                TypeExpr::String,
                TypeExpr::Bool,
            ]),
            "numeric" => TypeExpr::union_of([TypeExpr::INT, TypeExpr::Float, TypeExpr::String]),
            _ => {
                if self.peek() == Some('<') {
                    return Err(TypeProblem::GenericClass(name.to_owned()));
                }
                return self.class(name);
            }
        })
    }

    fn relative(&self, name: &str) -> Result<TypeExpr, TypeProblem> {
        if self.resolve.is_some() {
            return self.class(name);
        }
        Err(TypeProblem::Relative(name.to_owned()))
    }

    fn class(&self, name: &str) -> Result<TypeExpr, TypeProblem> {
        let class = match self.resolve {
            Some(resolve) => resolve(name),
            None => ClassName::parse(name).map(TypeExpr::Class),
        };
        class.ok_or_else(|| TypeProblem::Unexpected {
            expected: "a type",
            found: format!("`{name}`"),
        })
    }

    fn int(&mut self) -> Result<TypeExpr, TypeProblem> {
        if !self.eat("<") {
            return Ok(TypeExpr::INT);
        }
        let min = self.bound("min")?;
        self.expect(",", "`,`")?;
        let max = self.bound("max")?;
        self.expect(">", "`>`")?;
        Ok(TypeExpr::Int { min, max })
    }

    fn bound(&mut self, open: &'static str) -> Result<Option<i64>, TypeProblem> {
        self.skip_space();
        let text = self.take_while(|c| c.is_ascii_alphanumeric() || c == '-');
        if text == open {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| TypeProblem::Bound(text, open))
    }

    /// Parses the part after `array` or `list`: a shape, type arguments, or nothing. Returns `bare` if there is
    /// nothing.
    fn collection(&mut self, name: &str, bare: TypeExpr) -> Result<TypeExpr, TypeProblem> {
        match self.peek() {
            Some('<') => {}
            Some('{') => return self.shape(),
            _ => return Ok(bare),
        }
        let mut arguments = self.generics()?;
        match (bare, arguments.pop(), arguments.pop(), arguments.pop()) {
            (_, Some(value), None, _)
            | (TypeExpr::Array, Some(value), Some(TypeExpr::Int { .. }), None) => {
                Ok(TypeExpr::List(Box::new(value)))
            }
            (TypeExpr::Array, Some(value), Some(_), None) => Ok(TypeExpr::Map(Box::new(value))),
            (TypeExpr::Array, ..) => {
                Err(TypeProblem::Arguments(name.to_owned(), "one or two types, `<T>` or `<K, V>`"))
            }
            _ => Err(TypeProblem::Arguments(name.to_owned(), "one type, `<T>`")),
        }
    }

    fn generics(&mut self) -> Result<Vec<TypeExpr>, TypeProblem> {
        self.expect("<", "`<`")?;
        let mut arguments = vec![self.union()?];
        while self.eat(",") {
            arguments.push(self.union()?);
        }
        self.expect(">", "`,` or `>`")?;
        Ok(arguments)
    }

    /// Parses `{id: int, name?: string}` or `{int, string}`. A trailing `...` is ignored.
    fn shape(&mut self) -> Result<TypeExpr, TypeProblem> {
        self.expect("{", "`{`")?;
        let mut fields: Vec<Field> = Vec::new();
        let mut next_index = 0_usize;
        loop {
            if self.eat("}") {
                break;
            }
            if self.eat("...") {
                self.expect("}", "`}`")?;
                break;
            }
            let (name, optional) = self.key()?.unwrap_or_else(|| {
                next_index += 1;
                ((next_index - 1).to_string(), false)
            });
            let ty = self.union()?;
            if fields.iter().any(|field| field.name == name) {
                return Err(TypeProblem::DuplicateField(name));
            }
            fields.push(Field { name, optional, ty });
            if !self.eat(",") {
                self.expect("}", "`,` or `}`")?;
                break;
            }
        }
        let is_tuple = !fields.is_empty()
            && fields
                .iter()
                .enumerate()
                .all(|(index, field)| !field.optional && field.name == index.to_string());
        Ok(if is_tuple {
            TypeExpr::Tuple(fields.into_iter().map(|field| field.ty).collect())
        } else {
            TypeExpr::Shape(fields)
        })
    }

    /// Parses a key and the `?` of an optional key. Returns `None` and consumes nothing if there is no key.
    fn key(&mut self) -> Result<Option<(String, bool)>, TypeProblem> {
        let start = self.rest;
        let name = match self.peek() {
            Some('\'' | '"') => self.quoted()?,
            _ => self.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'),
        };
        let optional = self.eat("?");
        if self.eat(":") {
            return Ok(Some((name, optional)));
        }
        self.rest = start;
        Ok(None)
    }

    fn quoted(&mut self) -> Result<String, TypeProblem> {
        let quote = self.peek().unwrap_or('\'');
        let mut chars = self.rest.char_indices().skip(1);
        let mut text = String::new();
        while let Some((index, c)) = chars.next() {
            if c == quote {
                self.rest = self.rest.get(index + c.len_utf8()..).unwrap_or_default();
                return Ok(text);
            }
            match c {
                // As in PHP's single quotes, only the quote and the backslash are escaped.
                '\\' => match chars.next() {
                    Some((_, escaped)) if escaped == quote || escaped == '\\' => text.push(escaped),
                    Some((_, other)) => text.extend(['\\', other]),
                    None => break,
                },
                _ => text.push(c),
            }
        }
        self.rest = "";
        Err(self.unexpected("a closing quote"))
    }

    fn number(&mut self) -> Result<TypeExpr, TypeProblem> {
        let start = self.rest;
        let text = self.take_while(|c| c.is_ascii_digit() || "-+.eE".contains(c));
        let number = match text.parse::<i64>() {
            Ok(integer) => Some(Number::from(integer)),
            Err(_) => text.parse().ok().and_then(Number::from_f64),
        };
        number.map(|number| TypeExpr::Literal(Literal::Number(number))).ok_or_else(|| {
            self.rest = start;
            TypeProblem::Unexpected { expected: "a number", found: format!("`{text}`") }
        })
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest.chars().next()
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str, expected: &'static str) -> Result<(), TypeProblem> {
        if self.eat(token) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        token.to_owned()
    }

    fn unexpected(&mut self, expected: &'static str) -> TypeProblem {
        let found = match self.peek() {
            Some(c) => format!("`{c}`"),
            None => "the end".to_owned(),
        };
        TypeProblem::Unexpected { expected, found }
    }
}
