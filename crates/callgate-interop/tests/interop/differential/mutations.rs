//! Changes that make a request invalid or unusual.

use serde_json::json;

use super::request::{
    Era, META_CAPABILITIES, META_CLIENT, META_LOG_LEVEL, META_VERSION, METHOD, NAME, Question,
    Request, VERSION,
};

/// A change to a valid request.
pub(crate) struct Mutation {
    pub(crate) name: &'static str,
    /// Condition for the change.
    pub(crate) suits: fn(Era, &Question) -> bool,
    pub(crate) apply: fn(&mut Request),
}

const fn of(
    name: &'static str,
    suits: fn(Era, &Question) -> bool,
    apply: fn(&mut Request),
) -> Mutation {
    Mutation { name, suits, apply }
}

fn anything(_: Era, _: &Question) -> bool {
    true
}

fn requests(_: Era, question: &Question) -> bool {
    !question.is_notification()
}

fn lists(_: Era, question: &Question) -> bool {
    question.method == "tools/list"
}

fn modern(era: Era, question: &Question) -> bool {
    era.is_modern() && !question.is_notification() && question.method != "initialize"
}

fn modern_calls(era: Era, question: &Question) -> bool {
    era.is_modern() && question.method == "tools/call" && question.what.ends_with("right")
}

fn modern_notifications(era: Era, question: &Question) -> bool {
    era.is_modern() && question.is_notification()
}

fn legacy(era: Era, question: &Question) -> bool {
    !era.is_modern() && !question.is_notification() && question.method != "initialize"
}

fn legacy_handshake(era: Era, question: &Question) -> bool {
    !era.is_modern() && question.method == "initialize"
}

/// All changes.
pub(crate) fn mutations() -> impl Iterator<Item = &'static Mutation> {
    let groups = [HEADERS, META, ENVELOPE, TEXT, HTTP, LEGACY];
    groups.into_iter().flatten()
}

const HEADERS: &[Mutation] = &[
    of("version header missing", modern, |request| request.drop(VERSION)),
    of("version header of another revision", modern, |request| request.set(VERSION, "2025-11-25")),
    of("version header twice", modern, |request| request.add(VERSION, "2026-07-28")),
    of("version header padded", modern, |request| request.set(VERSION, "  2026-07-28\t")),
    of("method header missing", modern, |request| request.drop(METHOD)),
    of("method header of another method", modern, |request| request.set(METHOD, "prompts/get")),
    of("method header in capitals", modern, |request| {
        let capitals = request.header(METHOD).unwrap().to_uppercase();
        request.set(METHOD, &capitals);
    }),
    of("method header twice", modern, |request| {
        let again = request.header(METHOD).unwrap().to_owned();
        request.add(METHOD, &again);
    }),
    of("name header missing", modern_calls, |request| request.drop(NAME)),
    of("name header of another tool", modern_calls, |request| request.set(NAME, "other")),
    of("name header twice", modern_calls, |request| {
        let again = request.header(NAME).unwrap().to_owned();
        request.add(NAME, &again);
    }),
    of("name header in Base64", modern_calls, |request| {
        request.message["params"]["name"] = json!("now");
        request.message["params"]["arguments"] = json!({});
        request.set(NAME, "=?base64?bm93?=");
    }),
    of("name header in broken Base64", modern_calls, |request| {
        request.set(NAME, "=?base64?bm9?=");
    }),
    of("name header without a name", modern_calls, |request| {
        request.message["params"].as_object_mut().unwrap().remove("name");
    }),
    of("no headers on a notification", modern_notifications, |request| {
        request.drop(VERSION);
        request.drop(METHOD);
    }),
];

