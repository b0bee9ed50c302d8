//! The declarations of a syntax tree.

use std::sync::Arc;

use tree_sitter::Node;

use super::ast::{Attribute, Class, File, Kind, Method, Param, Property, Scope};
use super::docblock::Docblock;
use super::expression::{Expression, arguments};
use super::joined;
use super::parse::{
    children, children_of_kind, children_without_comments, field, first_error, is_name, line, text,
};

/// Maximum nesting depth of conditions around a class.
const MAX_DEPTH: usize = 8;

pub(crate) fn read(root: Node<'_>, source: &str, file: &str) -> File {
    let scope = Arc::new(Scope { file: file.into(), ..Scope::default() });
    let mut reader = DeclarationReader { source, scope, file: File::default() };
    reader.statements(root, 0);
    reader.file
}

struct DeclarationReader<'s> {
    source: &'s str,
    /// Scope of the current statement. The next `use` copies and changes it.
    scope: Arc<Scope>,
    file: File,
}

impl DeclarationReader<'_> {
    fn statements(&mut self, parent: Node<'_>, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for (node, doc) in self.documented(parent) {
            match node.kind() {
                "namespace_definition" => self.namespace(node, depth),
                "namespace_use_declaration" => self.uses(node),
                "const_declaration" => {
                    for (name, value) in self.constants(node) {
                        let name = joined(&self.scope.namespace, &name);
                        self.file.constants.insert(name, (Arc::clone(&self.scope), value));
                    }
                }
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

    fn expression(&self, node: Node<'_>) -> Expression {
        Expression::read(node, self.source)
    }

    /// Returns the children with their doc comments. The doc comment of a child is the last one before it, or one
    /// between its attributes and its keyword.
    fn documented<'t>(&self, parent: Node<'t>) -> Vec<(Node<'t>, Docblock)> {
        let mut last = None;
        let mut all = Vec::new();
        for node in children(parent) {
            if node.kind() == "comment" {
                last = self.doc_comment(node).or(last);
                continue;
            }
            let before = last.take();
            let inner = field(node, "attributes").and_then(|_| {
                let is_head = |part: &Node<'_>| {
                    !matches!(
                        part.kind(),
                        "declaration_list"
                            | "enum_declaration_list"
                            | "compound_statement"
                            | "formal_parameters"
                    )
                };
                let head = children(node).into_iter().take_while(is_head);
                head.filter_map(|part| self.doc_comment(part)).last()
            });
            all.push((node, inner.or(before).map(Docblock::parse).unwrap_or_default()));
        }
        all
    }

    fn doc_comment(&self, node: Node<'_>) -> Option<&str> {
        let comment = Some(node).filter(|node| node.kind() == "comment")?;
        Some(text(comment, self.source)).filter(|comment| comment.starts_with("/**"))
    }

    /// Sets the namespace for the statements in its braces, or up to the next namespace.
    fn namespace(&mut self, node: Node<'_>, depth: usize) {
        let file = Arc::clone(&self.scope.file);
        let namespace = self.field_text(node, "name").unwrap_or_default();
        let global_scope = Scope { file, ..Scope::default() };
        self.scope = Arc::new(Scope { namespace, ..global_scope.clone() });
        if let Some(body) = field(node, "body") {
            self.statements(body, depth + 1);
            self.scope = Arc::new(global_scope);
        }
    }

    /// Reads `use A\B, C as D;` and `use A\{B, C as D};`.
    fn uses(&mut self, node: Node<'_>) {
        // Imports of functions and constants are skipped.
        if field(node, "type").is_some() {
            return;
        }
        let prefix = children_of_kind(node, "namespace_name").next();
        let prefix = prefix.map(|prefix| self.text(prefix)).unwrap_or_default();
        for clause in children_of_kind(field(node, "body").unwrap_or(node), "namespace_use_clause")
        {
            let name_node = children(clause).into_iter().find(is_name);
            let Some(name_node) = name_node.filter(|_| field(clause, "type").is_none()) else {
                continue;
            };
            let name = joined(&prefix, self.text(name_node).trim_start_matches('\\'));
            let last = name.rsplit('\\').next().unwrap_or(&name);
            let alias = self.field_text(clause, "alias").unwrap_or_else(|| last.to_owned());
            Arc::make_mut(&mut self.scope).uses.insert(alias.to_ascii_lowercase(), name);
        }
    }

    fn constants(&self, node: Node<'_>) -> Vec<(String, Expression)> {
        let element = |element: Node<'_>| {
            let name =
                children(element).into_iter().next().filter(|child| child.kind() == "name")?;
            Some((self.text(name), self.expression(*children_without_comments(element).last()?)))
        };
        children_of_kind(node, "const_element").filter_map(element).collect()
    }

    fn class(&mut self, node: Node<'_>, kind: Kind, doc: Docblock) {
        let (Some(name), Some(body)) = (self.field_text(node, "name"), field(node, "body")) else {
            return;
        };
        // The part that cannot be parsed might restrict who may call the methods.
        if children(node).into_iter().any(|part| part != body && part.has_error()) {
            return;
        }
        let base = children_of_kind(node, "base_clause").next().filter(|_| kind == Kind::Class);
        let mut class = Class {
            name: joined(&self.scope.namespace, &name),
            kind,
            line: line(node),
            scope: Arc::clone(&self.scope),
            parent: base.and_then(|base| self.names(base).into_iter().next()),
            doc,
            attributes: self.attributes(node),
            ..Class::default()
        };
        for (member, doc) in self.documented(body) {
            if first_error(member).is_some() {
                continue;
            }
            match member.kind() {
                "use_declaration" => class.traits.extend(self.names(member)),
                "const_declaration" => class.constants.extend(self.constants(member)),
                "enum_case" => {
                    let value = field(member, "value").map(|value| self.expression(value));
                    class.cases.extend(self.field_text(member, "name").map(|name| (name, value)));
                }
                "property_declaration" => class.properties.extend(self.properties(member, &doc)),
                "method_declaration" => {
                    class.properties.extend(self.promoted(member, &doc));
                    class.methods.extend(self.method(member, doc));
                }
                _ => {}
            }
        }
        self.file.classes.push(class);
    }

    fn names(&self, node: Node<'_>) -> Vec<String> {
        children(node).into_iter().filter(is_name).map(|part| self.text(part)).collect()
    }

    fn properties(&self, node: Node<'_>, doc: &Docblock) -> Vec<Property> {
        if children_of_kind(node, "static_modifier").next().is_some() {
            return Vec::new();
        }
        let ty = self.field_text(node, "type");
        let property = |element: Node<'_>| {
            Some(Property {
                name: self.variable(element)?,
                // A property without a type has the default null.
                has_default: ty.is_none() || field(element, "default_value").is_some(),
                ty: ty.clone(),
                is_public: self.is_public(node),
                is_promoted: false,
                doc: doc.clone(),
                attributes: self.attributes(node),
            })
        };
        children_of_kind(node, "property_element").filter_map(property).collect()
    }

    /// Returns the properties that are declared by parameters of the constructor.
    fn promoted(&self, node: Node<'_>, doc: &Docblock) -> Vec<Property> {
        let name = self.field_text(node, "name").unwrap_or_default();
        let is_constructor = name.eq_ignore_ascii_case("__construct");
        let Some(params) = field(node, "parameters").filter(|_| is_constructor) else {
            return Vec::new();
        };
        let mut documented = doc.param_docs();
        let property = |(param, param_doc): (Node<'_>, Docblock)| {
            let name = self.variable(param)?;
            let is_undocumented = param_doc == Docblock::default();
            Some(Property {
                ty: self.field_text(param, "type"),
                has_default: field(param, "default_value").is_some(),
                is_public: self.is_public(param),
                is_promoted: true,
                doc: if is_undocumented {
                    documented.remove(&name).unwrap_or_default()
                } else {
                    param_doc
                },
                attributes: self.attributes(param),
                name,
            })
        };
        let mut params = self.documented(params);
        params.retain(|(param, _)| param.kind() == "property_promotion_parameter");
        params.into_iter().filter_map(property).collect()
    }

    fn method(&self, node: Node<'_>, doc: Docblock) -> Option<Method> {
        let params = field(node, "parameters").map(children).unwrap_or_default();
        let param = |node: Node<'_>| {
            Some(Param {
                name: self.variable(node)?,
                ty: self.field_text(node, "type"),
                default: field(node, "default_value").map(|default| self.expression(default)),
                is_variadic: node.kind() == "variadic_parameter",
            })
        };
        let is_static = children_of_kind(node, "static_modifier").next().is_some();
        let body = field(node, "body");
        Some(Method {
            name: self.field_text(node, "name")?,
            line: line(node),
            is_public: self.is_public(node),
            is_abstract: body.is_none(),
            doc,
            attributes: self.attributes(node),
            params: params.into_iter().filter_map(param).collect(),
            returns: self.field_text(node, "return_type"),
            result: body.filter(|_| is_static).and_then(|body| self.result(body)),
        })
    }

    /// Returns the expression in `{ return …; }`.
    fn result(&self, body: Node<'_>) -> Option<Expression> {
        let [statement] = children_without_comments(body).try_into().ok()?;
        let value = children_without_comments(statement)
            .into_iter()
            .next()
            .filter(|_| statement.kind() == "return_statement")?;
        Some(self.expression(value))
    }

    /// Returns the name of a parameter or a property, without its `$`.
    fn variable(&self, node: Node<'_>) -> Option<String> {
        let name = self.field_text(node, "name")?;
        Some(name.trim_start_matches(['&', '$', ' ']).to_owned()).filter(|name| !name.is_empty())
    }

    fn is_public(&self, node: Node<'_>) -> bool {
        // `private(set)` restricts only writing.
        let first = children_of_kind(node, "visibility_modifier").next();
        let first = first.map(|first| self.text(first).to_ascii_lowercase());
        first.is_none_or(|modifier| modifier.starts_with("public") || modifier.ends_with("(set)"))
    }

    fn attributes(&self, node: Node<'_>) -> Vec<Attribute> {
        let Some(list) = field(node, "attributes") else { return Vec::new() };
        let attribute = |node: Node<'_>| {
            let parameters = field(node, "parameters");
            Some(Attribute {
                name: self.names(node).into_iter().next()?,
                arguments: parameters
                    .map(|parameters| arguments(parameters, self.source, 0))
                    .unwrap_or_default(),
            })
        };
        let groups = children(list).into_iter();
        groups
            .flat_map(|group| children_of_kind(group, "attribute"))
            .filter_map(attribute)
            .collect()
    }
}
