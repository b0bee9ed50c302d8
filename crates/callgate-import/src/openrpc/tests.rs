//! Documents that are designed to use as much memory as possible.

use serde_json::{Map, Value, json};

use super::*;
use crate::limits::{MAX_METHOD_BYTES, method_bytes};

fn read_document(methods: &Value, schemas: &Value) -> anyhow::Result<Source> {
    let document = json!({
        "openrpc": "1.3.2",
        "info": {"title": "Pets", "version": "1"},
        "methods": methods,
        "components": {"schemas": schemas},
    });
    read(&document.to_string(), ReadOptions { upstream: "pets", external: &[], name: None })
}

fn method(name: &str, params: &Value) -> Value {
    json!({"name": name, "params": params, "result": {"name": "result", "schema": {}}})
}

/// Returns parameters that refer to a schema.
fn params(count: usize, schema: &str) -> Value {
    let reference = format!("#/components/schemas/{schema}");
    (0..count).map(|n| json!({"name": format!("p{n}"), "schema": {"$ref": reference}})).collect()
}

fn bytes(source: &Source) -> usize {
    source.methods.iter().map(|method| method_bytes(&method.row)).sum()
}

/// Asserts that the large method is refused, and that a small method is imported. Returns the
/// reason of the refusal.
fn refusal_of(large: &Value, schemas: &Value) -> String {
    let small = method("small", &json!([]));
    let source = read_document(&json!([large, small]), schemas).unwrap();
    let ids: Vec<&str> =
        source.methods.iter().map(|method| method.row.rpc_method.as_str()).collect();
    assert_eq!(ids, ["small"]);
    let [refusal] = source.refused.as_slice() else { panic!("{:?}", source.refused) };
    assert!(refusal.id.len() + refusal.reason.len() < 10_000);
    format!("{}: {}", refusal.id, refusal.reason)
}

#[test]
fn a_method_with_many_references_to_a_large_schema_is_refused() {
    let schemas = json!({"Text": {"type": "string", "description": "a".repeat(1 << 20)}});
    let reason = refusal_of(&method("large", &params(4000, "Text")), &schemas);
    assert_eq!(reason, "large: params: the schema has more than 1048576 bytes");
}

#[test]
fn many_references_to_a_schema_stay_within_the_method_limit() {
    let schemas = json!({"Text": {"type": "string", "description": "a".repeat(10_000)}});
    let source = read_document(&json!([method("m", &params(4000, "Text"))]), &schemas).unwrap();
    assert_eq!(source.refused.len() + source.methods.len(), 1);
    assert!(bytes(&source) <= MAX_METHOD_BYTES);
}

#[test]
fn definitions_that_expand_exponentially_stay_within_the_method_limit() {
    let level = |n: usize| {
        let next = json!({"$ref": format!("#/components/schemas/L{}", n + 1)});
        (format!("L{n}"), json!({"type": "object", "properties": {"a": next, "b": next}}))
    };
    let end = ("L60".to_owned(), json!({"type": "string"}));
    let schemas: Map<String, Value> = (0..60).map(level).chain([end]).collect();
    let methods = json!([method("m", &params(2, "L0"))]);
    let mut source = read_document(&methods, &Value::Object(schemas)).unwrap();
    source.apply_options(&crate::ImportOptions::default());
    assert!(bytes(&source) < MAX_METHOD_BYTES);
}

#[test]
fn a_method_with_an_oversized_part_is_refused_and_other_methods_are_imported() {
    let no_schemas = json!({});
    let long = "a".repeat(MAX_METHOD_BYTES);
    let with_member = |key: &str, value: Value| {
        let mut large = method("large", &json!([]));
        large[key] = value;
        large
    };
    assert!(
        refusal_of(&with_member("name", json!(long)), &no_schemas)
            .ends_with("bytes, more than 4194304")
    );
    assert!(
        refusal_of(&with_member("description", json!(long)), &no_schemas)
            .contains("bytes, more than")
    );
    let tag = json!({"Tag": {"name": "t".repeat(1 << 20)}});
    let tags: Value = (0..4000).map(|_| json!({"$ref": "#/components/schemas/Tag"})).collect();
    assert!(refusal_of(&with_member("tags", tags), &tag).contains("the tags have more than"));
    let reference = "#/".to_owned() + &"r".repeat(1 << 20);
    let unresolved = json!([{"name": "p", "schema": {"$ref": reference}}]);
    assert!(
        refusal_of(&with_member("params", unresolved), &no_schemas).contains("`$ref` to `#/rrr")
    );
    let many_params: Value = (0..200_000).map(|n| json!({"name": format!("p{n}")})).collect();
    assert!(
        refusal_of(&with_member("params", many_params), &no_schemas)
            .contains("more than 1048576 bytes")
    );
    let embedded: Value = (0..100)
        .map(|n| json!({"name": format!("p{n}"), "schema": {"definitions": {"A": "a".repeat(100_000)}}}))
        .collect();
    assert!(
        refusal_of(&with_member("params", embedded), &no_schemas)
            .contains("more than 4194304 bytes")
    );
}

#[test]
fn a_method_with_many_large_referenced_examples_is_imported() {
    let pairing = json!({"params": (0..2000).map(|_| json!({"$ref": "#/components/schemas/Value"})).collect::<Value>()});
    let schemas =
        json!({"Value": {"name": "p0", "value": "v".repeat(1 << 20)}, "Pairing": pairing});
    let mut large = method("m", &json!([{"name": "p0"}]));
    large["examples"] =
        (0..2000).map(|_| json!({"$ref": "#/components/schemas/Pairing"})).collect();
    assert_eq!(read_document(&json!([large]), &schemas).unwrap().methods.len(), 1);
}

#[test]
fn deeply_nested_documents_and_long_reference_chains_are_refused() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let text = format!("{{\"openrpc\": \"1.3.2\", \"methods\": {deep}}}");
    assert!(read(&text, ReadOptions { upstream: "pets", external: &[], name: None }).is_err());
    let chain: Map<String, Value> = (0..2000)
        .map(|n| {
            let next = json!({"$ref": format!("#/components/schemas/L{}", n + 1)});
            (format!("L{n}"), json!({"type": "array", "items": next}))
        })
        .chain([("L2000".to_owned(), json!({}))])
        .collect();
    let reason = refusal_of(&method("large", &params(1, "L0")), &Value::Object(chain));
    assert!(reason.contains("more than 1000 definitions"), "{reason}");
}

#[test]
fn a_long_title_is_truncated_in_the_name_of_the_source() {
    let text = json!({
        "openrpc": "1.3.2",
        "info": {"title": "t".repeat(1 << 20)},
        "methods": [method("m", &json!([]))],
    });
    let source =
        read(&text.to_string(), ReadOptions { upstream: "pets", external: &[], name: None })
            .unwrap();
    assert!(source.name.len() < 1024);
}
