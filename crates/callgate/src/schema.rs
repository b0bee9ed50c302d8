//! [`TypeExpr`] to JSON Schema 2020-12, and the input schema of a whole method.
//!
//! Schemas are written straight to their bytes: everything here implements [`Serialize`] over
//! borrowed types, and nothing builds a tree. The same type has two schemas that differ in one
//! point, see [`Purpose`]. Schemas that come from outside are brought to the same form by
//! [`normalise`].

pub(crate) mod inline;
pub(crate) mod normalise;
#[cfg(feature = "macros")]
pub(crate) mod of_rust;
#[cfg(test)]
mod tests;
pub(crate) mod walk;

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use crate::method::{Param, ParamType};
use crate::type_expr::{Literal, TypeExpr};
use crate::types::{Resolved, TypeDefinition, TypeField, Types};

/// What a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Shown to clients.
    Advertise,
    /// Arguments are checked against it. PHP's `array` is advertised as an object, but a list is
    /// as good; and a renamed parameter carries its own name under [`WIRE_NAME`].
    Check,
}

/// The keyword under which a check schema keeps the name that the method itself knows.
pub(crate) const WIRE_NAME: &str = "x-callgate-name";

/// The keyword of a last parameter, a list, whose items are parameters by themselves where they go by
/// position: for methods that take any number of them. It is not advertised.
pub const REST_PARAM: &str = "x-callgate-rest";

/// The JSON Schema of a type, for serialising.
///
/// ```
/// use callgate::{Schema, TypeExpr, Types};
///
/// let ty: TypeExpr = "?int[]".parse()?;
/// let schema = serde_json::to_string(&Schema::of(&ty, &Types::default()))?;
/// assert_eq!(schema, r#"{"type":["array","null"],"items":{"type":"integer"}}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Schema<'a> {
    root: Node<'a>,
}

impl<'a> Schema<'a> {
    /// The schema of `ty`, with the classes that it names taken from `types`.
    pub fn of(ty: &'a TypeExpr, types: &'a Types) -> Self {
        Self { root: Node::of(ty, types, Purpose::Advertise) }
    }
}

impl Serialize for Schema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.root.entries(&mut map)?;
        let definitions = Definitions::of(self.root.context, std::iter::once(self.root.ty));
        definitions.entry(&mut map)?;
        map.end()
    }
}

/// A parameter and the name that it is advertised under.
pub(crate) type NamedParam<'a> = (Cow<'a, str>, &'a Param);

/// The schema of a method's arguments, for serialising.
#[derive(Debug)]
pub(crate) struct InputSchema<'a> {
    params: &'a [NamedParam<'a>],
    context: Context<'a>,
}

impl<'a> InputSchema<'a> {
    /// The parameters come with the names that they are advertised under.
    pub(crate) fn of(params: &'a [NamedParam<'a>], types: &'a Types, purpose: Purpose) -> Self {
        Self { params, context: Context { types, purpose } }
    }
}

impl Serialize for InputSchema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "object")?;
        map.serialize_entry("properties", &Properties(self))?;
        let required: Vec<&str> = self
            .params
            .iter()
            .filter(|(_, param)| param.is_required())
            .map(|(name, _)| name.as_ref())
            .collect();
        if !required.is_empty() {
            map.serialize_entry("required", &required)?;
        }
        if self.params.is_empty() {
            map.serialize_entry("additionalProperties", &false)?;
        }
        let types = self.params.iter().filter_map(|(_, param)| match &param.ty {
            ParamType::Type(ty) => Some(ty),
            ParamType::Schema(_) => None,
        });
        Definitions::of(self.context, types).entry(&mut map)?;
        map.end()
    }
}

struct Properties<'a>(&'a InputSchema<'a>);

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.params.len()))?;
        for (name, param) in self.0.params {
            map.serialize_entry(name, &Property { name, param, context: self.0.context })?;
        }
        map.end()
    }
}

struct Property<'a> {
    name: &'a str,
    param: &'a Param,
    context: Context<'a>,
}

