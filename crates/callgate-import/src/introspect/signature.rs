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
        Some(signatures) => closed(&signatures),
        None => open(),
    }
}

/// Returns the types of the parameters of each signature. Servers that know no signature reply with a string, null or
/// an empty list.
fn signatures(reply: &Value) -> Option<Vec<Vec<&str>>> {
    let all = reply.as_array().filter(|all| !all.is_empty())?;
    // If there is a single signature, some servers omit the outer list.
    let all = match all.first() {
        Some(Value::String(_)) => vec![types(all)?],
        _ => all.iter().map(|one| types(one.as_array()?)).collect::<Option<Vec<_>>>()?,
    };
    let fits = all.len() <= MAX_SIGNATURES
        && all.iter().all(|types| (1..=MAX_PARAMS + 1).contains(&types.len()));
    fits.then(|| all.into_iter().map(|types| types.into_iter().skip(1).collect()).collect())
}

fn types(list: &[Value]) -> Option<Vec<&str>> {
    list.iter().map(Value::as_str).collect()
}

fn open() -> Value {
    let params = json!({
        "type": "array",
        "items": {},
        "description": "The parameters in order. The service does not describe them.",
        REST_PARAM: true,
    });
    object_schema(Map::from_iter([("params".to_owned(), params)]), Vec::new())
}

fn closed(signatures: &[Vec<&str>]) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    let longest = signatures.iter().map(Vec::len).max().unwrap_or(0);
    for position in 0..longest {
        let name = param_name(position);
        let mut forms: Vec<Value> = Vec::new();
        for ty in signatures.iter().filter_map(|types| types.get(position)) {
            let form = schema(ty);
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
        let form = match forms.as_slice() {
            [one] => one.clone(),
            // A type that accepts any value includes all other types.
            all if all.contains(&json!({})) => json!({}),
            _ => json!({"anyOf": forms}),
        };
        properties.insert(name.clone(), form);
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
    fn signatures_become_positional_parameters() {
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
        let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
        assert_eq!(input_schema(Some(&json!([["array"]]))), none);
        let any = input_schema(Some(&json!([["int", "any"], ["int", "int"]])));
        assert_eq!(any["properties"]["param1"], json!({}));
    }

    #[test]
    fn without_a_signature_any_parameters_are_accepted() {
        let open = input_schema(None);
        assert_eq!(open["properties"]["params"][REST_PARAM], true);
        let long = vec!["int"; MAX_PARAMS + 2];
        for said in [
            json!(null),
            json!("undef"),
            json!([]),
            json!([[]]),
            json!([["int", 1]]),
            json!({"a": 1}),
            json!([long]),
            json!(vec![["int"]; MAX_SIGNATURES + 1]),
        ] {
            assert_eq!(input_schema(Some(&said)), open, "{said}");
        }
    }
}
