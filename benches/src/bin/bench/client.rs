//! The load generator: connections to one server, driven from one thread.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use callgate_bench::case::{Case, Request};
use memchr::memmem;
use mio::{Events, Poll, Token};

use crate::connection::Connection;

/// Maximum time without a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two polls for replies at a fixed rate, if the load generator shares its core with the servers. A
/// timeout of [`Poll`] cannot replace this pause, because such a timeout is rounded to milliseconds.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Bytes of a request and the expected reply.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    request: Request,
    bytes: Vec<u8>,
    expected: memmem::Finder<'static>,
}

impl PreparedRequest {
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
pub(crate) fn prepare(case: Case, address: SocketAddr) -> Vec<PreparedRequest> {
    case.requests().into_iter().map(|request| PreparedRequest::new(request, address)).collect()
}

/// How the load generator waits for replies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WaitMode {
    /// Polls without sleeping, on a separate core. To wake the load generator would take time of the server's core.
    Spin,
    /// Sleeps until a reply arrives.
    Block,
    /// Polls every [`POLL_INTERVAL`].
    Pause,
}

/// Connections to a server, each with its current request.
#[derive(Debug)]
pub(crate) struct Client {
    poll: Poll,
    events: Events,
    connections: Vec<(Connection, Option<usize>)>,
    /// Time at which the last request was sent or the last replies arrived.
    last_activity: Instant,
}

impl Client {
    /// Opens the connections.
    pub(crate) fn connect(address: SocketAddr, connections: usize) -> anyhow::Result<Self> {
        let poll = Poll::new()?;
        let connections = (0..connections)
            .map(|number| Ok((Connection::open(address, &poll, Token(number))?, None)))
            .collect::<anyhow::Result<_>>()?;
        let events = Events::with_capacity(1024);
        Ok(Self { poll, events, connections, last_activity: Instant::now() })
    }

    /// Returns the numbers of the connections.
    pub(crate) fn connections(&self) -> std::ops::Range<usize> {
        0..self.connections.len()
    }

    /// Sends request number `request` on an idle connection.
    pub(crate) fn send(
        &mut self,
        connection: usize,
        requests: &[PreparedRequest],
        request: usize,
    ) -> anyhow::Result<()> {
        let prepared = requests.get(request).context("no such request")?;
        let (connection, in_flight) =
            self.connections.get_mut(connection).context("no such connection")?;
        *in_flight = Some(request);
        self.last_activity = Instant::now();
        connection.send(&prepared.bytes)
    }

    /// Reads and checks the available replies, and adds the connections that are now idle to `idle`.
    pub(crate) fn receive(
        &mut self,
        requests: &[PreparedRequest],
        idle: &mut Vec<usize>,
        wait_mode: WaitMode,
    ) -> anyhow::Result<()> {
        let timeout =
            if matches!(wait_mode, WaitMode::Block) { REPLY_TIMEOUT } else { Duration::ZERO };
        self.poll.poll(&mut self.events, Some(timeout))?;
        if self.events.is_empty() && matches!(wait_mode, WaitMode::Pause) {
            std::thread::sleep(POLL_INTERVAL);
        }
        if !self.events.is_empty() {
            self.last_activity = Instant::now();
        } else if self.last_activity.elapsed() >= REPLY_TIMEOUT
            && self.connections.iter().any(|(_, in_flight)| in_flight.is_some())
        {
            bail!("no reply for {REPLY_TIMEOUT:?}");
        }
        for event in &self.events {
            let Token(number) = event.token();
            let Some((connection, in_flight)) = self.connections.get_mut(number) else { continue };
            let Some(prepared) = in_flight.and_then(|request| requests.get(request)) else {
                continue;
            };
            if let Some((status, body)) = connection.receive()? {
                prepared.check(status, body)?;
                *in_flight = None;
                idle.push(number);
            }
        }
        Ok(())
    }

    /// Sends a request and checks the whole reply. Returns its body.
    pub(crate) fn exchange(
        &mut self,
        case: Case,
        prepared: &PreparedRequest,
    ) -> anyhow::Result<&[u8]> {
        let (connection, _) = self.connections.first_mut().context("no connection")?;
        connection.send(&prepared.bytes)?;
        while connection.receive()?.is_none() {
            self.poll.poll(&mut self.events, Some(REPLY_TIMEOUT))?;
            ensure!(!self.events.is_empty(), "no reply for {REPLY_TIMEOUT:?}");
        }
        let (status, body) = connection.reply()?.context("no reply")?;
        prepared.check(status, body)?;
        if let Some(problem) = case.problem(&prepared.request, body) {
            bail!("{case}: {problem}: {}", String::from_utf8_lossy(body));
        }
        Ok(body)
    }
}
