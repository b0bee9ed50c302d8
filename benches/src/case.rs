//! What is asked of the servers, as newer and as older clients send it.

use std::fmt;

use serde_json::{Value, json};

use crate::model;

/// What is asked, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// The method.
    pub method: Method,
    /// The form.
    pub era: Era,
}

/// The method that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `tools/call` of `echo`.
    Call,
    /// `tools/list`.
    List,
    /// `tools/call` of `echo`, which is elsewhere and answers the same to everybody.
    Forwarded,
    /// `tools/call` of `eth_chainId`, which anvil has.
    Chain,
}

/// The revision of MCP that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28: every request says who asks and what they can do.
    Modern,
    /// 2025-11-25, without a session.
    Legacy,
}

/// A request, and what its reply must have.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its id.
    pub id: usize,
    /// The headers, without those that every HTTP request has.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
    /// What the reply's body must have in it.
    pub expected: String,
}

impl Case {
    /// One request for each token that takes part, to be sent in turn. A list is asked for with the
    /// tokens that see every tool, so that every reply has the same tools.
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

    /// What is wrong with a reply's body, if anything is; slower than looking for
    /// [`Request::expected`], and complete.
    pub fn problem(self, request: &Request, tools: usize, body: &[u8]) -> Option<&'static str> {
        let Ok(reply) = serde_json::from_slice::<Value>(body) else { return Some("no JSON") };
        if reply.get("id").and_then(Value::as_u64) != u64::try_from(request.id).ok() {
            return Some("another id");
        }
        // A proxy passes on what the service answers, which knows nothing of MCP.
        let is_proxied =
            self.method == Method::Forwarded && reply.pointer("/result/text").is_some();
        let has_type = reply.pointer("/result/resultType").is_some();
        if !is_proxied && has_type != (self.era == Era::Modern) {
            return Some("the form of another revision");
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
        (!is_right).then_some("another result")
    }
}

/// About 90 characters, so that the arguments are about 100 bytes; another for each token.
fn text(token: usize) -> String {
    format!(
        "argument {token:04} of the benchmark, as long as what an agent would usually send to a tool."
    )
}

fn last_tool(tools: usize) -> String {
    model::tools(tools).last().map(|tool| format!("\"{}\"", tool.name)).unwrap_or_default()
}

impl Method {
    /// The method's name in MCP.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call | Self::Forwarded | Self::Chain => "tools/call",
            Self::List => "tools/list",
        }
    }
}

impl Era {
    /// The revision's date.
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
