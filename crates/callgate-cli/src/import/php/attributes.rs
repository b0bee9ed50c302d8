//! Methods that attributes describe, as Drupal's are: `#[JsonRpcMethod]`,
//! `#[JsonRpcParameterDefinition]` and `#[McpTool]`.

use callgate::ParamStyle;
use callgate_registry::MethodRow;
use serde_json::{Map, Value, json};

use super::evaluate::{Context, evaluate};
use super::expression::{Argument, Element, Expression, argument};
use super::methods::{description, json as column, row};
use super::model::{Attribute, Class, Method};
use super::reader::{Place, Reader};
use crate::import::{Proposal, Refusal};

/// Only methods that are marked are tools (D16).
const NOT_MARKED: &str = "it has no `#[McpTool]`";

/// What `#[McpTool]` says.
#[derive(Debug, Default)]
pub(super) struct Marker {
    pub(super) is_there: bool,
    pub(super) title: Option<String>,
    pub(super) annotations: Map<String, Value>,
}

/// The methods that attributes of a class, or of its functions, describe.
pub(super) fn read(reader: &mut Reader<'_>, class: &Class) -> Vec<Result<Proposal, Refusal>> {
    let mut found = Vec::new();
    let of_class = Described { class, method: None, attributes: &class.attributes };
    found.extend(of_class.read(reader));
    for method in &class.methods {
        let described = Described { class, method: Some(method), attributes: &method.attributes };
        found.extend(described.read(reader));
    }
    found
}

/// Something that may have `#[JsonRpcMethod]` before it.
#[derive(Clone, Copy)]
struct Described<'t> {
    class: &'t Class,
    /// The function, unless it is before the class.
    method: Option<&'t Method>,
    attributes: &'t [Attribute],
}

impl Described<'_> {
    fn read(self, reader: &mut Reader<'_>) -> Option<Result<Proposal, Refusal>> {
        let at = Context::of(self.class);
        let attribute = find(reader, at, self.attributes, "JsonRpcMethod").next()?;
        let line = self.method.map_or(self.class.line, |method| method.line);
        let id = argument(&attribute.arguments, "id", 0);
        let id = id.and_then(|id| evaluate(reader.tree, at, id));
        let Some(id) = id.as_ref().and_then(Value::as_str) else {
            let place = Place { at, id: "", line }.shown();
            let reason = "the `id` of `#[JsonRpcMethod]` is not a constant text".to_owned();
            return Some(Err(Refusal::new(place, reason)));
        };
        let place = Place { at, id, line };
        Some(
            self.method(reader, place, &attribute.arguments)
                .map_err(|reason| Refusal::new(id, format!("{}: {reason}", place.shown()))),
        )
    }

    fn method(
        self,
        reader: &mut Reader<'_>,
        place: Place<'_>,
        arguments: &[Argument],
    ) -> Result<Proposal, String> {
        let mut marker = marker(reader, place, self.attributes)?;
        let doc = self.method.map_or(&self.class.doc, |method| &method.doc);
        let usage = text(reader, place, argument(arguments, "usage", 1), "usage");
        let description = usage.unwrap_or_else(|| description(doc));
        let safety = reader.safety(place, doc, &mut marker.annotations);
        let hidden = if doc.has("deprecated") {
            Some("deprecated")
        } else if marker.is_there {
            None
        } else {
            Some(NOT_MARKED)
        };
        if matches!(argument(arguments, "access", 2), Some(Expression::Array(named)) if !named.is_empty())
        {
            reader.permissions += 1;
        }
        let (params, style) = self.params(reader, place, arguments)?;
        let output = self.output(reader, place, arguments);
        let row = MethodRow {
            title: marker.title,
            exposed: Some("1".to_owned()),
            params: column(params),
            params_by: style.map(|style| style.as_str().to_owned()),
            output_schema: output.map(|schema| schema.to_string()),
            ..row(place, description, marker.annotations)
        };
        Ok(Proposal::new(row, safety).hide(hidden))
    }

    /// By `params`, by attributes of their own, or by the signature of the function.
    fn params(
        self,
        reader: &mut Reader<'_>,
        place: Place<'_>,
        arguments: &[Argument],
    ) -> Result<(Vec<Value>, Option<ParamStyle>), String> {
        let given = argument(arguments, "params", 3);
        let given = given.filter(|given| **given != Expression::Scalar(Value::Null));
        if let Some(given) = given {
            return listed(reader, place, given);
        }
        let attributes: Vec<&Attribute> =
            find(reader, place.at, self.attributes, "JsonRpcParameterDefinition").collect();
        if !attributes.is_empty() {
            let define = |attribute: &&Attribute| define(reader, place, None, &attribute.arguments);
            let params: Result<Vec<Value>, String> = attributes.iter().map(define).collect();
            return Ok((params?, None));
        }
        match self.method {
            None => Ok((Vec::new(), None)),
            Some(method) => Ok((reader.params(place, method)?.params, None)),
        }
    }

    /// What `output` or a static `outputSchema()` says.
    fn output(
        self,
        reader: &mut Reader<'_>,
        place: Place<'_>,
        arguments: &[Argument],
    ) -> Option<Value> {
        let given = argument(arguments, "output", 4);
        let own = || self.class.method("outputSchema")?.result.as_ref();
        let schema = reader.value(place, given.or_else(own)?);
        if schema.is_none() {
            reader.note(place, "its output schema is not constant, so it is not taken");
        }
        schema.filter(Value::is_object)
    }
}

