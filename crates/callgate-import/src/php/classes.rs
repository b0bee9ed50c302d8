//! The properties of classes that are used as types.

use std::collections::{BTreeSet, HashSet};

use callgate::model::TypeExpr;
use callgate_registry::TypeRow;
use serde_json::{Value, json};

use super::common_method_parts::{Reader, object};
use super::evaluate::evaluate;
use super::syntax::{Class, Kind, Property, argument, short};
use super::types;

/// Maximum number of classes and traits from which the properties of a class are read.
const MAX_PARENTS: usize = 64;
/// Maximum number of classes.
const MAX_CLASSES: usize = 10_000;

/// Returns the classes that are used as types of methods, directly or through other classes.
pub(super) fn read(reader: &mut Reader<'_>) -> Vec<TypeRow> {
    let mut pending: Vec<String> = reader.types.iter().flat_map(classes_in).collect();
    let mut visited = BTreeSet::new();
    let mut rows = Vec::new();
    while let Some(name) = pending.pop() {
        if !visited.insert(name.clone()) || visited.len() > MAX_CLASSES {
            continue;
        }
        let symbols = reader.symbols;
        let Some(class) = symbols.class(&name) else { continue };
        let Some(fields) = fields(reader, class) else { continue };
        pending.extend(fields.iter().flat_map(|(ty, _)| classes_in(ty)));
        let fields = fields.into_iter().map(|(_, field)| field).collect();
        let fields = Some(Value::Array(fields).to_string());
        rows.push(TypeRow { name: class.name.clone(), fields, schema: None });
    }
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

fn classes_in(ty: &TypeExpr) -> Vec<String> {
    let mut names = Vec::new();
    ty.for_each_class(&mut |name| names.push(name.as_str().to_owned()));
    names
}

/// Returns the properties with `JsonProperty`. If there are none, returns the public properties. If there are none
/// of these either, returns the properties that the constructor declares. For each property, returns its type and
/// its form in the registry.
fn fields<'t>(reader: &mut Reader<'t>, class: &'t Class) -> Option<Vec<(TypeExpr, Value)>> {
    if class.kind != Kind::Class {
        return None;
    }
    let all = properties(reader, class);
    let mut selected: Vec<(String, DeclaredProperty<'_>)> =
        all.iter().filter_map(|property| Some((property.json_name(reader)?, *property))).collect();
    for is_selected in
        [|property: &Property| property.is_public, |property: &Property| property.is_promoted]
    {
        if selected.is_empty() {
            let matching = all.iter().filter(|property| is_selected(property.property));
            selected =
                matching.map(|property| (property.property.name.clone(), *property)).collect();
        }
    }
    if selected.is_empty() {
        return None;
    }
    let mut names = HashSet::new();
    // A property hides the property with the same name in a parent class.
    selected.retain(|(name, _)| names.insert(name.clone()));
    Some(selected.iter().map(|(name, property)| property.field(reader, name)).collect())
}

/// A property and the class that declares it.
#[derive(Clone, Copy)]
struct DeclaredProperty<'t> {
    property: &'t Property,
    owner: &'t Class,
}

/// Returns the properties of a class, its traits and its parents.
fn properties<'t>(reader: &Reader<'t>, class: &'t Class) -> Vec<DeclaredProperty<'t>> {
    let mut all = Vec::new();
    let mut owners = vec![class];
    let mut visited = BTreeSet::new();
    while let Some(owner) = owners.pop().filter(|_| visited.len() < MAX_PARENTS) {
        if !visited.insert(owner.name.as_str()) {
            continue;
        }
        all.extend(owner.properties.iter().map(|property| DeclaredProperty { property, owner }));
        owners.extend(reader.symbols.parent(owner));
        owners.extend(reader.symbols.traits(owner));
    }
    all
}

impl DeclaredProperty<'_> {
    /// Returns the name in `#[JsonProperty("id")]`, or in the tag `@JsonProperty` of the doc comment.
    fn json_name(&self, reader: &Reader<'_>) -> Option<String> {
        let attributes = &self.property.attributes;
        let attribute =
            attributes.iter().find(|attribute| short(&attribute.name) == "JsonProperty");
        if let Some(attribute) = attribute {
            let name =
                ["name", "value"].iter().find_map(|key| argument(&attribute.arguments, key, 0));
            let name = name.and_then(|name| evaluate(reader.symbols.context_of(self.owner), name));
            let name = name.as_ref().and_then(Value::as_str);
            return Some(name.unwrap_or(&self.property.name).to_owned());
        }
        let tag = self.property.doc.first("JsonProperty")?;
        let name = tag.split(['"', '\'']).nth(1);
        Some(name.unwrap_or(&self.property.name).to_owned())
    }

    fn field(&self, reader: &mut Reader<'_>, name: &str) -> (TypeExpr, Value) {
        let Property { ty: native, doc, has_default, .. } = self.property;
        let tag = doc.typed("var");
        let (native, context) = (native.as_deref(), reader.symbols.context_of(self.owner));
        let (ty, problem) = match types::read_both(context, native, tag.ty.as_deref()) {
            Ok((ty, problem)) => (ty, problem.filter(|_| native.is_none())),
            Err(error) => (TypeExpr::Mixed, Some(error)),
        };
        if let Some(error) = problem {
            let (class, property) = (&self.owner.name, &self.property.name);
            reader.note(format!("note: `{class}::${property}`: {error}; using `mixed`"));
        }
        let description = if doc.text.is_empty() { &tag.description } else { &doc.text };
        let field = object([
            ("name", Some(json!(name))),
            ("type", Some(json!(ty.to_string()))),
            ("description", (!description.is_empty()).then(|| json!(description))),
            ("optional", has_default.then(|| json!(true))),
        ]);
        (ty, field)
    }
}