impl Serialize for Property<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let described = !self.param.description.is_empty();
        let mut map = serializer.serialize_map(None)?;
        match &self.param.ty {
            ParamType::Type(ty) => {
                Node { ty, nullable: false, context: self.context }.entries(&mut map)?;
            }
            ParamType::Schema(schema) => {
                copy_entries(schema, &mut map, |key| !(key == "description" && described))?;
            }
        }
        if described {
            map.serialize_entry("description", &self.param.description)?;
        }
        if let Some(default) = &self.param.default
            && (self.context.purpose == Purpose::Check || !self.is_empty_map(default))
        {
            map.serialize_entry("default", default)?;
        }
        if self.context.purpose == Purpose::Check && self.name != self.param.name {
            map.serialize_entry(WIRE_NAME, &self.param.name)?;
        }
        map.end()
    }
}

impl Property<'_> {
    /// PHP's `[]` for an `array` that is advertised as an object: it would contradict its own type.
    fn is_empty_map(&self, default: &Value) -> bool {
        matches!(self.param.ty, ParamType::Type(TypeExpr::Array))
            && default.as_array().is_some_and(Vec::is_empty)
    }
}

#[derive(Debug, Clone, Copy)]
struct Context<'a> {
    types: &'a Types,
    purpose: Purpose,
}

/// A type at one place of a schema.
#[derive(Debug, Clone, Copy)]
struct Node<'a> {
    ty: &'a TypeExpr,
    nullable: bool,
    context: Context<'a>,
}

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map)?;
        map.end()
    }
}

impl<'a> Node<'a> {
    fn of(ty: &'a TypeExpr, types: &'a Types, purpose: Purpose) -> Self {
        Self { ty, nullable: false, context: Context { types, purpose } }
    }

    fn nested(&self, ty: &'a TypeExpr) -> Self {
        Self { ty, nullable: false, context: self.context }
    }

    fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self.ty {
            TypeExpr::Int { min, max } => {
                self.type_entry(map, &["integer"])?;
                optional_entry(map, "minimum", min.as_ref())?;
                optional_entry(map, "maximum", max.as_ref())
            }
            TypeExpr::Float => self.type_entry(map, &["number"]),
            TypeExpr::String => self.type_entry(map, &["string"]),
            TypeExpr::Bool => self.type_entry(map, &["boolean"]),
            TypeExpr::Null => self.type_entry(map, &["null"]),
            TypeExpr::Mixed => {
                let all = ["string", "number", "boolean", "object", "array", "null"];
                self.type_entry(map, &all)?;
                map.serialize_entry("items", &Anything)
            }
            TypeExpr::Array if self.context.purpose == Purpose::Check => {
                self.type_entry(map, &["object", "array"])
            }
            TypeExpr::Object | TypeExpr::Array => self.type_entry(map, &["object"]),
            TypeExpr::Literal(literal) => self.literals(map, std::slice::from_ref(&literal)),
            TypeExpr::List(item) => {
                self.type_entry(map, &["array"])?;
                map.serialize_entry("items", &self.nested(item))
            }
            TypeExpr::Map(value) => {
                self.type_entry(map, &["object"])?;
                map.serialize_entry("additionalProperties", &self.nested(value))
            }
            TypeExpr::Tuple(members) => {
                self.type_entry(map, &["array"])?;
                let members: Vec<_> = members.iter().map(|member| self.nested(member)).collect();
                map.serialize_entry("prefixItems", &members)?;
                map.serialize_entry("items", &Anything)?;
                map.serialize_entry("minItems", &members.len())?;
                map.serialize_entry("maxItems", &members.len())
            }
            TypeExpr::Shape(fields) => {
                let fields = fields.iter().map(|f| (f.name.as_str(), &f.ty, "", !f.optional));
                self.object(map, &fields.collect::<Vec<_>>())
            }
            TypeExpr::Class(name) => match self.context.types.resolve(name) {
                Resolved::Inline(definition) => self.definition(map, definition),
                Resolved::Reference(key) if self.nullable => {
                    map.serialize_entry("anyOf", &(Reference(&key), Null))
                }
                Resolved::Reference(key) => Reference(&key).entry(map),
                Resolved::Undefined => self.type_entry(map, &["object"]),
            },
            TypeExpr::Nullable(inner) => Node { nullable: true, ..self.nested(inner) }.entries(map),
            TypeExpr::Union(members) => self.union(map, members),
        }
    }

    fn type_entry<M: SerializeMap>(&self, map: &mut M, types: &[&str]) -> Result<(), M::Error> {
        match types {
            [one] if !self.nullable => map.serialize_entry("type", one),
            _ if !self.nullable || types.contains(&"null") => map.serialize_entry("type", types),
            _ => map.serialize_entry("type", &[types, &["null"]].concat()),
        }
    }

    fn literals<M: SerializeMap>(
        &self,
        map: &mut M,
        literals: &[&Literal],
    ) -> Result<(), M::Error> {
        let mut types: Vec<&str> = Vec::new();
        for literal in literals {
            let name = json_type_of(literal);
            if !types.contains(&name) {
                types.push(name);
            }
        }
        self.type_entry(map, &types)?;
        let values = literals.iter().map(|literal| match literal {
            Literal::String(text) => Value::String(text.clone()),
            Literal::Number(number) => Value::Number(number.clone()),
            Literal::Bool(value) => Value::Bool(*value),
        });
        let null = self.nullable.then_some(Value::Null);
        map.serialize_entry("enum", &values.chain(null).collect::<Vec<_>>())
    }

    /// All members are advertised: `oneOf`, or `anyOf` where a value can be of two of them.
    fn union<M: SerializeMap>(&self, map: &mut M, members: &'a [TypeExpr]) -> Result<(), M::Error> {
        let literals: Vec<&Literal> = members
            .iter()
            .filter_map(|member| match member {
                TypeExpr::Literal(literal) => Some(literal),
                _ => None,
            })
            .collect();
        if literals.len() == members.len() {
            return self.literals(map, &literals);
        }
        let others = || members.iter().filter(|member| !matches!(member, TypeExpr::Literal(_)));
        let mut overlap = literals.iter().any(|literal| {
            others().any(|other| {
                kinds(other, &self.context).overlaps(Kinds::named(json_type_of(literal)))
            })
        });
        let mut seen = Kinds::default();
        for member in others() {
            let kinds = kinds(member, &self.context);
            overlap |= seen.overlaps(kinds);
            seen.add(kinds);
        }
        let alternatives =
            Alternatives { node: self, literals: &literals, others: others().collect() };
        map.serialize_entry(if overlap { "anyOf" } else { "oneOf" }, &alternatives)
    }

    fn definition<M: SerializeMap>(
        &self,
        map: &mut M,
        definition: &'a TypeDefinition,
    ) -> Result<(), M::Error> {
        match definition {
            TypeDefinition::Fields(fields) => {
                let fields = fields.iter().map(|TypeField { name, ty, description, required }| {
                    (name.as_str(), ty, description.as_str(), *required)
                });
                self.object(map, &fields.collect::<Vec<_>>())
            }
            TypeDefinition::Schema(schema) if self.nullable => {
                map.serialize_entry("anyOf", &(schema, Null))
            }
            TypeDefinition::Schema(schema) => copy_entries(schema, map, |_| true),
        }
    }

    fn object<M: SerializeMap>(
        &self,
        map: &mut M,
        fields: &[(&'a str, &'a TypeExpr, &'a str, bool)],
    ) -> Result<(), M::Error> {
        self.type_entry(map, &["object"])?;
        map.serialize_entry("properties", &FieldSchemas { node: self, fields })?;
        let required: Vec<&str> =
            fields.iter().filter(|field| field.3).map(|field| field.0).collect();
        if required.is_empty() { Ok(()) } else { map.serialize_entry("required", &required) }
    }
}

struct FieldSchemas<'a, 'n> {
    node: &'n Node<'a>,
    fields: &'n [(&'a str, &'a TypeExpr, &'a str, bool)],
}

impl Serialize for FieldSchemas<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for (name, ty, description, _) in self.fields {
            map.serialize_entry(name, &Described { node: self.node.nested(ty), description })?;
        }
        map.end()
    }
}

struct Described<'a> {
    node: Node<'a>,
    description: &'a str,
}

impl Serialize for Described<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.node.entries(&mut map)?;
        if !self.description.is_empty() {
            map.serialize_entry("description", self.description)?;
        }
        map.end()
    }
}

struct Alternatives<'a, 'n> {
    node: &'n Node<'a>,
    literals: &'n [&'a Literal],
    others: Vec<&'a TypeExpr>,
}

impl Serialize for Alternatives<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        if !self.literals.is_empty() {
            seq.serialize_element(&LiteralSchema { node: self.node, literals: self.literals })?;
        }
        for other in &self.others {
            seq.serialize_element(&self.node.nested(other))?;
        }
        if self.node.nullable {
            seq.serialize_element(&Null)?;
        }
        seq.end()
    }
}

