//! The service behind the tools. It logs the key of each call and answers with it; a rough one takes its time,
//! and breaks some calls off.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// The longest that a rough one takes, in milliseconds.
const MAX_DELAY: u64 = 50;
/// Of so many calls a rough one breaks two off.
const BREAKS: u64 = 24;

/// How it treats calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// All are answered at once.
    Calm,
    /// They take up to 50 ms, and some are broken off after they ran.
    Rough,
}

/// How a call ended there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Answered,
    /// The connection ended before any byte of an answer.
    HungUp,
    /// The connection ended within the answer.
    BrokeOff,
}

/// A call that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Execution {
    pub(crate) method: String,
    pub(crate) key: String,
    pub(crate) end: End,
}

/// The service; it goes on to the end of the test program.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    service: Arc<Service>,
}

#[derive(Debug)]
struct Service {
    manner: Manner,
    executed: Mutex<Vec<Execution>>,
}

impl Upstream {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let service = Arc::new(Service { manner, executed: Mutex::default() });
        let shared = Arc::clone(&service);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let service = Arc::clone(&shared);
                // A gateway that is killed takes its connections with it.
                std::thread::spawn(move || drop(service.serve(&stream)));
            }
        });
        Self { address, service }
    }

    /// What ran so far.
    pub(crate) fn executed(&self) -> Vec<Execution> {
        self.service.executed.lock().unwrap().clone()
    }
}

impl Service {
    /// One connection, until either side ends it.
    fn serve(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        loop {
            let asked = request(&mut reader)?;
            let (method, key) = (text(&asked["method"]), text(&asked["params"]["key"]));
            let chance = chance(&key);
            let end = self.execute(method, &key, chance);
            if self.manner == Manner::Rough {
                std::thread::sleep(Duration::from_millis(chance % MAX_DELAY));
            }
            let body = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"key": key}});
            let answer = response(&body.to_string());
            match end {
                End::Answered => stream.write_all(answer.as_bytes())?,
                End::HungUp => return Ok(()),
                End::BrokeOff => return stream.write_all(&answer.as_bytes()[..answer.len() / 2]),
            }
        }
    }

    /// Runs a call, which is to note that it ran. One that is asked for again is answered.
    fn execute(&self, method: String, key: &str, chance: u64) -> End {
        let mut executed = self.executed.lock().unwrap();
        let end = match (self.manner, chance / MAX_DELAY % BREAKS) {
            (Manner::Rough, 0) => End::HungUp,
            (Manner::Rough, 1) => End::BrokeOff,
            _ => End::Answered,
        };
        let is_again = end != End::Answered && executed.iter().any(|it| it.key == key);
        let end = if is_again { End::Answered } else { end };
        executed.push(Execution { method, key: key.to_owned(), end });
        end
    }
}

/// The same for the same key each time.
fn chance(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What is in the body of the next request.
fn request(reader: &mut BufReader<&TcpStream>) -> io::Result<Value> {
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
