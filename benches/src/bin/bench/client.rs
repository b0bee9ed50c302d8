//! The load generator: connections to one server, driven from one thread.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use callgate_bench::case::{Case, Request};
use memchr::memmem;
use mio::{Events, Poll, Token};

use crate::connection::Connection;

/// Number of connections to each server.
pub(crate) const CONNECTIONS: usize = 32;
/// Maximum time without a reply.
const SILENCE: Duration = Duration::from_secs(5);

/// Bytes of a request and the expected reply.
#[derive(Debug)]
pub(crate) struct Prepared {
    request: Request,
    bytes: Vec<u8>,
    expected: memmem::Finder<'static>,
}

/// Encodes the requests of a case for a server.
pub(crate) fn prepare(case: Case, tools: usize, address: SocketAddr) -> Vec<Prepared> {
    let prepare = |request: Request| {
        let mut text = format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\n");
        for (name, value) in &request.headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        let length = request.body.len();
        text.extend([&format!("Content-Length: {length}\r\n\r\n"), request.body.as_str()]);
        let expected = memmem::Finder::new(request.expected.as_bytes()).into_owned();
        Prepared { request, bytes: text.into_bytes(), expected }
    };
    case.requests(tools).into_iter().map(prepare).collect()
}

/// Connections to a server, each with its current request.
#[derive(Debug)]
pub(crate) struct Client {
    poll: Poll,
    events: Events,
    connections: Vec<(Connection, Option<usize>)>,
    /// Time of the last replies.
    heard: Instant,
}

impl Client {
    /// Opens the connections.
    pub(crate) fn connect(address: SocketAddr, connections: usize) -> anyhow::Result<Self> {
        let poll = Poll::new()?;
        let connections = (0..connections)
            .map(|number| Ok((Connection::open(address, &poll, Token(number))?, None)))
            .collect::<anyhow::Result<_>>()?;
        let events = Events::with_capacity(CONNECTIONS);
        Ok(Self { poll, events, connections, heard: Instant::now() })
    }

    /// Returns the numbers of the connections.
    pub(crate) fn connections(&self) -> std::ops::Range<usize> {
        0..self.connections.len()
    }

    /// Sends request number `request` on an idle connection.
    pub(crate) fn send(
        &mut self,
        connection: usize,
        requests: &[Prepared],
        request: usize,
    ) -> anyhow::Result<()> {
        let prepared = requests.get(request).context("no such request")?;
        let (connection, under_way) =
            self.connections.get_mut(connection).context("no such connection")?;
        *under_way = Some(request);
        self.heard = Instant::now();
        connection.send(&prepared.bytes)
    }

    /// Reads and checks the available replies, and adds the idle connections to `free`. Does not sleep, because waking
    /// up the load generator would cost time on the server's core.
    pub(crate) fn receive(
        &mut self,
        requests: &[Prepared],
        free: &mut Vec<usize>,
    ) -> anyhow::Result<()> {
        self.poll.poll(&mut self.events, Some(Duration::ZERO))?;
        let is_waiting = self.connections.iter().any(|(_, under_way)| under_way.is_some());
        if !self.events.is_empty() || !is_waiting {
            self.heard = Instant::now();
        } else if self.heard.elapsed() >= SILENCE {
            bail!("no reply for {SILENCE:?}");
        }
        for event in &self.events {
            let Token(number) = event.token();
            let Some((connection, under_way)) = self.connections.get_mut(number) else { continue };
            let Some(prepared) = under_way.and_then(|request| requests.get(request)) else {
                continue;
            };
            if let Some((status, body)) = connection.receive()? {
                prepared.check(status, body)?;
                *under_way = None;
                free.push(number);
            }
        }
        Ok(())
    }

    /// Sends a request and checks the whole reply. Returns the length of its body.
    pub(crate) fn ask(
        &mut self,
        case: Case,
        tools: usize,
        prepared: &Prepared,
    ) -> anyhow::Result<usize> {
        let (connection, _) = self.connections.first_mut().context("no connection")?;
        connection.send(&prepared.bytes)?;
        loop {
            self.poll.poll(&mut self.events, Some(SILENCE))?;
            ensure!(!self.events.is_empty(), "no reply for {SILENCE:?}");
            if let Some((status, body)) = connection.receive()? {
                prepared.check(status, body)?;
                if let Some(problem) = case.problem(&prepared.request, tools, body) {
                    bail!("{case}: {problem}: {}", String::from_utf8_lossy(body));
                }
                return Ok(body.len());
            }
        }
    }
}

impl Prepared {
    fn check(&self, status: u16, body: &[u8]) -> anyhow::Result<()> {
        if status == 200 && self.expected.find(body).is_some() {
            return Ok(());
        }
        let body: String = String::from_utf8_lossy(body).chars().take(300).collect();
        let Request { id, expected, .. } = &self.request;
        bail!("request {id}: expected 200 with `{expected}`, found {status} with `{body}`")
    }
}
