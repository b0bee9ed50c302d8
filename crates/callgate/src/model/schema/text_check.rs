//! Checks JSON text against the schemas that most methods have, without building values.
//!
//! [`TextCheck`] knows types, ranges of integers, `properties`, `required`, `items`, enumerated strings and unions of
//! different types. It accepts only text that is certainly valid. Everything else is checked by
//! [`jsonschema::Validator`], which also reports why a value is invalid. For a call with small arguments and a small
//! result, this saves a tenth of all instructions.

use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::walk;

/// Maximum number of properties of an object: [`PropertySet`] has one bit for each.
const MAX_PROPERTIES: usize = 64;

/// Keywords that this check supports, in addition to `anyOf`.
const KEYWORDS: [&str; 8] = [
    "additionalProperties",
    "enum",
    "items",
    "maximum",
    "minimum",
    "properties",
    "required",
    "type",
];

/// The properties that an object has, as a bit set. Bit n is set if the object has the n-th property of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PropertySet(u64);

impl PropertySet {
    /// Returns `true` if the object has the property with this number.
    pub(crate) fn contains(self, property: usize) -> bool {
        self.0 >> property & 1 == 1
    }
}

/// The values that a schema accepts, by JSON type. Values of a type that is not set are not accepted.
#[derive(Debug, Default)]
pub(crate) struct TextCheck {
    null: bool,
    boolean: bool,
    integer: Option<RangeInclusive<i128>>,
    number: bool,
    string: Option<StringCheck>,
    array: Option<Box<TextCheck>>,
    object: Option<Box<ObjectCheck>>,
}

#[derive(Debug)]
enum StringCheck {
    Any,
    OneOf(Vec<String>),
}

#[derive(Debug)]
struct ObjectCheck {
    properties: Vec<(String, TextCheck)>,
    required: u64,
}

impl TextCheck {
    /// Compiles a schema. Returns `None` if this check does not support the schema.
    pub(crate) fn compile(schema: &Value) -> Option<Self> {
        let mut check = Self::default();
        check.add(schema.as_object()?).then_some(check)
    }

    /// Adds the values that a schema accepts. Returns `false` if that is not possible.
    fn add(&mut self, schema: &Map<String, Value>) -> bool {
        if let Some(any_of) = schema.get("anyOf").and_then(Value::as_array) {
            let is_alone = schema.keys().all(|key| key == "anyOf" || is_annotation(key));
            return is_alone
                && any_of.iter().all(|it| it.as_object().is_some_and(|it| self.add(it)));
        }
        if !schema.keys().all(|key| KEYWORDS.contains(&key.as_str()) || is_annotation(key)) {
            return false;
        }
        match schema.get("type") {
            Some(Value::String(name)) => self.add_type(name, schema),
            Some(Value::Array(names)) => {
                names.iter().all(|name| name.as_str().is_some_and(|it| self.add_type(it, schema)))
            }
            _ => false,
        }
    }

    /// Adds the values of a type. Returns `false` if the type is already present, or if this check does not support its
    /// schema.
    fn add_type(&mut self, name: &str, schema: &Map<String, Value>) -> bool {
        let options = schema.get("enum");
        let has_range = schema.contains_key("minimum") || schema.contains_key("maximum");
        if (options.is_some() && name != "string") || (has_range && name == "number") {
            return false;
        }
        match name {
            "null" => !std::mem::replace(&mut self.null, true),
            "boolean" => !std::mem::replace(&mut self.boolean, true),
            "integer" => {
                let range = range(schema);
                range.is_some_and(|range| self.integer.replace(range).is_none())
            }
            "number" => !std::mem::replace(&mut self.number, true),
            "string" => {
                let check = match options.map(strings) {
                    None => StringCheck::Any,
                    Some(Some(options)) => StringCheck::OneOf(options),
                    Some(None) => return false,
                };
                self.string.replace(check).is_none()
            }
            "array" => {
                let items = schema.get("items").and_then(Self::compile);
                items.is_some_and(|items| self.array.replace(Box::new(items)).is_none())
            }
            "object" => {
                let object = ObjectCheck::compile(schema);
                object.is_some_and(|object| self.object.replace(Box::new(object)).is_none())
            }
            _ => false,
        }
    }

    /// Returns `true` only if the text is a valid value. If the result is `false`, the text may be valid nevertheless.
    pub(crate) fn accepts(&self, text: &str) -> bool {
        self.properties(text).is_some()
    }

