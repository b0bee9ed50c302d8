//! A reverse proxy with TLS or with another path.

use std::net::SocketAddr;

use callgate_test_support::tls;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// Returns a runtime with one worker thread.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A running proxy. It stops when it is dropped.
pub(crate) struct ReverseProxy {
    address: SocketAddr,
    /// Certificate of the authority that signed the certificate of the proxy, as PEM.
    pub(crate) authority: Option<String>,
    _runtime: Runtime,
}

impl ReverseProxy {
    /// Starts a proxy with TLS for `localhost`.
    pub(crate) fn with_tls(server: SocketAddr) -> Self {
        Self::start(server, "/mcp", Some(tls::localhost(&[])))
    }

    /// Starts a proxy that serves `/mcp` at another path.
    pub(crate) fn at_path(server: SocketAddr, path: &'static str) -> Self {
        Self::start(server, path, None)
    }

    fn start(server: SocketAddr, path: &'static str, tls: Option<(TlsAcceptor, String)>) -> Self {
        let runtime = runtime();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (acceptor, authority) = tls.unzip();
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    match acceptor {
                        Some(acceptor) => match acceptor.accept(client).await {
                            Ok(client) => forward(client, server, path).await,
                            Err(_) => None,
                        },
                        None => forward(client, server, path).await,
                    }
                });
            }
        });
        Self { address, authority, _runtime: runtime }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

/// Forwards a connection. Each read is one request of the bridge, or a part of its body.
async fn forward(
    client: impl AsyncRead + AsyncWrite,
    server: SocketAddr,
    path: &str,
) -> Option<()> {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = TcpStream::connect(server).await.ok()?.into_split();
    let upload = async {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
            let text = String::from_utf8(buffer[..count].to_vec()).unwrap();
            let text = text.replacen(&format!(" {path} HTTP/1.1\r\n"), " /mcp HTTP/1.1\r\n", 1);
            to_server.write_all(text.as_bytes()).await.ok()?;
        }
        to_server.shutdown().await.ok()
    };
    let download = async {
        tokio::io::copy(&mut from_server, &mut to_client).await.ok()?;
        to_client.shutdown().await.ok()
    };
    tokio::join!(upload, download).1
}
