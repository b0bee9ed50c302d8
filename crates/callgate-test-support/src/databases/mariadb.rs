//! MariaDB.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::engine::Backend;
use super::server::{PASSWORD, USER, argument, identity_files, run};
use crate::packages::debian;

const PACKAGE: &str = "mariadb-server-core mariadb-client-core";

/// Allows the server to run as root. Ignored for other users.
const AS_ROOT: &str = "--user=root";

/// MariaDB.
pub(super) struct MariaDb;

/// Returns the option with the directory of an unpacked package.
fn base_directory(tmp: &Path) -> Option<std::ffi::OsString> {
    let program = PathBuf::from(debian(tmp, PACKAGE, "mariadbd").get_program());
    let base = program.parent()?.parent()?;
    base.join("share/mysql").is_dir().then(|| argument("--basedir=", base))
}

impl Backend for MariaDb {
    fn program(&self, tmp: &Path) -> Command {
        debian(tmp, PACKAGE, "mariadbd")
    }

    fn initialise(&self, tmp: &Path, data: &Path) {
        let mut initialise = debian(tmp, PACKAGE, "mariadb-install-db");
        initialise.arg("--no-defaults").args(base_directory(tmp)).arg(argument("--datadir=", data));
        initialise.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        initialise.args(["--innodb-log-file-size=16M", AS_ROOT]);
        run(&mut initialise);
    }

    fn stop_signal(&self) -> &'static str {
        "KILL"
    }

    fn url_scheme(&self) -> &'static str {
        "mysql"
    }

    fn command(&self, tmp: &Path, directory: &Path, port: u16) -> Command {
        let users = directory.join("users.sql");
        let sql = format!(
            "CREATE USER IF NOT EXISTS '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n\
             GRANT ALL ON *.* TO '{USER}'@'127.0.0.1' WITH GRANT OPTION;\n"
        );
        fs::write(&users, sql).expect("file is writable");
        let mut command = self.program(tmp);
        command.arg("--no-defaults").args(base_directory(tmp));
        command.arg(argument("--datadir=", directory.join("data")));
        command.arg(argument("--socket=", directory.join("socket")));
        // In a shared temporary directory, another server of the same user would remove the temporary tables of this
        // one.
        command.arg(argument("--tmpdir=", directory.join("data")));
        command.arg(argument("--pid-file=", directory.join("mariadbd.pid")));
        command.arg(argument("--init-file=", users)).arg(format!("--port={port}"));
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
            command.arg(argument("--ssl-cert=", certificate)).arg(argument("--ssl-key=", key));
        }
        command
    }

    /// Returns `true` if the port is open. MariaDB opens its port when it is ready.
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

    fn default_database(&self) -> &'static str {
        "mysql"
    }
}
