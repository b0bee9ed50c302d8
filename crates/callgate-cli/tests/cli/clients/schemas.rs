//! Checks every message of the server against the schema of its revision.
//!
//! `tests/schemas` contains the published schemas, without descriptions.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};

use super::transcript::Transcript;

/// Methods, each with the definition of its result.
const RESULTS: [(&str, &str); 11] = [
    ("initialize", "InitializeResult"),
    ("server/discover", "DiscoverResult"),
    ("ping", "EmptyResult"),
    ("logging/setLevel", "EmptyResult"),
    ("tools/list", "ListToolsResult"),
    ("tools/call", "CallToolResult"),
    ("resources/list", "ListResourcesResult"),
    ("resources/templates/list", "ListResourceTemplatesResult"),
    ("resources/read", "ReadResourceResult"),
    ("prompts/list", "ListPromptsResult"),
    ("subscriptions/listen", "SubscriptionsListenResult"),
];

/// The schema of one revision.
pub(crate) struct Schema {
    document: Value,
    definitions: &'static str,
}

impl Schema {
    pub(crate) fn of(revision: &str) -> Self {
        let file = format!("tests/schemas/{revision}.json");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let document: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let definitions = if document.get("$defs").is_some() { "$defs" } else { "definitions" };
        Self { document, definitions }
    }

    /// Returns the first of these names that the revision's schema has.
    fn name(&self, names: &[&str]) -> String {
        let definitions = &self.document[self.definitions];
        (*names.iter().find(|name| definitions.get(**name).is_some()).unwrap()).to_owned()
    }

    fn check(&self, definition: &str, value: &Value) {
        let mut schema = self.document.clone();
        schema["allOf"] = json!([{"$ref": format!("#/{}/{definition}", self.definitions)}]);
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{definition}: {errors:?} in {value}");
    }

    /// Checks a message of the server. `request_method` is the method of the request that it answers.
    pub(crate) fn check_message(&self, message: &Value, request_method: Option<&str>) {
        if message.get("error").is_some() {
            // The reply to a message that could not be read has no id, which older schemas do not allow.
            if message.get("id").is_some() {
                let names = ["JSONRPCErrorResponse", "JSONRPCError"];
                self.check(&self.name(&names), message);
            }
        } else if message.get("method").is_some() {
            self.check("ServerNotification", message);
            self.check("JSONRPCNotification", message);
        } else {
            let names = ["JSONRPCResultResponse", "JSONRPCResponse"];
            self.check(&self.name(&names), message);
            let method = request_method.unwrap_or_else(|| panic!("nobody asked: {message}"));
            let result = RESULTS.iter().find(|(name, _)| *name == method);
            let (_, result) = result.unwrap_or_else(|| panic!("no result of {method} is expected"));
            self.check(result, &message["result"]);
        }
    }
}

/// Checks all messages that the server sent to a client that negotiated `protocol`.
pub(crate) fn check(transcript: &Transcript, protocol: &str) {
    let schema = Schema::of(protocol);
    let methods: HashMap<String, &str> = transcript
        .from_client
        .iter()
        .filter_map(|message| Some((message.get("id")?.to_string(), message["method"].as_str()?)))
        .collect();
    let mut results = 0;
    for message in &transcript.from_server {
        let id = message.get("id").map(Value::to_string).unwrap_or_default();
        schema.check_message(message, methods.get(&id).copied());
        results += usize::from(message.get("result").is_some());
    }
    let notifications =
        transcript.from_server.iter().filter(|message| message.get("method").is_some());
    assert!(results >= 10 && notifications.count() >= 2, "too little was recorded: {transcript:?}");
}
