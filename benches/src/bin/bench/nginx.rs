//! nginx as a reverse proxy, with persistent connections to the upstream.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use callgate_bench::packages::target_directory;
use callgate_test_support::debian;

use crate::machine::Placement;

/// Returns nginx, which is unpacked below `target` if the system does not have it.
pub(crate) fn program() -> anyhow::Result<Command> {
    Ok(debian(&target_directory()?.join("tmp"), "nginx", "nginx"))
}

/// Returns the command of nginx in front of an upstream.
pub(crate) fn command(
    directory: &Path,
    address: SocketAddr,
    upstream: SocketAddr,
    placement: &Placement,
) -> anyhow::Result<Command> {
    let nginx = program()?;
    let configuration = directory.join("nginx.conf");
    let text = configuration_text(directory, address, upstream, placement.threads);
    std::fs::write(&configuration, text)?;
    let mut command = placement.command(Path::new(nginx.get_program()));
    command.envs(nginx.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.arg("-p").arg(directory).arg("-c").arg(configuration);
    Ok(command)
}

/// Returns a tuned configuration: no access log, persistent connections to the upstream, and no temporary files for
/// bodies of this size.
fn configuration_text(
    directory: &Path,
    address: SocketAddr,
    upstream: SocketAddr,
    workers: usize,
) -> String {
    let directory = directory.display();
    format!(
        "daemon off;\n\
         worker_processes {workers};\n\
         pid {directory}/pid;\n\
         error_log {directory}/error.log warn;\n\
         events {{ worker_connections 4096; }}\n\
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
         upstream service {{ server {upstream}; keepalive 512; keepalive_requests 1000000000; }}\n\
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
