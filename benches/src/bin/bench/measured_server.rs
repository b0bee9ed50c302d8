//! A server under load.

use std::time::Duration;

use anyhow::Context as _;
use callgate_bench::candidate::Candidate;
use callgate_bench::case::Case;

use crate::client::{Client, PreparedRequest, prepare};
use crate::load::{full, paced};
use crate::process::Server;
use crate::results::{Cores, Percentiles, Round};
use crate::usage::CpuUsage;

/// Duration of the warm-up of a turn.
const WARM_UP: Duration = Duration::from_millis(20);
/// Duration of the first warm-up of a server, and its number of connections.
const FIRST_WARM_UP: Duration = Duration::from_millis(500);
const WARM_UP_CONNECTIONS: usize = 128;
/// Step between the requests whose whole replies are checked.
const CHECKED: usize = 37;

/// A server, the requests to it, and the number of connections.
#[derive(Debug)]
pub(crate) struct MeasuredServer<'s> {
    pub(crate) candidate: Candidate,
    server: &'s Server,
    /// Process of the service.
    service: Option<u32>,
    connections: usize,
    requests: Vec<PreparedRequest>,
    /// `true` if the load generator has a separate core.
    is_separate: bool,
}

impl<'s> MeasuredServer<'s> {
    /// Returns a server without requests.
    pub(crate) fn new(
        candidate: Candidate,
        server: &'s Server,
        service: Option<&Server>,
        connections: usize,
        is_separate: bool,
    ) -> Self {
        let service = service.map(Server::id);
        Self { candidate, server, service, connections, requests: Vec::new(), is_separate }
    }

    /// Prepares the requests of a case, and checks the whole reply to some of them. Returns the first reply.
    pub(crate) fn prepare(&mut self, case: Case) -> anyhow::Result<Vec<u8>> {
        self.requests = prepare(case, self.server.address());
        let mut client = Client::connect(self.server.address(), 1)?;
        let mut first = Vec::new();
        // Tokens with which fewer tools are visible are included, except for bare, which has no tokens.
        let is_bare = self.candidate == Candidate::Bare;
        let requests = if is_bare { case.requests() } else { case.all_requests() };
        for request in requests.into_iter().step_by(CHECKED) {
            let prepared = PreparedRequest::new(request, self.server.address());
            let body = client.exchange(case, &prepared);
            let body = body.with_context(|| self.candidate.to_string())?;
            if first.is_empty() {
                body.clone_into(&mut first);
            }
        }
        Ok(first)
    }

    /// Replaces the requests.
    pub(crate) fn set_requests(&mut self, requests: Vec<PreparedRequest>) {
        self.requests = requests;
    }

    fn cpu_usage(&self) -> anyhow::Result<CpuUsage> {
        CpuUsage::now(self.server.id(), self.service)
    }

    /// Opens the connections of a turn, and uses them for a warm-up. Each turn opens new connections, because servers
    /// close idle ones.
    pub(crate) fn connect(&self, warm_up: Duration) -> anyhow::Result<Client> {
        let mut client = Client::connect(self.server.address(), self.connections)?;
        full(&mut client, &self.requests, warm_up, self.is_separate)
            .with_context(|| self.candidate.to_string())?;
        Ok(client)
    }

    /// Sends requests on many connections, so that the server looks up all tokens. With one connection, each lookup
    /// would wait for the previous lookup.
    pub(crate) fn warm_up(&self) -> anyhow::Result<()> {
        let mut client = Client::connect(self.server.address(), WARM_UP_CONNECTIONS)?;
        full(&mut client, &self.requests, FIRST_WARM_UP, self.is_separate)
            .with_context(|| self.candidate.to_string())?;
        Ok(())
    }

    /// Runs one round of full load.
    pub(crate) fn round(&self, length: Duration) -> anyhow::Result<(Round, Cores)> {
        let mut client = self.connect(WARM_UP)?;
        let before = self.cpu_usage()?;
        let load = full(&mut client, &self.requests, length, self.is_separate);
        let load = load.with_context(|| self.candidate.to_string())?;
        let round = Round::of(load, self.cpu_usage()?.since(before));
        Ok((round, round.cores))
    }

    /// Runs one round at a fixed rate. Returns the percentiles and the CPU time of a request in microseconds.
    pub(crate) fn paced_round(
        &self,
        per_second: f64,
        length: Duration,
    ) -> anyhow::Result<((Percentiles, f64), Cores)> {
        let mut client = Client::connect(self.server.address(), self.connections)?;
        let before = self.cpu_usage()?;
        let paced = paced(&mut client, &self.requests, per_second, length, self.is_separate);
        let paced = paced.with_context(|| self.candidate.to_string())?;
        let cpu_usage = self.cpu_usage()?.since(before);
        let answered = f64::from(u32::try_from(paced.latencies.len())?);
        let cpu = cpu_usage.server.as_secs_f64() * 1e6 / answered;
        Ok(((paced.percentiles(), cpu), Cores::of(length, cpu_usage)))
    }
}
