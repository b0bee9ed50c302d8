//! What lies between a gateway and its database: a wire that passes, is cut, or swallows all that is sent.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// What becomes of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// They arrive.
    Passes,
    /// Connections are reset, new ones too.
    IsCut,
    /// They never arrive, also those of new connections; nothing is reset, now or later.
    Swallows,
}

/// A proxy on loopback; gone at the end.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    wire: watch::Sender<Wire>,
    _runtime: Runtime,
}

impl Proxy {
    pub(crate) fn start(to: SocketAddr) -> Self {
        let runtime = crate::front::runtime();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (wire, seen) = watch::channel(Wire::Passes);
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let seen = seen.clone();
                tokio::spawn(async move {
                    let _ = serve(client, to, seen).await;
                });
            }
        });
        Self { address, wire, _runtime: runtime }
    }

    /// From now on. Of what was sent before, nothing that has not arrived does.
    pub(crate) fn set(&self, wire: Wire) {
        self.wire.send_replace(wire);
    }
}

/// One connection, for as long as the wire is as it was: bytes that were lost cannot be made up for.
async fn serve(
    mut client: TcpStream,
    to: SocketAddr,
    mut seen: watch::Receiver<Wire>,
) -> io::Result<()> {
    let wire = *seen.borrow_and_update();
    // Ends with a reset.
    client.set_zero_linger()?;
    let mut server = match wire {
        Wire::Passes => TcpStream::connect(to).await?,
        Wire::IsCut => return Ok(()),
        Wire::Swallows => return silence().await,
    };
    server.set_zero_linger()?;
    let passed = pass(&mut client, &mut server, &mut seen).await;
    let is_swallowed = *seen.borrow() == Wire::Swallows;
    if is_swallowed {
        // Both ends stay open, and neither hears of the other again, not even that it has given up. What is
        // sent is lost, so the connection is no good when others pass again.
        return silence().await;
    }
    passed
}

/// For as long as there is a proxy.
async fn silence() -> io::Result<()> {
    std::future::pending().await
}

/// Until one side ends, or the wire is another.
async fn pass(
    client: &mut TcpStream,
    server: &mut TcpStream,
    seen: &mut watch::Receiver<Wire>,
) -> io::Result<()> {
    let (mut up, mut down) = (vec![0; 1 << 14], vec![0; 1 << 14]);
    loop {
        tokio::select! {
            biased;
            _ = seen.changed() => return Ok(()),
            count = client.read(&mut up) => match count? {
                0 => return Ok(()),
                count => server.write_all(&up[..count]).await?,
            },
            count = server.read(&mut down) => match count? {
                0 => return Ok(()),
                count => client.write_all(&down[..count]).await?,
            },
        }
    }
}
