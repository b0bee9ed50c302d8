//! The URL of a server.

use std::fmt;
use std::str::FromStr;

use http::{Uri, uri};
use thiserror::Error;

/// The URL of a server, without user and password.
///
/// Argument of [`Options::new`](crate::bridge::Options::new). [`Options`](crate::bridge::Options) has an example.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "bridge"), expect(unreachable_pub, reason = "public for the bridge"))]
pub struct Endpoint(Uri);

/// Error of parsing an [`Endpoint`]. Does not show the URL, which may contain a secret.
///
/// Also the error of [`OAuthClient::new`](crate::upstream::forward::OAuthClient::new), and part of
/// [`TargetError`](crate::upstream::forward::TargetError).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// The text is not a URL with `http://` or `https://`.
    #[error("expected a URL such as `http://localhost:8080/` or `https://example.com/mcp`")]
    NotAUrl,
    /// The URL contains a user name or a password.
    #[error("the URL must not contain a user name or a password")]
    UserInfo,
    /// The port is not valid. Without this check, requests would be sent to the default port.
    #[error("the port must be a number from 1 to 65535")]
    Port,
    /// The URL contains a fragment, which is not sent to a server.
    #[error("the URL must not contain a fragment (`#…`), which is not sent to a server")]
    Fragment,
}

impl Endpoint {
    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    pub(crate) fn is_https(&self) -> bool {
        self.0.scheme() == Some(&uri::Scheme::HTTPS)
    }

    /// Returns `true` if the URL has a query, which may contain a key.
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

/// Returns `true` for the empty string, and for `:` followed by a valid port.
fn is_port(text: &str) -> bool {
    let Some(port) = text.strip_prefix(':') else { return text.is_empty() };
    port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse().is_ok_and(|port: u16| port > 0)
}

/// Omits the query, which may contain a key.
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
    fn an_endpoint_hides_its_query_and_rejects_user_info() {
        let endpoint: Endpoint = "https://example.com/mcp?key=s3cret".parse().unwrap();
        assert_eq!(endpoint.to_string(), "https://example.com/mcp");
        assert!(!format!("{endpoint:?}").contains("s3cret"));
        assert_eq!("http://a:b@c/".parse::<Endpoint>(), Err(EndpointError::UserInfo));
        for invalid in ["", "localhost", "/mcp", "ftp://a/", "http://", "http:///x", "http://a b/"]
        {
            assert_eq!(invalid.parse::<Endpoint>(), Err(EndpointError::NotAUrl), "{invalid}");
        }
    }

    #[test]
    fn an_invalid_port_or_a_fragment_is_rejected() {
        for invalid in ["99999", "0", "65536", "", "http", "+80", "8o80"] {
            let parsed = format!("http://localhost:{invalid}/").parse::<Endpoint>();
            assert!(parsed.is_err(), "{invalid}: {parsed:?}");
        }
        assert_eq!("http://[::1]:99999/".parse::<Endpoint>(), Err(EndpointError::Port));
        for valid in ["http://localhost:65535/", "http://[::1]:1/", "http://[::1]/", "http://a"] {
            assert!(valid.parse::<Endpoint>().is_ok(), "{valid}");
        }
        assert_eq!("http://a/#x".parse::<Endpoint>(), Err(EndpointError::Fragment));
    }
}
