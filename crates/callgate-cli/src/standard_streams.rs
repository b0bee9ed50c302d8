//! Standard input and output. If they are pipes or sockets, they need no threads.
//!
//! Pipes and sockets can be polled like any other connection. Terminals and files are read and written by blocking
//! threads, because other processes share these terminals and files, and expect blocking mode.

#[cfg(not(unix))]
pub(crate) use tokio::io::{stdin as input, stdout as output};
#[cfg(unix)]
pub(crate) use unix::{input, output};

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::fs::FileTypeExt as _;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, Stdin, Stdout};
    use tokio::net::UnixStream;
    use tokio::net::unix::pipe::{Receiver, Sender};

    /// Opens standard input. Must run within a runtime.
    pub(crate) fn input() -> Stream<Receiver, Stdin> {
        let opened = Stream::open(io::stdin().as_fd(), Receiver::from_file);
        opened.unwrap_or_else(|_| Stream::Other(tokio::io::stdin()))
    }

    /// Opens standard output. Must run within a runtime.
    pub(crate) fn output() -> Stream<Sender, Stdout> {
        let opened = Stream::open(io::stdout().as_fd(), Sender::from_file);
        opened.unwrap_or_else(|_| Stream::Other(tokio::io::stdout()))
    }

    /// A standard stream. It is set to blocking mode again when it is dropped.
    #[derive(Debug)]
    pub(crate) enum Stream<P: AsFd, O> {
        Pipe(P),
        Socket(UnixStream),
        Other(O),
    }

    impl<P: AsFd, O> Stream<P, O> {
        /// Opens a stream in non-blocking mode. Fails if the stream is neither a pipe nor a socket.
        fn open(stream: BorrowedFd<'_>, pipe: fn(File) -> io::Result<P>) -> io::Result<Self> {
            let file = File::from(stream.try_clone_to_owned()?);
            let kind = file.metadata()?.file_type();
            if kind.is_fifo() {
                return Ok(Self::Pipe(pipe(file)?));
            }
            if !kind.is_socket() {
                return Err(io::ErrorKind::Unsupported.into());
            }
            let socket = std::os::unix::net::UnixStream::from(OwnedFd::from(file));
            socket.set_nonblocking(true)?;
            Ok(Self::Socket(UnixStream::from_std(socket)?))
        }
    }

    impl<P: AsFd, O> Drop for Stream<P, O> {
        fn drop(&mut self) {
            let _ = match self {
                Self::Pipe(pipe) => rustix::io::ioctl_fionbio(pipe, false),
                Self::Socket(socket) => rustix::io::ioctl_fionbio(socket, false),
                Self::Other(_) => Ok(()),
            };
        }
    }

    impl AsyncRead for Stream<Receiver, Stdin> {
        fn poll_read(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            match self.get_mut() {
                Self::Pipe(pipe) => Pin::new(pipe).poll_read(context, buffer),
                Self::Socket(socket) => Pin::new(socket).poll_read(context, buffer),
                Self::Other(stdin) => Pin::new(stdin).poll_read(context, buffer),
            }
        }
    }

    impl Stream<Sender, Stdout> {
        fn writer(self: Pin<&mut Self>) -> Pin<&mut (dyn AsyncWrite + Unpin)> {
            match self.get_mut() {
                Self::Pipe(pipe) => Pin::new(pipe),
                Self::Socket(socket) => Pin::new(socket),
                Self::Other(stdout) => Pin::new(stdout),
            }
        }
    }

    impl AsyncWrite for Stream<Sender, Stdout> {
        fn poll_write(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.writer().poll_write(context, bytes)
        }

        fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.writer().poll_flush(context)
        }

        /// Only flushes, because other processes may share the stream.
        fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.poll_flush(context)
        }
    }
}
