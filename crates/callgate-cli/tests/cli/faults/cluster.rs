//! Three servers on one registry, each connected to the database through its own proxy.

pub(crate) mod upstream;
pub(crate) mod database;
pub(crate) mod registry;
pub(crate) mod proxy;
pub(crate) mod metrics;
pub(crate) mod nginx;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callgate_test_support::{DatabaseServer, Engine, TestDatabase};
use serde_json::Value;

use crate::faults::load::Load;
use crate::faults::load::call_log::ClientGroup;
use crate::faults::load::catalog_changes::CatalogChanges;
use crate::faults::load::listeners::Listeners;
use crate::http_client::get;
use crate::real::servers::RunningProcess;
use crate::support::TIMEOUT;
use metrics::Metrics;
use proxy::Proxy;
use registry::{Program, TestRegistry};
use upstream::UpstreamMode;

/// Number of servers.
pub(crate) const SERVERS: usize = 3;

/// The servers with their registry and database. They stop when this is dropped.
pub(crate) struct Cluster {
    pub(crate) servers: Vec<RunningProcess>,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) database: Arc<DatabaseServer>,
    pub(crate) registry: TestRegistry,
    /// Name of the database.
    name: String,
}

impl Cluster {
    /// Starts the servers. They accept tokens for `grace` after their last contact with the registry.
    pub(crate) fn start(program: Program, engine: Engine, grace: Duration) -> Self {
        let database = Arc::new(engine.start(Path::new(env!("CARGO_TARGET_TMPDIR"))));
        let TestDatabase { url, name } = database.database();
        let registry = TestRegistry::new(program, &url, UpstreamMode::Flaky);
        let proxies = [(); SERVERS].map(|()| Proxy::start(database.address()));
        let urls = proxies.each_ref().map(|proxy| database.url(&name, proxy.address));
        let servers = urls.map(|url| registry.serve(&url, grace)).into();
        let cluster = Self { servers, proxies: proxies.into(), database, registry, name };
        cluster.wait_until("all gateways are ready", |it| {
            (0..SERVERS).all(|server| it.is_ready(server))
        });
        cluster
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(|server| server.address).collect()
    }

    /// Starts the calling clients.
    pub(crate) fn load(&self, addresses: &[SocketAddr]) -> Load {
        let pace = self.registry.program.pace();
        Load::start(addresses, |group| self.registry.account(group), pace)
    }

    /// Starts the subscribed clients.
    pub(crate) fn listeners(&self, addresses: &[SocketAddr]) -> Listeners {
        Listeners::start(addresses, &self.registry.account(ClientGroup::Unchanged))
    }

    /// Starts the program that changes the catalog.
    pub(crate) fn catalog_changes(&self) -> CatalogChanges {
        CatalogChanges::start(Arc::clone(&self.database), self.name.clone())
    }

    /// Returns the length of a server's log.
    pub(crate) fn log_length(&self, server: usize) -> usize {
        self.servers[server].log().len()
    }

    /// Returns the earliest time at which a server may stop accepting tokens if it loses the registry now.
    pub(crate) fn tokens_valid_until(&self, server: usize, grace: Duration) -> Instant {
        let now = Instant::now();
        let age = Metrics::read(self.servers[server].address).registry_age;
        now.checked_sub(age).unwrap() + grace
    }

    /// Waits until each of these servers has read the current state of the registry. Returns the times.
    pub(crate) fn wait_for_poll(&self, servers: &[usize]) -> Vec<(usize, Instant)> {
        let polled = servers.iter().map(|server| {
            Metrics::wait_for_poll(self.servers[*server].address);
            (*server, Instant::now())
        });
        polled.collect()
    }

    /// Returns `true` if a server serves the current state of the registry.
    pub(crate) fn is_ready(&self, server: usize) -> bool {
        self.status(server).as_deref() == Some("ready")
    }

    /// Returns `true` if a server reports that it cannot reach the registry.
    pub(crate) fn is_stale(&self, server: usize) -> bool {
        self.status(server).as_deref() == Some("stale")
    }

    fn status(&self, server: usize) -> Option<String> {
        let response = get(self.servers[server].address, "/readyz").ok()?;
        let body: Value = serde_json::from_str(&response.body).ok()?;
        Some(body["status"].as_str()?.to_owned())
    }

    /// Waits until a condition is met. Returns the time.
    pub(crate) fn wait_until(&self, condition: &str, is_met: impl Fn(&Self) -> bool) -> Instant {
        let started = Instant::now();
        while !is_met(self) {
            assert!(started.elapsed() < TIMEOUT, "timed out waiting until {condition}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Instant::now()
    }
}
