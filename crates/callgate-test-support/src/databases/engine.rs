//! The database engines that tests start.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use super::mariadb::MariaDb;
use super::postgres::Postgres;
use super::server::{DatabaseServer, TlsIdentity};

/// A database engine.
///
/// The `tmp` argument of its methods is `CARGO_TARGET_TMPDIR`, where packages and initial data directories are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    MariaDb,
}

impl Engine {
    /// All engines.
    pub const ALL: [Self; 2] = [Self::Postgres, Self::MariaDb];

    /// Returns the engine's name as its documentation spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB",
        }
    }

    /// Returns the environment variable with the address of the server that all test processes share.
    pub fn env_var(self) -> &'static str {
        match self {
            Self::Postgres => "XTASK_POSTGRES",
            Self::MariaDb => "XTASK_MARIADB",
        }
    }

    /// Returns the server at the address in [`Self::env_var`]. If the variable is not set, starts a server for this
    /// process.
    pub fn shared(self, tmp: &Path) -> &'static DatabaseServer {
        static POSTGRES: OnceLock<DatabaseServer> = OnceLock::new();
        static MARIADB: OnceLock<DatabaseServer> = OnceLock::new();
        let server = match self {
            Self::Postgres => &POSTGRES,
            Self::MariaDb => &MARIADB,
        };
        server
            .get_or_init(|| DatabaseServer::from_env(self, tmp).unwrap_or_else(|| self.start(tmp)))
    }

    /// Starts a server that the test may stop.
    pub fn start(self, tmp: &Path) -> DatabaseServer {
        DatabaseServer::start(self, tmp, None)
    }

    /// Starts a server that offers TLS.
    pub fn start_with_tls(self, tmp: &Path, identity: TlsIdentity<'_>) -> DatabaseServer {
        DatabaseServer::start(self, tmp, Some(identity))
    }

    pub(super) fn backend(self) -> &'static dyn Backend {
        match self {
            Self::Postgres => &Postgres,
            Self::MariaDb => &MariaDb,
        }
    }
}

/// Commands and constants that differ between engines.
pub(super) trait Backend: Sync {
    /// Signal that stops the server.
    fn stop_signal(&self) -> &'static str;
    fn url_scheme(&self) -> &'static str;
    /// Database that exists in every server.
    fn default_database(&self) -> &'static str;
    /// Returns the server's program without arguments.
    fn program(&self, tmp: &Path) -> Command;
    /// Creates a data directory.
    fn initialise(&self, tmp: &Path, data: &Path);
    /// Returns the command that runs the server with the data directory `data` below `directory`.
    fn command(&self, tmp: &Path, directory: &Path, port: u16) -> Command;
    fn is_ready(&self, directory: &Path, address: SocketAddr) -> bool;
    /// Returns the command-line client, which reads SQL from its standard input.
    fn client(&self, tmp: &Path, address: SocketAddr, database: &str) -> Command;
}
