//! Servers that cannot say which port they took.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::ensure;

/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A port of loopback that was free a moment ago.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Waits until somebody listens there; a child that does not is killed.
pub(crate) fn wait_for(child: &mut Child, address: SocketAddr) -> anyhow::Result<()> {
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        let is_over = child.try_wait()?.is_some() || begun.elapsed() > PATIENCE;
        if is_over {
            let _ = child.kill();
            let _ = child.wait();
        }
        ensure!(!is_over, "nobody listens on {address}");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
