//! The load generator: connections to one server, driven from one thread.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use callgate_bench::case::{Case, Request};
use memchr::memmem;
use mio::{Events, Poll, Token};

use crate::connection::Connection;

/// Maximum time without a reply.
const SILENCE: Duration = Duration::from_secs(10);
/// Pause between two polls for replies at a fixed rate, if the load generator shares its core with the servers. A
/// timeout of [`Poll`] cannot replace this pause, because such a timeout is rounded to milliseconds.
const PAUSE: Duration = Duration::from_micros(50);

/// Bytes of a request and the expected reply.
#[derive(Debug)]
pub(crate) struct Prepared {
    request: Request,
    bytes: Vec<u8>,
    expected: memmem::Finder<'static>,
}

impl Prepared {
    /// Encodes a request to a server.
    pub(crate) fn new(request: Request, address: SocketAddr) -> Self {
        let mut text = format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\n");
        for (name, value) in &request.headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        let length = request.body.len();
        text.extend([&format!("Content-Length: {length}\r\n\r\n"), request.body.as_str()]);
        let expected = memmem::Finder::new(request.expected);
        Self { request, bytes: text.into_bytes(), expected }
    }

    fn check(&self, status: u16, body: &[u8]) -> anyhow::Result<()> {
        if status == 200 && self.expected.find(body).is_some() {
            return Ok(());
        }
        let body: String = String::from_utf8_lossy(body).chars().take(300).collect();
        let Request { id, expected, .. } = &self.request;
        bail!("request {id}: expected 200 with `{expected}`, found {status} with `{body}`")
    }
}

/// Encodes the requests of a case for a server.
pub(crate) fn prepare(case: Case, address: SocketAddr) -> Vec<Prepared> {
    case.requests().into_iter().map(|request| Prepared::new(request, address)).collect()
}

/// How the load generator waits for replies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Waiting {
    /// Polls without sleeping, on a separate core. To wake the load generator would take time of the server's core.
    Spin,
    /// Sleeps until a reply arrives.
    Block,
    /// Polls every [`PAUSE`].
    Pause,
}

/// Connections to a server, each with its current request.
#[derive(Debug)]
pub(crate) struct Client {
    poll: Poll,
    events: Events,
    connections: Vec<(Connection, Option<usize>)>,
    /// Time at which the last request was sent or the last replies arrived.
    heard: Instant,
}

impl Client {
    /// Opens the connections.
    pub(crate) fn connect(address: SocketAddr, connections: usize) -> anyhow::Result<Self> {
        let poll = Poll::new()?;
        let connections = (0..connections)
            .map(|number| Ok((Connection::open(address, &poll, Token(number))?, None)))
            .collect::<anyhow::Result<_>>()?;
        let events = Events::with_capacity(1024);
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

    /// Reads and checks the available replies, and adds the connections that are now idle to `free`.
    pub(crate) fn receive(
        &mut self,
        requests: &[Prepared],
        free: &mut Vec<usize>,
        waiting: Waiting,
    ) -> anyhow::Result<()> {
        let timeout = if matches!(waiting, Waiting::Block) { SILENCE } else { Duration::ZERO };
        self.poll.poll(&mut self.events, Some(timeout))?;
        if self.events.is_empty() && matches!(waiting, Waiting::Pause) {
            std::thread::sleep(PAUSE);
        }
        if !self.events.is_empty() {
            self.heard = Instant::now();
        } else if self.heard.elapsed() >= SILENCE
            && self.connections.iter().any(|(_, under_way)| under_way.is_some())
        {
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

    /// Sends a request and checks the whole reply. Returns its body.
    pub(crate) fn ask(&mut self, case: Case, prepared: &Prepared) -> anyhow::Result<&[u8]> {
        let (connection, _) = self.connections.first_mut().context("no connection")?;
        connection.send(&prepared.bytes)?;
        while connection.receive()?.is_none() {
            self.poll.poll(&mut self.events, Some(SILENCE))?;
            ensure!(!self.events.is_empty(), "no reply for {SILENCE:?}");
        }
        let (status, body) = connection.reply()?.context("no reply")?;
        prepared.check(status, body)?;
        if let Some(problem) = case.problem(&prepared.request, body) {
            bail!("{case}: {problem}: {}", String::from_utf8_lossy(body));
        }
        Ok(body)
    }
}