/// The attributes of a name, in whatever namespace they are.
fn find<'a>(
    reader: &Reader<'_>,
    at: Context<'_>,
    attributes: &'a [Attribute],
    name: &str,
) -> impl Iterator<Item = &'a Attribute> {
    let is_it = |attribute: &&Attribute| {
        let whole = reader.tree.resolve(at, &attribute.name);
        attribute.short() == name || whole.rsplit('\\').next() == Some(name)
    };
    attributes.iter().filter(is_it).collect::<Vec<_>>().into_iter()
}

/// What `#[McpTool]` says, where it is there.
pub(super) fn marker(
    reader: &mut Reader<'_>,
    place: Place<'_>,
    attributes: &[Attribute],
) -> Result<Marker, String> {
    let Some(attribute) = find(reader, place.at, attributes, "McpTool").next() else {
        return Ok(Marker::default());
    };
    let title = text(reader, place, argument(&attribute.arguments, "title", 0), "title");
    let annotations = argument(&attribute.arguments, "annotations", 1);
    let annotations = match annotations.map(|given| reader.value(place, given)) {
        None | Some(Some(Value::Null)) => Map::new(),
        Some(Some(Value::Object(annotations))) => annotations,
        Some(Some(Value::Array(items))) if items.is_empty() => Map::new(),
        Some(Some(_)) => return Err("`annotations`: expected keys and values".to_owned()),
        Some(None) => {
            reader.note(place, "its annotations are not constant, so they are not taken");
            Map::new()
        }
    };
    Ok(Marker { is_there: true, title, annotations })
}

/// A text that is constant, translated or not.
fn text(
    reader: &mut Reader<'_>,
    place: Place<'_>,
    expression: Option<&Expression>,
    what: &str,
) -> Option<String> {
    match reader.value(place, expression?) {
        Some(Value::String(text)) => Some(text),
        Some(Value::Null) => None,
        _ => {
            reader.note(place, &format!("`{what}` is not a constant text, so it is not taken"));
            None
        }
    }
}