    /// Returns the properties of a valid object, by their order in the schema. For other valid values, the set is
    /// empty. If the result is `None`, the text may be valid nevertheless.
    pub(crate) fn properties(&self, text: &str) -> Option<PropertySet> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let present = self.deserialize(&mut deserializer).ok()?;
        deserializer.end().ok()?;
        Some(present)
    }

    fn accepts_integer(&self, value: i128) -> bool {
        self.number || self.integer.as_ref().is_some_and(|range| range.contains(&value))
    }
}

impl ObjectCheck {
    fn compile(schema: &Map<String, Value>) -> Option<Self> {
        // `true` and `false` are supported, because objects with undeclared members are always left to the validator.
        if schema.get("additionalProperties").is_some_and(|it| !it.is_boolean()) {
            return None;
        }
        let properties = match schema.get("properties") {
            Some(properties) => properties.as_object()?.iter().collect(),
            None => Vec::new(),
        };
        if properties.len() > MAX_PROPERTIES {
            return None;
        }
        let mut required = 0;
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            required |=
                1 << properties.iter().position(|(property, _)| name == property.as_str())?;
        }
        let properties = properties.into_iter();
        let properties =
            properties.map(|(name, schema)| Some((name.clone(), TextCheck::compile(schema)?)));
        Some(Self { properties: properties.collect::<Option<_>>()?, required })
    }
}

/// Returns `true` for keywords that do not affect validity. One of them is `format`, because the validator does not
/// check it.
fn is_annotation(keyword: &str) -> bool {
    walk::is_annotation(keyword) || matches!(keyword, "$schema" | "format")
}

/// Returns the integers that `minimum` and `maximum` allow.
fn range(schema: &Map<String, Value>) -> Option<RangeInclusive<i128>> {
    let bound = |keyword: &str, default| match schema.get(keyword) {
        None => Some(default),
        Some(bound) => bound.as_i64().map(i128::from).or(bound.as_u64().map(i128::from)),
    };
    Some(bound("minimum", i128::MIN)?..=bound("maximum", i128::MAX)?)
}

fn strings(options: &Value) -> Option<Vec<String>> {
    options.as_array()?.iter().map(|option| option.as_str().map(ToOwned::to_owned)).collect()
}

/// Fails without a reason, because nobody reads the reason.
fn reject<T, E: Error>() -> Result<T, E> {
    Err(E::custom(""))
}

fn accept_if<E: Error>(is_accepted: bool) -> Result<PropertySet, E> {
    if is_accepted { Ok(PropertySet::default()) } else { reject() }
}

