//! The requests, as modern and legacy clients send them.

use std::fmt;

use serde_json::{Value, json};

use crate::model::{self, TOOLS};

/// A method and a protocol era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Method.
    pub method: Method,
    /// Protocol era.
    pub era: Era,
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `tools/call` of a function in the process of the server.
    Call,
    /// `tools/list`.
    List,
    /// `tools/call`, forwarded to the service.
    Forwarded,
    /// `tools/call` of `eth_chainId`, forwarded to anvil.
    Chain,
}

/// Protocol era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28: every request has the client's information and capabilities.
    Modern,
    /// 2025-11-25, without a session.
    Legacy,
}

/// A request and its expected reply.
#[derive(Debug, Clone)]
pub struct Request {
    /// JSON-RPC id.
    pub id: usize,
    /// All headers except `Host` and `Content-Length`.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: String,
    /// Text that the body of the reply must contain.
    pub expected: &'static str,
}

impl Case {
    /// Returns the requests of the load. Requests for lists use only tokens with which every tool is visible, so that
    /// all replies are equal.
    pub fn requests(self) -> Vec<Request> {
        let mut requests = self.all_requests();
        requests.retain(|request| {
            self.method != Method::List || model::grants_of_token(request.id) == model::ALL_GRANTS
        });
        requests
    }

    /// Returns one request for each of the usual tokens.
    pub fn all_requests(self) -> Vec<Request> {
        (0..model::TOKENS).map(|token| self.request(token)).collect()
    }

    /// Returns the request with a token.
    pub fn request(self, token: usize) -> Request {
        let mut params = match self.method.tool() {
            Some(model::CHAIN) => json!({"name": model::CHAIN, "arguments": {}}),
            Some(tool) => json!({"name": tool, "arguments": {"id_user": 2}}),
            None => json!({}),
        };
        if let (Era::Modern, Some(params)) = (self.era, params.as_object_mut()) {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": self.era.version(),
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            params.insert("_meta".to_owned(), meta);
        }
        let method = self.method.as_str();
        let body = json!({"jsonrpc": "2.0", "id": token, "method": method, "params": params});
        let expected = match self.method {
            Method::Call | Method::Forwarded => model::NAME,
            Method::Chain => model::CHAIN_ID,
            // The last tool of the list.
            Method::List => concat!('"', "user_get", '"'),
        };
        Request { id: token, headers: self.headers(token), body: body.to_string(), expected }
    }

    fn headers(self, token: usize) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("Content-Type", "application/json".to_owned()),
            ("Authorization", format!("Bearer {}", model::token(token))),
            ("MCP-Protocol-Version", self.era.version().to_owned()),
        ];
        if self.era == Era::Modern {
            headers.push(("Mcp-Method", self.method.as_str().to_owned()));
            headers.extend(self.method.tool().map(|tool| ("Mcp-Name", tool.to_owned())));
        }
        headers
    }

    /// Checks the whole body of a reply, which is slower than searching for [`Request::expected`]. Returns the problem,
    /// if there is one.
    pub fn problem(self, request: &Request, body: &[u8]) -> Option<&'static str> {
        let Ok(reply) = serde_json::from_slice::<Value>(body) else { return Some("invalid JSON") };
        if reply.get("id").and_then(Value::as_u64) != u64::try_from(request.id).ok() {
            return Some("wrong id");
        }
        // A proxy returns the reply of the service, which is not MCP.
        let user = model::user();
        let is_proxied = self.method == Method::Forwarded && reply.get("result") == Some(&user);
        let has_type = reply.pointer("/result/resultType").is_some();
        if !is_proxied && has_type != (self.era == Era::Modern) {
            return Some("reply of another protocol era");
        }
        let text = reply.pointer("/result/content/0/text").and_then(Value::as_str);
        let is_correct = match self.method {
            Method::Call | Method::Forwarded => {
                let result = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
                is_proxied || result == Some(user)
            }
            Method::Chain => text == Some(model::CHAIN_ID),
            Method::List => {
                let listed = reply.pointer("/result/tools").and_then(Value::as_array);
                let grants = model::grants_of_token(request.id);
                let tools = model::tools(TOOLS);
                let visible = tools.iter().filter(|tool| tool.is_allowed_by(grants));
                listed == Some(&visible.map(model::Tool::to_json).collect())
            }
        };
        (!is_correct).then_some("wrong result")
    }
}

impl Method {
    /// Returns the MCP method.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call | Self::Forwarded | Self::Chain => "tools/call",
            Self::List => "tools/list",
        }
    }

    fn tool(self) -> Option<&'static str> {
        match self {
            Self::Call => Some(model::LOCAL),
            Self::Forwarded => Some(model::FORWARDED),
            Self::Chain => Some(model::CHAIN),
            Self::List => None,
        }
    }
}

impl Era {
    /// Returns the protocol version.
    pub fn version(self) -> &'static str {
        match self {
            Self::Modern => "2026-07-28",
            Self::Legacy => "2025-11-25",
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forwarded = if self.method == Method::Forwarded { "forwarded " } else { "" };
        write!(f, "{forwarded}{}, {}", self.method.as_str(), self.era.version())
    }
}
