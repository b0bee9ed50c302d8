//! Why a request has no response: what it means for the request, and in words.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;

use super::endpoint::Endpoint;

/// Why a request has no response.
#[derive(Debug)]
pub(super) enum SendError {
    /// It did not leave, and may do so later.
    NotSent(String),
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
    pub(super) fn of(error: &legacy::Error) -> Self {
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
            let ended = causes(found).filter_map(|cause| cause.downcast_ref()).any(is_end);
            let words = words(found);
            if ended { Self::HungUp(words) } else { Self::NotSent(words) }
        } else if causes(found).filter_map(|cause| cause.downcast_ref()).all(is_http) {
            Self::Broken(words(found))
        } else {
            Self::NoHttp
        }
    }

    /// In short.
    pub(super) fn words(&self) -> &str {
        match self {
            Self::NotSent(words)
            | Self::HungUp(words)
            | Self::Untrusted(words)
            | Self::Broken(words) => words,
            Self::NoTls => "it does not speak TLS",
            Self::NoHttp => "it does not speak HTTP",
        }
    }

    /// Whether the request cannot have been read.
    pub(super) fn never_left(&self) -> bool {
        matches!(self, Self::NotSent(_) | Self::HungUp(_))
    }

    /// Whether it would go on like this.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Untrusted(_) | Self::NoTls | Self::NoHttp)
    }

    /// Whether the server took the connection, and broke it.
    pub(super) fn is_break(&self) -> bool {
        matches!(self, Self::HungUp(_) | Self::Broken(_))
    }

    /// What happened, and what to do about it.
    pub(super) fn advice(&self, endpoint: &Endpoint) -> String {
        let words = self.words();
        match self {
            Self::NotSent(_) => format!(
                "cannot reach {endpoint}: {words}. Is the server running? Check --host and --port, or \
                 --url"
            ),
            Self::HungUp(_) => format!(
                "cannot reach {endpoint}: it took the connection and closed it before TLS was agreed \
                 on. If it does not speak TLS, try --protocol http"
            ),
            Self::Untrusted(_) => format!(
                "cannot trust {endpoint}: {words}. If its certificate is signed by your own authority, \
                 name that with --ca-file"
            ),
            Self::NoTls => format!("{endpoint} does not speak TLS; try --protocol http"),
            Self::NoHttp if endpoint.is_https() => format!("{endpoint} does not speak HTTP"),
            Self::NoHttp => {
                format!("{endpoint} does not speak HTTP. If it speaks TLS, try --protocol https")
            }
            Self::Broken(_) => format!(
                "the connection to {endpoint} broke before the answer came: {words}. The request may \
                 have been carried out; look before you send it again"
            ),
        }
    }
}

const AUTHORITY_AS_SERVER: &str = "its certificate is an authority's (CA:TRUE), and the server uses it as its own. Make one that is \
     not, or let the authority sign another for the server";

/// Whether the other side ended a connection that it had taken.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// The innermost cause says most, and nothing of what was sent.
pub(super) fn words(error: &(dyn Error + 'static)) -> String {
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
