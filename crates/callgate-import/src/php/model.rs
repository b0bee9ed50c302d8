//! What a PHP file declares, as far as methods and their types need it; names as they are written.

use std::collections::HashMap;
use std::sync::Arc;

use super::docblock::Docblock;
use super::expression::{Argument, Expression};

/// How names are understood at a place.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    /// The file, below the directory.
    pub(super) file: Arc<str>,
    /// Without backslashes around it.
    pub(super) namespace: String,
    /// What `use` says: an alias in lower case to a whole name.
    pub(super) uses: HashMap<String, String>,
}

/// What a declaration of a class is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    #[default]
    Class,
    Interface,
    Trait,
    Enum,
}

/// A class, an interface, a trait or an enum.
#[derive(Debug, Default)]
pub(super) struct Class {
    /// With its namespace.
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) line: usize,
    pub(super) scope: Arc<Scope>,
    pub(super) parent: Option<String>,
    pub(super) traits: Vec<String>,
    pub(super) doc: Docblock,
    pub(super) attributes: Vec<Attribute>,
    pub(super) constants: HashMap<String, Expression>,
    /// The cases of an enum, with their values.
    pub(super) cases: Vec<(String, Option<Expression>)>,
    pub(super) properties: Vec<Property>,
    pub(super) methods: Vec<Method>,
}

impl Class {
    /// A method by its name, in whatever case.
    pub(super) fn method(&self, name: &str) -> Option<&Method> {
        self.methods.iter().find(|method| method.name.eq_ignore_ascii_case(name))
    }
}

/// An attribute: `#[JsonProperty("id")]`.
#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) arguments: Vec<Argument>,
}

/// Returns a name without its namespace.
pub(super) fn short(name: &str) -> &str {
    name.rsplit('\\').next().unwrap_or(name)
}

/// A property of an object, declared or promoted from a parameter of its constructor.
#[derive(Debug)]
pub(super) struct Property {
    pub(super) name: String,
    pub(super) ty: Option<String>,
    /// Whether it may be left out.
    pub(super) has_default: bool,
    pub(super) is_public: bool,
    pub(super) is_promoted: bool,
    pub(super) doc: Docblock,
    pub(super) attributes: Vec<Attribute>,
}

#[derive(Debug)]
pub(super) struct Method {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) is_public: bool,
    pub(super) is_abstract: bool,
    pub(super) doc: Docblock,
    pub(super) attributes: Vec<Attribute>,
    pub(super) params: Vec<Param>,
    pub(super) returns: Option<String>,
    /// What it gives, where it is static and does nothing else.
    pub(super) result: Option<Expression>,
}

#[derive(Debug)]
pub(super) struct Param {
    pub(super) name: String,
    pub(super) ty: Option<String>,
    pub(super) default: Option<Expression>,
    pub(super) is_variadic: bool,
}
