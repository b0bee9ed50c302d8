//! The options of the bridge: server, headers and limits.

pub(crate) mod token_origin;

use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use thiserror::Error;

use crate::bridge::options::token_origin::TokenOrigin;
use crate::http_client::endpoint::Endpoint;
use crate::http_client::tls::{self, CertificateError};
use crate::http_client::{is_transport_header, sensitive};

/// Reason why a header is invalid. Does not contain the header's value, which may be a secret.
///
/// Error of [`Options::header`], [`Options::token`] and [`Options::token_from`]. [`Options`] has an example.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// The header has no colon.
    #[error("expected `Name: value`")]
    NoColon,
    /// The name is not a valid header name.
    #[error("`{0}` is not a valid header name")]
    Name(String),
    /// The bridge itself sets this header.
    #[error("the bridge itself sets `{0}`; remove this header")]
    Own(String),
    /// The value has characters that are not allowed in a header.
    #[error("the value of `{0}` has characters that are not allowed in a header")]
    Value(String),
    /// The value has a placeholder that the client did not replace.
    #[error("`{0}` has the placeholder `{1}`, which your client did not replace")]
    Placeholder(String, String),
}

/// The options of [`run`](super::run).
///
/// ```
/// use std::time::Duration;
/// use callgate::bridge::{Endpoint, HeaderError, Limits, Options};
///
/// let server: Endpoint = "https://example.com/mcp".parse()?;
/// let options = Options::new(server)
///     .header("X-Team: blue")?
///     .limits(Limits { request_wait: Duration::from_secs(20), ..Limits::default() });
/// // Errors and `Debug` do not show the values of headers, which may be secrets.
/// assert!(!format!("{options:?}").contains("blue"));
/// let error = options.header("X-Key: ${SHOP_KEY}").unwrap_err();
/// assert!(matches!(error, HeaderError::Placeholder(..)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) endpoint: Endpoint,
    pub(crate) headers: HeaderMap,
    pub(crate) credential: Option<TokenOrigin>,
    pub(crate) extra_roots: Vec<rustls::pki_types::CertificateDer<'static>>,
    pub(crate) limits: Limits,
}

/// Time and size limits.
///
/// Argument of [`Options::limits`]. [`Options`] has an example.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum length of a line from the client, in bytes.
    pub line_bytes: usize,
    /// Maximum size of a response that is not a stream, in bytes.
    pub body_bytes: usize,
    /// Maximum size of one event of a stream, in bytes.
    pub event_bytes: usize,
    /// Maximum number of requests in flight.
    pub in_flight: usize,
    /// Time limit for opening a connection, including TLS.
    pub connect: Duration,
    /// Maximum time that all requests together wait for a server that was never reached. Most clients give up after 15
    /// s or 30 s, and then do not show the reason.
    pub first_request_wait: Duration,
    /// Maximum time that a request waits for a server that was reached before but is not running now.
    pub request_wait: Duration,
    /// Time limit for sending a notification or a response of the client.
    pub send_timeout: Duration,
    /// Time limit for requests in flight after the input has ended.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: 16 << 20,
            body_bytes: 64 << 20,
            event_bytes: 16 << 20,
            in_flight: 256,
            connect: Duration::from_secs(10),
            first_request_wait: Duration::from_secs(10),
            request_wait: Duration::from_secs(5),
            send_timeout: Duration::from_secs(10),
            shutdown: Duration::from_secs(2),
        }
    }
}

impl Options {
    /// Returns the defaults, without headers.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            headers: HeaderMap::new(),
            credential: None,
            extra_roots: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// Sends a bearer token.
    pub fn token(self, token: &str) -> Result<Self, HeaderError> {
        self.token_from("the program's options", token)
    }

    /// Sends a bearer token. Errors mention `source`, the place where the user set the token.
    pub fn token_from(mut self, source: &'static str, token: &str) -> Result<Self, HeaderError> {
        let name = header::AUTHORIZATION;
        let value = secret(&name, &format!("Bearer {token}"))?;
        self.headers.insert(name, value);
        self.credential = Some(TokenOrigin::of_token(source, token));
        Ok(self)
    }

    /// Adds a header, written as `Name: value` or `Name:value`. A second header of the same name is sent as well.
    /// `Authorization` replaces the token and an earlier `Authorization`.
    pub fn header(mut self, line: &str) -> Result<Self, HeaderError> {
        let (name, value) = line.split_once(':').ok_or(HeaderError::NoColon)?;
        let name = name.trim();
        let invalid_name = |_| HeaderError::Name(name.to_owned());
        let name: HeaderName = name.parse().map_err(invalid_name)?;
        if is_transport_header(&name) || name.as_str().starts_with("mcp-") {
            return Err(HeaderError::Own(name.to_string()));
        }
        let value = value.trim();
        let secret = secret(&name, value)?;
        if name == header::AUTHORIZATION {
            self.credential = Some(TokenOrigin::of_header(value));
            self.headers.insert(name, secret);
        } else {
            self.headers.append(name, secret);
        }
        Ok(self)
    }

    /// Adds trusted certificate authorities, in PEM format, to those of the system.
    pub fn ca_certificates(mut self, pem: &[u8]) -> Result<Self, CertificateError> {
        self.extra_roots.extend(tls::certificates(pem)?);
        Ok(self)
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// Parses a header value and marks it as sensitive, so that `Debug` does not show it.
fn secret(name: &HeaderName, value: &str) -> Result<HeaderValue, HeaderError> {
    if let Some(placeholder) = placeholder(value) {
        return Err(HeaderError::Placeholder(name.to_string(), placeholder.to_owned()));
    }
    sensitive(value).map_err(|_| HeaderError::Value(name.to_string()))
}

/// Returns the placeholder `${NAME}` in a value. Some clients replace such placeholders in their configuration.
fn placeholder(value: &str) -> Option<&str> {
    let start = value.find("${")?;
    let rest = value.get(start..)?;
    let end = rest.find('}')?;
    rest.get(..=end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::new("http://localhost:8080/".parse().unwrap())
    }

    #[test]
    fn headers_are_accepted_with_and_without_a_space() {
        for line in ["X-Team: blue", "X-Team:blue", " x-team :  blue "] {
            let options = options().header(line).unwrap();
            assert_eq!(options.headers.get("x-team").unwrap(), "blue", "{line}");
        }
        let options = options().token("t").unwrap().header("Authorization: Basic a:b").unwrap();
        assert_eq!(
            options.headers.get_all("authorization").iter().collect::<Vec<_>>(),
            ["Basic a:b"]
        );
        let options = options.header("X-Team: blue").unwrap().header("x-team: red").unwrap();
        assert_eq!(options.headers.get_all("x-team").iter().collect::<Vec<_>>(), ["blue", "red"]);
    }

    #[test]
    fn errors_of_headers_do_not_show_values() {
        let error = |line: &str| options().header(line).unwrap_err().to_string();
        assert_eq!(error("s3cret"), "expected `Name: value`");
        assert_eq!(error("two words: s3cret"), "`two words` is not a valid header name");
        assert_eq!(
            error("Mcp-Session-Id: s3cret"),
            "the bridge itself sets `mcp-session-id`; remove this header"
        );
        assert!(!error("X-Key: s3cret\u{7}").contains("s3cret"));
        assert_eq!(
            error("X-Key: ${MY_KEY}"),
            "`x-key` has the placeholder `${MY_KEY}`, which your client did not replace"
        );
        let options = options().token("s3cret").unwrap();
        assert!(!format!("{options:?}").contains("s3cret"));
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        assert_eq!(options().ca_certificates(b"nothing").unwrap_err(), CertificateError);
    }
}
