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
fn refused(large: &Value, schemas: &Value) -> String {
    let small = method("small", &json!([]));
    let source = read_document(&json!([large, small]), schemas).unwrap();
    let ids: Vec<&str> = source.methods.iter().map(|it| it.row.rpc_method.as_str()).collect();
    assert_eq!(ids, ["small"]);
    let [refusal] = source.refused.as_slice() else { panic!("{:?}", source.refused) };
    assert!(refusal.id.len() + refusal.reason.len() < 10_000);
    format!("{}: {}", refusal.id, refusal.reason)
}

#[test]
fn many_references_to_a_long_text_are_refused() {
    let schemas = json!({"Text": {"type": "string", "description": "a".repeat(1 << 20)}});
    let reason = refused(&method("large", &params(4000, "Text")), &schemas);
    assert_eq!(reason, "large: params: the schema has more than 1048576 bytes");
}

#[test]
fn texts_of_one_size_are_kept_as_references() {
    let schemas = json!({"Text": {"type": "string", "description": "a".repeat(10_000)}});
    let source = read_document(&json!([method("m", &params(4000, "Text"))]), &schemas).unwrap();
    assert_eq!(source.refused.len() + source.methods.len(), 1);
    assert!(bytes(&source) <= MAX_METHOD_BYTES);
}

#[test]
fn definitions_that_double_are_bounded() {
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
fn one_large_part_refuses_its_method_only() {
    let none = json!({});
    let long = "a".repeat(MAX_METHOD_BYTES);
    let named = |key: &str, value: Value| {
        let mut large = method("large", &json!([]));
        large[key] = value;
        large
    };
    assert!(refused(&named("name", json!(long)), &none).ends_with("bytes, more than 4194304"));
    assert!(refused(&named("description", json!(long)), &none).contains("bytes, more than"));
    let tag = json!({"Tag": {"name": "t".repeat(1 << 20)}});
    let tags: Value = (0..4000).map(|_| json!({"$ref": "#/components/schemas/Tag"})).collect();
    assert!(refused(&named("tags", tags), &tag).contains("the tags have more than"));
    let reference = "#/".to_owned() + &"r".repeat(1 << 20);
    let lost = json!([{"name": "p", "schema": {"$ref": reference}}]);
    assert!(refused(&named("params", lost), &none).contains("`$ref` to `#/rrr"));
    let many: Value = (0..200_000).map(|n| json!({"name": format!("p{n}")})).collect();
    assert!(refused(&named("params", many), &none).contains("more than 1048576 bytes"));
    let embedded: Value = (0..100)
        .map(|n| json!({"name": format!("p{n}"), "schema": {"definitions": {"A": "a".repeat(100_000)}}}))
        .collect();
    assert!(refused(&named("params", embedded), &none).contains("more than 4194304 bytes"));
}

#[test]
fn examples_that_are_references_are_read_in_bounded_time() {
    let pairing = json!({"params": (0..2000).map(|_| json!({"$ref": "#/components/schemas/Value"})).collect::<Value>()});
    let schemas =
        json!({"Value": {"name": "p0", "value": "v".repeat(1 << 20)}, "Pairing": pairing});
    let mut large = method("m", &json!([{"name": "p0"}]));
    large["examples"] =
        (0..2000).map(|_| json!({"$ref": "#/components/schemas/Pairing"})).collect();
    assert_eq!(read_document(&json!([large]), &schemas).unwrap().methods.len(), 1);
}

#[test]
fn deep_documents_are_refused() {
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
    let reason = refused(&method("large", &params(1, "L0")), &Value::Object(chain));
    assert!(reason.contains("more than 1000 definitions"), "{reason}");
}

#[test]
fn a_long_title_is_not_repeated_for_each_method() {
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
