//! Where the server is.

use std::fmt;
use std::str::FromStr;

use http::{Uri, uri};
use thiserror::Error;

/// The URL of a server, without a user and a password in it.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "bridge"), expect(unreachable_pub, reason = "it is the bridge's"))]
pub struct Endpoint(Uri);

/// Why something is no URL of a server. What was given is not repeated: it may be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// Not `http://…` or `https://…`.
    #[error("expected such as `http://localhost:8080/` or `https://example.com/mcp`")]
    NotAUrl,
    /// A user and a password.
    #[error("a user and a password do not belong into the URL")]
    UserInfo,
    /// A port that there is not. Without this, another one would get the token.
    #[error("the port must be a number from 1 to 65535")]
    Port,
    /// `#…`, which no server ever sees.
    #[error("`#` and what follows it is never sent; leave it out")]
    Fragment,
}

impl Endpoint {
    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    pub(crate) fn is_https(&self) -> bool {
        self.0.scheme() == Some(&uri::Scheme::HTTPS)
    }

    /// Whether there is a `?` with something behind it, where some put a key.
    #[cfg(feature = "bridge")]
    pub fn has_query(&self) -> bool {
        self.0.query().is_some_and(|query| !query.is_empty())
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if text.contains('#') {
            return Err(EndpointError::Fragment);
        }
        let uri: Uri = text.trim().parse().map_err(|_| EndpointError::NotAUrl)?;
        let authority = uri.authority().map_or("", uri::Authority::as_str);
        if authority.contains('@') {
            return Err(EndpointError::UserInfo);
        }
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        let host = uri.host().filter(|host| is_web && !host.is_empty());
        let port = host.and_then(|host| authority.strip_prefix(host));
        if !is_port(port.ok_or(EndpointError::NotAUrl)?) {
            return Err(EndpointError::Port);
        }
        Ok(Self(uri))
    }
}

/// Whether this is what may follow a host: nothing, or a port that there is.
fn is_port(text: &str) -> bool {
    let Some(port) = text.strip_prefix(':') else { return text.is_empty() };
    port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse().is_ok_and(|port: u16| port > 0)
}

/// Without the query, where some put a key.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.scheme_str().unwrap_or_default();
        let authority = self.0.authority().map_or("", uri::Authority::as_str);
        write!(f, "{scheme}://{authority}{}", self.0.path())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_show_neither_user_nor_query() {
        let endpoint: Endpoint = "https://example.com/mcp?key=s3cret".parse().unwrap();
        assert_eq!(endpoint.to_string(), "https://example.com/mcp");
        assert!(!format!("{endpoint:?}").contains("s3cret"));
        assert_eq!("http://a:b@c/".parse::<Endpoint>(), Err(EndpointError::UserInfo));
        for wrong in ["", "localhost", "/mcp", "ftp://a/", "http://", "http:///x", "http://a b/"] {
            assert_eq!(wrong.parse::<Endpoint>(), Err(EndpointError::NotAUrl), "{wrong}");
        }
    }

    #[test]
    fn a_port_that_there_is_not_is_no_other_port() {
        for wrong in ["99999", "0", "65536", "", "http", "+80", "8o80"] {
            let found = format!("http://localhost:{wrong}/").parse::<Endpoint>();
            assert!(found.is_err(), "{wrong}: {found:?}");
        }
        assert_eq!("http://[::1]:99999/".parse::<Endpoint>(), Err(EndpointError::Port));
        for right in ["http://localhost:65535/", "http://[::1]:1/", "http://[::1]/", "http://a"] {
            assert!(right.parse::<Endpoint>().is_ok(), "{right}");
        }
        assert_eq!("http://a/#x".parse::<Endpoint>(), Err(EndpointError::Fragment));
    }
}
