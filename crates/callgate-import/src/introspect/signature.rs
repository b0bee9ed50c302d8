//! Input schemas from the replies of `system.methodSignature`.

use callgate::model::REST_PARAM;
use serde_json::{Map, Value, json};

use crate::schema::{object_schema, param_name};

/// Maximum number of signatures. A reply with more is ignored.
const MAX_SIGNATURES: usize = 32;
/// Maximum number of parameters of a signature. A reply with more is ignored.
const MAX_PARAMS: usize = 64;

/// Returns the schema for signatures. A signature is a list of types, and its first type is that of the result. If
/// there are no signatures, the schema accepts any parameters.
pub(super) fn input_schema(reply: Option<&Value>) -> Value {
    match reply.and_then(signatures) {
        Some(signatures) => params_schema(&signatures),
        None => any_params_schema(),
    }
}

/// Returns the types of the parameters of each signature. Servers that know no signature reply with a string, null or
/// an empty list.
fn signatures(reply: &Value) -> Option<Vec<Vec<&str>>> {
    let all = reply.as_array().filter(|all| !all.is_empty())?;
    // If there is a single signature, some servers omit the outer list.
    let all = match all.first() {
        Some(Value::String(_)) => vec![types(all)?],
        _ => all.iter().map(|list| types(list.as_array()?)).collect::<Option<Vec<_>>>()?,
    };
    let is_within_limits = all.len() <= MAX_SIGNATURES
        && all.iter().all(|types| (1..=MAX_PARAMS + 1).contains(&types.len()));
    is_within_limits
        .then(|| all.into_iter().map(|types| types.into_iter().skip(1).collect()).collect())
}

fn types(list: &[Value]) -> Option<Vec<&str>> {
    list.iter().map(Value::as_str).collect()
}

fn any_params_schema() -> Value {
    let params = json!({
        "type": "array",
        "items": {},
        "description": "The parameters in order. The service does not describe them.",
        REST_PARAM: true,
    });
    object_schema(Map::from_iter([("params".to_owned(), params)]), Vec::new())
}

fn params_schema(signatures: &[Vec<&str>]) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    let longest = signatures.iter().map(Vec::len).max().unwrap_or(0);
    for position in 0..longest {
        let name = param_name(position);
        let mut alternatives: Vec<Value> = Vec::new();
        for ty in signatures.iter().filter_map(|types| types.get(position)) {
            let alternative = schema(ty);
            if !alternatives.contains(&alternative) {
                alternatives.push(alternative);
            }
        }
        let property = match alternatives.as_slice() {
            [single] => single.clone(),
            // A type that accepts any value includes all other types.
            all if all.contains(&json!({})) => json!({}),
            _ => json!({"anyOf": alternatives}),
        };
        properties.insert(name.clone(), property);
        if signatures.iter().all(|types| types.len() > position) {
            required.push(json!(name));
        }
    }
    object_schema(properties, required)
}

/// Returns the schema of a type of XML-RPC or of a common synonym.
fn schema(ty: &str) -> Value {
    match ty.trim().to_ascii_lowercase().as_str() {
        "int" | "i1" | "i2" | "i4" | "i8" | "integer" | "long" => json!({"type": "integer"}),
        "double" | "float" | "number" => json!({"type": "number"}),
        "boolean" | "bool" => json!({"type": "boolean"}),
        "string" | "str" | "base64" => json!({"type": "string"}),
        "datetime.iso8601" => {
            json!({"type": "string", "description": "A date and time, ISO 8601."})
        }
        "array" | "list" => json!({"type": "array", "items": {}}),
        "struct" | "object" | "dict" => json!({"type": "object"}),
        "nil" | "null" | "none" => json!({"type": "null"}),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_become_a_schema_of_positional_parameters() {
        let schema =
            input_schema(Some(&json!([["string", "int", "struct"], ["string", "string"]])));
        let expected = json!({
            "type": "object",
            "properties": {
                "param1": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "param2": {"type": "object"},
            },
            "required": ["param1"],
            "additionalProperties": false,
        });
        assert_eq!(schema, expected);
        assert_eq!(input_schema(Some(&json!(["int", "bool"])))["required"], json!(["param1"]));
        let no_params = json!({"type": "object", "properties": {}, "additionalProperties": false});
        assert_eq!(input_schema(Some(&json!([["array"]]))), no_params);
        let any_type = input_schema(Some(&json!([["int", "any"], ["int", "int"]])));
        assert_eq!(any_type["properties"]["param1"], json!({}));
    }

    #[test]
    fn without_a_valid_signature_any_parameters_are_accepted() {
        let any_params = input_schema(None);
        assert_eq!(any_params["properties"]["params"][REST_PARAM], true);
        let long = vec!["int"; MAX_PARAMS + 2];
        for reply in [
            json!(null),
            json!("undef"),
            json!([]),
            json!([[]]),
            json!([["int", 1]]),
            json!({"a": 1}),
            json!([long]),
            json!(vec![["int"]; MAX_SIGNATURES + 1]),
        ] {
            assert_eq!(input_schema(Some(&reply)), any_params, "{reply}");
        }
    }
}
