//! PostgreSQL.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::engine::Backend;
use super::server::{PASSWORD, USER, argument, identity_files, not_as_root, run};
use crate::packages::debian;

const PACKAGE: &str = "postgresql";

/// PostgreSQL.
pub(super) struct Postgres;

/// Returns `psql` from the directory of the program `postgres`, because `psql` on `PATH` may be a slow wrapper
/// script.
fn psql(tmp: &Path) -> Command {
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

impl Backend for Postgres {
    fn program(&self, tmp: &Path) -> Command {
        debian(tmp, PACKAGE, "postgres")
    }

    fn initialise(&self, tmp: &Path, data: &Path) {
        let password_file = data.with_file_name("password");
        fs::write(&password_file, PASSWORD).expect("file is writable");
        let mut initialise = debian(tmp, PACKAGE, "initdb");
        initialise.arg("-D").arg(data).args(["-U", USER, "-A", "scram-sha-256", "-E", "UTF8"]);
        initialise
            .args(["--locale=C.UTF-8", "--no-sync"])
            .arg(argument("--pwfile=", &password_file));
        run(&mut not_as_root(initialise));
    }

    /// Signal that stops the server immediately but releases shared memory.
    fn stop_signal(&self) -> &'static str {
        "QUIT"
    }

    fn url_scheme(&self) -> &'static str {
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
            command.args(["-c", "ssl=on", "-c"]).arg(argument("ssl_cert_file=", certificate));
            command.arg("-c").arg(argument("ssl_key_file=", key));
        }
        not_as_root(command)
    }

    /// Reads `postmaster.pid`, because the port accepts connections before the server is ready. Compares the
    /// process id in the file, because a killed server leaves its file behind.
    fn is_ready(&self, directory: &Path, _: SocketAddr) -> bool {
        let read = |name| fs::read_to_string(directory.join(name)).unwrap_or_default();
        let (file, id) = (read("data/postmaster.pid"), read("pid"));
        let line = |index| file.lines().nth(index).map(str::trim);
        line(0) == Some(id.trim()) && line(7) == Some("ready")
    }

    fn client(&self, tmp: &Path, address: SocketAddr, database: &str) -> Command {
        let mut client = psql(tmp);
        client.env("PGPASSWORD", PASSWORD).env("PGCLIENTENCODING", "UTF8");
        client.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set"]);
        client.args(["ON_ERROR_STOP=1", "--host", "127.0.0.1", "--username", USER]);
        client.args(["--port", &address.port().to_string(), "--dbname", database]);
        client
    }

    fn default_database(&self) -> &'static str {
        "postgres"
    }
}
