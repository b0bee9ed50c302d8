//! Converts a row of `rpc_methods` into a [`Method`].
//!
//! `params` is a JSON array of parameters: names, PHP signatures such as `int $id`, or objects. `params_types`, if
//! present, is a JSON array of their types. The types have a column of their own, because they can be more exact than
//! the signatures: where a doc comment in PHP has `int[]`, the signature has only `array`.

#[cfg(test)]
mod tests;

use callgate::access::Requirement;
use callgate::model::{
    ClassName, DefinitionError, Method, Param, TypeDefinition, TypeExpr, TypeField,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::rows::{CHECK_ARGUMENTS, GUESSED, MethodRow, TypeRow, non_empty};

/// Converts a row into a method.
pub(crate) fn method(row: &MethodRow, requirement: Requirement) -> Result<Method, DefinitionError> {
    let mut method = Method::new(row.rpc_method.parse()?)
        .description(row.description.clone().unwrap_or_default())
        .with_requirement(requirement)
        .upstream(row.upstream_name());
    // The name is not trimmed, because names of methods at the service may have spaces.
    if let Some(name) = row.remote_name.as_deref().filter(|name| !name.trim().is_empty()) {
        method = method.remote_name(name);
    }
    match json_column::<Value>("input_schema", row.input_schema.as_deref())? {
        Some(schema) => method = method.input_schema(schema).map_err(in_column("input_schema"))?,
        None => {
            for param in params(row)? {
                method = method.param(param);
            }
        }
    }
    match json_column::<Value>("output_schema", row.output_schema.as_deref())? {
        Some(schema) => {
            method = method.output_schema(schema).map_err(in_column("output_schema"))?;
        }
        None => {
            if let Some(text) = non_empty(row.return_type.as_deref()) {
                method = method.returns(text.parse().map_err(in_column("return_type"))?);
            }
        }
    }
    overlay(method, row)
}

/// Applies the columns of a row that also apply to methods in code.
pub(crate) fn overlay(mut method: Method, row: &MethodRow) -> Result<Method, DefinitionError> {
    if let Some(column) = &row.unreadable {
        return Err(DefinitionError::value(column.clone(), "the bytes are not text"));
    }
    if let Some(title) = non_empty(row.title.as_deref()) {
        method = method.title(title);
    }
    if let Some(description) = non_empty(row.description.as_deref()) {
        method = method.description(description);
    }
    if let Some(safety) = non_empty(row.safety.as_deref()) {
        method = match safety.strip_prefix(GUESSED) {
            Some(guess) => method.guessed_safety(guess.parse()?),
            None => method.safety(safety.parse()?),
        };
    }
    if let Some(style) = non_empty(row.params_by.as_deref()) {
        method = method.param_style(style.parse()?);
    }
    if let Some(name) = non_empty(row.tool_name.as_deref()) {
        method = method.tool_name(name);
    }
    match json_column::<Value>("annotations", row.annotations.as_deref())? {
        None => {}
        Some(Value::Object(mut annotations)) => {
            match annotations.shift_remove(CHECK_ARGUMENTS) {
                None | Some(Value::Bool(true)) => {}
                Some(Value::Bool(false)) => method = method.unchecked(),
                Some(other) => {
                    let problem = format!(
                        "`{CHECK_ARGUMENTS}`: expected a boolean, found `{}`",
                        excerpt(&other)
                    );
                    return Err(DefinitionError::value("annotations", problem));
                }
            }
            method = method.annotations(annotations);
        }
        // PHP encodes an empty object as `[]`.
        Some(Value::Array(items)) if items.is_empty() => {}
        Some(other) => {
            return Err(DefinitionError::value(
                "annotations",
                format_args!("expected an object, found `{}`", excerpt(&other)),
            ));
        }
    }
    Ok(method)
}

/// Converts a row of `callgate_types`.
pub(crate) fn type_definition(
    row: &TypeRow,
) -> Result<(ClassName, TypeDefinition), DefinitionError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, expecting = "an object with `name`, `type`, …")]
    struct FieldEntry {
        name: String,
        #[serde(rename = "type")]
        ty: Option<String>,
        #[serde(default)]
        description: String,
        #[serde(default)]
        optional: bool,
    }
    let name = ClassName::parse(row.class().1).ok_or_else(|| {
        DefinitionError::value("name", format_args!("`{}` is not a class name", row.name))
    })?;
    if let Some(schema) = json_column("schema", row.schema.as_deref())? {
        return Ok((name, TypeDefinition::Schema(schema)));
    }
    let fields: Vec<FieldEntry> = json_column("fields", row.fields.as_deref())?.unwrap_or_default();
    let fields = fields.into_iter().map(|field| {
        let ty = field.ty.as_deref().map_or(Ok(TypeExpr::Mixed), str::parse);
        Ok(TypeField {
            ty: ty.map_err(in_column("fields"))?,
            name: field.name,
            description: field.description,
            required: !field.optional,
        })
    });
    Ok((name, TypeDefinition::Fields(fields.collect::<Result<_, DefinitionError>>()?)))
}

