//! A syntax tree to what it declares.

use std::sync::Arc;

use tree_sitter::Node;

use super::docblock::Docblock;
use super::expression::{Expression, arguments};
use super::model::{Attribute, Class, Declarations, Kind, Method, Param, Property, Scope};
use super::parse::{children, field, first_error, has, line, text};
use super::tree::joined;

/// Classes may be declared in conditions, and those in others.
const MAX_DEPTH: usize = 8;

/// Adds what a file declares.
pub(super) fn read(root: Node<'_>, source: &str, file: &str, into: &mut Declarations) {
    let scope = Arc::new(Scope { file: file.into(), ..Scope::default() });
    Reader { source, scope, into }.statements(root, 0);
}

struct Reader<'s> {
    source: &'s str,
    /// Of the statement that is read; copied when another follows with a new `use`.
    scope: Arc<Scope>,
    into: &'s mut Declarations,
}

impl Reader<'_> {
    fn statements(&mut self, parent: Node<'_>, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let mut doc = Pending::default();
        for node in children(parent) {
            if node.kind() == "comment" {
                doc.see(node, self.source);
                continue;
            }
            let doc = doc.take();
            match node.kind() {
                "namespace_definition" => self.namespace(node, depth),
                "namespace_use_declaration" => self.uses(node),
                "const_declaration" => self.constants(node),
                "class_declaration" => self.class(node, Kind::Class, doc),
                "interface_declaration" => self.class(node, Kind::Interface, doc),
                "trait_declaration" => self.class(node, Kind::Trait, doc),
                "enum_declaration" => self.class(node, Kind::Enum, doc),
                "if_statement" | "else_clause" | "compound_statement" => {
                    self.statements(node, depth + 1);
                }
                _ => {}
            }
        }
    }

    fn text(&self, node: Node<'_>) -> String {
        text(node, self.source).to_owned()
    }

    fn field_text(&self, node: Node<'_>, name: &str) -> Option<String> {
        field(node, name).map(|node| self.text(node))
    }

    /// With braces it holds inside of them, without up to the next.
    fn namespace(&mut self, node: Node<'_>, depth: usize) {
        let namespace = self.field_text(node, "name").unwrap_or_default();
        let file = Arc::clone(&self.scope.file);
        self.scope = Arc::new(Scope { file, namespace, ..Scope::default() });
        if let Some(body) = field(node, "body") {
            self.statements(body, depth + 1);
            let file = Arc::clone(&self.scope.file);
            self.scope = Arc::new(Scope { file, ..Scope::default() });
        }
    }

    /// `use A\B, C as D;`, `use A\{B, C as D};`
    fn uses(&mut self, node: Node<'_>) {
        // Functions and constants have names of their own.
        if field(node, "type").is_some() {
            return;
        }
        let prefix = children(node).into_iter().find(|part| part.kind() == "namespace_name");
        let prefix = prefix.map(|prefix| self.text(prefix)).unwrap_or_default();
        let clauses = field(node, "body").unwrap_or(node);
        for clause in children(clauses) {
            let is_class =
                clause.kind() == "namespace_use_clause" && field(clause, "type").is_none();
            let named = children(clause)
                .into_iter()
                .find(|part| matches!(part.kind(), "name" | "qualified_name"));
            let Some(named) = named.filter(|_| is_class) else { continue };
            let name = joined(&prefix, self.text(named).trim_start_matches('\\'));
            let last = name.rsplit('\\').next().unwrap_or(&name);
            let alias = self.field_text(clause, "alias").unwrap_or_else(|| last.to_owned());
            Arc::make_mut(&mut self.scope).uses.insert(alias.to_ascii_lowercase(), name);
        }
    }

    /// `const A = 1;` outside of classes.
    fn constants(&mut self, node: Node<'_>) {
        for (name, value) in self.constant_elements(node) {
            let name = joined(&self.scope.namespace, &name);
            self.into.constants.insert(name, (Arc::clone(&self.scope), value));
        }
    }

    fn constant_elements(&self, node: Node<'_>) -> Vec<(String, Expression)> {
        let elements = children(node).into_iter().filter(|child| child.kind() == "const_element");
        let element = |element: Node<'_>| {
            let parts = children(element);
            let value = parts.iter().rev().find(|part| !part.is_extra())?;
            let name = parts.first().filter(|name| name.kind() == "name")?;
            Some((self.text(*name), Expression::read(*value, self.source)))
        };
        elements.filter_map(element).collect()
    }

    fn class(&mut self, node: Node<'_>, kind: Kind, doc: Docblock) {
        let (Some(name), Some(body)) = (self.field_text(node, "name"), field(node, "body")) else {
            return;
        };
        // What cannot be read could say who may call its methods.
        let head = children(node).into_iter().filter(|part| *part != body);
        if head.into_iter().any(|part| part.has_error()) {
            return;
        }
        let mut class = Class {
            name: joined(&self.scope.namespace, &name),
            kind,
            line: line(node),
            scope: Arc::clone(&self.scope),
            parent: None,
            traits: Vec::new(),
            doc: self.inner_doc(node).unwrap_or(doc),
            attributes: self.attributes(node),
            constants: std::collections::HashMap::new(),
            cases: Vec::new(),
            properties: Vec::new(),
            methods: Vec::new(),
        };
        if let Some(base) = children(node).into_iter().find(|part| part.kind() == "base_clause")
            && kind == Kind::Class
        {
            class.parent = self.names(base).into_iter().next();
        }
        let mut doc = Pending::default();
        for member in children(body) {
            if member.kind() == "comment" {
                doc.see(member, self.source);
                continue;
            }
            let before = doc.take();
            if first_error(member).is_some() {
                continue;
            }
            let doc = self.inner_doc(member).unwrap_or(before);
            match member.kind() {
                "use_declaration" => class.traits.extend(self.names(member)),
                "const_declaration" => class.constants.extend(self.constant_elements(member)),
                "enum_case" => class.cases.extend(self.case(member)),
                "property_declaration" => {
                    self.properties(member, &doc, &mut class.properties);
                }
                "method_declaration" => {
                    self.promoted(member, &doc, &mut class.properties);
                    class.methods.extend(self.method(member, doc));
                }
                _ => {}
            }
        }
        self.into.classes.push(class);
    }

    fn names(&self, node: Node<'_>) -> Vec<String> {
        let is_name =
            |part: &Node<'_>| matches!(part.kind(), "name" | "qualified_name" | "relative_name");
        children(node).into_iter().filter(is_name).map(|part| self.text(part)).collect()
    }

    fn case(&self, node: Node<'_>) -> Option<(String, Option<Expression>)> {
        let value = field(node, "value").map(|value| Expression::read(value, self.source));
        Some((self.field_text(node, "name")?, value))
    }

    fn properties(&self, node: Node<'_>, doc: &Docblock, properties: &mut Vec<Property>) {
        if has(node, "static_modifier") {
            return;
        }
        let ty = self.field_text(node, "type");
        let is_public = self.is_public(node);
        for element in children(node).into_iter().filter(|it| it.kind() == "property_element") {
            let Some(name) = self.variable(element) else { continue };
            properties.push(Property {
                name,
                // Without a type, what is not there is null.
                has_default: ty.is_none() || field(element, "default_value").is_some(),
                ty: ty.clone(),
                is_public,
                is_promoted: false,
                doc: doc.clone(),
                attributes: self.attributes(node),
            });
        }
    }

    /// The parameters of a constructor that are properties too.
    fn promoted(&self, node: Node<'_>, doc: &Docblock, properties: &mut Vec<Property>) {
        let is_constructor = self
            .field_text(node, "name")
            .is_some_and(|name| name.eq_ignore_ascii_case("__construct"));
        let Some(params) = field(node, "parameters").filter(|_| is_constructor) else { return };
        let mut said = doc.of_params();
        let mut own = Pending::default();
        for param in children(params) {
            if param.kind() == "comment" {
                own.see(param, self.source);
                continue;
            }
            let before = own.take();
            let mut own = self.inner_doc(param).unwrap_or(before);
            let Some(name) = self.variable(param) else { continue };
            if param.kind() != "property_promotion_parameter" {
                continue;
            }
            if own == Docblock::default() {
                own = said.remove(&name).unwrap_or_default();
            }
            properties.push(Property {
                name,
                ty: self.field_text(param, "type"),
                has_default: field(param, "default_value").is_some(),
                is_public: self.is_public(param),
                is_promoted: true,
                doc: own,
                attributes: self.attributes(param),
            });
        }
    }

    fn method(&self, node: Node<'_>, doc: Docblock) -> Option<Method> {
        let params = field(node, "parameters").map(children).unwrap_or_default();
        let is_static = has(node, "static_modifier");
        let body = field(node, "body");
        Some(Method {
            name: self.field_text(node, "name")?,
            line: line(node),
            is_public: self.is_public(node),
            is_abstract: body.is_none(),
            doc,
            attributes: self.attributes(node),
            params: params.into_iter().filter_map(|param| self.param(param)).collect(),
            returns: self.field_text(node, "return_type"),
            result: body.filter(|_| is_static).and_then(|body| self.result(body)),
        })
    }

    fn param(&self, node: Node<'_>) -> Option<Param> {
        let default = field(node, "default_value");
        Some(Param {
            name: self.variable(node)?,
            ty: self.field_text(node, "type"),
            default: default.map(|default| Expression::read(default, self.source)),
            is_variadic: node.kind() == "variadic_parameter",
        })
    }

    /// `{ return …; }`
    fn result(&self, body: Node<'_>) -> Option<Expression> {
        let statements: Vec<Node<'_>> =
            children(body).into_iter().filter(|part| !part.is_extra()).collect();
        let [only] = statements.as_slice() else { return None };
        let value = children(*only).into_iter().find(|part| !part.is_extra());
        let value = value.filter(|_| only.kind() == "return_statement")?;
        Some(Expression::read(value, self.source))
    }

    /// The name of a parameter or a property, without its `$`.
    fn variable(&self, node: Node<'_>) -> Option<String> {
        let name = self.field_text(node, "name")?;
        Some(name.trim_start_matches(['&', '$', ' ']).to_owned()).filter(|name| !name.is_empty())
    }

    fn is_public(&self, node: Node<'_>) -> bool {
        let modifiers = children(node);
        let mut modifiers = modifiers.iter().filter(|part| part.kind() == "visibility_modifier");
        // `public private(set)`: what may be written by others is another matter.
        let first = modifiers.next().map(|first| self.text(*first).to_ascii_lowercase());
        first.is_none_or(|word| word.starts_with("public") || word.ends_with("(set)"))
    }

    fn attributes(&self, node: Node<'_>) -> Vec<Attribute> {
        let Some(list) = field(node, "attributes") else { return Vec::new() };
        let groups = children(list).into_iter().flat_map(children);
        let attribute = |node: Node<'_>| {
            let given = field(node, "parameters");
            Some(Attribute {
                name: self.names(node).into_iter().next()?,
                arguments: given.map(|given| arguments(given, self.source, 0)).unwrap_or_default(),
            })
        };
        groups.filter(|node| node.kind() == "attribute").filter_map(attribute).collect()
    }

    /// A doc comment between the attributes and what they belong to.
    fn inner_doc(&self, node: Node<'_>) -> Option<Docblock> {
        field(node, "attributes")?;
        let mut doc = Pending::default();
        for part in children(node) {
            match part.kind() {
                "comment" => doc.see(part, self.source),
                "declaration_list"
                | "enum_declaration_list"
                | "compound_statement"
                | "formal_parameters" => break,
                _ => {}
            }
        }
        doc.0
    }
}

/// The last doc comment, for what comes next.
#[derive(Default)]
struct Pending(Option<Docblock>);

impl Pending {
    fn see(&mut self, comment: Node<'_>, source: &str) {
        let comment = text(comment, source);
        if comment.starts_with("/**") {
            self.0 = Some(Docblock::parse(comment));
        }
    }

    fn take(&mut self) -> Docblock {
        self.0.take().unwrap_or_default()
    }
}
