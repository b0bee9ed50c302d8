//! The requests, in the form of modern and of legacy clients.

use std::fmt;

use serde_json::{Value, json};

use crate::model;

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
    /// `tools/call` of `echo`.
    Call,
    /// `tools/list`.
    List,
    /// `tools/call` of `echo`, forwarded to the service.
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
    /// Headers, without those of every HTTP request.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: String,
    /// Text that the body of the reply must contain.
    pub expected: String,
}

impl Case {
    /// Returns one request for each token. Lists use only tokens that see every tool, so that all replies are equal.
    pub fn requests(self, tools: usize) -> Vec<Request> {
        let step = match self.method {
            Method::Call | Method::Forwarded | Method::Chain => 1,
            Method::List => model::GRANT_SETS,
        };
        (0..model::TOKENS).step_by(step).map(|token| self.request(token, tools)).collect()
    }

    fn request(self, token: usize, tools: usize) -> Request {
        let (params, expected) = match self.method {
            Method::Call => {
                let text = text(token);
                (json!({"name": model::ECHO, "arguments": {"text": text}}), text)
            }
            Method::Forwarded => {
                let params = json!({"name": model::ECHO, "arguments": {"text": text(token)}});
                (params, model::ANSWER.to_owned())
            }
            Method::Chain => {
                (json!({"name": model::CHAIN, "arguments": {}}), model::CHAIN_ID.to_owned())
            }
            Method::List => (json!({}), last_tool(tools)),
        };
        let body = json!({
            "jsonrpc": "2.0",
            "id": token,
            "method": self.method.as_str(),
            "params": self.with_meta(params),
        });
        Request { id: token, headers: self.headers(token), body: body.to_string(), expected }
    }

    fn with_meta(self, mut params: Value) -> Value {
        if let (Era::Modern, Some(params)) = (self.era, params.as_object_mut()) {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": self.era.version(),
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            params.insert("_meta".to_owned(), meta);
        }
        params
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
            match self.method {
                Method::List => {}
                Method::Call | Method::Forwarded => {
                    headers.push(("Mcp-Name", model::ECHO.to_owned()));
                }
                Method::Chain => headers.push(("Mcp-Name", model::CHAIN.to_owned())),
            }
        }
        headers
    }

    /// Checks the whole body of a reply, which is slower than searching for [`Request::expected`]. Returns the problem,
    /// if there is one.
    pub fn problem(self, request: &Request, tools: usize, body: &[u8]) -> Option<&'static str> {
        let Ok(reply) = serde_json::from_slice::<Value>(body) else { return Some("invalid JSON") };
        if reply.get("id").and_then(Value::as_u64) != u64::try_from(request.id).ok() {
            return Some("wrong id");
        }
        // A proxy returns the reply of the service, which is not MCP.
        let is_proxied =
            self.method == Method::Forwarded && reply.pointer("/result/text").is_some();
        let has_type = reply.pointer("/result/resultType").is_some();
        if !is_proxied && has_type != (self.era == Era::Modern) {
            return Some("reply of another protocol era");
        }
        let is_right = match self.method {
            Method::Forwarded if is_proxied => {
                reply.get("result") == Some(&json!({"text": model::ANSWER}))
            }
            Method::Call | Method::Forwarded => {
                let text = reply.pointer("/result/content/0/text").and_then(Value::as_str);
                let echoed = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
                echoed == Some(json!({"text": request.expected}))
            }
            Method::Chain => {
                let text = reply.pointer("/result/content/0/text").and_then(Value::as_str);
                text == Some(model::CHAIN_ID)
            }
            Method::List => {
                let listed = reply.pointer("/result/tools").and_then(Value::as_array);
                let right: Vec<Value> =
                    model::tools(tools).iter().map(model::Tool::to_json).collect();
                listed == Some(&right)
            }
        };
        (!is_right).then_some("wrong result")
    }
}

/// Returns about 90 characters, different for each token, so that the arguments have about 100 bytes.
fn text(token: usize) -> String {
    format!(
        "argument {token:04} of the benchmark, as long as what an agent would usually send to a tool."
    )
}

fn last_tool(tools: usize) -> String {
    model::tools(tools).last().map(|tool| format!("\"{}\"", tool.name)).unwrap_or_default()
}

impl Method {
    /// Returns the MCP method.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call | Self::Forwarded | Self::Chain => "tools/call",
            Self::List => "tools/list",
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
        write!(f, "{}, {}", self.method.as_str(), self.era.version())
    }
}
