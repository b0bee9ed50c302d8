//! The address of a service: a URL, or a Unix socket.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use http::Uri;
use thiserror::Error;

use crate::http_client::endpoint::{Endpoint, EndpointError};
use crate::wire::percent;

/// The address of a service.
///
/// An address is a URL with `http://`, `https://`, `ws://` or `wss://`, or a Unix socket such as
/// `unix:/run/service.sock:/rpc`.
///
/// ```
/// use callgate::forward::{Target, TargetError, ToolPath};
///
/// let site: Target = "https://example.com/de/jsonrpc?key=s3cret".parse()?;
/// assert_eq!((site.host(), site.port()), ("example.com", 443));
/// // The output omits the query, which may contain a secret.
/// assert_eq!(site.to_string(), "https://example.com/de/jsonrpc");
/// // The module `jsonrpc_mcp` of Drupal has a URL for each tool.
/// assert_eq!(ToolPath::beside(&site).to_string(), "/de/mcp/tools/{id}");
/// assert_eq!(site.with_path("rpc"), Err(TargetError::Path));
/// # Ok::<(), TargetError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// URL of the requests. For a WebSocket, URL of the opening handshake.
    url: Endpoint,
    is_websocket: bool,
    /// Path of the Unix socket. If it is set, the host in `url` is not used.
    socket: Option<PathBuf>,
}

/// Error of parsing a [`Target`]. Does not show the address, which may contain a secret.
///
/// Also the error of [`Target::with_path`] and [`Target::with_parameter`]. [`Target`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TargetError {
    /// The URL is not valid.
    #[error(transparent)]
    Url(EndpointError),
    /// The address begins with `unix:`, but the path of the socket is not absolute, or the path on the server is
    /// invalid.
    #[error(
        "expected an address such as `unix:/run/service.sock` or `unix:/run/service.sock:/rpc`"
    )]
    Socket,
    /// The path is not valid.
    #[error("expected a path such as `/rpc`")]
    Path,
    /// Unix sockets are not available on this system.
    #[error("Unix sockets are not available on this system")]
    NoSockets,
}

impl Target {
    pub(crate) fn uri(&self) -> &Uri {
        self.url.uri()
    }

    pub(crate) fn endpoint(&self) -> Option<&Endpoint> {
        self.socket.is_none().then_some(&self.url)
    }

    /// Returns the path of the Unix socket.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// Returns the host. An IPv6 address is in brackets. For a Unix socket, returns `localhost`.
    pub fn host(&self) -> &str {
        self.uri().host().unwrap_or_default()
    }

    /// Returns the port. If the URL has none, returns the default port of the scheme.
    pub fn port(&self) -> u16 {
        self.uri().port_u16().unwrap_or(if self.url.is_https() { 443 } else { 80 })
    }

    /// Returns `true` for `ws://…` and `wss://…`.
    pub fn is_websocket(&self) -> bool {
        self.is_websocket
    }

    /// Returns the path on the server, without the query.
    pub fn path(&self) -> &str {
        self.uri().path()
    }

    /// Returns `true` if the URL has a query, which may contain a key.
    pub fn has_query(&self) -> bool {
        self.uri().query().is_some_and(|query| !query.is_empty())
    }

    /// Returns the path of the Drupal site that has this JSON-RPC endpoint, that is, the path without `/jsonrpc` at the
    /// end.
    pub fn site_path(&self) -> &str {
        site_path(self.path())
    }

    /// Returns the address of another path on the same server, with one query parameter.
    pub fn with_parameter(&self, path: &str, name: &str, value: &str) -> Result<Self, TargetError> {
        self.with_path(&format!("{path}?{name}={}", percent::segment(value)))
    }

    /// Returns the address of another path, optionally with a query, on the same server.
    pub fn with_path(&self, path: &str) -> Result<Self, TargetError> {
        if !path.starts_with('/') {
            return Err(TargetError::Path);
        }
        let mut parts = self.uri().clone().into_parts();
        parts.path_and_query = Some(path.parse().map_err(|_| TargetError::Path)?);
        let uri = Uri::from_parts(parts).map_err(|_| TargetError::Path)?;
        let url = uri.to_string().parse().map_err(TargetError::Url)?;
        Ok(Self { url, ..self.clone() })
    }
}

