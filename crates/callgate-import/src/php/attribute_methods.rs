//! Methods with attributes, as in Drupal: `#[JsonRpcMethod]`, `#[JsonRpcParameterDefinition]` and `#[McpTool]`.

use callgate::model::ParamStyle;
use callgate_registry::MethodRow;
use serde_json::{Map, Value, json};

use super::common_method_parts::{Marker, MethodReader, Reader, description, object};
use super::evaluate::evaluate;
use super::symbols::{Context, Symbols};
use super::syntax::{Argument, Attribute, Class, Element, Expression, Method, argument, short};
use crate::source::{Proposal, Refusal};

/// Reason for hiding a method. As in Drupal's module, methods without `#[McpTool]` are not exposed.
const NOT_MARKED: &str = "it has no `#[McpTool]`";

/// Returns the methods that attributes of a class or of its functions describe.
pub(super) fn read(reader: &mut Reader<'_>, class: &Class) -> Vec<Result<Proposal, Refusal>> {
    let methods = class.methods.iter().map(Some);
    [None]
        .into_iter()
        .chain(methods)
        .filter_map(|method| read_method(reader, class, method))
        .collect()
}

fn read_method(
    reader: &mut Reader<'_>,
    class: &Class,
    method: Option<&Method>,
) -> Option<Result<Proposal, Refusal>> {
    let context = reader.symbols.context_of(class);
    let attributes = method.map_or(&class.attributes, |method| &method.attributes);
    let attribute = *find(context, attributes, "JsonRpcMethod").first()?;
    let line = method.map_or(class.line, |method| method.line);
    let id = argument(&attribute.arguments, "id", 0).and_then(|id| evaluate(context, id));
    let Some(id) = id.as_ref().and_then(Value::as_str) else {
        let reason = "the `id` of `#[JsonRpcMethod]` is not a constant string";
        return Some(Err(Refusal::new(format!("{}:{line}", context.scope.file), reason)));
    };
    let mut reader = MethodReader::new(reader, context, id, line);
    let proposal = reader.read_attributes(class, method, &attribute.arguments);
    Some(proposal.map_err(|reason| reader.refusal(&reason)))
}

impl MethodReader<'_, '_> {
    fn read_attributes(
        &mut self,
        class: &Class,
        method: Option<&Method>,
        arguments: &[Argument],
    ) -> Result<Proposal, String> {
        let (attributes, doc) = match method {
            Some(method) => (&method.attributes, &method.doc),
            None => (&class.attributes, &class.doc),
        };
        let mut marker = self.marker(attributes)?;
        let usage = self.text(arguments, "usage", 1);
        let safety = self.safety(doc, &mut marker.annotations);
        let hidden = match (doc.has("deprecated"), marker.is_present) {
            (true, _) => Some("deprecated"),
            (false, true) => None,
            (false, false) => Some(NOT_MARKED),
        };
        if matches!(argument(arguments, "access", 2), Some(Expression::Array(permissions)) if !permissions.is_empty())
        {
            self.reader.permissions += 1;
        }
        let definitions = find(self.context, attributes, "JsonRpcParameterDefinition");
        let (params, style) = match (not_null(argument(arguments, "params", 3)), method) {
            (Some(expression), _) => self.listed_params(expression)?,
            (None, Some(method)) if definitions.is_empty() => (self.params(method)?.0, None),
            (None, _) => {
                let param = |attribute: &&Attribute| self.defined_param(None, &attribute.arguments);
                (definitions.iter().map(param).collect::<Result<_, _>>()?, None)
            }
        };
        let output = self.output(class, arguments);
        let row = MethodRow {
            exposed: Some("1".to_owned()),
            params_by: style.map(|style| style.as_str().to_owned()),
            output_schema: output.map(|schema| schema.to_string()),
            ..self.row(usage.unwrap_or_else(|| description(doc)), params, marker)
        };
        Ok(Proposal::new(row, safety).hide(hidden))
    }

    /// Returns the schema in `output`, or the one that a static `outputSchema()` returns.
    fn output(&mut self, class: &Class, arguments: &[Argument]) -> Option<Value> {
        let static_schema = || class.method("outputSchema")?.result.as_ref();
        let schema = self.value(argument(arguments, "output", 4).or_else(static_schema)?);
        if schema.is_none() {
            self.note("the output schema is not constant, so it is ignored");
        }
        schema.filter(Value::is_object)
    }

