//! Three gateways on one registry, each with a wire of its own to the database.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callgate_test_support::{DatabaseServer, Engine};
use serde_json::Value;

use super::churn::Churn;
use super::filled::{Filled, Program};
use super::listeners::Listeners;
use super::load::Load;
use super::metrics::Metrics;
use super::proxy::Proxy;
use super::record::Who;
use super::upstream::Manner;
use super::wire::get;
use crate::real::servers::Running;
use crate::support::PATIENCE;

/// How many gateways there are.
pub(crate) const GATEWAYS: usize = 3;

/// A server that a scenario may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brand {
    Postgres,
    MariaDb,
}

impl Brand {
    pub(crate) fn start(self) -> DatabaseServer {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        match self {
            Self::Postgres => Engine::Postgres.start(tmp),
            Self::MariaDb => Engine::MariaDb.start(tmp),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB",
        }
    }
}

/// The gateways and all around them; gone at the end.
pub(crate) struct Cluster {
    pub(crate) gateways: Vec<Running>,
    pub(crate) wires: Vec<Proxy>,
    pub(crate) database: Arc<DatabaseServer>,
    pub(crate) registry: Filled,
    /// The database's name.
    name: String,
}

impl Cluster {
    /// Tokens count for `grace` after a gateway last saw the registry.
    pub(crate) fn start(program: Program, brand: Brand, grace: Duration) -> Self {
        let database = Arc::new(brand.start());
        let registry = database.database();
        let filled = Filled::new(program, &registry.url, Manner::Rough);
        let wires = [(); GATEWAYS].map(|()| Proxy::start(database.address()));
        let urls = wires.each_ref().map(|wire| database.url(&registry.name, wire.address));
        let gateways = urls.map(|url| filled.serve(&url, grace)).into();
        let (wires, name) = (wires.into(), registry.name);
        let cluster = Self { gateways, wires, database, registry: filled, name };
        cluster.until("all are ready", |it| (0..GATEWAYS).all(|gateway| it.is_ready(gateway)));
        cluster
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.gateways.iter().map(|gateway| gateway.address).collect()
    }

    /// The clients begin to call.
    pub(crate) fn load(&self, addresses: &[SocketAddr]) -> Load {
        let pace = self.registry.program.pace();
        Load::start(addresses, |who| self.registry.account(who), pace)
    }

    /// Clients begin to listen.
    pub(crate) fn listeners(&self, addresses: &[SocketAddr]) -> Listeners {
        Listeners::start(addresses, &self.registry.account(Who::Steady))
    }

    /// The catalog begins to change.
    pub(crate) fn churn(&self) -> Churn {
        Churn::start(Arc::clone(&self.database), self.name.clone())
    }

    /// How much a gateway has printed.
    pub(crate) fn told(&self, gateway: usize) -> usize {
        self.gateways[gateway].said().len()
    }

    /// Until when a gateway honours tokens at least, as far as it has seen the registry now.
    pub(crate) fn honoured_until(&self, gateway: usize, grace: Duration) -> Instant {
        let now = Instant::now();
        let age = Metrics::read(self.gateways[gateway].address).contact_age;
        now.checked_sub(age).unwrap() + grace
    }

    /// Waits until each of these gateways knows what the registry holds now; when that was.
    pub(crate) fn until_looked(&self, gateways: &[usize]) -> Vec<(usize, Instant)> {
        let looked = gateways.iter().map(|gateway| {
            Metrics::until_looked(self.gateways[*gateway].address);
            (*gateway, Instant::now())
        });
        looked.collect()
    }

    /// Whether a gateway says that what it serves is what the registry holds.
    pub(crate) fn is_ready(&self, gateway: usize) -> bool {
        self.status(gateway).as_deref() == Some("ready")
    }

    /// Whether it says that the registry is away.
    pub(crate) fn is_stale(&self, gateway: usize) -> bool {
        self.status(gateway).as_deref() == Some("stale")
    }

    fn status(&self, gateway: usize) -> Option<String> {
        let answer = get(self.gateways[gateway].address, "/readyz").ok()?;
        let body: Value = serde_json::from_str(&answer.body).ok()?;
        Some(body["status"].as_str()?.to_owned())
    }

    /// Asks again and again until it is so; when it was.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) -> Instant {
        let started = Instant::now();
        while !is_so(self) {
            assert!(started.elapsed() < PATIENCE, "never: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Instant::now()
    }
}
