//! Converts types in PHP's notation, such as `array<string, ?int>`, to JSON Schema.

use serde_json::{Map, Value, json};

use super::normalise::{remove_check_keywords, rename_properties};
use super::{Purpose, REST_PARAM};
use crate::model::method::{Param, ValueType};
use crate::model::type_expr::{Literal, TypeExpr};
use crate::model::types::{Resolved, TypeDefinition, Types};

impl Types {
    /// Returns the JSON Schema of `ty`. Classes are looked up in these definitions.
    ///
    /// ```
    /// use callgate::model::{TypeExpr, Types};
    ///
    /// let ty: TypeExpr = "?int[]".parse()?;
    /// let schema = Types::default().schema_of(&ty).to_string();
    /// assert_eq!(schema, r#"{"type":["array","null"],"items":{"type":"integer"}}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schema_of(&self, ty: &TypeExpr) -> Value {
        let writer = Writer { types: self, purpose: Purpose::Advertise };
        writer.with_definitions(writer.schema(ty), [ty])
    }

    /// Returns the schema of a method's arguments.
    pub(crate) fn input_schema(&self, params: &[Param], purpose: Purpose) -> Value {
        let writer = Writer { types: self, purpose };
        let properties =
            params.iter().map(|param| (param.name(), writer.property(param), param.is_required()));
        let mut schema = object_of(properties);
        if let Value::Object(root) = &mut schema {
            if params.is_empty() {
                root.insert("additionalProperties".to_owned(), false.into());
            }
            rename_properties(root);
            if purpose == Purpose::Advertise {
                remove_check_keywords(root);
            }
        }
        writer.with_definitions(schema, params.iter().filter_map(Param::type_expr))
    }
}

/// Converts types to schemas.
#[derive(Clone, Copy)]
pub(super) struct Writer<'a> {
    pub(super) types: &'a Types,
    pub(super) purpose: Purpose,
}

