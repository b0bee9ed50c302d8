//! Clients of both protocol eras that call the servers until they are stopped.

pub(crate) mod client;
pub(crate) mod call_log;
pub(crate) mod listeners;
pub(crate) mod catalog_changes;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use call_log::{Call, CallLog, ClientGroup, RequestKind};
use client::{Client, Era};

/// Number of clients.
pub(crate) const CLIENTS: usize = 64;

/// Token and tools of a group of clients.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) token: String,
    /// See [`Client::new`].
    pub(crate) tools: [&'static str; 2],
}

/// The calling clients. They stop when this is dropped.
pub(crate) struct Load {
    pub(crate) call_log: Arc<CallLog>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Load {
    /// Starts the clients. Each pauses for `pace` between two calls.
    pub(crate) fn start(
        servers: &[SocketAddr],
        account: impl Fn(ClientGroup) -> Account,
        pace: Duration,
    ) -> Self {
        let (call_log, stop) = (Arc::new(CallLog::default()), Arc::new(AtomicBool::new(false)));
        let mut load = Self { call_log, stop, threads: Vec::new() };
        for number in 0..CLIENTS {
            let group = ClientGroup::of(number);
            let era = if number < CLIENTS / 2 { Era::Legacy } else { Era::Modern };
            let Account { token, tools } = account(group);
            let client = Client::new(era, &token, tools, servers, number % servers.len());
            let caller = Caller { number, group, client, servers: servers.len() };
            let (call_log, stop) = (Arc::clone(&load.call_log), Arc::clone(&load.stop));
            load.threads.push(std::thread::spawn(move || caller.run(&call_log, &stop, pace)));
        }
        load
    }

    /// Waits until each client of these groups was served by each of these servers again.
    pub(crate) fn wait_until_served(&self, servers: &[usize], groups: &[ClientGroup]) {
        let expected: Vec<(usize, usize)> = (0..CLIENTS)
            .filter(|client| groups.contains(&ClientGroup::of(*client)))
            .flat_map(|client| servers.iter().map(move |server| (client, *server)))
            .collect();
        self.call_log.wait_until("every client is served", |calls| {
            let served = calls.iter().filter(|call| call.is_served());
            let served: HashSet<_> = served.map(|call| (call.client, call.server)).collect();
            expected.iter().all(|pair| served.contains(pair))
        });
    }

    /// Stops the clients. Returns all of their calls.
    pub(crate) fn stop(self) -> Vec<Call> {
        let call_log = Arc::clone(&self.call_log);
        drop(self);
        call_log.all()
    }
}

struct Caller {
    number: usize,
    group: ClientGroup,
    client: Client,
    servers: usize,
}

impl Caller {
    fn run(mut self, call_log: &CallLog, stop: &AtomicBool, pace: Duration) {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            let kind = match count % 8 {
                1 | 5 => RequestKind::Read,
                3 => RequestKind::Forbidden,
                7 => RequestKind::List,
                _ => RequestKind::Write,
            };
            let server = (self.number + count) % self.servers;
            let key = format!("{}-{count}", self.number);
            let begin = Instant::now();
            let outcome = self.client.call(server, kind, &key);
            let (client, group, end) = (self.number, self.group, Instant::now());
            call_log.add(Call { client, group, server, kind, key, begin, end, outcome });
            count += 1;
            std::thread::sleep(pace);
        }
    }
}
