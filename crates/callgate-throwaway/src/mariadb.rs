//! MariaDB.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::debian;
use crate::server::{Brand, Identity, PASSWORD, Server, USER, identity_files, run, setting};

const PACKAGE: &str = "mariadb-server-core mariadb-client-core";

/// Root may run it, if it says so; others need not care.
const AS_ROOT: &str = "--user=root";

/// MariaDB, as a brand of servers.
#[derive(Debug)]
pub struct MariaDb;

impl MariaDb {
    /// The environment variable with the address of a server for all test processes.
    pub const VARIABLE: &str = "XTASK_MARIADB";

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

/// Where an unpacked one finds what belongs to it.
fn base(tmp: &Path) -> Option<std::ffi::OsString> {
    let program = PathBuf::from(debian(tmp, PACKAGE, "mariadbd").get_program());
    let base = program.parent()?.parent()?;
    base.join("share/mysql").is_dir().then(|| setting("--basedir=", base))
}

impl Brand for MariaDb {
    fn program(&self, tmp: &Path) -> Command {
        debian(tmp, PACKAGE, "mariadbd")
    }

    fn initialise(&self, tmp: &Path, data: &Path) {
        let mut initialise = debian(tmp, PACKAGE, "mariadb-install-db");
        initialise.arg("--no-defaults").args(base(tmp)).arg(setting("--datadir=", data));
        initialise.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        initialise.args(["--innodb-log-file-size=16M", AS_ROOT]);
        run(&mut initialise);
    }

    /// Nothing is shared with anybody, nor kept.
    fn signal(&self) -> &'static str {
        "KILL"
    }

    fn scheme(&self) -> &'static str {
        "mysql"
    }

    fn command(&self, tmp: &Path, directory: &Path, port: u16) -> Command {
        let users = directory.join("users.sql");
        let sql = format!(
            "CREATE USER IF NOT EXISTS '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n\
             GRANT ALL ON *.* TO '{USER}'@'127.0.0.1' WITH GRANT OPTION;\n"
        );
        fs::write(&users, sql).expect("can be written");
        let mut command = self.program(tmp);
        command.arg("--no-defaults").args(base(tmp));
        command.arg(setting("--datadir=", directory.join("data")));
        command.arg(setting("--socket=", directory.join("socket")));
        // Of its own: another server that runs as the same user would remove its temporary tables.
        command.arg(setting("--tmpdir=", directory.join("data")));
        command.arg(setting("--pid-file=", directory.join("mariadbd.pid")));
        command.arg(setting("--init-file=", users)).arg(format!("--port={port}"));
        command.args([
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--max-connections=300",
            "--innodb-buffer-pool-size=128M",
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-flush-method=nosync",
            "--innodb-doublewrite=0",
            "--character-set-server=latin1",
            "--default-time-zone=+05:30",
            AS_ROOT,
        ]);
        let (certificate, key) = identity_files(directory);
        if certificate.exists() {
            command.arg(setting("--ssl-cert=", certificate)).arg(setting("--ssl-key=", key));
        }
        command
    }

    /// It listens when it is ready.
    fn is_ready(&self, _: &Path, address: SocketAddr) -> bool {
        TcpStream::connect(address).is_ok()
    }

    fn client(&self, tmp: &Path, address: SocketAddr, database: &str) -> Command {
        let mut client = debian(tmp, PACKAGE, "mariadb");
        client.env("MYSQL_PWD", PASSWORD);
        client.args(["--no-defaults", "--batch", "--skip-column-names", "--host=127.0.0.1"]);
        client.args(["--protocol=tcp", "--default-character-set=utf8mb4"]);
        client.args(["--user", USER, "--port", &address.port().to_string(), database]);
        client
    }

    fn first_database(&self) -> &'static str {
        "mysql"
    }
}