    pub(super) fn marker(&mut self, attributes: &[Attribute]) -> Result<Marker, String> {
        let attributes = find(self.context, attributes, "McpTool");
        let Some(Attribute { arguments, .. }) = attributes.first() else {
            return Ok(Marker::default());
        };
        let title = self.text(arguments, "title", 0);
        let annotations =
            argument(arguments, "annotations", 1).map(|expression| self.value(expression));
        let annotations = match annotations {
            None | Some(Some(Value::Null)) => Map::new(),
            Some(Some(Value::Object(annotations))) => annotations,
            Some(Some(Value::Array(items))) if items.is_empty() => Map::new(),
            Some(Some(_)) => return Err("`annotations`: expected keys and values".to_owned()),
            Some(None) => {
                self.note("the annotations are not constant, so they are ignored");
                Map::new()
            }
        };
        Ok(Marker { is_present: true, title, annotations })
    }

    /// Reads `params: ['id' => new JsonRpcParameterDefinition(…)]`. Parameters without keys are positional.
    fn listed_params(
        &mut self,
        expression: &Expression,
    ) -> Result<(Vec<Value>, Option<ParamStyle>), String> {
        let Expression::Array(elements) = expression else {
            return Err("`params` is not an array literal".to_owned());
        };
        let mut params = Vec::new();
        let mut style = ParamStyle::Positional;
        for element in elements {
            let (key, value) = match element {
                Element::Item(value) => (None, value),
                Element::Pair(key, value) => (self.value(key), value),
                Element::Spread(_) => return Err("`params` is not constant".to_owned()),
            };
            let Expression::Call { is_new: true, arguments, .. } = value else {
                return Err("`params`: expected `new JsonRpcParameterDefinition(…)`".to_owned());
            };
            let key = key.as_ref().and_then(Value::as_str);
            if key.is_some() {
                style = ParamStyle::Named;
            }
            params.push(self.defined_param(key, arguments)?);
        }
        Ok((params, (!elements.is_empty()).then_some(style)))
    }

    /// Reads a parameter from the arguments of its definition: id, schema, factory, description, required.
    fn defined_param(
        &mut self,
        key: Option<&str>,
        arguments: &[Argument],
    ) -> Result<Value, String> {
        let value = |name: &str, position| self.value(argument(arguments, name, position)?);
        let id = value("name", 0).or_else(|| value("id", 0));
        let is_required = value("required", 4) == Some(Value::Bool(true));
        let name = key.or_else(|| id.as_ref().and_then(Value::as_str));
        let name = name.ok_or("a parameter's name is not a constant string")?;
        let schema = self.schema(name, arguments);
        let description = self.text(arguments, "description", 3);
        Ok(object([
            ("name", Some(json!(name))),
            ("schema", Some(schema)),
            ("description", description.map(Value::String)),
            ("optional", (!is_required).then(|| json!(true))),
        ]))
    }

    /// Returns the schema of a parameter, or the schema of its factory.
    fn schema(&mut self, name: &str, arguments: &[Argument]) -> Value {
        let note = if let Some(expression) = not_null(argument(arguments, "schema", 1)) {
            match self.value(expression) {
                Some(schema @ Value::Object(_)) => return schema,
                // PHP writes an empty object as an empty array.
                Some(Value::Array(items)) if items.is_empty() => return json!({}),
                _ => format!("the schema of `{name}` is not constant, so any value is accepted"),
            }
        } else {
            let factory = argument(arguments, "factory", 2).and_then(|factory| self.value(factory));
            let factory = factory.as_ref().and_then(Value::as_str);
            if let Some(schema) =
                factory.and_then(|factory| factory_schema(self.reader.symbols, factory))
            {
                return schema;
            }
            format!("the schema of `{name}` is not known, so any value is accepted")
        };
        self.note(&note);
        json!({})
    }
}

/// Returns the attributes with this name, in any namespace.
fn find<'a>(context: Context<'_>, attributes: &'a [Attribute], name: &str) -> Vec<&'a Attribute> {
    let has_name = |attribute: &&Attribute| {
        short(&attribute.name) == name || short(&context.resolve(&attribute.name)) == name
    };
    attributes.iter().filter(has_name).collect()
}

fn not_null(expression: Option<&Expression>) -> Option<&Expression> {
    expression.filter(|expression| **expression != Expression::Scalar(Value::Null))
}

/// Returns the schema of a factory that is part of the source, or of a factory in Drupal's module `jsonrpc`.
fn factory_schema(symbols: &Symbols, factory: &str) -> Option<Value> {
    let class = symbols.class(factory.trim_start_matches('\\'));
    let declared = class.and_then(|class| {
        let result = class.method("schema")?.result.as_ref()?;
        evaluate(symbols.context_of(class), result).filter(Value::is_object)
    });
    let properties = match short(factory) {
        _ if declared.is_some() => return declared,
        "PaginationParameterFactory" => {
            let count = json!({"type": "integer", "minimum": 0});
            json!({"limit": count, "offset": count})
        }
        "EntityParameterFactory" => json!({"type": {"type": "string"}, "uuid": {"type": "string"}}),
        _ => return None,
    };
    Some(json!({"type": "object", "properties": properties}))
}
