//! Why a request has no response: what it means for the request, and in words.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;

/// Why a request has no response.
#[derive(Debug)]
pub(crate) enum SendError {
    /// It did not leave, and may do so later.
    NotSent(String),
    /// It did not leave: nobody took the connection in time.
    Silent(String),
    /// It did not leave: the server took the connection and closed it before TLS was agreed on.
    HungUp(String),
    /// It did not leave, and would not later: the server is another than it should be.
    Untrusted(String),
    /// It did not leave, and would not later: the server does not speak TLS.
    NoTls,
    /// What came back is not HTTP.
    NoHttp,
    /// It may have been read, or not.
    Broken(String),
}

impl SendError {
    pub(crate) fn of(error: &legacy::Error) -> Self {
        let found: &(dyn Error + 'static) = error;
        let tls = causes(found).find_map(|cause| cause.downcast_ref::<rustls::Error>());
        match tls {
            Some(rustls::Error::InvalidMessage(_)) => return Self::NoTls,
            Some(rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)))
                if format!("{other:?}").contains("CaUsedAsEndEntity") =>
            {
                return Self::Untrusted(AUTHORITY_AS_SERVER.to_owned());
            }
            Some(rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_)) => {
                return Self::Untrusted(words(found));
            }
            _ => {}
        }
        let is_http = |error: &hyper::Error| !error.is_parse();
        if error.is_connect() {
            let io = || causes(found).filter_map(|cause| cause.downcast_ref::<io::Error>());
            let words = words(found);
            if io().any(is_end) {
                Self::HungUp(words)
            } else if io().any(|error| error.kind() == io::ErrorKind::TimedOut) {
                Self::Silent(words)
            } else {
                Self::NotSent(words)
            }
        } else if causes(found).filter_map(|cause| cause.downcast_ref()).any(was_cancelled) {
            Self::NotSent(words(found))
        } else if causes(found).filter_map(|cause| cause.downcast_ref()).all(is_http) {
            Self::Broken(words(found))
        } else {
            Self::NoHttp
        }
    }

    /// In short.
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::NotSent(words)
            | Self::Silent(words)
            | Self::HungUp(words)
            | Self::Untrusted(words)
            | Self::Broken(words) => words,
            Self::NoTls => "it does not speak TLS",
            Self::NoHttp => "it does not speak HTTP",
        }
    }

    /// Whether the request cannot have been read.
    pub(crate) fn never_left(&self) -> bool {
        matches!(self, Self::NotSent(_) | Self::Silent(_) | Self::HungUp(_))
    }

    /// Whether it would go on like this.
    #[cfg(feature = "bridge")]
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Untrusted(_) | Self::NoTls | Self::NoHttp)
    }

    /// Whether the server took the connection, and broke it.
    #[cfg(feature = "bridge")]
    pub(crate) fn is_break(&self) -> bool {
        matches!(self, Self::HungUp(_) | Self::Broken(_))
    }
}

const AUTHORITY_AS_SERVER: &str = "its certificate is an authority's (CA:TRUE), and the server uses it as its own. Make one that is \
     not, or let the authority sign another for the server";

/// Whether the connection was gone before anything was written to it.
fn was_cancelled(error: &hyper::Error) -> bool {
    error.is_canceled()
}

/// Whether the other side ended a connection that it had taken.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// The innermost cause says most, and nothing of what was sent.
pub(crate) fn words(error: &(dyn Error + 'static)) -> String {
    let cause = causes(error).last().unwrap_or(error);
    match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            "connection reset".to_owned()
        }
        Some(io::ErrorKind::TimedOut) => "no answer from the machine (timed out)".to_owned(),
        _ => cause.to_string(),
    }
}

/// An error and what is below it. TLS errors are in I/O errors that do not name them as their source.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| {
        match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => cause.source(),
        }
    })
}
