//! Standard input and output without threads between, where the system allows it.
//!
//! A client gives the program pipes or sockets of its own, which can be waited for like any other
//! connection. A terminal or a file is left to threads that block: what others share must not change.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, Stdin, Stdout};
#[cfg(unix)]
use {
    std::fs::File,
    std::os::fd::AsFd,
    std::os::unix::fs::FileTypeExt as _,
    std::os::unix::net::UnixStream as StdUnixStream,
    tokio::net::UnixStream,
    tokio::net::unix::pipe::{Receiver, Sender},
};

/// Standard input.
#[derive(Debug)]
pub(crate) enum Input {
    #[cfg(unix)]
    Pipe(Receiver),
    #[cfg(unix)]
    Socket(UnixStream),
    Other(Stdin),
}

/// Standard output.
#[derive(Debug)]
pub(crate) enum Output {
    #[cfg(unix)]
    Pipe(Sender),
    #[cfg(unix)]
    Socket(UnixStream),
    Other(Stdout),
}

impl Input {
    /// Takes it over; must run within a runtime.
    pub(crate) fn take() -> Self {
        #[cfg(unix)]
        if let Ok(Some(input)) = Self::without_threads() {
            return input;
        }
        Self::Other(tokio::io::stdin())
    }

    #[cfg(unix)]
    fn without_threads() -> io::Result<Option<Self>> {
        Ok(match opened(io::stdin())? {
            Opened::Pipe(file) => Some(Self::Pipe(Receiver::from_file(file)?)),
            Opened::Socket(socket) => Some(Self::Socket(UnixStream::from_std(socket)?)),
            Opened::Other => None,
        })
    }

    /// Gives it back as it was, for whoever reads it next.
    pub(crate) fn give_back(self) {
        match self {
            #[cfg(unix)]
            Self::Pipe(pipe) => drop(pipe.into_blocking_fd()),
            #[cfg(unix)]
            Self::Socket(socket) => give_back(socket),
            Self::Other(_) => {}
        }
    }
}

impl Output {
    /// Takes it over; must run within a runtime.
    pub(crate) fn take() -> Self {
        #[cfg(unix)]
        if let Ok(Some(output)) = Self::without_threads() {
            return output;
        }
        Self::Other(tokio::io::stdout())
    }

    #[cfg(unix)]
    fn without_threads() -> io::Result<Option<Self>> {
        Ok(match opened(io::stdout())? {
            Opened::Pipe(file) => Some(Self::Pipe(Sender::from_file(file)?)),
            Opened::Socket(socket) => Some(Self::Socket(UnixStream::from_std(socket)?)),
            Opened::Other => None,
        })
    }

    /// Gives it back as it was, for whoever writes to it next.
    pub(crate) fn give_back(self) {
        match self {
            #[cfg(unix)]
            Self::Pipe(pipe) => drop(pipe.into_blocking_fd()),
            #[cfg(unix)]
            Self::Socket(socket) => give_back(socket),
            Self::Other(_) => {}
        }
    }
}

#[cfg(unix)]
enum Opened {
    Pipe(File),
    Socket(StdUnixStream),
    Other,
}

#[cfg(unix)]
fn opened(stream: impl AsFd) -> io::Result<Opened> {
    let file = File::from(stream.as_fd().try_clone_to_owned()?);
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() {
        return Ok(Opened::Pipe(file));
    }
    if kind.is_socket() {
        let socket = StdUnixStream::from(std::os::fd::OwnedFd::from(file));
        socket.set_nonblocking(true)?;
        return Ok(Opened::Socket(socket));
    }
    Ok(Opened::Other)
}

#[cfg(unix)]
fn give_back(socket: UnixStream) {
    let _ = socket.into_std().and_then(|socket| socket.set_nonblocking(false));
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            #[cfg(unix)]
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(context, buffer),
            #[cfg(unix)]
            Self::Socket(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Other(stdin) => Pin::new(stdin).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            #[cfg(unix)]
            Self::Pipe(pipe) => Pin::new(pipe).poll_write(context, bytes),
            #[cfg(unix)]
            Self::Socket(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Other(stdout) => Pin::new(stdout).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Other(stdout) => Pin::new(stdout).poll_flush(context),
            // What is written is out.
            #[cfg(unix)]
            Self::Pipe(_) | Self::Socket(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