const META: &[Mutation] = &[
    of("no version in _meta", modern, |request| {
        request.meta().remove(META_VERSION);
    }),
    of("no capabilities in _meta", modern, |request| {
        request.meta().remove(META_CAPABILITIES);
    }),
    of("no client in _meta", modern, |request| {
        request.meta().remove(META_CLIENT);
    }),
    of("no _meta", modern, |request| {
        request.message["params"].as_object_mut().unwrap().remove("_meta");
    }),
    of("_meta is a list", modern, |request| request.message["params"]["_meta"] = json!([])),
    of("version in _meta is a number", modern, |request| {
        request.meta().insert(META_VERSION.to_owned(), json!(2026));
    }),
    of("capabilities in _meta are a list", modern, |request| {
        request.meta().insert(META_CAPABILITIES.to_owned(), json!([]));
    }),
    of("a version to come, in both places", modern, |request| {
        request.meta().insert(META_VERSION.to_owned(), json!("2099-01-01"));
        request.set(VERSION, "2099-01-01");
    }),
    of("a version that is no date, in both places", modern, |request| {
        request.meta().insert(META_VERSION.to_owned(), json!("next"));
        request.set(VERSION, "next");
    }),
    of("a legacy version, in both places", modern, |request| {
        request.meta().insert(META_VERSION.to_owned(), json!("2025-11-25"));
        request.set(VERSION, "2025-11-25");
    }),
    of("unknown log level", modern, |request| {
        request.meta().insert(META_LOG_LEVEL.to_owned(), json!("loud"));
    }),
    of("_meta without headers", modern, |request| {
        request.drop(VERSION);
        request.drop(METHOD);
        request.drop(NAME);
    }),
];

const ENVELOPE: &[Mutation] = &[
    of("id is a string", requests, |request| request.message["id"] = json!("sieben")),
    of("id is a string of digits", requests, |request| request.message["id"] = json!("7")),
    of("id is 0", requests, |request| request.message["id"] = json!(0)),
    of("id is negative", requests, |request| request.message["id"] = json!(-7)),
    of("id is very large", requests, |request| {
        request.message["id"] = json!(9_007_199_254_740_993_i64);
    }),
    of("id is a fraction", requests, |request| request.message["id"] = json!(7.5)),
    of("id is null", requests, |request| request.message["id"] = json!(null)),
    of("id is a list", requests, |request| request.message["id"] = json!([7])),
    of("id missing", requests, |request| {
        request.members().remove("id");
    }),
    of("params are a list", anything, |request| request.message["params"] = json!([1])),
    of("params are null", requests, |request| request.message["params"] = json!(null)),
    of("params are null, of a list", lists, |request| request.message["params"] = json!(null)),
    of("params missing", requests, |request| {
        request.members().remove("params");
    }),
    of("jsonrpc missing", anything, |request| {
        request.members().remove("jsonrpc");
    }),
    of("jsonrpc is 1.0", anything, |request| request.message["jsonrpc"] = json!("1.0")),
    of("method is a number", requests, |request| request.message["method"] = json!(1)),
    of("method missing", requests, |request| {
        request.members().remove("method");
    }),
    of("an unknown member", requests, |request| request.message["extra"] = json!(true)),
    of("cursor is bogus", lists, |request| request.message["params"]["cursor"] = json!("bogus")),
    of("cursor is empty", lists, |request| request.message["params"]["cursor"] = json!("")),
    of("cursor is a number", lists, |request| request.message["params"]["cursor"] = json!(1)),
    of("a result is posted", requests, |request| {
        request.message = json!({"jsonrpc": "2.0", "id": 7, "result": {}});
    }),
    of("an error is posted", requests, |request| {
        let error = json!({"code": -32603, "message": "no"});
        request.message = json!({"jsonrpc": "2.0", "id": 7, "error": error});
    }),
];

const TEXT: &[Mutation] = &[
    of("JSON is cut off", anything, |request| {
        let mut body = request.message.to_string();
        body.pop();
        request.text = Some(body);
    }),
    of("body is empty", anything, |request| request.text = Some(String::new())),
    of("body is a number", anything, |request| request.text = Some("42".to_owned())),
    of("body has a tail", anything, |request| {
        request.text = Some(format!("{} x", request.message));
    }),
    of("a key is there twice", requests, |request| {
        let body = request.message.to_string();
        request.text = Some(body.replacen("\"id\":7", "\"id\":7,\"id\":8", 1));
    }),
    of("batch of one", anything, |request| request.text = Some(format!("[{}]", request.message))),
    of("batch of two", anything, |request| {
        request.text = Some(format!("[{0},{0}]", request.message));
    }),
    of("batch of none", anything, |request| request.text = Some("[]".to_owned())),
];

