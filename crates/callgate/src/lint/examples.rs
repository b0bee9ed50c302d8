//! Finds examples of parameters that do not match the schema of their own tool.

use serde_json::{Map, Value};

use crate::model::schema::validator::compile;

/// Returns the parameters of `advertised` that have an example which `check` refuses. Both are schemas of all
/// arguments, and may be the same schema.
pub fn refused_examples<'a>(check: &Value, advertised: &'a Value) -> Vec<&'a str> {
    let properties = advertised.get("properties").and_then(Value::as_object).into_iter().flatten();
    let mut examples = properties
        .filter_map(|(name, property)| Some((name, property.get("examples")?.as_array()?)))
        .peekable();
    if examples.peek().is_none() {
        return Vec::new();
    }
    // Each example is checked without the other parameters.
    let mut single_argument_schema = check.clone();
    if let Value::Object(members) = &mut single_argument_schema {
        members.shift_remove("required");
    }
    let Ok(validator) = compile(&single_argument_schema) else { return Vec::new() };
    let is_refused = |name: &String, example: &Value| {
        let arguments = Map::from_iter([(name.clone(), example.clone())]);
        !validator.is_valid(&Value::Object(arguments))
    };
    let refused =
        examples.filter(|(name, all)| all.iter().any(|example| is_refused(name, example)));
    refused.map(|(name, _)| name.as_str()).collect()
}
