//! Three gateways on one registry, each with a wire of its own to the database.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use callgate_throwaway::{MariaDb, Postgres, Server};
use serde_json::Value;

use super::filled::{Filled, Program};
use super::load::Load;
use super::proxy::Proxy;
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
    pub(crate) fn start(self) -> Server {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        match self {
            Self::Postgres => Postgres::start(tmp),
            Self::MariaDb => MariaDb::start(tmp),
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
    pub(crate) database: Server,
    pub(crate) registry: Filled,
}

impl Cluster {
    /// Tokens count for `grace` after a gateway last saw the registry.
    pub(crate) fn start(program: Program, brand: Brand, grace: Duration) -> Self {
        let database = brand.start();
        let registry = database.database();
        let filled = Filled::new(program, &registry.url);
        let wires = [(); GATEWAYS].map(|()| Proxy::start(database.address()));
        let urls = wires.each_ref().map(|wire| database.url(&registry.name, wire.address));
        let gateways = urls.map(|url| filled.serve(&url, grace)).into();
        let cluster = Self { gateways, wires: wires.into(), database, registry: filled };
        cluster.until("all are ready", |it| (0..GATEWAYS).all(|gateway| it.is_ready(gateway)));
        cluster
    }

    /// The clients begin to call.
    pub(crate) fn load(&self) -> Load {
        let addresses: Vec<SocketAddr> = self.gateways.iter().map(|it| it.address).collect();
        let pace = self.registry.program.pace();
        Load::start(&addresses, |who| self.registry.account(who), pace)
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
