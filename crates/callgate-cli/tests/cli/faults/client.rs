//! A client of MCP, of either era, that asks the gateways in turn and sends nothing twice.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::record::{Asked, Outcome};
use super::wire::{Answer, Connection};
use crate::support::PATIENCE;

/// The tools of most clients: one that may change something, and one that only reads.
pub(crate) const OWN: [&str; 2] = ["work_do", "work_find"];
/// Those of the demoted.
pub(crate) const OTHER: [&str; 2] = ["other_do", "other_find"];
/// Tools of those who have [`OWN`] that come and go together.
pub(crate) const PAIR: [&str; 2] = ["pair_left", "pair_right"];
/// The tool that nobody has.
pub(crate) const SECRET: &str = "work_secret";

/// The revision that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// With a session, which is opened at one gateway and good at all.
    Legacy,
    /// Each request by itself.
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

/// One client, with a connection to each gateway.
pub(crate) struct Client {
    era: Era,
    token: String,
    /// The tools that it has: one that may change something, and one that only reads.
    tools: [&'static str; 2],
    session: Option<String>,
    gateways: Vec<SocketAddr>,
    connections: Vec<Option<Connection>>,
    last_id: u64,
}

impl Client {
    /// A legacy one opens its session at the gateway `first`.
    pub(crate) fn new(
        era: Era,
        token: &str,
        tools: [&'static str; 2],
        gateways: &[SocketAddr],
        first: usize,
    ) -> Self {
        let mut client = Self {
            era,
            token: token.to_owned(),
            tools,
            session: None,
            gateways: gateways.to_vec(),
            connections: gateways.iter().map(|_| None).collect(),
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
        let answer = self.post_until_known(first, &headers, &body);
        let session = answer.header("mcp-session-id").map(ToOwned::to_owned);
        self.session = Some(session.unwrap_or_else(|| panic!("no session: {answer:?}")));
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let second = (first + 1) % self.gateways.len();
        let headers = self.headers("notifications/initialized", None);
        let answer = self.post_until_known(second, &headers, &initialized.to_string());
        assert_eq!(answer.status, 202, "{answer:?}");
    }

    /// Posts until the gateway knows the token: on a busy machine its first look at it may take too long.
    fn post_until_known(&mut self, gateway: usize, headers: &str, body: &str) -> Answer {
        let started = Instant::now();
        loop {
            let answer = self.post(gateway, headers, body).unwrap();
            if answer.status != 503 || started.elapsed() > PATIENCE {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks a gateway; what came of it.
    pub(crate) fn call(&mut self, gateway: usize, asked: Asked, key: &str) -> Outcome {
        let [own, reads] = self.tools;
        let mut call = |name| {
            let params = json!({"name": name, "arguments": {"key": key}});
            self.ask(gateway, "tools/call", params)
        };
        let answer = match asked {
            Asked::Own => call(own),
            Asked::Read => call(reads),
            Asked::Secret => call(SECRET),
            Asked::List => self.ask(gateway, "tools/list", json!({})),
        };
        match answer {
            Ok(answer) => self.outcome(&answer, asked, key),
            Err(error) => Outcome::Broken(error.to_string()),
        }
    }

    /// Sends a request to a gateway; what comes back, whatever it is.
    pub(crate) fn ask(
        &mut self,
        gateway: usize,
        method: &str,
        params: Value,
    ) -> io::Result<Answer> {
        let (headers, body) = self.request(method, params);
        self.post(gateway, &headers, &body)
    }

    /// Asks to be told when the list of tools changes, by a connection of its own; what comes there.
    pub(crate) fn listen(&mut self, gateway: usize) -> io::Result<TcpStream> {
        let params = json!({"notifications": {"toolsListChanged": true}});
        let (line, (headers, body)) = match self.era {
            Era::Legacy => ("GET /mcp", (self.headers("", None), String::new())),
            Era::Modern => ("POST /mcp", self.request("subscriptions/listen", params)),
        };
        let headers = format!("{headers}Connection: close\r\n");
        Connection::open(self.gateways[gateway])?.send(line, &headers, &body)
    }

    /// The headers and the body of a request.
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

    /// A connection that something went wrong with is not used again.
    fn post(&mut self, gateway: usize, headers: &str, body: &str) -> io::Result<Answer> {
        let mut connection = match self.connections[gateway].take() {
            Some(connection) if connection.is_open() => connection,
            _ => Connection::open(self.gateways[gateway])?,
        };
        let answer = connection.request("POST /mcp", headers, body)?;
        if answer.header("connection").is_none_or(|it| !it.eq_ignore_ascii_case("close")) {
            self.connections[gateway] = Some(connection);
        }
        Ok(answer)
    }

    fn outcome(&self, answer: &Answer, asked: Asked, key: &str) -> Outcome {
        match answer.status {
            200 => {}
            401 => return Outcome::Unknown,
            503 => return Outcome::Away,
            status => return Outcome::Failed(format!("{status}: {}", answer.body)),
        }
        let Ok(reply) = serde_json::from_str::<Value>(&answer.body) else {
            return Outcome::Wrong(answer.body.clone());
        };
        if reply["id"] != self.last_id {
            return Outcome::Wrong(answer.body.clone());
        }
        match asked {
            Asked::List => self.listed(&reply),
            Asked::Own | Asked::Read | Asked::Secret => called(&reply, key),
        }
    }

    /// The client's own tools, with both of those that come and go or without, or none.
    fn listed(&self, reply: &Value) -> Outcome {
        let Some(tools) = reply["result"]["tools"].as_array() else {
            return Outcome::Failed(reply.to_string());
        };
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        let has = |tools: &[&str]| tools.iter().all(|tool| names.contains(tool));
        match names.len() {
            0 => Outcome::Denied,
            2 if has(&self.tools) => Outcome::Answered,
            4 if self.tools == OWN && has(&OWN) && has(&PAIR) => Outcome::Answered,
            _ => Outcome::Wrong(reply.to_string()),
        }
    }
}

fn called(reply: &Value, key: &str) -> Outcome {
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
        Ok(answer) if answer == json!({"key": key}) => Outcome::Answered,
        _ => Outcome::Wrong(reply.to_string()),
    }
}
