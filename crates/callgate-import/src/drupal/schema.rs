//! Input schemas of a site, with its numbered parameters.

use callgate::model::ParamStyle;
use serde_json::{Map, Value, json};

use crate::php_schema;

/// Returns how the parameters of an input schema are sent, and the schema with a name for each of them.
/// PHP writes parameters that are numbered from 0 as a list, and numbers them in `required`.
pub(super) fn input(mut schema: Value) -> (ParamStyle, Value) {
    php_schema::repair(&mut schema);
    let Value::Object(root) = &mut schema else { return (ParamStyle::Named, schema) };
    let numbered = match root.get_mut("properties") {
        Some(Value::Array(list)) => std::mem::take(list),
        Some(Value::Object(named)) if is_numbered(named) => {
            let mut numbered: Vec<(usize, Value)> = std::mem::take(named)
                .into_iter()
                .filter_map(|(number, schema)| Some((number.parse().ok()?, schema)))
                .collect();
            numbered.sort_by_key(|(number, _)| *number);
            numbered.into_iter().map(|(_, schema)| schema).collect()
        }
        _ => return (ParamStyle::Named, schema),
    };
    let properties: Map<String, Value> =
        numbered.into_iter().enumerate().map(|(at, schema)| (name(at), schema)).collect();
    if let Some(Value::Array(required)) = root.get_mut("required") {
        for number in required.iter_mut() {
            if let Some(at) = position(number) {
                *number = json!(name(at));
            }
        }
    }
    root.insert("properties".to_owned(), Value::Object(properties));
    (ParamStyle::Positional, schema)
}

/// The name of the parameter at a position.
pub(super) fn name(at: usize) -> String {
    format!("param{}", at + 1)
}

/// Returns `true` if the names are the numbers from 0 on.
fn is_numbered(named: &Map<String, Value>) -> bool {
    !named.is_empty() && (0..named.len()).all(|number| named.contains_key(&number.to_string()))
}

fn position(number: &Value) -> Option<usize> {
    match number {
        Value::String(text) => text.parse().ok(),
        number => number.as_u64().and_then(|number| number.try_into().ok()),
    }
}
