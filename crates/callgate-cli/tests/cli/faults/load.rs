//! Sixty-four clients, half of each era, that call until they are told to stop.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::{Client, Era};
use super::record::{Asked, Call, Record, Who};

/// How many clients there are.
pub(crate) const CLIENTS: usize = 64;

/// What a client needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) token: String,
    /// See [`Client::new`].
    pub(crate) tools: [&'static str; 2],
}

/// The clients while they call; they stop at the end, whatever happens.
pub(crate) struct Load {
    pub(crate) record: Arc<Record>,
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
    /// Each client makes a call, and waits for `pace` before the next one.
    pub(crate) fn start(
        gateways: &[SocketAddr],
        account: impl Fn(Who) -> Account,
        pace: Duration,
    ) -> Self {
        let (record, stop) = (Arc::new(Record::default()), Arc::new(AtomicBool::new(false)));
        let mut load = Self { record, stop, threads: Vec::new() };
        for number in 0..CLIENTS {
            let who = Who::of(number);
            let era = if number < CLIENTS / 2 { Era::Legacy } else { Era::Modern };
            let Account { token, tools } = account(who);
            let client = Client::new(era, &token, tools, gateways, number % gateways.len());
            let caller = Caller { number, who, client, gateways: gateways.len() };
            let (record, stop) = (Arc::clone(&load.record), Arc::clone(&load.stop));
            load.threads.push(std::thread::spawn(move || caller.run(&record, &stop, pace)));
        }
        load
    }

    /// Waits until each client of these kinds was served by each of these gateways once more.
    pub(crate) fn until_served(&self, gateways: &[usize], kinds: &[Who]) {
        let wanted: Vec<(usize, usize)> = (0..CLIENTS)
            .filter(|client| kinds.contains(&Who::of(*client)))
            .flat_map(|client| gateways.iter().map(move |gateway| (client, *gateway)))
            .collect();
        self.record.until("every client is served", |calls| {
            let served = calls.iter().filter(|call| call.is_served());
            let served: HashSet<_> = served.map(|call| (call.client, call.gateway)).collect();
            wanted.iter().all(|one| served.contains(one))
        });
    }

    /// Stops the clients; all that they did.
    pub(crate) fn stop(self) -> Vec<Call> {
        let record = Arc::clone(&self.record);
        drop(self);
        record.all()
    }
}

struct Caller {
    number: usize,
    who: Who,
    client: Client,
    gateways: usize,
}

impl Caller {
    fn run(mut self, record: &Record, stop: &AtomicBool, pace: Duration) {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            let asked = match count % 8 {
                1 | 5 => Asked::Read,
                3 => Asked::Secret,
                7 => Asked::List,
                _ => Asked::Own,
            };
            let gateway = (self.number + count) % self.gateways;
            let key = format!("{}-{count}", self.number);
            let begin = Instant::now();
            let outcome = self.client.call(gateway, asked, &key);
            let (client, who, end) = (self.number, self.who, Instant::now());
            record.add(Call { client, who, gateway, asked, key, begin, end, outcome });
            count += 1;
            std::thread::sleep(pace);
        }
    }
}