const HTTP: &[Mutation] = &[
    of("Accept missing", anything, |request| request.drop("accept")),
    of("Accept has JSON only", anything, |request| request.set("accept", "application/json")),
    of("Accept has streams only", anything, |request| request.set("accept", "text/event-stream")),
    of("Accept has anything", anything, |request| request.set("accept", "*/*")),
    of("Accept has HTML only", anything, |request| request.set("accept", "text/html")),
    of("Content-Type missing", anything, |request| request.drop("content-type")),
    of("Content-Type is text", anything, |request| request.set("content-type", "text/plain")),
    of("Content-Type names a charset", anything, |request| {
        request.set("content-type", "application/json; charset=utf-8");
    }),
    of("Origin is foreign", anything, |request| request.set("origin", "http://evil.example.com")),
    of("Origin is null", anything, |request| request.set("origin", "null")),
    of("Origin is this machine", anything, |request| request.set("origin", "http://localhost:1")),
    of("Host is foreign", anything, |request| request.set("host", "evil.example.com")),
    of("Host is localhost", anything, |request| request.set("host", "localhost")),
    of("Host and Origin are foreign", anything, |request| {
        request.set("host", "evil.example.com");
        request.set("origin", "http://evil.example.com");
    }),
    of("a session that does not exist", anything, |request| {
        request.set("mcp-session-id", "no-such-session");
    }),
    of("GET that takes streams", lists, |request| {
        request.verb = "GET";
        request.text = Some(String::new());
        request.set("accept", "text/event-stream");
    }),
    of("GET that takes JSON", lists, |request| {
        request.verb = "GET";
        request.text = Some(String::new());
        request.set("accept", "application/json");
    }),
    of("DELETE", lists, |request| {
        request.verb = "DELETE";
        request.text = Some(String::new());
    }),
    of("DELETE of a session that does not exist", lists, |request| {
        request.verb = "DELETE";
        request.text = Some(String::new());
        request.set("mcp-session-id", "no-such-session");
    }),
    of("PUT", lists, |request| request.verb = "PUT"),
];

const LEGACY: &[Mutation] = &[
    of("no version header", legacy, |request| request.drop(VERSION)),
    of("version header is unknown", legacy, |request| request.set(VERSION, "1999-01-01")),
    of("version header is no date", legacy, |request| request.set(VERSION, "newest")),
    of("version header is modern", legacy, |request| request.set(VERSION, "2026-07-28")),
    of("version header is to come", legacy, |request| request.set(VERSION, "2099-01-01")),
    of("version header is there twice", legacy, |request| {
        let again = request.header(VERSION).unwrap().to_owned();
        request.add(VERSION, &again);
    }),
    of("method header of another method, legacy", legacy, |request| {
        request.set(METHOD, "prompts/get");
    }),
    of("handshake for a modern version", legacy_handshake, |request| {
        request.message["params"]["protocolVersion"] = json!("2026-07-28");
    }),
    of("handshake for an unknown version", legacy_handshake, |request| {
        request.message["params"]["protocolVersion"] = json!("1999-01-01");
    }),
    of("handshake without a version", legacy_handshake, |request| {
        request.message["params"].as_object_mut().unwrap().remove("protocolVersion");
    }),
    of("handshake without a client", legacy_handshake, |request| {
        request.message["params"].as_object_mut().unwrap().remove("clientInfo");
    }),
    of("handshake with another version header", legacy_handshake, |request| {
        let version = request.message["params"]["protocolVersion"].as_str().unwrap();
        let other = if version == "2025-06-18" { "2025-11-25" } else { "2025-06-18" };
        request.set(VERSION, other);
    }),
    of("handshake with a modern version header", legacy_handshake, |request| {
        request.set(VERSION, "2026-07-28");
    }),
];
