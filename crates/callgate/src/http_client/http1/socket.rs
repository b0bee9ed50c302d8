//! Connections without TLS.

use std::future::poll_fn;
use std::io::{self, Read};
#[cfg(unix)]
use std::path::Path;
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::time::timeout;
use tower_service::Service as _;

use crate::http_client::connector::{BoxError, tcp};
use crate::http_client::send_error::SendError;

/// Opens connections without TLS to one server.
#[derive(Debug)]
pub(crate) struct PlainConnector {
    address: PlainAddress,
    time_limit: Duration,
}

#[derive(Debug)]
enum PlainAddress {
    Tcp(HttpConnector, Uri),
    #[cfg(unix)]
    Unix(Box<Path>),
}

/// A connection without TLS.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl PlainConnector {
    pub(crate) fn tcp(uri: Uri, time_limit: Duration) -> Self {
        Self { address: PlainAddress::Tcp(tcp(time_limit), uri), time_limit }
    }

    #[cfg(unix)]
    pub(crate) fn unix(path: &Path, time_limit: Duration) -> Self {
        Self { address: PlainAddress::Unix(path.into()), time_limit }
    }

    pub(super) async fn connect(&self) -> Result<Socket, SendError> {
        let connected = timeout(self.time_limit, self.open()).await;
        let timed_out = |_| Err(io::Error::from(io::ErrorKind::TimedOut).into());
        connected.unwrap_or_else(timed_out).map_err(|error| SendError::of_connection(&*error))
    }

    async fn open(&self) -> Result<Socket, BoxError> {
        match &self.address {
            PlainAddress::Tcp(connector, uri) => {
                let mut connector = connector.clone();
                poll_fn(|context| connector.poll_ready(context)).await?;
                Ok(Socket::Tcp(connector.call(uri.clone()).await?.into_inner()))
            }
            #[cfg(unix)]
            PlainAddress::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path).await?)),
        }
    }
}

impl Socket {
    /// Moves an idle socket from its runtime to the current runtime. Fails if the peer sent something or closed the
    /// connection, which the thread of the other runtime may not have noticed yet.
    pub(super) fn into_current_runtime(self) -> io::Result<Self> {
        fn check(mut socket: impl Read) -> io::Result<()> {
            match socket.read(&mut [0]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                Err(error) => Err(error),
                Ok(_) => Err(io::ErrorKind::NotConnected.into()),
            }
        }
        Ok(match self {
            Self::Tcp(socket) => {
                let socket = socket.into_std()?;
                check(&socket)?;
                Self::Tcp(TcpStream::from_std(socket)?)
            }
            #[cfg(unix)]
            Self::Unix(socket) => {
                let socket = socket.into_std()?;
                check(&socket)?;
                Self::Unix(UnixStream::from_std(socket)?)
            }
        })
    }

    /// Returns `true` unless the peer sent something or closed the connection.
    pub(super) fn is_reusable(&self) -> bool {
        let read = match self {
            Self::Tcp(socket) => socket.try_read(&mut [0]),
            #[cfg(unix)]
            Self::Unix(socket) => socket.try_read(&mut [0]),
        };
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}
