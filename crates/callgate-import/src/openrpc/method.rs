//! The methods of a document.

use std::collections::HashSet;

use anyhow::{Context as _, anyhow, bail, ensure};
use callgate::internal::json_bytes;
use callgate::model::ParamStyle;
use callgate_registry::{CHECK_ARGUMENTS, MethodRow};
use serde_json::{Map, Value, json};

use super::bundle::Bundle;
use super::references::{Document, reference};
use super::type_name;
use crate::limits::MAX_METHOD_BYTES;
use crate::schema::object_schema;
use crate::source::{Proposal, declared_safety};

/// Maximum number of errors that are listed in a method's description.
const MAX_ERRORS: usize = 12;
/// Maximum number of examples of a parameter.
const MAX_EXAMPLES: usize = 3;
/// Maximum size of an example, in bytes.
const MAX_EXAMPLE: usize = 256;
/// Maximum number of a method's examples that are read.
const MAX_PAIRINGS: usize = 32;

struct OpenRpcParam<'a> {
    name: &'a str,
    /// Position in the method, for error messages.
    position: String,
    descriptor: &'a Value,
    schema: &'a Value,
}

impl<'a> Document<'a> {
    /// Returns the name of a method, even if the rest of it is invalid.
    pub(super) fn name(self, method: &'a Value) -> Option<String> {
        let method = self.resolve(method).ok()?;
        Some(method.get("name")?.as_str()?.to_owned()).filter(|name| !name.is_empty())
    }

    /// Reads a method. Returns a note if the schema of its result is invalid.
    pub(super) fn read(self, method: &'a Value) -> anyhow::Result<(Proposal, Option<String>)> {
        let method = self.resolve(method)?;
        if !method.is_object() {
            return Err(unexpected_type("the method", "an object", method));
        }
        let id = text(method, "name").context("the method has no `name`")?;
        let params = self.params(method)?;
        let result = match method.get("result") {
            None | Some(Value::Null) => None,
            Some(result) => Some(result),
        };
        let hidden = if method.get("deprecated") == Some(&Value::Bool(true)) {
            Some("deprecated")
        } else if result.is_none() {
            Some("it has no result")
        } else if method.get("x-exposed") == Some(&Value::Bool(false)) {
            Some("not exposed in the document")
        } else {
            None
        };
        let description = self.description(method);
        let mut annotations = self.annotations(method)?;
        let safety = declared_safety(&mut annotations);
        let (output, note) = match result.map(|result| self.output_schema(result)) {
            None => (None, None),
            Some(Ok(output)) => (output, None),
            Some(Err(problem)) => {
                (None, Some(format!("note: `{id}` has no output schema: {problem:#}")))
            }
        };
        let row = MethodRow {
            rpc_method: id.to_owned(),
            title: text(method, "x-title").map(ToOwned::to_owned),
            description: Some(description).filter(|text| !text.is_empty()),
            annotations: (!annotations.is_empty()).then(|| Value::Object(annotations).to_string()),
            exposed: Some("1".to_owned()),
            params_by: Some(style(method)?.as_str().to_owned()),
            input_schema: Some(self.input_schema(&params, method)?.to_string()),
            output_schema: output.map(|schema| schema.to_string()),
            ..MethodRow::default()
        };
        Ok((Proposal::new(row, safety).hide(hidden), note))
    }

    fn params(self, method: &'a Value) -> anyhow::Result<Vec<OpenRpcParam<'a>>> {
        const ANYTHING: &Value = &Value::Bool(true);
        let list = match method.get("params") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(other) => return Err(unexpected_type("params", "a list", other)),
        };
        let mut params: Vec<OpenRpcParam<'a>> = Vec::with_capacity(list.len());
        let mut names = HashSet::new();
        for (number, descriptor) in list.iter().enumerate() {
            let position = format!("params[{number}]");
            let descriptor = self.resolve(descriptor)?;
            if !descriptor.is_object() {
                return Err(unexpected_type(&position, "an object", descriptor));
            }
            let name =
                text(descriptor, "name").with_context(|| format!("{position} has no `name`"))?;
            ensure!(names.insert(name), "two parameters are named `{name}`");
            let position = format!("{position}.schema");
            let schema = match descriptor.get("schema") {
                None | Some(Value::Null) => ANYTHING,
                Some(schema @ (Value::Object(_) | Value::Bool(_))) => schema,
                Some(other) => return Err(unexpected_type(&position, "a schema", other)),
            };
            params.push(OpenRpcParam { name, position, descriptor, schema });
        }
        Ok(params)
    }

    /// Returns the schema of the parameters. Their order matters if they are positional.
    fn input_schema(self, params: &[OpenRpcParam<'a>], method: &'a Value) -> anyhow::Result<Value> {
        let mut bundle = Bundle::new(self);
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for param in params {
            let mut property = bundle.add(param.schema).with_context(|| param.position.clone())?;
            let description = description(param.descriptor);
            if let (Some(description), Value::Object(property)) = (description, &mut property) {
                property.insert("description".to_owned(), json!(description));
            }
            properties.insert(param.name.to_owned(), property);
            if param.descriptor.get("required") == Some(&Value::Bool(true)) {
                required.push(json!(param.name));
            }
        }
        let schema = object_schema(properties, required);
        let mut schema = bundle.finish(schema).context("params")?;
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            self.add_examples(properties, method);
            for property in properties.values_mut().filter_map(Value::as_object_mut) {
                move_to_end(property, "description");
                move_to_end(property, "examples");
            }
        }
        Ok(schema)
    }

