//! Why a request has no response: what it means for the request, and in words.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;

/// Why a request has no response.
#[derive(Debug, Clone)]
pub(crate) struct SendError {
    pub(crate) kind: SendErrorKind,
    /// A short description, which repeats nothing that was sent.
    pub(crate) words: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendErrorKind {
    /// The request was not sent; a later attempt may succeed.
    NotSent,
    /// The request was not sent: no connection in time.
    ConnectTimeout,
    /// The request was not sent: the server closed the connection before TLS was agreed on.
    HungUp,
    /// The request was not sent, and never will be: the server's certificate is not trusted.
    Untrusted,
    /// The request was not sent, and never will be: the server does not speak TLS.
    NoTls,
    /// The response is not HTTP.
    NoHttp,
    /// The connection ended after the request was written; the server may have read it.
    Broken {
        /// Bytes of a response may have arrived.
        was_heard: bool,
    },
}

impl SendError {
    pub(crate) fn new(kind: SendErrorKind, words: impl Into<String>) -> Self {
        Self { kind, words: words.into() }
    }

    pub(crate) fn of(error: &legacy::Error) -> Self {
        use SendErrorKind::{Broken, ConnectTimeout, HungUp, NoHttp, NoTls, NotSent, Untrusted};
        let found: &(dyn Error + 'static) = error;
        let tls = causes(found).find_map(|cause| cause.downcast_ref::<rustls::Error>());
        match tls {
            Some(rustls::Error::InvalidMessage(_)) => {
                return Self::new(NoTls, "it does not speak TLS");
            }
            Some(rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)))
                if format!("{other:?}").contains("CaUsedAsEndEntity") =>
            {
                return Self::new(Untrusted, AUTHORITY_AS_SERVER);
            }
            Some(rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_)) => {
                return Self::new(Untrusted, words(found));
            }
            _ => {}
        }
        let hyper = || causes(found).filter_map(|cause| cause.downcast_ref::<hyper::Error>());
        let io = || causes(found).filter_map(|cause| cause.downcast_ref::<io::Error>());
        let kind = if error.is_connect() && io().any(is_end) {
            HungUp
        } else if error.is_connect() && io().any(|error| error.kind() == io::ErrorKind::TimedOut) {
            ConnectTimeout
        } else if error.is_connect() || hyper().any(hyper::Error::is_canceled) {
            NotSent
        } else if hyper().any(hyper::Error::is_parse) {
            return Self::new(NoHttp, "it does not speak HTTP");
        } else {
            Broken { was_heard: error.connect_info().is_none_or(super::connector::was_heard) }
        };
        Self::new(kind, words(found))
    }

    /// Returns `true` if the server cannot have read the request.
    pub(crate) fn never_left(&self) -> bool {
        use SendErrorKind::{ConnectTimeout, HungUp, NotSent};
        matches!(self.kind, NotSent | ConnectTimeout | HungUp)
    }

    /// Returns `true` if further attempts would fail as well.
    #[cfg(feature = "bridge")]
    pub(crate) fn is_final(&self) -> bool {
        use SendErrorKind::{NoHttp, NoTls, Untrusted};
        matches!(self.kind, Untrusted | NoTls | NoHttp)
    }

    /// Returns `true` if the server accepted the connection and broke it.
    #[cfg(feature = "bridge")]
    pub(crate) fn is_break(&self) -> bool {
        matches!(self.kind, SendErrorKind::HungUp | SendErrorKind::Broken { .. })
    }
}

const AUTHORITY_AS_SERVER: &str = "its certificate is an authority's (CA:TRUE), and the server uses it as its own. Make one that is \
     not, or let the authority sign another for the server";

/// Returns `true` if the other side ended a connection that it had accepted.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Describes an error by its innermost cause, which is the most specific and repeats nothing that was sent.
pub(crate) fn words(error: &(dyn Error + 'static)) -> String {
    let cause = causes(error).last().unwrap_or(error);
    match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            "connection reset".to_owned()
        }
        Some(io::ErrorKind::TimedOut) => TIMED_OUT.to_owned(),
        _ => cause.to_string(),
    }
}

pub(crate) const TIMED_OUT: &str = "no answer from the machine (timed out)";

/// Returns an error and its causes. TLS errors are in I/O errors that do not name them as their source.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| {
        match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => cause.source(),
        }
    })
}
