//! Changes that make a request invalid or unusual.

use serde_json::json;

use super::request::{
    Era, META_CAPABILITIES, META_CLIENT, META_LOG_LEVEL, META_VERSION, METHOD, NAME, Request,
    RequestTemplate, VERSION,
};

/// A change to a valid request.
pub(crate) struct Mutation {
    pub(crate) name: &'static str,
    /// Condition for the change.
    pub(crate) applies_to: fn(Era, &RequestTemplate) -> bool,
    pub(crate) apply: fn(&mut Request),
}

const fn mutation(
    name: &'static str,
    applies_to: fn(Era, &RequestTemplate) -> bool,
    apply: fn(&mut Request),
) -> Mutation {
    Mutation { name, applies_to, apply }
}

fn any_template(_: Era, _: &RequestTemplate) -> bool {
    true
}

fn requests(_: Era, template: &RequestTemplate) -> bool {
    !template.is_notification()
}

fn lists(_: Era, template: &RequestTemplate) -> bool {
    template.method == "tools/list"
}

fn modern(era: Era, template: &RequestTemplate) -> bool {
    era.is_modern() && !template.is_notification() && template.method != "initialize"
}

fn modern_calls(era: Era, template: &RequestTemplate) -> bool {
    era.is_modern() && template.method == "tools/call" && template.label.ends_with("right")
}

fn modern_notifications(era: Era, template: &RequestTemplate) -> bool {
    era.is_modern() && template.is_notification()
}

fn legacy(era: Era, template: &RequestTemplate) -> bool {
    !era.is_modern() && !template.is_notification() && template.method != "initialize"
}

fn legacy_handshake(era: Era, template: &RequestTemplate) -> bool {
    !era.is_modern() && template.method == "initialize"
}

/// All changes.
pub(crate) fn mutations() -> impl Iterator<Item = &'static Mutation> {
    let groups = [HEADERS, META, ENVELOPE, TEXT, HTTP, LEGACY];
    groups.into_iter().flatten()
}

const HEADERS: &[Mutation] = &[
    mutation("version header missing", modern, |request| request.drop(VERSION)),
    mutation("version header of another revision", modern, |request| {
        request.set(VERSION, "2025-11-25");
    }),
    mutation("version header twice", modern, |request| request.add(VERSION, "2026-07-28")),
    mutation("version header padded", modern, |request| request.set(VERSION, "  2026-07-28\t")),
    mutation("method header missing", modern, |request| request.drop(METHOD)),
    mutation("method header of another method", modern, |request| {
        request.set(METHOD, "prompts/get");
    }),
    mutation("method header in capitals", modern, |request| {
        let capitals = request.header(METHOD).unwrap().to_uppercase();
        request.set(METHOD, &capitals);
    }),
    mutation("method header twice", modern, |request| {
        let value = request.header(METHOD).unwrap().to_owned();
        request.add(METHOD, &value);
    }),
    mutation("name header missing", modern_calls, |request| request.drop(NAME)),
    mutation("name header of another tool", modern_calls, |request| request.set(NAME, "other")),
    mutation("name header twice", modern_calls, |request| {
        let value = request.header(NAME).unwrap().to_owned();
        request.add(NAME, &value);
    }),
    mutation("name header in Base64", modern_calls, |request| {
        request.message["params"]["name"] = json!("now");
        request.message["params"]["arguments"] = json!({});
        request.set(NAME, "=?base64?bm93?=");
    }),
    mutation("name header in broken Base64", modern_calls, |request| {
        request.set(NAME, "=?base64?bm9?=");
    }),
    mutation("name header without a name", modern_calls, |request| {
        request.message["params"].as_object_mut().unwrap().remove("name");
    }),
    mutation("no headers on a notification", modern_notifications, |request| {
        request.drop(VERSION);
        request.drop(METHOD);
    }),
];