/// `params: ['id' => new JsonRpcParameterDefinition(…)]`; without keys, they are a list.
fn listed(
    reader: &mut Reader<'_>,
    place: Place<'_>,
    given: &Expression,
) -> Result<(Vec<Value>, Option<ParamStyle>), String> {
    let Expression::Array(elements) = given else {
        return Err("`params` is not an array that stands there".to_owned());
    };
    let mut params = Vec::new();
    let mut are_named = false;
    for element in elements {
        let (key, value) = match element {
            Element::Item(value) => (None, value),
            Element::Pair(key, value) => (reader.value(place, key), value),
            Element::Spread(_) => return Err("`params` is not constant".to_owned()),
        };
        let Expression::New { arguments, .. } = value else {
            return Err("`params`: expected `new JsonRpcParameterDefinition(…)`".to_owned());
        };
        let key = key.as_ref().and_then(Value::as_str);
        are_named |= key.is_some();
        params.push(define(reader, place, key, arguments)?);
    }
    let style = if are_named { ParamStyle::Named } else { ParamStyle::Positional };
    Ok((params, (!elements.is_empty()).then_some(style)))
}

/// A parameter, from the arguments of its definition: id, schema, factory, description, required.
fn define(
    reader: &mut Reader<'_>,
    place: Place<'_>,
    key: Option<&str>,
    arguments: &[Argument],
) -> Result<Value, String> {
    let value = |name: &str, at: usize| reader.value(place, argument(arguments, name, at)?);
    let id = argument(arguments, "name", 0).and_then(|id| reader.value(place, id));
    let id = id.or_else(|| value("id", 0));
    let name = key.or_else(|| id.as_ref().and_then(Value::as_str));
    let Some(name) = name.map(ToOwned::to_owned) else {
        return Err("a parameter's name is not a constant text".to_owned());
    };
    let is_required = value("required", 4) == Some(Value::Bool(true));
    let schema = schema(reader, place, &name, arguments);
    let words = text(reader, place, argument(arguments, "description", 3), "description");
    let mut entry = Map::new();
    entry.insert("name".to_owned(), json!(name));
    entry.insert("schema".to_owned(), schema);
    if let Some(words) = words {
        entry.insert("description".to_owned(), json!(words));
    }
    if !is_required {
        entry.insert("optional".to_owned(), json!(true));
    }
    Ok(Value::Object(entry))
}

/// The schema that stands there, else that of the factory.
fn schema(reader: &mut Reader<'_>, place: Place<'_>, name: &str, arguments: &[Argument]) -> Value {
    let given = argument(arguments, "schema", 1);
    let given = given.filter(|given| **given != Expression::Scalar(Value::Null));
    if let Some(given) = given {
        match reader.value(place, given) {
            Some(schema @ Value::Object(_)) => return schema,
            // PHP's way of writing an empty object.
            Some(Value::Array(items)) if items.is_empty() => return json!({}),
            _ => {}
        }
        reader.note(place, &format!("the schema of `{name}` is not constant; anything is taken"));
        return json!({});
    }
    let factory = argument(arguments, "factory", 2);
    let factory = factory.and_then(|factory| reader.value(place, factory));
    let factory = factory.as_ref().and_then(Value::as_str);
    let known = factory.and_then(|factory| {
        let class = reader.tree.class(factory.trim_start_matches('\\'));
        let own = class.and_then(|class| {
            let result = class.method("schema")?.result.as_ref()?;
            evaluate(reader.tree, Context::of(class), result).filter(Value::is_object)
        });
        own.or_else(|| drupals_factory(factory))
    });
    known.unwrap_or_else(|| {
        reader.note(place, &format!("what `{name}` takes is not known here; anything is taken"));
        json!({})
    })
}

/// The factories that come with Drupal's jsonrpc.
fn drupals_factory(class: &str) -> Option<Value> {
    let count = json!({"type": "integer", "minimum": 0});
    match class.rsplit('\\').next()? {
        "PaginationParameterFactory" => Some(json!({
            "type": "object",
            "properties": {"limit": count, "offset": count},
        })),
        "EntityParameterFactory" => Some(json!({
            "type": "object",
            "properties": {"type": {"type": "string"}, "uuid": {"type": "string"}},
        })),
        _ => None,
    }
}
