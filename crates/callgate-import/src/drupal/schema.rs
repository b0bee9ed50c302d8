//! Input schemas of a site. Their parameters may be numbered.

use callgate::model::ParamStyle;
use serde_json::{Map, Value, json};

use crate::schema::{param_name, repair_php};

/// Returns the style of the parameters, and a schema with a name for each parameter. PHP encodes parameters that are
/// numbered from 0 as a list. `required` then contains their numbers.
pub(super) fn input(mut schema: Value) -> (ParamStyle, Value) {
    repair_php(&mut schema);
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
    let properties: Map<String, Value> = numbered
        .into_iter()
        .enumerate()
        .map(|(index, schema)| (param_name(index), schema))
        .collect();
    if let Some(Value::Array(required)) = root.get_mut("required") {
        let positions =
            required.iter().filter_map(position).filter(|index| *index < properties.len());
        *required = positions.map(|index| json!(param_name(index))).collect();
    }
    root.insert("properties".to_owned(), Value::Object(properties));
    (ParamStyle::Positional, schema)
}

/// Returns `true` if the names are consecutive numbers from 0.
fn is_numbered(named: &Map<String, Value>) -> bool {
    !named.is_empty() && (0..named.len()).all(|number| named.contains_key(&number.to_string()))
}

fn position(number: &Value) -> Option<usize> {
    match number {
        Value::String(text) => text.parse().ok(),
        number => number.as_u64().and_then(|number| number.try_into().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_positions_without_a_parameter_are_ignored() {
        let (_, schema) = input(json!({"properties": [{}, {}], "required": ["7", 1, "x"]}));
        assert_eq!(schema["required"], json!(["param2"]));
    }
}