const META: &[Mutation] = &[
    mutation("no version in _meta", modern, |request| {
        request.meta().remove(META_VERSION);
    }),
    mutation("no capabilities in _meta", modern, |request| {
        request.meta().remove(META_CAPABILITIES);
    }),
    mutation("no client in _meta", modern, |request| {
        request.meta().remove(META_CLIENT);
    }),
    mutation("no _meta", modern, |request| {
        request.message["params"].as_object_mut().unwrap().remove("_meta");
    }),
    mutation("_meta is a list", modern, |request| request.message["params"]["_meta"] = json!([])),
    mutation("version in _meta is a number", modern, |request| {
        request.meta().insert(META_VERSION.to_owned(), json!(2026));
    }),
    mutation("capabilities in _meta are a list", modern, |request| {
        request.meta().insert(META_CAPABILITIES.to_owned(), json!([]));
    }),
    mutation("a version to come, in both places", modern, |request| {
        request.meta().insert(META_VERSION.to_owned(), json!("2099-01-01"));
        request.set(VERSION, "2099-01-01");
    }),
    mutation("a version that is no date, in both places", modern, |request| {
        request.meta().insert(META_VERSION.to_owned(), json!("next"));
        request.set(VERSION, "next");
    }),
    mutation("a legacy version, in both places", modern, |request| {
        request.meta().insert(META_VERSION.to_owned(), json!("2025-11-25"));
        request.set(VERSION, "2025-11-25");
    }),
    mutation("unknown log level", modern, |request| {
        request.meta().insert(META_LOG_LEVEL.to_owned(), json!("loud"));
    }),
    mutation("_meta without headers", modern, |request| {
        request.drop(VERSION);
        request.drop(METHOD);
        request.drop(NAME);
    }),
];

const ENVELOPE: &[Mutation] = &[
    mutation("id is a string", requests, |request| request.message["id"] = json!("sieben")),
    mutation("id is a string of digits", requests, |request| request.message["id"] = json!("7")),
    mutation("id is 0", requests, |request| request.message["id"] = json!(0)),
    mutation("id is negative", requests, |request| request.message["id"] = json!(-7)),
    mutation("id is very large", requests, |request| {
        request.message["id"] = json!(9_007_199_254_740_993_i64);
    }),
    mutation("id is a fraction", requests, |request| request.message["id"] = json!(7.5)),
    mutation("id is null", requests, |request| request.message["id"] = json!(null)),
    mutation("id is a list", requests, |request| request.message["id"] = json!([7])),
    mutation("id missing", requests, |request| {
        request.members().remove("id");
    }),
    mutation("params are a list", any_template, |request| request.message["params"] = json!([1])),
    mutation("params are null", requests, |request| request.message["params"] = json!(null)),
    mutation("params are null, of a list", lists, |request| {
        request.message["params"] = json!(null);
    }),
    mutation("params missing", requests, |request| {
        request.members().remove("params");
    }),
    mutation("jsonrpc missing", any_template, |request| {
        request.members().remove("jsonrpc");
    }),
    mutation("jsonrpc is 1.0", any_template, |request| request.message["jsonrpc"] = json!("1.0")),
    mutation("method is a number", requests, |request| request.message["method"] = json!(1)),
    mutation("method missing", requests, |request| {
        request.members().remove("method");
    }),
    mutation("an unknown member", requests, |request| request.message["extra"] = json!(true)),
    mutation("cursor is bogus", lists, |request| {
        request.message["params"]["cursor"] = json!("bogus");
    }),
    mutation("cursor is empty", lists, |request| request.message["params"]["cursor"] = json!("")),
    mutation("cursor is a number", lists, |request| request.message["params"]["cursor"] = json!(1)),
    mutation("a result is posted", requests, |request| {
        request.message = json!({"jsonrpc": "2.0", "id": 7, "result": {}});
    }),
    mutation("an error is posted", requests, |request| {
        let error = json!({"code": -32603, "message": "no"});
        request.message = json!({"jsonrpc": "2.0", "id": 7, "error": error});
    }),
];

const TEXT: &[Mutation] = &[
    mutation("JSON is cut off", any_template, |request| {
        let mut body = request.message.to_string();
        body.pop();
        request.text = Some(body);
    }),
    mutation("body is empty", any_template, |request| request.text = Some(String::new())),
    mutation("body is a number", any_template, |request| request.text = Some("42".to_owned())),
    mutation("body has a tail", any_template, |request| {
        request.text = Some(format!("{} x", request.message));
    }),
    mutation("a key is there twice", requests, |request| {
        let body = request.message.to_string();
        request.text = Some(body.replacen("\"id\":7", "\"id\":7,\"id\":8", 1));
    }),
    mutation("batch of one", any_template, |request| {
        request.text = Some(format!("[{}]", request.message));
    }),
    mutation("batch of two", any_template, |request| {
        request.text = Some(format!("[{0},{0}]", request.message));
    }),
    mutation("batch of none", any_template, |request| request.text = Some("[]".to_owned())),
];

