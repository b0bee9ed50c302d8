//! `server-everything`, the protocol's own reference server, in a process of its own.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};

use super::{Killed, node};

/// The server while it runs.
pub(crate) struct Everything {
    _process: Killed,
}

impl Everything {
    pub(crate) fn start(port: u16) -> Self {
        let mut command = node::everything_server();
        command.env("PORT", port.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Killed(command.spawn().unwrap());
        let mut lines = BufReader::new(process.0.stderr.take().unwrap()).lines();
        let started = lines.any(|line| line.unwrap().contains("listening on port"));
        assert!(started, "server-everything did not start");
        // So that it is never held up by what it says.
        std::thread::spawn(move || lines.for_each(drop));
        Self { _process: process }
    }
}

/// A port below those that the system gives away, so that nobody takes it between two starts.
pub(crate) fn fixed_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 20_000 + u16::try_from(std::process::id() % 100).unwrap() * 100;
    loop {
        let port = start + NEXT.fetch_add(1, Ordering::SeqCst) % 1000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