impl<'de> DeserializeSeed<'de> for &TextCheck {
    type Value = PropertySet;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &TextCheck {
    type Value = PropertySet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a valid value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        accept_if(self.null)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        accept_if(self.boolean)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        accept_if(self.accepts_integer(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        accept_if(self.accepts_integer(value.into()))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        accept_if(self.number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        accept_if(match &self.string {
            None => false,
            Some(StringCheck::Any) => true,
            Some(StringCheck::OneOf(options)) => options.iter().any(|option| option == text),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let Some(items) = &self.array else { return reject() };
        while seq.next_element_seed(&**items)?.is_some() {}
        Ok(PropertySet::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some(object) = &self.object else { return reject() };
        let mut present = 0;
        while let Some((number, check)) = map.next_key_seed(&**object)? {
            let bit = 1 << number;
            if present & bit != 0 {
                return reject();
            }
            present |= bit;
            map.next_value_seed(check)?;
        }
        if present & object.required == object.required {
            Ok(PropertySet(present))
        } else {
            reject()
        }
    }
}

/// Finds the property of a key.
impl<'de, 'c> DeserializeSeed<'de> for &'c ObjectCheck {
    type Value = (usize, &'c TextCheck);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'c> Visitor<'_> for &'c ObjectCheck {
    type Value = (usize, &'c TextCheck);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a declared property")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        let mut properties = self.properties.iter().enumerate();
        match properties.find(|(_, (name, _))| name == key) {
            Some((number, (_, check))) => Ok((number, check)),
            None => reject(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::schema::validator;

    fn schema() -> Value {
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "title": "A user",
            "properties": {
                "id": {"type": "integer", "format": "int64", "minimum": -5},
                "name": {"type": "string", "description": "The name."},
                "size": {"type": ["number", "null"]},
                "kind": {"type": "string", "enum": ["a", "b c"]},
                "roles": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
                "is_old": {"type": "boolean", "default": false},
                "inner": {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]},
            },
            "required": ["id", "name"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn valid_text_is_accepted_with_its_properties() {
        let check = TextCheck::compile(&schema()).unwrap();
        let present = check.properties(r#" {"id":2, "name":"a\u0062", "kind":"b c"} "#).unwrap();
        let numbers: Vec<usize> = (0..7).filter(|number| present.contains(*number)).collect();
        assert_eq!(numbers, [0, 1, 3]);
        for text in [
            r#"{"id":-2,"name":"","size":1.5,"roles":["a"],"is_old":true,"inner":{"n":1}}"#,
            r#"{"id":2,"name":"","size":null,"roles":null,"inner":{"n":1e3}}"#,
        ] {
            assert!(check.accepts(text), "{text}");
        }
    }

    #[test]
    fn text_that_may_be_invalid_is_not_accepted() {
        let check = TextCheck::compile(&schema()).unwrap();
        for text in [
            "",
            "[]",
            "{",
            r#"{"id":2,"name":"a"} 1"#,
            r#"{"name":"a"}"#,
            r#"{"id":2.0,"name":"a"}"#,
            r#"{"id":-6,"name":"a"}"#,
            r#"{"id":"2","name":"a"}"#,
            r#"{"id":2,"name":"a","other":1}"#,
            r#"{"id":2,"name":"a","name":"a"}"#,
            r#"{"id":2,"name":"a","kind":"c"}"#,
            r#"{"id":2,"name":"a","roles":[1]}"#,
            r#"{"id":2,"name":"a","inner":{}}"#,
            r#"{"id":2,"name":"a","inner":null}"#,
        ] {
            assert!(!check.accepts(text), "{text}");
        }
    }

    #[test]
    fn unsupported_schemas_do_not_compile() {
        for schema in [
            json!(true),
            json!({}),
            json!({"type": "integer", "minimum": 1.5}),
            json!({"type": "number", "maximum": 1}),
            json!({"type": "integer", "exclusiveMinimum": 1}),
            json!({"type": "string", "pattern": "a"}),
            json!({"$ref": "#/$defs/a"}),
            json!({"type": "array"}),
            json!({"type": "integer", "enum": [1]}),
            json!({"type": "string", "enum": [1]}),
            json!({"type": "object", "required": ["undeclared"]}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "properties": {"a": {"const": 1}}}),
            json!({"type": "object", "anyOf": [{"type": "object"}]}),
            json!({"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "string"}]}),
        ] {
            assert!(TextCheck::compile(&schema).is_none(), "{schema}");
        }
    }

    fn schemas() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(json!({"type": "integer"})),
            Just(json!({"type": ["integer", "null"], "minimum": 0, "maximum": u64::MAX})),
            Just(json!({"type": "number"})),
            Just(json!({"type": ["boolean", "null"]})),
            Just(json!({"type": "string", "enum": ["a", "b"]})),
            Just(json!({"anyOf": [{"type": "string"}, {"type": "integer"}]})),
        ];
        scalar.prop_recursive(3, 12, 3, |inner| {
            let object =
                (proptest::collection::vec(inner.clone(), 0..3), any::<bool>(), any::<bool>());
            prop_oneof![
                inner.prop_map(|items| json!({"type": "array", "items": items})),
                object.prop_map(|(inner, is_open, requires)| {
                    let names = ["a", "b", "c"];
                    let properties: Map<String, Value> =
                        names.iter().map(ToString::to_string).zip(inner).collect();
                    let required: Vec<_> =
                        properties.keys().filter(|_| requires).cloned().collect();
                    json!({
                        "type": "object",
                        "properties": properties,
                        "required": required,
                        "additionalProperties": is_open,
                    })
                }),
            ]
        })
    }

    fn values() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        scalar.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[a-c]", inner, 0..3)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn accepted_text_is_valid(schema in schemas(), values in proptest::collection::vec(values(), 40)) {
            let check = TextCheck::compile(&schema).unwrap();
            let validator = validator::compile(&schema).unwrap();
            for value in values {
                if check.accepts(&value.to_string()) {
                    prop_assert!(validator.is_valid(&value), "{} {}", schema, value);
                }
            }
        }
    }
}
