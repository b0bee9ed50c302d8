//! An MCP client of either protocol era that calls the servers in turn and never retries.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::faults::load::call_log::{Outcome, RequestKind};
use crate::http_client::{Connection, HttpResponse};
use crate::support::TIMEOUT;

/// Tools of most clients: one that writes and one that only reads.
pub(crate) const WORK_TOOLS: [&str; 2] = ["work_do", "work_find"];
/// Tools of [`ClientGroup::GrantRevoked`].
pub(crate) const OTHER_TOOLS: [&str; 2] = ["other_do", "other_find"];
/// Tools of clients with [`WORK_TOOLS`] that are added and removed together.
const PAIR_TOOLS: [&str; 2] = ["pair_left", "pair_right"];
/// Tool that no client is allowed to call.
const FORBIDDEN_TOOL: &str = "work_secret";

/// Protocol era of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// With a session, which is opened at one server and valid at all.
    Legacy,
    /// Without sessions.
    Modern,
}

impl Era {
    fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

/// A client with a connection to each server.
pub(crate) struct Client {
    era: Era,
    token: String,
    /// Tools of the client: one that writes and one that only reads.
    tools: [&'static str; 2],
    session: Option<String>,
    servers: Vec<SocketAddr>,
    connections: Vec<Option<Connection>>,
    last_id: u64,
}

impl Client {
    /// Creates a client. A legacy client opens its session at the server `first`.
    pub(crate) fn new(
        era: Era,
        token: &str,
        tools: [&'static str; 2],
        servers: &[SocketAddr],
        first: usize,
    ) -> Self {
        let mut client = Self {
            era,
            token: token.to_owned(),
            tools,
            session: None,
            servers: servers.to_vec(),
            connections: servers.iter().map(|_| None).collect(),
            last_id: 0,
        };
        if era == Era::Legacy {
            client.open_session(first);
        }
        client
    }

    fn open_session(&mut self, first: usize) {
        let info = json!({"name": "faults", "version": "1"});
        let params = json!({
            "protocolVersion": self.era.version(), "capabilities": {}, "clientInfo": info,
        });
        let (headers, body) = self.request("initialize", params);
        let response = self.post_until_available(first, &headers, &body);
        let session = response.header("mcp-session-id").map(ToOwned::to_owned);
        self.session = Some(session.unwrap_or_else(|| panic!("no session: {response:?}")));
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let second = (first + 1) % self.servers.len();
        let headers = self.headers("notifications/initialized", None);
        let response = self.post_until_available(second, &headers, &initialized.to_string());
        assert_eq!(response.status, 202, "{response:?}");
    }

    /// Posts until the reply is not 503. On a busy machine, the first lookup of a token may time out.
    fn post_until_available(&mut self, server: usize, headers: &str, body: &str) -> HttpResponse {
        let started = Instant::now();
        loop {
            let response = self.post(server, headers, body).unwrap();
            if response.status != 503 || started.elapsed() > TIMEOUT {
                return response;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a request of this kind to a server. Returns its outcome.
    pub(crate) fn call(&mut self, server: usize, kind: RequestKind, key: &str) -> Outcome {
        let [write, read] = self.tools;
        let mut call = |name| {
            let params = json!({"name": name, "arguments": {"key": key}});
            self.send(server, "tools/call", params)
        };
        let response = match kind {
            RequestKind::Write => call(write),
            RequestKind::Read => call(read),
            RequestKind::Forbidden => call(FORBIDDEN_TOOL),
            RequestKind::List => self.send(server, "tools/list", json!({})),
        };
        match response {
            Ok(response) => self.outcome(&response, kind, key),
            Err(error) => Outcome::ConnectionLost(error.to_string()),
        }
    }

    /// Sends a JSON-RPC request to a server.
    pub(crate) fn send(
        &mut self,
        server: usize,
        method: &str,
        params: Value,
    ) -> io::Result<HttpResponse> {
        let (headers, body) = self.request(method, params);
        self.post(server, &headers, &body)
    }

    /// Subscribes to changes of the tool list. Returns a connection with the event stream.
    pub(crate) fn listen(&mut self, server: usize) -> io::Result<TcpStream> {
        let params = json!({"notifications": {"toolsListChanged": true}});
        let (line, (headers, body)) = match self.era {
            Era::Legacy => ("GET /mcp", (self.headers("", None), String::new())),
            Era::Modern => ("POST /mcp", self.request("subscriptions/listen", params)),
        };
        let headers = format!("{headers}Connection: close\r\n");
        Connection::open(self.servers[server])?.send(line, &headers, &body)
    }

    /// Returns the headers and the body of a request.
    fn request(&mut self, method: &str, mut params: Value) -> (String, String) {
        self.last_id += 1;
        let name = params["name"].as_str().map(ToOwned::to_owned);
        if self.era == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.era.version(),
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let headers = self.headers(method, name.as_deref());
        let body =
            json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        (headers, body.to_string())
    }

    fn headers(&self, method: &str, name: Option<&str>) -> String {
        let (token, version) = (&self.token, self.era.version());
        let mut headers = format!(
            "Authorization: Bearer {token}\r\nMCP-Protocol-Version: {version}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
        );
        if let Some(session) = &self.session {
            headers.extend(["Mcp-Session-Id: ", session, "\r\n"]);
        }
        if self.era == Era::Modern {
            headers.extend(["Mcp-Method: ", method, "\r\n"]);
            if let Some(name) = name {
                headers.extend(["Mcp-Name: ", name, "\r\n"]);
            }
        }
        headers
    }

    /// Posts a body. After a failure, the connection is not used again.
    fn post(&mut self, server: usize, headers: &str, body: &str) -> io::Result<HttpResponse> {
        let mut connection = match self.connections[server].take() {
            Some(connection) if connection.is_open() => connection,
            _ => Connection::open(self.servers[server])?,
        };
        let response = connection.request("POST /mcp", headers, body)?;
        if response.header("connection").is_none_or(|it| !it.eq_ignore_ascii_case("close")) {
            self.connections[server] = Some(connection);
        }
        Ok(response)
    }

    fn outcome(&self, response: &HttpResponse, kind: RequestKind, key: &str) -> Outcome {
        match response.status {
            200 => {}
            401 => return Outcome::Unauthorized,
            503 => return Outcome::Unavailable,
            status => return Outcome::Failed(format!("{status}: {}", response.body)),
        }
        let Ok(reply) = serde_json::from_str::<Value>(&response.body) else {
            return Outcome::Wrong(response.body.clone());
        };
        if reply["id"] != self.last_id {
            return Outcome::Wrong(response.body.clone());
        }
        match kind {
            RequestKind::List => self.list_outcome(&reply),
            RequestKind::Write | RequestKind::Read | RequestKind::Forbidden => {
                call_outcome(&reply, key)
            }
        }
    }

    /// Checks a list: the client's tools, with or without both of [`PAIR_TOOLS`], or none.
    fn list_outcome(&self, reply: &Value) -> Outcome {
        let Some(tools) = reply["result"]["tools"].as_array() else {
            return Outcome::Failed(reply.to_string());
        };
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        let contains_all = |tools: &[&str]| tools.iter().all(|tool| names.contains(tool));
        match names.len() {
            0 => Outcome::Denied,
            2 if contains_all(&self.tools) => Outcome::Answered,
            4 if self.tools == WORK_TOOLS
                && contains_all(&WORK_TOOLS)
                && contains_all(&PAIR_TOOLS) =>
            {
                Outcome::Answered
            }
            _ => Outcome::Wrong(reply.to_string()),
        }
    }
}

fn call_outcome(reply: &Value, key: &str) -> Outcome {
    let result = &reply["result"];
    if reply["error"]["message"]
        .as_str()
        .is_some_and(|it| it.contains("not found or access denied"))
    {
        return Outcome::Denied;
    }
    if !reply["error"].is_null() || result["isError"] == true {
        return Outcome::Failed(reply.to_string());
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    match serde_json::from_str::<Value>(text) {
        Ok(value) if value == json!({"key": key}) => Outcome::Answered,
        _ => Outcome::Wrong(reply.to_string()),
    }
}
