//! A server of ours that answers as a test says, for what no real one does.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// A request: `GET /path?query`, the head in small letters, and what is in the body.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// What is answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl From<(u16, String)> for Answer {
    fn from((status, body): (u16, String)) -> Self {
        let json = ("Content-Type".to_owned(), "application/json".to_owned());
        Self { status, headers: vec![json], body }
    }
}

/// A server of ours; it goes on to the end of the test program.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Fake {
    /// Answers each request with a status and a body of JSON, or with headers of its own.
    pub(crate) fn start<A: Into<Answer>>(
        answer: impl Fn(&Asked) -> A + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (all, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (all, answer) = (Arc::clone(&all), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &all, &|asked| answer(asked).into()));
            }
        });
        Self { address, asked }
    }

    /// A JSON-RPC service: what a method gives, or `None` where there is no such method. A GET is 405.
    pub(crate) fn service(
        answer: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |asked| {
            if asked.line.starts_with("GET ") {
                return (405, String::new());
            }
            let (method, id) = (asked.body["method"].as_str().unwrap(), &asked.body["id"]);
            let reply = match answer(method, &asked.body["params"]) {
                Some(result) => serde_json::json!({"jsonrpc": "2.0", "id": id, "result": result}),
                None => {
                    let error = serde_json::json!({"code": -32601, "message": "Method not found"});
                    serde_json::json!({"jsonrpc": "2.0", "id": id, "error": error})
                }
            };
            (200, reply.to_string())
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All that was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// What is printed, without the port.
    pub(crate) fn hide(&self, text: &str) -> String {
        text.replace(&self.address.to_string(), "127.0.0.1:[port]")
    }
}

fn serve(mut stream: TcpStream, all: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked) -> Answer) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let asked = Asked { line, head, body: serde_json::from_slice(&body).unwrap_or_default() };
        all.lock().unwrap().push(asked.clone());
        let Answer { status, headers, body } = answer(&asked);
        let headers: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let headers = headers.concat();
        let length = body.len();
        // In one piece: the system would hold back the second until the first is acknowledged.
        let text =
            format!("HTTP/1.1 {status} Some\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
        let _ = stream.write_all(text.as_bytes());
    }
}
