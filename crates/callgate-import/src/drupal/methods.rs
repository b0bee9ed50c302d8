//! The methods of `jsonrpc_discovery`, read with patience: versions of the module differ in what they
//! say, and all leave out what is false or empty.

use callgate::model::ParamStyle;
use callgate_registry::MethodRow;
use serde_json::{Map, Value, json};

use super::{schema as input_schema, text};
use crate::php_schema;
use crate::source::Proposal;

/// The methods of an answer.
pub(super) fn list(answer: Value) -> Option<Vec<Value>> {
    match answer {
        Value::Array(list) => Some(list),
        Value::Object(mut answer) => match answer.shift_remove("data")? {
            Value::Array(list) => Some(list),
            Value::Object(by_id) => Some(by_id.into_iter().map(|(_, method)| method).collect()),
            _ => None,
        },
        _ => None,
    }
}

/// A method. Whether it is a tool, the configuration says: there is no mark here.
pub(super) fn proposal(method: &Value) -> Result<Proposal, String> {
    let id = text(method, "id").ok_or("the method has no `id`")?;
    let description = said(method, "usage").and_then(Value::as_str).map(str::trim);
    let (style, schema) = params(said(method, "params"));
    let output = said(method, "output").filter(|output| output.is_object()).cloned();
    let row = MethodRow {
        rpc_method: id.to_owned(),
        description: description.filter(|usage| !usage.is_empty()).map(ToOwned::to_owned),
        params_by: Some(style.as_str().to_owned()),
        input_schema: Some(schema.to_string()),
        output_schema: output.map(|mut output| {
            php_schema::repair(&mut output);
            output.to_string()
        }),
        ..MethodRow::default()
    };
    Ok(Proposal::new(row, None))
}

/// What is among the attributes, or beside them.
fn said<'v>(part: &'v Value, key: &str) -> Option<&'v Value> {
    part.get("attributes").and_then(|attributes| attributes.get(key)).or_else(|| part.get(key))
}

/// How the parameters are sent, and their schema. A list, or numbers for names, is by position.
fn params(said: Option<&Value>) -> (ParamStyle, Value) {
    let params: Vec<(String, &Value)> = match said {
        Some(Value::Object(named)) => {
            named.iter().map(|(name, param)| (name.clone(), param)).collect()
        }
        Some(Value::Array(list)) => {
            list.iter().enumerate().map(|(number, param)| (number.to_string(), param)).collect()
        }
        _ => Vec::new(),
    };
    let style = style(params.iter().map(|(name, _)| name));
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (number, (name, param)) in params.into_iter().enumerate() {
        let name = match style {
            ParamStyle::Named => name,
            ParamStyle::Positional => own_name(param, number, &properties),
        };
        if self::said(param, "required") == Some(&json!(true)) {
            required.push(json!(name));
        }
        properties.insert(name, schema(param));
    }
    let mut root = json!({"type": "object", "properties": properties});
    php_schema::repair(&mut root);
    if let Value::Object(root) = &mut root {
        if !required.is_empty() {
            root.insert("required".to_owned(), Value::Array(required));
        }
        // Drupal would drop others silently.
        root.insert("additionalProperties".to_owned(), json!(false));
    }
    (style, root)
}

/// What a parameter without a name is called.
fn own_name(param: &Value, number: usize, taken: &Map<String, Value>) -> String {
    let is_name = |id: &&str| !id.bytes().all(|byte| byte.is_ascii_digit());
    let own = text(param, "id").filter(is_name).filter(|id| !taken.contains_key(*id));
    own.map_or_else(|| input_schema::name(number), ToOwned::to_owned)
}

/// The schema beside the attributes is what a parameter's factory makes of it; that counts.
fn schema(param: &Value) -> Value {
    let made = param.get("schema").filter(|schema| schema.is_object());
    let declared = || said(param, "schema").filter(|schema| schema.is_object());
    let mut schema = made.or_else(declared).cloned().unwrap_or_else(|| json!({}));
    let words = said(param, "description").and_then(Value::as_str);
    if let (Some(words), Value::Object(schema)) = (words, &mut schema) {
        schema.entry("description").or_insert_with(|| json!(words));
    }
    schema
}

/// Returns how parameters of these names are sent: Drupal takes a list where they are numbers.
fn style<'a>(names: impl IntoIterator<Item = &'a String>) -> ParamStyle {
    let mut names = names.into_iter().peekable();
    let is_number = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    if names.peek().is_some() && names.all(is_number) {
        ParamStyle::Positional
    } else {
        ParamStyle::Named
    }
}
