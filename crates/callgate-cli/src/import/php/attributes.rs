//! Methods that attributes describe, as Drupal's are: `#[JsonRpcMethod]`,
//! `#[JsonRpcParameterDefinition]` and `#[McpTool]`.

use callgate::ParamStyle;
use callgate_registry::MethodRow;
use serde_json::{Map, Value, json};

use super::evaluate::{Context, evaluate};
use super::expression::{Argument, Element, Expression, argument};
use super::methods::{description, json as column, row};
use super::model::{Attribute, Class, Method, short};
use super::reader::{Place, Reader, object};
use crate::import::{Proposal, Refusal};

/// Only methods that are marked are tools (D16).
const NOT_MARKED: &str = "it has no `#[McpTool]`";

/// What `#[McpTool]` says.
#[derive(Debug, Default)]
pub(super) struct Marker {
    is_there: bool,
    pub(super) title: Option<String>,
    pub(super) annotations: Map<String, Value>,
}

/// The methods that attributes of a class, or of its functions, describe.
pub(super) fn read(reader: &mut Reader<'_>, class: &Class) -> Vec<Result<Proposal, Refusal>> {
    let of_class = Described { class, method: None, attributes: &class.attributes };
    let of_method =
        |method| Described { class, method: Some(method), attributes: &method.attributes };
    let all = [of_class].into_iter().chain(class.methods.iter().map(of_method));
    all.filter_map(|described| described.read(reader)).collect()
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
        let attribute = *find(reader, at, self.attributes, "JsonRpcMethod").first()?;
        let line = self.method.map_or(self.class.line, |method| method.line);
        let id = argument(&attribute.arguments, "id", 0);
        let id = id.and_then(|id| evaluate(reader.tree, at, id));
        let Some(id) = id.as_ref().and_then(Value::as_str) else {
            let place = Place { at, id: "", line }.shown();
            let reason = "the `id` of `#[JsonRpcMethod]` is not a constant text";
            return Some(Err(Refusal::new(place, reason)));
        };
        let place = Place { at, id, line };
        let read = self.method(reader, place, &attribute.arguments);
        Some(read.map_err(|reason| place.refusal(&reason)))
    }

    fn method(
        self,
        reader: &mut Reader<'_>,
        place: Place<'_>,
        arguments: &[Argument],
    ) -> Result<Proposal, String> {
        let mut marker = marker(reader, place, self.attributes)?;
        let doc = self.method.map_or(&self.class.doc, |method| &method.doc);
        let usage = reader.text(place, arguments, "usage", 1);
        let safety = reader.safety(place, doc, &mut marker.annotations);
        let hidden = match (doc.has("deprecated"), marker.is_there) {
            (true, _) => Some("deprecated"),
            (false, true) => None,
            (false, false) => Some(NOT_MARKED),
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
            ..row(place, usage.unwrap_or_else(|| description(doc)), marker.annotations)
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
        if let Some(given) = not_null(argument(arguments, "params", 3)) {
            return listed(reader, place, given);
        }
        let attributes = find(reader, place.at, self.attributes, "JsonRpcParameterDefinition");
        let params: Vec<Value> = match self.method {
            Some(method) if attributes.is_empty() => reader.params(place, method)?.params,
            _ => attributes
                .iter()
                .map(|attribute| define(reader, place, None, &attribute.arguments))
                .collect::<Result<_, _>>()?,
        };
        Ok((params, None))
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
) -> Vec<&'a Attribute> {
    let is_it = |attribute: &&Attribute| {
        short(&attribute.name) == name || short(&reader.tree.resolve(at, &attribute.name)) == name
    };
    attributes.iter().filter(is_it).collect()
}

fn not_null(given: Option<&Expression>) -> Option<&Expression> {
    given.filter(|given| **given != Expression::Scalar(Value::Null))
}

/// What `#[McpTool]` says, where it is there.
pub(super) fn marker(
    reader: &mut Reader<'_>,
    place: Place<'_>,
    attributes: &[Attribute],
) -> Result<Marker, String> {
    let Some(attribute) = find(reader, place.at, attributes, "McpTool").first().copied() else {
        return Ok(Marker::default());
    };
    let title = reader.text(place, &attribute.arguments, "title", 0);
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
    let mut style = ParamStyle::Positional;
    for element in elements {
        let (key, value) = match element {
            Element::Item(value) => (None, value),
            Element::Pair(key, value) => (reader.value(place, key), value),
            Element::Spread(_) => return Err("`params` is not constant".to_owned()),
        };
        let Expression::Call { is_new: true, arguments, .. } = value else {
            return Err("`params`: expected `new JsonRpcParameterDefinition(…)`".to_owned());
        };
        let key = key.as_ref().and_then(Value::as_str);
        if key.is_some() {
            style = ParamStyle::Named;
        }
        params.push(define(reader, place, key, arguments)?);
    }
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
    let id = value("name", 0).or_else(|| value("id", 0));
    let is_required = value("required", 4) == Some(Value::Bool(true));
    let name = key.or_else(|| id.as_ref().and_then(Value::as_str));
    let name = name.ok_or("a parameter's name is not a constant text")?;
    let schema = schema(reader, place, name, arguments);
    let description = reader.text(place, arguments, "description", 3);
    Ok(object([
        ("name", Some(json!(name))),
        ("schema", Some(schema)),
        ("description", description.map(Value::String)),
        ("optional", (!is_required).then(|| json!(true))),
    ]))
}

/// The schema that stands there, else that of the factory.
fn schema(reader: &mut Reader<'_>, place: Place<'_>, name: &str, arguments: &[Argument]) -> Value {
    let note = if let Some(given) = not_null(argument(arguments, "schema", 1)) {
        match reader.value(place, given) {
            Some(schema @ Value::Object(_)) => return schema,
            // PHP's way of writing an empty object.
            Some(Value::Array(items)) if items.is_empty() => return json!({}),
            _ => format!("the schema of `{name}` is not constant; anything is taken"),
        }
    } else {
        let factory = argument(arguments, "factory", 2);
        let factory = factory.and_then(|factory| reader.value(place, factory));
        let factory = factory.as_ref().and_then(Value::as_str);
        if let Some(schema) = factory.and_then(|factory| made_by(reader, factory)) {
            return schema;
        }
        format!("what `{name}` takes is not known here; anything is taken")
    };
    reader.note(place, &note);
    json!({})
}

/// What a factory says of its parameters, by itself or as one of those that come with Drupal's jsonrpc.
fn made_by(reader: &Reader<'_>, factory: &str) -> Option<Value> {
    let class = reader.tree.class(factory.trim_start_matches('\\'));
    let own = class.and_then(|class| {
        let result = class.method("schema")?.result.as_ref()?;
        evaluate(reader.tree, Context::of(class), result).filter(Value::is_object)
    });
    let properties = match short(factory) {
        _ if own.is_some() => return own,
        "PaginationParameterFactory" => {
            let count = json!({"type": "integer", "minimum": 0});
            json!({"limit": count, "offset": count})
        }
        "EntityParameterFactory" => json!({"type": {"type": "string"}, "uuid": {"type": "string"}}),
        _ => return None,
    };
    Some(json!({"type": "object", "properties": properties}))
}