struct LiteralSchema<'a, 'n> {
    node: &'n Node<'a>,
    literals: &'n [&'a Literal],
}

impl Serialize for LiteralSchema<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Node { nullable: false, ..*self.node }.literals(&mut map, self.literals)?;
        map.end()
    }
}

/// `$defs`, for the classes that are not written inline.
struct Definitions<'a> {
    context: Context<'a>,
    definitions: std::collections::BTreeMap<String, &'a TypeDefinition>,
}

impl<'a> Definitions<'a> {
    fn of(context: Context<'a>, types: impl Iterator<Item = &'a TypeExpr>) -> Self {
        Self { context, definitions: context.types.definitions_for(types) }
    }

    fn entry<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        if self.definitions.is_empty() { Ok(()) } else { map.serialize_entry("$defs", self) }
    }
}

impl Serialize for Definitions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.definitions.len()))?;
        for (key, definition) in &self.definitions {
            map.serialize_entry(key, &DefinitionSchema { context: self.context, definition })?;
        }
        map.end()
    }
}

struct DefinitionSchema<'a> {
    context: Context<'a>,
    definition: &'a TypeDefinition,
}

impl Serialize for DefinitionSchema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let node = Node { ty: &TypeExpr::Object, nullable: false, context: self.context };
        node.definition(&mut map, self.definition)?;
        map.end()
    }
}

/// `{}`
struct Anything;

impl Serialize for Anything {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_map(Some(0))?.end()
    }
}

/// `{"type":"null"}`
struct Null;

impl Serialize for Null {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("type", "null")?;
        map.end()
    }
}

/// `{"$ref":"#/$defs/…"}`
struct Reference<'a>(&'a str);

impl Reference<'_> {
    fn entry<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("$ref", &format_args!("#/$defs/{}", self.0))
    }
}

impl Serialize for Reference<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        self.entry(&mut map)?;
        map.end()
    }
}

fn optional_entry<M: SerializeMap>(
    map: &mut M,
    key: &str,
    value: Option<&impl Serialize>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}

fn copy_entries<M: SerializeMap>(
    schema: &Value,
    map: &mut M,
    keep: impl Fn(&str) -> bool,
) -> Result<(), M::Error> {
    schema
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| keep(key))
        .try_for_each(|(key, value)| map.serialize_entry(key, value))
}

fn json_type_of(literal: &Literal) -> &'static str {
    match literal {
        Literal::String(_) => "string",
        Literal::Number(number) if number.is_f64() => "number",
        Literal::Number(_) => "integer",
        Literal::Bool(_) => "boolean",
    }
}

/// A set of JSON types, to see whether the members of a union overlap. An integer is a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kinds(u8);

impl Kinds {
    const ALL: Self = Self(u8::MAX);

    fn named(name: &str) -> Self {
        Self(match name {
            "string" => 1,
            "integer" | "number" => 2,
            "boolean" => 4,
            "object" => 8,
            "array" => 16,
            _ => 32,
        })
    }

    fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

fn kinds(ty: &TypeExpr, context: &Context<'_>) -> Kinds {
    match ty {
        TypeExpr::Int { .. } | TypeExpr::Float => Kinds::named("number"),
        TypeExpr::String => Kinds::named("string"),
        TypeExpr::Bool => Kinds::named("boolean"),
        TypeExpr::Null => Kinds::named("null"),
        TypeExpr::Literal(literal) => Kinds::named(json_type_of(literal)),
        TypeExpr::List(_) | TypeExpr::Tuple(_) => Kinds::named("array"),
        TypeExpr::Object | TypeExpr::Map(_) | TypeExpr::Shape(_) => Kinds::named("object"),
        // The check takes a list for it, and the advertised form must not differ in kind.
        TypeExpr::Array => Kinds(Kinds::named("object").0 | Kinds::named("array").0),
        TypeExpr::Class(name) => match context.types.resolve(name) {
            Resolved::Inline(TypeDefinition::Schema(_)) | Resolved::Reference(_) => Kinds::ALL,
            _ => Kinds::named("object"),
        },
        TypeExpr::Mixed | TypeExpr::Nullable(_) | TypeExpr::Union(_) => Kinds::ALL,
    }
}
