//! nginx, which distributes requests to the servers in turn.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use callgate_test_support::debian;
use tempfile::TempDir;

/// Configuration with placeholders for addresses.
const CONFIGURATION: &str = include_str!("balancer.conf");
/// Maximum time until nginx listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A running nginx. It stops when this value is dropped.
#[derive(Debug)]
pub(crate) struct Balancer {
    child: Child,
    pub(crate) address: SocketAddr,
    directory: TempDir,
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Balancer {
    /// Starts nginx and waits until it listens. If the system has no nginx, unpacks the Debian package below `tmp`.
    pub(crate) fn start(
        tmp: &Path,
        listen: SocketAddr,
        servers: &[SocketAddr],
    ) -> anyhow::Result<Self> {
        // nginx cannot report a port that it chose.
        let address = TcpListener::bind(listen)
            .and_then(|listener| listener.local_addr())
            .with_context(|| format!("cannot listen on {listen}"))?;
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("nginx.conf");
        std::fs::write(&file, configuration(directory.path(), address, servers))?;
        let log = std::fs::File::create(directory.path().join("error.log"))?;
        let mut command = debian(tmp, "nginx", "nginx");
        command.arg("-p").arg(directory.path()).arg("-c").arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().context("cannot start nginx")?;
        let mut balancer = Self { child, address, directory };
        balancer.wait()?;
        Ok(balancer)
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        let started = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let has_failed = self.child.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT;
            let log = self.directory.path().join("error.log");
            ensure!(!has_failed, "nginx: {}", std::fs::read_to_string(log).unwrap_or_default());
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Returns a complete configuration that uses no directory of the system.
fn configuration(directory: &Path, address: SocketAddr, servers: &[SocketAddr]) -> String {
    let mut balancer = CONFIGURATION.replace("balancer:80", &address.to_string());
    for (number, server) in (1..).zip(servers) {
        balancer = balancer.replace(&format!("callgate-{number}:8080"), &server.to_string());
    }
    let directory = directory.display();
    format!(
        "daemon off;\n\
         master_process off;\n\
         pid {directory}/pid;\n\
         error_log stderr warn;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
         access_log off;\n\
         client_body_temp_path {directory}/body;\n\
         proxy_temp_path {directory}/proxy;\n\
         fastcgi_temp_path {directory}/fastcgi;\n\
         uwsgi_temp_path {directory}/uwsgi;\n\
         scgi_temp_path {directory}/scgi;\n\
         {balancer}\n\
         }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_shows_the_configuration_that_runs() {
        assert!(include_str!("../README.md").contains(CONFIGURATION));
    }
}
