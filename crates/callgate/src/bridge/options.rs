//! What is said to the server with every request, and how long it may take.

use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use thiserror::Error;

use super::credential::Credential;
use crate::http_client::endpoint::Endpoint;
use crate::http_client::is_transport_header;
use crate::http_client::tls::{self, CertificateError};

/// A header that cannot be sent. Its value is not repeated: it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// No colon.
    #[error("expected `Name: value`")]
    NoColon,
    /// Not the name of a header.
    #[error("`{0}` is no name of a header")]
    Name(String),
    /// The bridge sets it itself.
    #[error("the bridge sets `{0}` itself")]
    Own(String),
    /// Characters that no header has.
    #[error("the value of `{0}` has characters that no header can have")]
    Value(String),
    /// A placeholder that nobody has filled in.
    #[error("`{0}` has the placeholder `{1}`, which your client did not fill in")]
    Placeholder(String, String),
}

/// What the bridge connects to.
#[derive(Debug, Clone)]
pub struct Options {
    pub(super) endpoint: Endpoint,
    pub(super) headers: HeaderMap,
    pub(super) credential: Option<Credential>,
    pub(super) extra_roots: Vec<rustls::pki_types::CertificateDer<'static>>,
    pub(super) limits: Limits,
}

/// How much, and how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The length of a line from the client.
    pub line_bytes: usize,
    /// The length of an answer that is no stream.
    pub body_bytes: usize,
    /// The length of one event of a stream.
    pub event_bytes: usize,
    /// Requests under way.
    pub in_flight: usize,
    /// How long a new connection may take, TLS included.
    pub connect: Duration,
    /// How long the first request waits for a server that is not up.
    pub hold: Duration,
    /// How long any other request does.
    pub patience: Duration,
    /// How long a notification or an answer of the client may take.
    pub delivery: Duration,
    /// How long requests under way may take when the input has ended.
    pub end: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: 16 << 20,
            body_bytes: 64 << 20,
            event_bytes: 16 << 20,
            in_flight: 256,
            connect: Duration::from_secs(10),
            hold: Duration::from_secs(20),
            patience: Duration::from_secs(5),
            delivery: Duration::from_secs(10),
            end: Duration::from_secs(2),
        }
    }
}

impl Options {
    /// A server, with nothing else said.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            headers: HeaderMap::new(),
            credential: None,
            extra_roots: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// Who the client is: a bearer token.
    pub fn token(self, token: &str) -> Result<Self, HeaderError> {
        self.token_from("the program's options", token)
    }

    /// The same, with where people find it when it is wrong.
    pub fn token_from(mut self, source: &'static str, token: &str) -> Result<Self, HeaderError> {
        let name = header::AUTHORIZATION;
        let value = secret(&name, &format!("Bearer {token}"))?;
        self.headers.insert(name, value);
        self.credential = Some(Credential::of_token(source, token));
        Ok(self)
    }

    /// A further header, `Name: value` or `Name:value`; two of one name are both sent. `Authorization`
    /// is sent in place of the token.
    pub fn header(mut self, line: &str) -> Result<Self, HeaderError> {
        let (name, value) = line.split_once(':').ok_or(HeaderError::NoColon)?;
        let name = name.trim();
        let bad_name = |_| HeaderError::Name(name.to_owned());
        let name: HeaderName = name.parse().map_err(bad_name)?;
        if is_transport_header(&name) || name.as_str().starts_with("mcp-") {
            return Err(HeaderError::Own(name.to_string()));
        }
        let value = value.trim();
        let secret = secret(&name, value)?;
        if name == header::AUTHORIZATION {
            self.credential = Some(Credential::of_header(value));
            self.headers.insert(name, secret);
        } else {
            self.headers.append(name, secret);
        }
        Ok(self)
    }

    /// Certificates, in PEM, of authorities that are trusted beside those of the system.
    pub fn ca_certificates(mut self, pem: &[u8]) -> Result<Self, CertificateError> {
        self.extra_roots.extend(tls::certificates(pem)?);
        Ok(self)
    }

    /// With other limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// A value that shows up in no log.
fn secret(name: &HeaderName, value: &str) -> Result<HeaderValue, HeaderError> {
    if let Some(placeholder) = placeholder(value) {
        return Err(HeaderError::Placeholder(name.to_string(), placeholder.to_owned()));
    }
    let mut value: HeaderValue = value.parse().map_err(|_| HeaderError::Value(name.to_string()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// `${NAME}`, as it stands in the configurations of clients that fill it in.
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
    fn users_19_headers_are_taken_with_and_without_a_space() {
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
    fn what_is_wrong_with_a_header_does_not_show_its_value() {
        let problem = |line: &str| options().header(line).unwrap_err().to_string();
        assert_eq!(problem("s3cret"), "expected `Name: value`");
        assert_eq!(problem("two words: s3cret"), "`two words` is no name of a header");
        assert_eq!(problem("Mcp-Session-Id: s3cret"), "the bridge sets `mcp-session-id` itself");
        assert!(!problem("X-Key: s3cret\u{7}").contains("s3cret"));
        assert_eq!(
            problem("X-Key: ${MY_KEY}"),
            "`x-key` has the placeholder `${MY_KEY}`, which your client did not fill in"
        );
        let options = options().token("s3cret").unwrap();
        assert!(!format!("{options:?}").contains("s3cret"));
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        assert_eq!(options().ca_certificates(b"nothing").unwrap_err(), CertificateError);
    }
}
