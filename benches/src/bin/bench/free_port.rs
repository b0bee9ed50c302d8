//! Ports for servers that cannot choose a free port and report it.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::ensure;

/// Maximum time until a server listens.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Returns a loopback address with a free port.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Waits until a child process listens.
pub(crate) fn wait_until_listening(child: &mut Child, address: SocketAddr) -> anyhow::Result<()> {
    let started = Instant::now();
    while TcpStream::connect(address).is_err() {
        ensure!(child.try_wait()?.is_none(), "the process for {address} has ended");
        ensure!(started.elapsed() < START_TIMEOUT, "no process listens on {address}");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