impl Writer<'_> {
    pub(super) fn schema(self, ty: &TypeExpr) -> Value {
        match ty {
            TypeExpr::Int { min, max } => {
                let mut schema = type_schema("integer");
                for (keyword, bound) in [("minimum", min), ("maximum", max)] {
                    if let Some(bound) = *bound {
                        insert_keyword(&mut schema, keyword, bound.into());
                    }
                }
                schema
            }
            TypeExpr::Float => type_schema("number"),
            TypeExpr::String => type_schema("string"),
            TypeExpr::Bool => type_schema("boolean"),
            TypeExpr::Null => type_schema("null"),
            TypeExpr::Mixed => json!({
                "type": ["string", "number", "boolean", "object", "array", "null"],
                "items": {},
            }),
            TypeExpr::Array if self.purpose == Purpose::Check => {
                json!({"type": ["object", "array"]})
            }
            TypeExpr::Object | TypeExpr::Array => type_schema("object"),
            TypeExpr::Literal(literal) => choices(&[literal]),
            TypeExpr::List(item) => with_keyword(type_schema("array"), "items", self.schema(item)),
            TypeExpr::Map(value) => {
                with_keyword(type_schema("object"), "additionalProperties", self.schema(value))
            }
            TypeExpr::Tuple(members) => {
                let mut schema = type_schema("array");
                let schemas = members.iter().map(|member| self.schema(member)).collect();
                insert_keyword(&mut schema, "prefixItems", schemas);
                insert_keyword(&mut schema, "items", json!({}));
                insert_keyword(&mut schema, "minItems", members.len().into());
                with_keyword(schema, "maxItems", members.len().into())
            }
            TypeExpr::Shape(fields) => object_of(
                fields.iter().map(|field| (&*field.name, self.schema(&field.ty), !field.optional)),
            ),
            TypeExpr::Class(name) => match self.types.resolve(name) {
                Resolved::Inline(definition) => self.definition(definition),
                Resolved::Reference(key) => json!({"$ref": format!("#/$defs/{key}")}),
                Resolved::Undefined => type_schema("object"),
            },
            TypeExpr::Nullable(inner) => self.nullable(inner),
            TypeExpr::Union(members) => self.union(members),
        }
    }

    fn nullable(self, ty: &TypeExpr) -> Value {
        let mut schema = self.schema(ty);
        let needs_any_of = match ty {
            TypeExpr::Class(name) => matches!(
                self.types.resolve(name),
                Resolved::Reference(_) | Resolved::Inline(TypeDefinition::Schema(_))
            ),
            _ => false,
        };
        if needs_any_of {
            return json!({"anyOf": [schema, type_schema("null")]});
        }
        for keyword in ["oneOf", "anyOf"] {
            if let Some(Value::Array(members)) = schema.get_mut(keyword) {
                members.push(type_schema("null"));
                return schema;
            }
        }
        if let Some(Value::Array(values)) = schema.get_mut("enum") {
            values.push(Value::Null);
        }
        match schema.get_mut("type") {
            Some(Value::Array(types)) => types.push("null".into()),
            Some(name) => *name = json!([name, "null"]),
            None => {}
        }
        schema
    }

    /// Writes a union with all its members: as `oneOf`, or as `anyOf` if the members' types overlap.
    fn union(self, members: &[TypeExpr]) -> Value {
        let (mut literals, mut other_types) = (Vec::new(), Vec::new());
        for member in members {
            match member {
                TypeExpr::Literal(literal) => literals.push(literal),
                other => other_types.push(other),
            }
        }
        if other_types.is_empty() {
            return choices(&literals);
        }
        let mut used_bits = literals
            .iter()
            .fold(0, |used_bits, literal| used_bits | type_bit(json_type_of(literal)));
        let mut overlap = false;
        for other in &other_types {
            let type_bits = self.type_bits(other);
            overlap |= used_bits & type_bits != 0;
            used_bits |= type_bits;
        }
        let literals = (!literals.is_empty()).then(|| choices(&literals));
        let other_types = other_types.into_iter().map(|other| self.schema(other));
        let alternatives: Value = literals.into_iter().chain(other_types).collect();
        with_keyword(json!({}), if overlap { "anyOf" } else { "oneOf" }, alternatives)
    }

    /// Returns the JSON types of a type's values as a bit set.
    fn type_bits(self, ty: &TypeExpr) -> u8 {
        match ty {
            TypeExpr::Int { .. } | TypeExpr::Float => type_bit("number"),
            TypeExpr::String => type_bit("string"),
            TypeExpr::Bool => type_bit("boolean"),
            TypeExpr::Null => type_bit("null"),
            TypeExpr::Literal(literal) => type_bit(json_type_of(literal)),
            TypeExpr::List(_) | TypeExpr::Tuple(_) => type_bit("array"),
            TypeExpr::Object | TypeExpr::Map(_) | TypeExpr::Shape(_) => type_bit("object"),
            // The check also accepts a list, and the advertised schema must have the same structure as the check
            // schema.
            TypeExpr::Array => type_bit("object") | type_bit("array"),
            TypeExpr::Class(name) => match self.types.resolve(name) {
                Resolved::Inline(TypeDefinition::Schema(_)) | Resolved::Reference(_) => u8::MAX,
                _ => type_bit("object"),
            },
            TypeExpr::Mixed | TypeExpr::Nullable(_) | TypeExpr::Union(_) => u8::MAX,
        }
    }

    fn definition(self, definition: &TypeDefinition) -> Value {
        match definition {
            TypeDefinition::Schema(schema) => schema.clone(),
            TypeDefinition::Fields(fields) => object_of(fields.iter().map(|field| {
                (
                    &*field.name,
                    described(self.schema(&field.ty), &field.description),
                    field.required,
                )
            })),
        }
    }

    fn property(self, param: &Param) -> Value {
        let schema = match &param.ty {
            ValueType::Type(ty) => self.schema(ty),
            ValueType::Schema(schema) => schema.clone(),
        };
        let mut schema = described(schema, &param.description);
        if let Some(default) = &param.default
            && (self.purpose == Purpose::Check || !is_empty_map(param, default))
        {
            insert_keyword(&mut schema, "default", default.clone());
        }
        if param.variadic {
            insert_keyword(&mut schema, REST_PARAM, true.into());
        }
        schema
    }

    /// Adds `$defs` for classes that are not inlined.
    fn with_definitions<'t>(
        self,
        mut schema: Value,
        types: impl IntoIterator<Item = &'t TypeExpr>,
    ) -> Value {
        let definitions = self.types.definitions_for(types);
        if !definitions.is_empty() {
            let definitions = definitions.into_iter();
            let definitions =
                definitions.map(|(key, definition)| (key, self.definition(definition)));
            insert_keyword(&mut schema, "$defs", definitions.collect());
        }
        schema
    }
}

