//! nginx as a load balancer, with the configuration of `examples/replicas`.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use crate::real::servers::{RunningProcess, debian};

/// Configuration with placeholders for addresses.
const CONFIGURATION: &str = include_str!("../../../../../../examples/replicas/src/balancer.conf");

/// Starts nginx with its files in this directory.
pub(crate) fn start(directory: &Path, servers: &[SocketAddr]) -> RunningProcess {
    let directory = directory.to_owned();
    let mut balancer = CONFIGURATION.to_owned();
    for (number, server) in (1..).zip(servers) {
        balancer = balancer.replace(&format!("callgate-{number}:8080"), &server.to_string());
    }
    RunningProcess::start(move |port| {
        let balancer = balancer.replace("balancer:80", &format!("127.0.0.1:{port}"));
        let file = directory.join("nginx.conf");
        std::fs::write(&file, complete_configuration(&directory, &balancer)).unwrap();
        let mut command = debian("nginx", "nginx");
        command.arg("-p").arg(&directory).arg("-c").arg(&file);
        command
    })
}

/// Returns a complete configuration that uses no directory of the system.
fn complete_configuration(directory: &Path, balancer: &str) -> String {
    let directory = directory.display();
    let mut paths = String::new();
    for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(paths, "{name}_temp_path {directory}/{name};");
    }
    format!(
        "daemon off;\nmaster_process off;\npid {directory}/pid;\nerror_log stderr warn;\n\
         events {{ worker_connections 1024; }}\nhttp {{\naccess_log off;\n{paths}{balancer}\n}}\n"
    )
}