/// An entry of `params` that is an object.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, expecting = "a text or an object with `name`, `type`, …")]
struct ParamObject {
    name: Option<String>,
    #[serde(rename = "type")]
    ty: Option<String>,
    schema: Option<Value>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    optional: bool,
    #[serde(default, deserialize_with = "null_as_value")]
    default: Option<Value>,
}

/// Deserializes a default value. `null` in the JSON means that the default is `null`, not that there is none.
fn null_as_value<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn params(row: &MethodRow) -> Result<Vec<Param>, DefinitionError> {
    let entries: Vec<Value> = json_column("params", row.params.as_deref())?.unwrap_or_default();
    let types: Vec<Option<String>> =
        json_column("params_types", row.params_types.as_deref())?.unwrap_or_default();
    let defaults: Map<String, Value> = match json_column("defaults", row.defaults.as_deref())? {
        Some(Value::Object(defaults)) => defaults,
        None => Map::new(),
        Some(Value::Array(items)) if items.is_empty() => Map::new(),
        Some(other) => {
            let problem = format!("expected an object, found `{}`", excerpt(&other));
            return Err(DefinitionError::value("defaults", problem));
        }
    };
    let count = entries.len().max(types.len());
    let mut entries = entries.into_iter();
    let mut types = types.into_iter();
    let mut params = Vec::with_capacity(count);
    for index in 0..count {
        let ty = types.next().flatten().filter(|ty| !ty.trim().is_empty());
        let object = match entries.next() {
            Some(Value::String(text)) => signature(&text, ty.is_some())?,
            Some(entry) => serde_json::from_value(entry).map_err(in_column("params"))?,
            None => ParamObject::default(),
        };
        if index == 0 && is_response(ty.as_deref().or(object.ty.as_deref())) {
            continue;
        }
        params.push(param(object, ty.as_deref(), index, &defaults)?);
    }
    Ok(params)
}

fn param(
    object: ParamObject,
    ty: Option<&str>,
    index: usize,
    defaults: &Map<String, Value>,
) -> Result<Param, DefinitionError> {
    let name = object.name.unwrap_or_else(|| format!("param{}", index + 1));
    let is_variadic = object.ty.as_deref().is_some_and(|ty| ty.ends_with("..."));
    let mut param = match object.schema {
        Some(schema) => Param::with_schema(&name, schema).map_err(in_column("params"))?,
        None => {
            let (column, text) = match (ty, &object.ty) {
                (Some(ty), _) => ("params_types", ty),
                (None, Some(ty)) => ("params", ty.trim_end_matches('.')),
                (None, None) => ("params", "mixed"),
            };
            let ty: TypeExpr = text.parse().map_err(in_column(column))?;
            let ty = match ty {
                list @ TypeExpr::List(_) if is_variadic => list,
                item if is_variadic => TypeExpr::List(Box::new(item)),
                other => other,
            };
            Param::new(&name, ty)
        }
    };
    if is_variadic {
        param = param.variadic();
    } else if object.optional {
        param = param.optional();
    }
    if let Some(default) = defaults.get(&name).cloned().or(object.default) {
        param = param.default(default);
    }
    Ok(param.description(object.description))
}