/// Returns `true` for PHP's `[]` as the default of an `array`. Such a default would contradict the advertised type
/// `object`.
fn is_empty_map(param: &Param, default: &Value) -> bool {
    matches!(param.ty, ValueType::Type(TypeExpr::Array))
        && default.as_array().is_some_and(Vec::is_empty)
}

fn type_schema(name: &str) -> Value {
    with_keyword(Value::Object(Map::new()), "type", name.into())
}

fn with_keyword(mut schema: Value, keyword: &str, value: Value) -> Value {
    insert_keyword(&mut schema, keyword, value);
    schema
}

fn insert_keyword(schema: &mut Value, keyword: &str, value: Value) {
    if let Value::Object(members) = schema {
        members.insert(keyword.to_owned(), value);
    }
}

/// Adds the description as the last keyword, unless it is empty.
fn described(mut schema: Value, description: &str) -> Value {
    if let (Value::Object(members), false) = (&mut schema, description.is_empty()) {
        members.shift_remove("description");
        members.insert("description".to_owned(), description.into());
    }
    schema
}

/// Returns an object schema for `(name, schema, is_required)` properties.
fn object_of<'n>(properties: impl Iterator<Item = (&'n str, Value, bool)>) -> Value {
    let mut required = Vec::new();
    let properties: Map<String, Value> = properties
        .map(|(name, schema, is_required)| {
            if is_required {
                required.push(Value::from(name));
            }
            (name.to_owned(), schema)
        })
        .collect();
    let schema = with_keyword(type_schema("object"), "properties", Value::Object(properties));
    if required.is_empty() {
        schema
    } else {
        with_keyword(schema, "required", Value::Array(required))
    }
}

/// Returns the schema of an enumeration.
fn choices(literals: &[&Literal]) -> Value {
    let mut types: Vec<Value> = Vec::new();
    for name in literals.iter().map(|literal| Value::from(json_type_of(literal))) {
        if !types.contains(&name) {
            types.push(name);
        }
    }
    let values = literals.iter().map(|literal| match literal {
        Literal::String(text) => Value::String(text.clone()),
        Literal::Number(number) => Value::Number(number.clone()),
        Literal::Bool(value) => Value::Bool(*value),
    });
    let values = values.collect();
    let types = if types.len() == 1 { types.remove(0) } else { Value::Array(types) };
    with_keyword(with_keyword(json!({}), "type", types), "enum", values)
}

fn json_type_of(literal: &Literal) -> &'static str {
    match literal {
        Literal::String(_) => "string",
        Literal::Number(number) if number.is_f64() => "number",
        Literal::Number(_) => "integer",
        Literal::Bool(_) => "boolean",
    }
}

/// Returns the bit that stands for a JSON type. Integers have the bit of numbers.
fn type_bit(name: &str) -> u8 {
    match name {
        "string" => 1,
        "integer" | "number" => 2,
        "boolean" => 4,
        "object" => 8,
        "array" => 16,
        _ => 32,
    }
}
