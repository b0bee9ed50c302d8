//! Clients that listen: at each gateway one of each era, that wants to hear when its list of tools changes.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::{Client, Era};
use super::load::Account;
use crate::support::PATIENCE;

/// What they hear.
const TOLD: &str = "notifications/tools/list_changed";
/// So often they look whether they are to stop, and ask again where there is no stream.
const PAUSE: Duration = Duration::from_millis(100);

/// The clients while they listen; they stop at the end, whatever happens.
pub(crate) struct Listeners {
    stop: Arc<AtomicBool>,
    /// Each with where it listens, and how often it was told.
    all: Vec<(String, Arc<AtomicUsize>)>,
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
    pub(crate) fn start(gateways: &[SocketAddr], account: &Account) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut listeners = Self { stop, all: Vec::new(), threads: Vec::new() };
        for gateway in 0..gateways.len() {
            for era in [Era::Legacy, Era::Modern] {
                // A session is opened at one gateway, and listens at another.
                let first = (gateway + 1) % gateways.len();
                let client = Client::new(era, &account.token, account.tools, gateways, first);
                let (told, stop) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&listeners.stop));
                listeners.all.push((format!("{era:?} at {gateway}"), Arc::clone(&told)));
                let listener = Listener { client, gateway, told, stop };
                listeners.threads.push(std::thread::spawn(move || listener.run()));
            }
        }
        listeners
    }

    /// Waits until each has heard once more of a change. The catalog has to change meanwhile.
    pub(crate) fn until_told(&self) {
        let started = Instant::now();
        let count = |told: &AtomicUsize| told.load(Ordering::Relaxed);
        let before: Vec<usize> = self.all.iter().map(|(_, told)| count(told)).collect();
        for ((who, told), before) in self.all.iter().zip(before) {
            while count(told) == before {
                assert!(started.elapsed() < PATIENCE, "{who} is not told of changes");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

struct Listener {
    client: Client,
    gateway: usize,
    told: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Listener {
    /// Where a stream ends, another is asked for.
    fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            let _ = self.hear();
            std::thread::sleep(PAUSE);
        }
    }

    /// One stream to its end.
    fn hear(&mut self) -> io::Result<()> {
        let mut stream = self.client.listen(self.gateway)?;
        stream.set_read_timeout(Some(PAUSE))?;
        let (mut heard, mut bytes) = (String::new(), [0; 4096]);
        while !self.stop.load(Ordering::Relaxed) {
            match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => heard.push_str(&String::from_utf8_lossy(&bytes[..count])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if let Some(at) = heard.rfind(TOLD) {
                heard.drain(..at + TOLD.len());
                self.told.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
