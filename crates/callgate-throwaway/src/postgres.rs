//! PostgreSQL.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::debian;
use crate::server::{
    Brand, Identity, PASSWORD, Server, USER, identity_files, not_as_root, run, setting,
};

const PACKAGE: &str = "postgresql";

/// PostgreSQL, as a brand of servers.
#[derive(Debug)]
pub struct Postgres;

impl Postgres {
    /// The environment variable with the address of a server for all test processes.
    pub const VARIABLE: &str = "XTASK_POSTGRES";

    /// Returns the server that [`Self::VARIABLE`] names, or one of this process, started on first use. `tmp` is
    /// cargo's directory for tests' files.
    pub fn shared(tmp: &Path) -> &'static Server {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(|| {
            Server::given(&Self, tmp, Self::VARIABLE).unwrap_or_else(|| Self::start(tmp))
        })
    }

    /// Starts a server for one test that ends it.
    pub fn start(tmp: &Path) -> Server {
        Server::start(&Self, tmp, None)
    }

    /// Starts a server that encrypts, for one test.
    pub fn encrypting(tmp: &Path, identity: Identity<'_>) -> Server {
        Server::start(&Self, tmp, Some(identity))
    }
}

/// The client that came with the server; the one on the path may be a script that looks for it.
fn beside_the_server(tmp: &Path) -> Command {
    let server = debian(tmp, PACKAGE, "postgres");
    let program = fs::canonicalize(server.get_program());
    match program.map(|program| program.with_file_name("psql")) {
        Ok(client) if client.is_file() => {
            let mut command = Command::new(client);
            command.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command
        }
        _ => debian(tmp, "postgresql-client", "psql"),
    }
}

impl Brand for Postgres {
    fn program(&self, tmp: &Path) -> Command {
        debian(tmp, PACKAGE, "postgres")
    }

    fn initialise(&self, tmp: &Path, data: &Path) {
        let secret = data.with_file_name("password");
        fs::write(&secret, PASSWORD).expect("can be written");
        let mut initialise = debian(tmp, PACKAGE, "initdb");
        initialise.arg("-D").arg(data).args(["-U", USER, "-A", "scram-sha-256", "-E", "UTF8"]);
        initialise.args(["--locale=C.UTF-8", "--no-sync"]).arg(setting("--pwfile=", &secret));
        run(&mut not_as_root(initialise));
    }

    /// At once; what it shares with its processes is still given back.
    fn signal(&self) -> &'static str {
        "QUIT"
    }

    fn scheme(&self) -> &'static str {
        "postgres"
    }

    fn command(&self, tmp: &Path, directory: &Path, port: u16) -> Command {
        let mut command = self.program(tmp);
        command.arg("-D").arg(directory.join("data")).arg("-p").arg(port.to_string());
        for option in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=300",
            "shared_buffers=64MB",
            "fsync=off",
            "full_page_writes=off",
            "timezone=Asia/Kolkata",
        ] {
            command.args(["-c", option]);
        }
        let (certificate, key) = identity_files(directory);
        if certificate.exists() {
            command.args(["-c", "ssl=on", "-c"]).arg(setting("ssl_cert_file=", certificate));
            command.arg("-c").arg(setting("ssl_key_file=", key));
        }
        not_as_root(command)
    }

    /// Its file says so; on its port it may still refuse. One that was killed left its file.
    fn is_ready(&self, directory: &Path, _: SocketAddr) -> bool {
        let read = |name| fs::read_to_string(directory.join(name)).unwrap_or_default();
        let (file, id) = (read("data/postmaster.pid"), read("pid"));
        let line = |index| file.lines().nth(index).map(str::trim);
        line(0) == Some(id.trim()) && line(7) == Some("ready")
    }

    fn client(&self, tmp: &Path, address: SocketAddr, database: &str) -> Command {
        let mut client = beside_the_server(tmp);
        client.env("PGPASSWORD", PASSWORD).env("PGCLIENTENCODING", "UTF8");
        client.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set"]);
        client.args(["ON_ERROR_STOP=1", "--host", "127.0.0.1", "--username", USER]);
        client.args(["--port", &address.port().to_string(), "--dbname", database]);
        client
    }

    fn first_database(&self) -> &'static str {
        "postgres"
    }
}
