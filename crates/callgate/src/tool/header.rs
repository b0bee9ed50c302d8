//! `x-mcp-header`: arguments that modern clients repeat in HTTP headers, so that what stands between
//! can route by them. One wrong annotation makes clients drop the tool, so it is found here.

use std::collections::HashSet;

use serde_json::Value;

use super::advertised_names;
use crate::method::{DefinitionError, Input, ParamType};

/// The annotation.
pub(crate) const KEYWORD: &str = "x-mcp-header";
/// The types that a header can carry.
const TYPES: [&str; 3] = ["string", "integer", "boolean"];

/// An argument that is repeated in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderParam {
    /// The whole name of the header, in lower case: `mcp-param-…`.
    pub(crate) header: Box<str>,
    /// Where the argument is: the names of properties, from the root down.
    pub(crate) path: Box<[Box<str>]>,
}

/// All annotations of a method's input, or what is wrong with one.
pub(crate) fn params(input: &Input) -> Result<Box<[HeaderParam]>, DefinitionError> {
    let mut found = Found::default();
    match input {
        Input::Params(params) => {
            for (name, param) in &advertised_names(params)? {
                if let ParamType::Schema(schema) = &param.ty {
                    found.property(schema, &mut vec![name])?;
                }
            }
        }
        Input::Schema { check, advertised } => {
            let schema = advertised.as_ref().unwrap_or(check);
            found.schema(schema, &mut Vec::new())?;
        }
    }
    Ok(found.params.into())
}

#[derive(Default)]
struct Found {
    params: Vec<HeaderParam>,
    names: HashSet<String>,
}

impl Found {
    /// A property's schema: it may be annotated itself.
    fn property<'a>(
        &mut self,
        schema: &'a Value,
        path: &mut Vec<&'a str>,
    ) -> Result<(), DefinitionError> {
        if let Some(name) = schema.get(KEYWORD) {
            self.annotated(name, schema, path)?;
        }
        self.schema(schema, path)
    }

    /// What is below a schema. Only properties of properties can be reached by every client.
    fn schema<'a>(
        &mut self,
        schema: &'a Value,
        path: &mut Vec<&'a str>,
    ) -> Result<(), DefinitionError> {
        let Value::Object(members) = schema else { return Ok(()) };
        for (key, member) in members {
            match (key.as_str(), member) {
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        path.push(name);
                        self.property(property, path)?;
                        path.pop();
                    }
                }
                // Data, not schemas.
                ("default" | "examples" | "enum" | "const" | KEYWORD, _) => {}
                (_, other) => refuse_within(other)?,
            }
        }
        Ok(())
    }

    fn annotated(
        &mut self,
        name: &Value,
        schema: &Value,
        path: &[&str],
    ) -> Result<(), DefinitionError> {
        let place = path.join(".");
        let wrong = |problem: String| DefinitionError::Header(format!("of `{place}` {problem}"));
        let name = name.as_str().filter(|name| is_token(name)).ok_or_else(|| {
            wrong("must be a header name: letters, digits and -_.~!#$%&'*+^`|".to_owned())
        })?;
        let is_primitive =
            schema.get("type").and_then(Value::as_str).is_some_and(|ty| TYPES.contains(&ty));
        if !is_primitive {
            return Err(wrong("needs exactly one type: string, integer or boolean".to_owned()));
        }
        let header = format!("mcp-param-{}", name.to_ascii_lowercase());
        if !self.names.insert(header.clone()) {
            return Err(wrong(format!("is `{name}`, which another parameter has")));
        }
        let path = path.iter().map(|name| Box::from(*name)).collect();
        self.params.push(HeaderParam { header: header.into(), path });
        Ok(())
    }
}

fn refuse_within(value: &Value) -> Result<(), DefinitionError> {
    let out_of_reach = || {
        let problem = "stands where clients do not look; only properties of properties may have it";
        DefinitionError::Header(problem.to_owned())
    };
    match value {
        Value::Object(members) if members.contains_key(KEYWORD) => Err(out_of_reach()),
        Value::Object(members) => members.values().try_for_each(refuse_within),
        Value::Array(items) => items.iter().try_for_each(refuse_within),
        _ => Ok(()),
    }
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

    fn of(schema: Value) -> Result<Vec<(String, String)>, String> {
        let params = params(&Input::Schema { check: schema, advertised: None });
        let described = |param: &HeaderParam| (param.header.to_string(), param.path.join("."));
        params
            .map(|params| params.iter().map(described).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn annotations_are_found_through_properties() {
        let found = of(json!({"type": "object", "properties": {
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
    fn wrong_annotations_are_refused_with_their_place() {
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
        .map(|schema| of(schema).unwrap_err())
        .into();
        insta::assert_debug_snapshot!(errors);
    }
}
