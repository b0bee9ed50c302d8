//! The upstream service. It logs the key of each call and returns it. In flaky mode it delays replies and closes
//! some connections.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// Maximum delay in flaky mode, in milliseconds.
const MAX_DELAY: u64 = 50;
/// In flaky mode, two of this number of calls fail.
const FAILURE_RATE: u64 = 24;

/// Behaviour of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpstreamMode {
    /// Replies immediately.
    Reliable,
    /// Replies after up to 50 ms, and closes some connections after it ran the call.
    Flaky,
}

/// End of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Answered,
    /// The connection was closed before the first byte of the reply.
    ClosedBeforeReply,
    /// The connection was closed within the reply.
    ClosedDuringReply,
}

/// A call that the service ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Execution {
    pub(crate) method: String,
    pub(crate) key: String,
    pub(crate) end: End,
}

/// The service. It runs until the test process ends.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    service: Arc<UpstreamService>,
}

#[derive(Debug)]
struct UpstreamService {
    mode: UpstreamMode,
    executed: Mutex<Vec<Execution>>,
}

impl Upstream {
    pub(crate) fn start(mode: UpstreamMode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let service = Arc::new(UpstreamService { mode, executed: Mutex::default() });
        let shared = Arc::clone(&service);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let service = Arc::clone(&shared);
                // The connection fails if its server is killed.
                std::thread::spawn(move || drop(service.serve(&stream)));
            }
        });
        Self { address, service }
    }

    /// Returns the calls so far.
    pub(crate) fn executed(&self) -> Vec<Execution> {
        self.service.executed.lock().unwrap().clone()
    }
}

impl UpstreamService {
    /// Serves a connection until either side closes it.
    fn serve(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        loop {
            let request = read_request(&mut reader)?;
            let (method, key) = (text(&request["method"]), text(&request["params"]["key"]));
            let chance = chance(&key);
            let end = self.execute(method, &key, chance);
            if self.mode == UpstreamMode::Flaky {
                std::thread::sleep(Duration::from_millis(chance % MAX_DELAY));
            }
            let body = json!({"jsonrpc": "2.0", "id": request["id"], "result": {"key": key}});
            let reply = response(&body.to_string());
            match end {
                End::Answered => stream.write_all(reply.as_bytes())?,
                End::ClosedBeforeReply => return Ok(()),
                End::ClosedDuringReply => {
                    return stream.write_all(&reply.as_bytes()[..reply.len() / 2]);
                }
            }
        }
    }

    /// Logs a call. A repeated call succeeds.
    fn execute(&self, method: String, key: &str, chance: u64) -> End {
        let mut executed = self.executed.lock().unwrap();
        let end = match (self.mode, chance / MAX_DELAY % FAILURE_RATE) {
            (UpstreamMode::Flaky, 0) => End::ClosedBeforeReply,
            (UpstreamMode::Flaky, 1) => End::ClosedDuringReply,
            _ => End::Answered,
        };
        let is_repeated = end != End::Answered && executed.iter().any(|it| it.key == key);
        let end = if is_repeated { End::Answered } else { end };
        executed.push(Execution { method, key: key.to_owned(), end });
        end
    }
}

/// Returns a pseudo-random number that depends on the key only.
fn chance(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Reads the next request. Returns its body.
fn read_request(reader: &mut BufReader<&TcpStream>) -> io::Result<Value> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body).unwrap_or_default())
}

fn response(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}