    fn output_schema(self, result: &'a Value) -> anyhow::Result<Option<Value>> {
        let descriptor = self.resolve(result)?;
        let Some(schema) = descriptor.get("schema").filter(|schema| schema.is_object()) else {
            return Ok(None);
        };
        let mut bundle = Bundle::new(self);
        let schema = bundle.add(schema).context("result")?;
        let is_text = |key: &String| key == "title" || key == "description";
        let is_empty = schema.as_object().is_none_or(|members| members.keys().all(is_text));
        let schema = bundle.finish(schema).context("result")?;
        Ok((!is_empty).then_some(schema))
    }

    /// Copies the arguments in the method's examples to the `examples` of parameter schemas that have none.
    fn add_examples(self, properties: &mut Map<String, Value>, method: &'a Value) {
        let mut examples: Map<String, Value> = Map::new();
        for pairing in self.resolved_members(method, "examples").take(MAX_PAIRINGS) {
            for (number, example) in
                self.resolved_members(pairing, "params").take(properties.len()).enumerate()
            {
                let named = text(example, "name").filter(|name| properties.contains_key(*name));
                let by_position = || properties.keys().nth(number).map(String::as_str);
                let (Some(name), Some(value)) = (named.or_else(by_position), example.get("value"))
                else {
                    continue;
                };
                let values = examples.entry(name).or_insert_with(|| json!([]));
                let Value::Array(values) = values else { continue };
                let fits = values.len() < MAX_EXAMPLES && json_bytes(value, MAX_EXAMPLE).is_some();
                if fits && !values.contains(value) {
                    values.push(value.clone());
                }
            }
        }
        examples.retain(|_, values| values.as_array().is_some_and(|values| !values.is_empty()));
        for (name, values) in examples {
            if let Some(Value::Object(property)) = properties.get_mut(&name) {
                property.entry("examples").or_insert(values);
            }
        }
    }

    /// Returns the summary, the description and the errors.
    fn description(self, method: &'a Value) -> String {
        let mut parts = Vec::from_iter(description(method));
        let errors: Vec<String> = self
            .resolved_members(method, "errors")
            .filter_map(|error| {
                let message = text(error, "message")?.lines().next()?.trim();
                let code = error.get("code").filter(|code| code.is_number());
                Some(code.map_or(message.to_owned(), |code| format!("{message} ({code})")))
            })
            .take(MAX_ERRORS)
            .collect();
        if !errors.is_empty() {
            parts.push(format!("Errors: {}.", errors.join("; ")));
        }
        parts.join("\n\n")
    }

    /// Returns the annotations and the names of the tags.
    fn annotations(self, method: &'a Value) -> anyhow::Result<Map<String, Value>> {
        let declared = method.get("x-annotations").and_then(Value::as_object);
        let mut annotations = declared.cloned().unwrap_or_default();
        // Only a person may turn off the check of arguments.
        annotations.shift_remove(CHECK_ARGUMENTS);
        let tags: Vec<&str> =
            self.resolved_members(method, "tags").filter_map(|tag| text(tag, "name")).collect();
        let bytes: usize = tags.iter().map(|tag| tag.len()).sum();
        ensure!(bytes <= MAX_METHOD_BYTES, "the tags have more than {MAX_METHOD_BYTES} bytes");
        if !tags.is_empty() {
            annotations.insert("tags".to_owned(), json!(tags));
        }
        Ok(annotations)
    }

    /// Returns the members of a list, except references that cannot be resolved.
    fn resolved_members(self, owner: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
        let list = owner.get(key).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(move |member| self.resolve(member).ok())
    }
}

fn style(method: &Value) -> anyhow::Result<ParamStyle> {
    match method.get("paramStructure").map(|structure| structure.as_str().ok_or(structure)) {
        None | Some(Ok("either")) => Ok(ParamStyle::Either),
        Some(Ok("by-position")) => Ok(ParamStyle::Positional),
        Some(Ok("by-name")) => Ok(ParamStyle::Named),
        Some(Ok(other)) => bail!(
            "`paramStructure`: expected `by-name`, `by-position` or `either`, found `{other}`"
        ),
        Some(Err(other)) => Err(unexpected_type("paramStructure", "a string", other)),
    }
}

/// Returns the summary and the description. If one contains the other, returns only the longer one.
fn description(part: &Value) -> Option<String> {
    let (summary, description) = (text(part, "summary"), text(part, "description"));
    match (summary.map(str::trim), description.map(str::trim)) {
        (Some(summary), Some(description)) => {
            let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let (flat_summary, flat_description) = (flat(summary), flat(description));
            if flat_description.starts_with(&flat_summary) {
                Some(description.to_owned())
            } else if flat_summary.starts_with(&flat_description) {
                Some(summary.to_owned())
            } else {
                Some(format!("{summary}\n\n{description}"))
            }
        }
        (summary, description) => summary.or(description).map(ToOwned::to_owned),
    }
}

/// Returns a string that is not blank.
fn text<'v>(part: &'v Value, key: &str) -> Option<&'v str> {
    part.get(key)?.as_str().filter(|text| !text.trim().is_empty())
}

fn move_to_end(members: &mut Map<String, Value>, key: &str) {
    if let Some(value) = members.shift_remove(key) {
        members.insert(key.to_owned(), value);
    }
}

fn unexpected_type(position: &str, expected: &str, found: &Value) -> anyhow::Error {
    let found = if reference(found).is_some() { "a `$ref`" } else { type_name(found) };
    anyhow!("{position}: expected {expected}, found {found}")
}
