//! TCP proxy between a server and its database that can reset or drop the traffic.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// State of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// Forwards bytes.
    Up,
    /// Resets all connections.
    Reset,
    /// Drops all bytes and keeps connections open.
    Blackhole,
}

/// A running proxy. It stops when it is dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    link: watch::Sender<Link>,
    _runtime: Runtime,
}

impl Proxy {
    pub(crate) fn start(database: SocketAddr) -> Self {
        let runtime = crate::reverse_proxy::runtime();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (link, changes) = watch::channel(Link::Up);
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let changes = changes.clone();
                tokio::spawn(async move {
                    let _ = serve(client, database, changes).await;
                });
            }
        });
        Self { address, link, _runtime: runtime }
    }

    /// Changes the state of the link. Bytes in transit are lost.
    pub(crate) fn set(&self, link: Link) {
        self.link.send_replace(link);
    }
}

/// Serves one connection until the state of the link changes, since lost bytes cannot be sent again.
async fn serve(
    mut client: TcpStream,
    database_address: SocketAddr,
    mut changes: watch::Receiver<Link>,
) -> io::Result<()> {
    let link = *changes.borrow_and_update();
    // Closing the socket sends a reset.
    client.set_zero_linger()?;
    let mut database = match link {
        Link::Up => TcpStream::connect(database_address).await?,
        Link::Reset => return Ok(()),
        Link::Blackhole => return never().await,
    };
    database.set_zero_linger()?;
    let result = forward(&mut client, &mut database, &mut changes).await;
    let is_blackhole = *changes.borrow() == Link::Blackhole;
    if is_blackhole {
        // Both ends stay open and receive nothing more, not even a close. Lost bytes make the connection
        // unusable after the link is up again.
        return never().await;
    }
    result
}

async fn never() -> io::Result<()> {
    std::future::pending().await
}

/// Forwards bytes until one side closes or the state of the link changes.
async fn forward(
    client: &mut TcpStream,
    database: &mut TcpStream,
    changes: &mut watch::Receiver<Link>,
) -> io::Result<()> {
    let (mut up, mut down) = (vec![0; 1 << 14], vec![0; 1 << 14]);
    loop {
        tokio::select! {
            biased;
            _ = changes.changed() => return Ok(()),
            count = client.read(&mut up) => match count? {
                0 => return Ok(()),
                count => database.write_all(&up[..count]).await?,
            },
            count = database.read(&mut down) => match count? {
                0 => return Ok(()),
                count => client.write_all(&down[..count]).await?,
            },
        }
    }
}