pub(crate) fn site_path(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.strip_suffix("/jsonrpc").unwrap_or(path).trim_end_matches('/')
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let text = text.trim();
        let Some(socket) = text.strip_prefix("unix:") else {
            let websocket_url = http_url(text);
            let url = websocket_url.as_deref().unwrap_or(text).parse().map_err(TargetError::Url)?;
            return Ok(Self { url, is_websocket: websocket_url.is_some(), socket: None });
        };
        if !cfg!(unix) {
            return Err(TargetError::NoSockets);
        }
        let (socket, path) = socket.split_once(':').unwrap_or((socket, "/"));
        if !socket.starts_with('/') || !path.starts_with('/') {
            return Err(TargetError::Socket);
        }
        let uri = Uri::builder().scheme("http").authority("localhost").path_and_query(path);
        let uri = uri.build().map_err(|_| TargetError::Socket)?;
        let url = uri.to_string().parse().map_err(TargetError::Url)?;
        Ok(Self { url, is_websocket: false, socket: Some(socket.into()) })
    }
}

/// Returns the `http` or `https` URL of a WebSocket's opening handshake, or `None` for other schemes.
fn http_url(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    match scheme.to_ascii_lowercase().as_str() {
        "ws" => Some(format!("http://{rest}")),
        "wss" => Some(format!("https://{rest}")),
        _ => None,
    }
}

/// Omits the query, which may contain a key.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(socket) => write!(f, "unix:{}", socket.display()),
            None if self.is_websocket => {
                write!(f, "ws{}", self.url.to_string().trim_start_matches("http"))
            }
            None => self.url.fmt(f),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_unix_socket_may_contain_a_path() {
        let target: Target = "unix:/run/a.sock:/rpc?x=1".parse().unwrap();
        assert_eq!(target.socket().unwrap(), Path::new("/run/a.sock"));
        assert_eq!(target.uri(), "http://localhost/rpc?x=1");
        assert_eq!(target.to_string(), "unix:/run/a.sock");
        assert_eq!("unix:/run/a.sock".parse::<Target>().unwrap().uri(), "http://localhost/");
        for invalid in ["unix:", "unix:run/a.sock", "unix:/run/a.sock:rpc", "unix:/a:"] {
            assert_eq!(invalid.parse::<Target>(), Err(TargetError::Socket), "{invalid}");
        }
    }

    #[test]
    fn a_target_with_another_path_keeps_its_server() {
        for (target, path) in [("http://localhost:1/rpc?x=1", "/rpc"), ("unix:/run/a.sock", "/")] {
            let target: Target = target.parse().unwrap();
            assert_eq!(target.path(), path);
            assert_eq!(target.has_query(), target.socket().is_none());
            let other = target.with_path("/a/b?cursor=NTA%3D").unwrap();
            assert_eq!(other.uri().path_and_query().unwrap(), "/a/b?cursor=NTA%3D");
            assert_eq!(other.uri().authority(), target.uri().authority());
            assert_eq!(other.socket(), target.socket());
            for invalid in ["/a b", "a", "", "@b/"] {
                assert_eq!(target.with_path(invalid), Err(TargetError::Path), "{invalid}");
            }
        }
    }

    #[test]
    fn a_websocket_target_is_requested_over_http_and_displayed_as_ws() {
        for (url, http, displayed) in [
            (
                "ws://localhost:1/rpc?key=s3cret",
                "http://localhost:1/rpc?key=s3cret",
                "ws://localhost:1/rpc",
            ),
            ("WSS://example.com", "https://example.com/", "wss://example.com/"),
        ] {
            let target: Target = url.parse().unwrap();
            assert!(target.is_websocket());
            assert_eq!(
                (target.uri().to_string().as_str(), target.to_string().as_str()),
                (http, displayed)
            );
        }
        assert!(!"http://localhost/".parse::<Target>().unwrap().is_websocket());
        assert!(matches!("ws://a:s3cret@b/".parse::<Target>(), Err(TargetError::Url(_))));
    }

    #[test]
    fn a_target_hides_its_query_and_rejects_user_info() {
        let target: Target = "http://localhost:1/rpc?token=s3cret".parse().unwrap();
        assert!(!format!("{target} {target:?}").contains("s3cret"));
        assert!(matches!("http://a:s3cret@b/".parse::<Target>(), Err(TargetError::Url(_))));
    }
}
