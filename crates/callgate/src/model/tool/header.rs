//! `x-mcp-header`: arguments that clients repeat in HTTP headers, so that proxies can route by them. Clients drop tools
//! with an invalid annotation, so methods with an invalid annotation are rejected here.

use serde_json::Value;

use crate::model::method::DefinitionError;
use crate::model::schema::walk::for_each_schema_in;

/// Name of the annotation.
pub(crate) const KEYWORD: &str = "x-mcp-header";
/// Types that a header can contain.
const TYPES: [&str; 3] = ["string", "integer", "boolean"];

/// An argument that clients repeat in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderParam {
    /// Header name in lower case: `mcp-param-…`.
    pub(crate) header: Box<str>,
    /// Property names from the root to the argument.
    pub(crate) path: Box<[Box<str>]>,
}

/// Returns the parameters with an annotation. Fails if an annotation is invalid.
pub(crate) fn params(schema: &Value) -> Result<Box<[HeaderParam]>, DefinitionError> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found)?;
    Ok(found.into())
}

/// Collects the annotations of the properties of a schema, and of the properties nested in these properties. Clients
/// support annotations nowhere else.
fn collect<'a>(
    schema: &'a Value,
    path: &mut Vec<&'a str>,
    found: &mut Vec<HeaderParam>,
) -> Result<(), DefinitionError> {
    for (keyword, member) in schema.as_object().into_iter().flatten() {
        if let ("properties", Value::Object(properties)) = (keyword.as_str(), member) {
            for (name, property) in properties {
                path.push(name);
                if let Some(header) = property.get(KEYWORD) {
                    let param = annotated(header, property, path, found)?;
                    found.push(param);
                }
                collect(property, path, found)?;
                path.pop();
            }
            continue;
        }
        let mut is_unsupported = false;
        for_each_schema_in(keyword, member, &mut |map| is_unsupported |= map.contains_key(KEYWORD));
        if is_unsupported {
            let place =
                path.iter().chain([&keyword.as_str()]).copied().collect::<Vec<_>>().join(".");
            return Err(DefinitionError::Header(format!(
                "below `{place}` is not supported; use it on a parameter, or on a property of an object parameter"
            )));
        }
    }
    Ok(())
}

fn annotated(
    name: &Value,
    property: &Value,
    path: &[&str],
    previous: &[HeaderParam],
) -> Result<HeaderParam, DefinitionError> {
    let place = path.join(".");
    let invalid = |problem: &str| DefinitionError::Header(format!("of `{place}` {problem}"));
    let name = name
        .as_str()
        .filter(|name| is_token(name))
        .ok_or_else(|| invalid("must be a header name: letters, digits and -_.~!#$%&'*+^`|"))?;
    let is_primitive =
        property.get("type").and_then(Value::as_str).is_some_and(|ty| TYPES.contains(&ty));
    if !is_primitive {
        return Err(invalid("needs exactly one type: string, integer or boolean"));
    }
    let header = format!("mcp-param-{}", name.to_ascii_lowercase()).into_boxed_str();
    if previous.iter().any(|param| param.header == header) {
        return Err(invalid(&format!("is `{name}`, which another parameter already has")));
    }
    Ok(HeaderParam { header, path: path.iter().map(|name| Box::from(*name)).collect() })
}

fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn header_params(schema: &Value) -> Result<Vec<(String, String)>, String> {
        let params = params(schema);
        let described = |param: &HeaderParam| (param.header.to_string(), param.path.join("."));
        params
            .map(|params| params.iter().map(described).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn annotations_of_nested_properties_are_found() {
        let found = header_params(&json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "where": {"type": "object", "properties": {
                "shard": {"type": "integer", "x-mcp-header": "Shard-No"},
            }},
            "x-mcp-header": {"type": "string", "default": {"x-mcp-header": 1}},
        }}));
        assert_eq!(
            found.unwrap(),
            [
                ("mcp-param-region".to_owned(), "region".to_owned()),
                ("mcp-param-shard-no".to_owned(), "where.shard".to_owned()),
            ]
        );
    }

    #[test]
    fn invalid_annotations_are_rejected_with_their_location() {
        let property = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
        let errors: Vec<String> = [
            property(json!({"type": "string", "x-mcp-header": "two words"})),
            property(json!({"type": "string", "x-mcp-header": ""})),
            property(json!({"type": "string", "x-mcp-header": 1})),
            property(json!({"type": ["string", "null"], "x-mcp-header": "A"})),
            property(json!({"type": "number", "x-mcp-header": "A"})),
            property(json!({"x-mcp-header": "A"})),
            property(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}})),
            json!({"type": "object", "properties": {
                "a": {"type": "string", "x-mcp-header": "Same"},
                "b": {"type": "string", "x-mcp-header": "SAME"},
            }}),
            json!({"type": "object", "oneOf": [
                {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}},
            ]}),
        ]
        .map(|schema| header_params(&schema).unwrap_err())
        .into();
        insta::assert_debug_snapshot!(errors);
    }
}
