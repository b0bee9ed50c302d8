//! Error of a request that got no HTTP response.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;

#[derive(Debug, Clone)]
pub(crate) struct SendError {
    pub(crate) kind: SendErrorKind,
    /// Short description, without data of the request.
    pub(crate) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendErrorKind {
    /// The request was not sent; a later attempt may succeed.
    NotSent,
    /// The request was not sent: no connection within the time limit.
    ConnectTimeout,
    /// The request was not sent: the server closed the connection during the TLS handshake.
    ClosedInHandshake,
    /// The request was not sent: the server's certificate is not trusted.
    Untrusted,
    /// The request was not sent: the server does not speak TLS.
    NotTls,
    NotHttp,
    /// The connection closed after at least a part of the request was written. The server may have run the request.
    Broken {
        has_response_bytes: bool,
    },
}

impl SendError {
    pub(crate) fn new(kind: SendErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn of(error: &legacy::Error) -> Self {
        if error.is_connect() {
            return Self::of_connection(error);
        }
        let hyper = || causes(error).filter_map(|cause| cause.downcast_ref::<hyper::Error>());
        if let Some(untrusted) = Self::of_tls(error) {
            return untrusted;
        }
        if hyper().any(hyper::Error::is_canceled) {
            return Self::new(SendErrorKind::NotSent, describe(error));
        }
        if hyper().any(hyper::Error::is_parse) {
            return Self::not_http();
        }
        let info = error.connect_info();
        let has_response_bytes = info.is_none_or(super::connector::has_response_bytes);
        Self::new(SendErrorKind::Broken { has_response_bytes }, describe(error))
    }

    /// Returns the error of a connection that could not be opened.
    pub(crate) fn of_connection(error: &(dyn Error + 'static)) -> Self {
        use SendErrorKind::{ClosedInHandshake, ConnectTimeout, NotSent};
        let io = || causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>());
        let kind = if io().any(is_closed_by_peer) {
            ClosedInHandshake
        } else if io().any(|error| error.kind() == io::ErrorKind::TimedOut) {
            ConnectTimeout
        } else {
            NotSent
        };
        Self::of_tls(error).unwrap_or_else(|| Self::new(kind, describe(error)))
    }

    fn of_tls(error: &(dyn Error + 'static)) -> Option<Self> {
        use SendErrorKind::{NotTls, Untrusted};
        match causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>())? {
            rustls::Error::InvalidMessage(_) => {
                Some(Self::new(NotTls, "the server does not speak TLS"))
            }
            rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other))
                if format!("{other:?}").contains("CaUsedAsEndEntity") =>
            {
                Some(Self::new(Untrusted, AUTHORITY_AS_SERVER))
            }
            rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_) => {
                Some(Self::new(Untrusted, describe(error)))
            }
            _ => None,
        }
    }

    pub(crate) fn not_http() -> Self {
        Self::new(SendErrorKind::NotHttp, "the server does not speak HTTP")
    }

    /// Returns `true` if the request was not sent, and a retry may succeed.
    pub(crate) fn was_not_sent(&self) -> bool {
        use SendErrorKind::{ClosedInHandshake, ConnectTimeout, NotSent};
        matches!(self.kind, NotSent | ConnectTimeout | ClosedInHandshake)
    }

    /// Returns `true` if a retry would fail as well.
    #[cfg(feature = "bridge")]
    pub(crate) fn is_final(&self) -> bool {
        use SendErrorKind::{NotHttp, NotTls, Untrusted};
        matches!(self.kind, Untrusted | NotTls | NotHttp)
    }

    /// Returns `true` if the server accepted the connection and closed it.
    #[cfg(feature = "bridge")]
    pub(crate) fn is_disconnect(&self) -> bool {
        matches!(self.kind, SendErrorKind::ClosedInHandshake | SendErrorKind::Broken { .. })
    }
}

const AUTHORITY_AS_SERVER: &str = "the certificate is that of an authority (CA:TRUE), not of a server. Create a certificate without \
    CA:TRUE, or let the authority sign a certificate for the server";

/// Returns `true` if the peer closed a connection that it had accepted.
fn is_closed_by_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Describes an error by its innermost cause, which is the most specific one.
pub(crate) fn describe(error: &(dyn Error + 'static)) -> String {
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

pub(crate) const TIMED_OUT: &str = "no response from the host (timed out)";

/// Returns an error and its causes. An I/O error can contain a TLS error that `source` does not return.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| {
        match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => cause.source(),
        }
    })
}