const HTTP: &[Mutation] = &[
    mutation("Accept missing", any_template, |request| request.drop("accept")),
    mutation("Accept has JSON only", any_template, |request| {
        request.set("accept", "application/json");
    }),
    mutation("Accept has streams only", any_template, |request| {
        request.set("accept", "text/event-stream");
    }),
    mutation("Accept has anything", any_template, |request| request.set("accept", "*/*")),
    mutation("Accept has HTML only", any_template, |request| request.set("accept", "text/html")),
    mutation("Content-Type missing", any_template, |request| request.drop("content-type")),
    mutation("Content-Type is text", any_template, |request| {
        request.set("content-type", "text/plain");
    }),
    mutation("Content-Type names a charset", any_template, |request| {
        request.set("content-type", "application/json; charset=utf-8");
    }),
    mutation("Origin is foreign", any_template, |request| {
        request.set("origin", "http://evil.example.com");
    }),
    mutation("Origin is null", any_template, |request| request.set("origin", "null")),
    mutation("Origin is this machine", any_template, |request| {
        request.set("origin", "http://localhost:1");
    }),
    mutation("Host is foreign", any_template, |request| request.set("host", "evil.example.com")),
    mutation("Host is localhost", any_template, |request| request.set("host", "localhost")),
    mutation("Host and Origin are foreign", any_template, |request| {
        request.set("host", "evil.example.com");
        request.set("origin", "http://evil.example.com");
    }),
    mutation("a session that does not exist", any_template, |request| {
        request.set("mcp-session-id", "no-such-session");
    }),
    mutation("GET that takes streams", lists, |request| {
        request.verb = "GET";
        request.text = Some(String::new());
        request.set("accept", "text/event-stream");
    }),
    mutation("GET that takes JSON", lists, |request| {
        request.verb = "GET";
        request.text = Some(String::new());
        request.set("accept", "application/json");
    }),
    mutation("DELETE", lists, |request| {
        request.verb = "DELETE";
        request.text = Some(String::new());
    }),
    mutation("DELETE of a session that does not exist", lists, |request| {
        request.verb = "DELETE";
        request.text = Some(String::new());
        request.set("mcp-session-id", "no-such-session");
    }),
    mutation("PUT", lists, |request| request.verb = "PUT"),
];

const LEGACY: &[Mutation] = &[
    mutation("no version header", legacy, |request| request.drop(VERSION)),
    mutation("version header is unknown", legacy, |request| request.set(VERSION, "1999-01-01")),
    mutation("version header is no date", legacy, |request| request.set(VERSION, "newest")),
    mutation("version header is modern", legacy, |request| request.set(VERSION, "2026-07-28")),
    mutation("version header is to come", legacy, |request| request.set(VERSION, "2099-01-01")),
    mutation("version header is there twice", legacy, |request| {
        let value = request.header(VERSION).unwrap().to_owned();
        request.add(VERSION, &value);
    }),
    mutation("method header of another method, legacy", legacy, |request| {
        request.set(METHOD, "prompts/get");
    }),
    mutation("handshake for a modern version", legacy_handshake, |request| {
        request.message["params"]["protocolVersion"] = json!("2026-07-28");
    }),
    mutation("handshake for an unknown version", legacy_handshake, |request| {
        request.message["params"]["protocolVersion"] = json!("1999-01-01");
    }),
    mutation("handshake without a version", legacy_handshake, |request| {
        request.message["params"].as_object_mut().unwrap().remove("protocolVersion");
    }),
    mutation("handshake without a client", legacy_handshake, |request| {
        request.message["params"].as_object_mut().unwrap().remove("clientInfo");
    }),
    mutation("handshake with another version header", legacy_handshake, |request| {
        let version = request.message["params"]["protocolVersion"].as_str().unwrap();
        let other = if version == "2025-06-18" { "2025-11-25" } else { "2025-06-18" };
        request.set(VERSION, other);
    }),
    mutation("handshake with a modern version header", legacy_handshake, |request| {
        request.set(VERSION, "2026-07-28");
    }),
];
