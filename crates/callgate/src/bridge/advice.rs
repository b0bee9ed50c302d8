//! What to do about a request that has no response.

use crate::http_client::endpoint::Endpoint;
use crate::http_client::send_error::SendError;

/// What happened, and what to do about it.
pub(super) fn advice(error: &SendError, endpoint: &Endpoint) -> String {
    let words = error.words();
    match error {
        SendError::NotSent(_) | SendError::Silent(_) => format!(
            "cannot reach {endpoint}: {words}. Is the server running? Check --host and --port, or \
             --url"
        ),
        SendError::HungUp(_) => format!(
            "cannot reach {endpoint}: it took the connection and closed it before TLS was agreed on. \
             If it does not speak TLS, try --protocol http"
        ),
        SendError::Untrusted(_) => format!(
            "cannot trust {endpoint}: {words}. If its certificate is signed by your own authority, \
             name that with --ca-file"
        ),
        SendError::NoTls => format!("{endpoint} does not speak TLS; try --protocol http"),
        SendError::NoHttp if endpoint.is_https() => format!("{endpoint} does not speak HTTP"),
        SendError::NoHttp => {
            format!("{endpoint} does not speak HTTP. If it speaks TLS, try --protocol https")
        }
        SendError::Broken(_) => format!(
            "the connection to {endpoint} broke before the answer came: {words}. The request may have \
             been carried out; look before you send it again"
        ),
    }
}
