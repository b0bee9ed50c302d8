//! The declarations of a PHP file that are needed for methods and their types.

use std::collections::HashMap;
use std::sync::Arc;

use super::docblock::Docblock;
use super::expression::{Argument, Expression};

/// The declarations of a file.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) classes: Vec<Class>,
    /// Constants outside of classes, by full name.
    pub(crate) constants: HashMap<String, (Arc<Scope>, Expression)>,
}

/// Namespace and imports. Names are resolved with them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    /// Path of the file, relative to the imported directory.
    pub(crate) file: Arc<str>,
    /// The namespace, without backslashes at its ends.
    pub(crate) namespace: String,
    /// Full names of imports, by alias in lower case.
    pub(crate) uses: HashMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    #[default]
    Class,
    Interface,
    Trait,
    Enum,
}

/// A class, an interface, a trait or an enum.
#[derive(Debug, Default)]
pub(crate) struct Class {
    /// Name with its namespace.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) line: usize,
    pub(crate) scope: Arc<Scope>,
    pub(crate) parent: Option<String>,
    pub(crate) traits: Vec<String>,
    pub(crate) doc: Docblock,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) constants: HashMap<String, Expression>,
    /// Cases of an enum, with their values.
    pub(crate) cases: Vec<(String, Option<Expression>)>,
    pub(crate) properties: Vec<Property>,
    pub(crate) methods: Vec<Method>,
}

impl Class {
    /// Returns the method with this name. Ignores case.
    pub(crate) fn method(&self, name: &str) -> Option<&Method> {
        self.methods.iter().find(|method| method.name.eq_ignore_ascii_case(name))
    }
}

#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) arguments: Vec<Argument>,
}

/// A property. It is declared in the class or promoted from a parameter of the constructor.
#[derive(Debug)]
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) ty: Option<String>,
    pub(crate) has_default: bool,
    pub(crate) is_public: bool,
    pub(crate) is_promoted: bool,
    pub(crate) doc: Docblock,
    pub(crate) attributes: Vec<Attribute>,
}

#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) is_public: bool,
    pub(crate) is_abstract: bool,
    pub(crate) doc: Docblock,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) params: Vec<Param>,
    pub(crate) returns: Option<String>,
    /// The returned expression of a static method whose body is only `return …;`.
    pub(crate) result: Option<Expression>,
}

#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) ty: Option<String>,
    pub(crate) default: Option<Expression>,
    pub(crate) is_variadic: bool,
}
