//! Clients that subscribe to changes of the tool list: one of each era at each server.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::faults::load::Account;
use crate::faults::load::client::{Client, Era};
use crate::support::TIMEOUT;

const NOTIFICATION: &str = "notifications/tools/list_changed";
/// Interval of checks for the end, and delay before a new subscription.
const INTERVAL: Duration = Duration::from_millis(100);

/// The subscribed clients. They stop when this is dropped.
pub(crate) struct Listeners {
    stop: Arc<AtomicBool>,
    /// Name and number of notifications of each client.
    counts: Vec<(String, Arc<AtomicUsize>)>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Listeners {
    pub(crate) fn start(servers: &[SocketAddr], account: &Account) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut listeners = Self { stop, counts: Vec::new(), threads: Vec::new() };
        for server in 0..servers.len() {
            for era in [Era::Legacy, Era::Modern] {
                // The session is opened at one server and used at another.
                let first = (server + 1) % servers.len();
                let client = Client::new(era, &account.token, account.tools, servers, first);
                let (count, stop) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&listeners.stop));
                listeners.counts.push((format!("{era:?} at {server}"), Arc::clone(&count)));
                let listener = Listener { client, server, count, stop };
                listeners.threads.push(std::thread::spawn(move || listener.run()));
            }
        }
        listeners
    }

    /// Waits until each client has received another notification. The catalog must change meanwhile.
    pub(crate) fn wait_for_notifications(&self) {
        let started = Instant::now();
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let before: Vec<usize> = self.counts.iter().map(|(_, count)| read(count)).collect();
        for ((name, count), before) in self.counts.iter().zip(before) {
            while read(count) == before {
                assert!(started.elapsed() < TIMEOUT, "{name} receives no notifications");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

struct Listener {
    client: Client,
    server: usize,
    count: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Listener {
    /// Subscribes again after the end of a stream.
    fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            let _ = self.read_stream();
            std::thread::sleep(INTERVAL);
        }
    }

    /// Reads one stream to its end.
    fn read_stream(&mut self) -> io::Result<()> {
        let mut stream = self.client.listen(self.server)?;
        stream.set_read_timeout(Some(INTERVAL))?;
        let (mut text, mut bytes) = (String::new(), [0; 4096]);
        while !self.stop.load(Ordering::Relaxed) {
            match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => text.push_str(&String::from_utf8_lossy(&bytes[..count])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if let Some(at) = text.rfind(NOTIFICATION) {
                text.drain(..at + NOTIFICATION.len());
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
