//! nginx as a reverse proxy: one process, connections to the upstream kept.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use crate::free_port::{free_address, wait_for};
use crate::machine::Machine;

/// A started nginx, with the directory that it needs as long as it runs.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) directory: TempDir,
}

/// Starts it in front of an upstream, and waits until it listens.
pub(crate) fn start(upstream: SocketAddr, machine: &Machine) -> anyhow::Result<Started> {
    let program = program()?;
    let directory = tempfile::tempdir()?;
    let address = free_address()?;
    let configuration = directory.path().join("nginx.conf");
    std::fs::write(&configuration, configured(directory.path(), address, upstream))?;
    let child = machine
        .server_command(&program)
        .arg("-p")
        .arg(directory.path())
        .arg("-c")
        .arg(&configuration)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let mut started = Started { child, address, directory };
    wait_for(&mut started.child, address)?;
    Ok(started)
}

/// As much as a careful person would set: no log of each request, connections to the upstream kept, and
/// bodies of this size never in a file.
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

/// The one that is installed, or Debian's package unpacked where the build's files are.
fn program() -> anyhow::Result<PathBuf> {
    let installed = Path::new("/usr/sbin/nginx");
    if installed.exists() {
        return Ok(installed.to_owned());
    }
    let directory = std::env::current_exe()?.with_file_name("nginx");
    let program = directory.join("usr/sbin/nginx");
    if !program.exists() {
        std::fs::create_dir_all(&directory)?;
        run(Command::new("apt-get").args(["download", "nginx"]).current_dir(&directory))?;
        let is_package = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "deb");
        let mut files = std::fs::read_dir(&directory)?.filter_map(|file| Some(file.ok()?.path()));
        let package = files.find(is_package).context("apt-get has brought no package")?;
        run(Command::new("dpkg").arg("-x").arg(package).arg(&directory))?;
    }
    Ok(program)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {talk}");
    Ok(())
}
