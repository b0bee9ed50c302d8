//! A valid request of an era, which can be changed.

use serde_json::{Map, Value, json};

pub(crate) const VERSION: &str = "mcp-protocol-version";
pub(crate) const METHOD: &str = "mcp-method";
pub(crate) const NAME: &str = "mcp-name";
pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const MODERN: &str = "2026-07-28";

/// Protocol version of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Era(pub(crate) &'static str);

impl Era {
    pub(crate) const ALL: [Self; 5] = [
        Self(MODERN),
        Self("2025-11-25"),
        Self("2025-06-18"),
        Self("2025-03-26"),
        Self("2024-11-05"),
    ];

    pub(crate) fn is_modern(self) -> bool {
        self.0 == MODERN
    }
}

/// A method with params, for any era.
#[derive(Debug, Clone)]
pub(crate) struct RequestTemplate {
    /// Distinguishes the template from others with the same method.
    pub(crate) label: String,
    pub(crate) method: &'static str,
    pub(crate) params: Value,
}

impl RequestTemplate {
    pub(crate) fn is_notification(&self) -> bool {
        self.method.starts_with("notifications/")
    }
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) verb: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) message: Value,
    /// Body that replaces the message.
    pub(crate) text: Option<String>,
}

impl Request {
    /// Returns a valid request.
    pub(crate) fn valid(era: Era, template: &RequestTemplate) -> Self {
        let mut params = template.params.clone();
        let mut request = Self {
            verb: "POST",
            headers: Vec::new(),
            message: json!({"jsonrpc": "2.0", "id": 7, "method": template.method}),
            text: None,
        };
        request.set("content-type", "application/json");
        request.set("accept", "application/json, text/event-stream");
        if era.is_modern() {
            params["_meta"] = json!({
                META_VERSION: MODERN,
                META_CAPABILITIES: {},
                META_CLIENT: {"name": "tester", "version": "1"},
            });
            request.set(METHOD, template.method);
            if let Some(name) = params["name"].as_str() {
                request.set(NAME, name);
            }
        }
        if template.method == "initialize" {
            params["protocolVersion"] = json!(era.0);
        }
        // A legacy handshake has no negotiated version yet.
        if era.is_modern() || template.method != "initialize" {
            request.set(VERSION, era.0);
        }
        request.message["params"] = params;
        if template.is_notification() {
            request.members().remove("id");
        }
        request
    }

    pub(crate) fn body(&self) -> String {
        self.text.clone().unwrap_or_else(|| self.message.to_string())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(header, _)| *header == name);
        header.map(|(_, value)| value.as_str())
    }

    pub(crate) fn drop(&mut self, name: &str) {
        self.headers.retain(|(header, _)| *header != name);
    }

    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.drop(name);
        self.add(name, value);
    }

    pub(crate) fn add(&mut self, name: &'static str, value: &str) {
        self.headers.push((name, value.to_owned()));
    }

    pub(crate) fn members(&mut self) -> &mut Map<String, Value> {
        self.message.as_object_mut().unwrap()
    }

    pub(crate) fn meta(&mut self) -> &mut Map<String, Value> {
        self.message["params"]["_meta"].as_object_mut().unwrap()
    }
}