/// Parses a parameter such as `CommitValuesObject[] $commits`, `bool $details = false`, `$name` or `int
/// ...$ids`.
///
/// A word without `$` is the name if the type is given elsewhere, otherwise it is the type.
fn signature(text: &str, has_type: bool) -> Result<ParamObject, DefinitionError> {
    // The default follows the name. A literal type before the name may contain `=`.
    let name_start = text.find('$').unwrap_or(0);
    let (declared, default) = match text.get(name_start..).and_then(|rest| rest.find('=')) {
        Some(at) => {
            let (declared, default) = text.split_at(name_start + at);
            (declared.trim(), Some(default.trim_start_matches('=').trim()))
        }
        None => (text.trim(), None),
    };
    let mut object = ParamObject {
        optional: default.is_some(),
        default: default.and_then(php_literal),
        ..ParamObject::default()
    };
    let Some((ty, name)) = declared.split_once('$') else {
        let is_identifier = declared.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if let Some((ty, name)) = declared.rsplit_once(' ')
            && [declared, ty].map(|text| text.parse::<TypeExpr>().is_ok()) == [false, true]
        {
            let problem = format!("`{declared}` has no name; write `{ty} ${name}`");
            return Err(DefinitionError::value("params", problem));
        }
        if has_type && is_identifier && !declared.is_empty() {
            object.name = Some(declared.to_owned());
        } else if !declared.is_empty() {
            object.ty = Some(declared.to_owned());
        }
        return Ok(object);
    };
    let name = name.trim();
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(DefinitionError::value("params", format_args!("`{text}` has no name")));
    }
    object.name = Some(name.to_owned());
    let ty = ty.trim().trim_end_matches('&').trim_end();
    match ty.strip_suffix("...") {
        // `param` converts the type into a list.
        Some(item) => {
            let item = item.trim_end();
            object.ty = Some(format!("{}...", if item.is_empty() { "mixed" } else { item }));
            object.optional = true;
        }
        None if ty.is_empty() => {}
        None => object.ty = Some(ty.to_owned()),
    }
    Ok(object)
}

/// Parses a PHP literal. Returns `None` for any other expression. The parameter is then optional without a default.
fn php_literal(text: &str) -> Option<Value> {
    match text.to_ascii_lowercase().as_str() {
        "null" => return Some(Value::Null),
        "true" => return Some(Value::Bool(true)),
        "false" => return Some(Value::Bool(false)),
        "[]" | "array()" => return Some(Value::Array(Vec::new())),
        _ => {}
    }
    match text.parse::<TypeExpr>() {
        Ok(TypeExpr::Literal(callgate::model::Literal::String(text))) => Some(Value::String(text)),
        Ok(TypeExpr::Literal(callgate::model::Literal::Number(number))) => {
            Some(Value::Number(number))
        }
        _ => None,
    }
}

/// Returns `true` for the type `Response`. Festi passes a `Response` as the first argument of display methods, which
/// fill it. This argument is not a parameter of the tool.
fn is_response(ty: Option<&str>) -> bool {
    let name = ty.map(|ty| ty.trim().trim_start_matches('?').trim_end_matches('&'));
    name.and_then(ClassName::parse).is_some_and(|class| class.short() == "Response")
}

fn json_column<T: DeserializeOwned>(
    column: &'static str,
    text: Option<&str>,
) -> Result<Option<T>, DefinitionError> {
    let Some(text) = non_empty(text) else { return Ok(None) };
    match serde_json::from_str::<Option<T>>(text) {
        Ok(value) => Ok(value),
        Err(error) => Err(DefinitionError::value(column, error)),
    }
}

fn in_column<E: std::fmt::Display>(column: &'static str) -> impl Fn(E) -> DefinitionError {
    move |error| DefinitionError::value(column, error)
}

fn excerpt(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}
