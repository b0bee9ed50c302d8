//! nginx as a reverse proxy: one process, with persistent connections to the upstream.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::Context as _;
use callgate_test_support::debian;
use tempfile::TempDir;

use crate::free_port::{free_address, wait_for};
use crate::machine::Machine;

/// A running nginx and its directory.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) directory: TempDir,
}

/// Starts nginx in front of an upstream, and waits until it listens.
pub(crate) fn start(upstream: SocketAddr, machine: &Machine) -> anyhow::Result<Started> {
    let target = std::env::current_exe()?;
    let target = target.ancestors().nth(2).context("program is not below the target directory")?;
    let nginx = debian(&target.join("tmp"), "nginx", "nginx");
    let program = Path::new(nginx.get_program());
    let directory = tempfile::tempdir()?;
    let address = free_address()?;
    let configuration = directory.path().join("nginx.conf");
    std::fs::write(&configuration, configured(directory.path(), address, upstream))?;
    let child = machine
        .server_command(program)
        .envs(nginx.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .arg("-p")
        .arg(directory.path())
        .arg("-c")
        .arg(&configuration)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("failed to start {}", program.display()))?;
    let mut started = Started { child, address, directory };
    wait_for(&mut started.child, address)?;
    Ok(started)
}

/// Returns a tuned configuration: no access log, persistent connections to the upstream, and no temporary files for
/// bodies of this size.
fn configured(directory: &Path, address: SocketAddr, upstream: SocketAddr) -> String {
    let directory = directory.display();
    format!(
        "daemon off;\n\
         master_process off;\n\
         pid {directory}/pid;\n\
         error_log {directory}/error.log warn;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
         access_log off;\n\
         client_body_temp_path {directory}/body;\n\
         proxy_temp_path {directory}/proxy;\n\
         fastcgi_temp_path {directory}/fastcgi;\n\
         uwsgi_temp_path {directory}/uwsgi;\n\
         scgi_temp_path {directory}/scgi;\n\
         tcp_nodelay on;\n\
         keepalive_requests 1000000000;\n\
         client_body_buffer_size 64k;\n\
         upstream service {{ server {upstream}; keepalive 64; keepalive_requests 1000000000; }}\n\
         server {{\n\
         listen {address};\n\
         location / {{\n\
         proxy_pass http://service;\n\
         proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\n\
         }}\n\
         }}\n\
         }}\n"
    )
}
