//! Options of the HTTP endpoints, with their defaults.

use std::time::Duration;

use ipnet::IpNet;

use super::client_address::ForwardedHeader;
use super::endpoints::EndpointSet;

/// Options of the HTTP endpoints.
///
/// Argument of [`Builder::http_options`](crate::Builder::http_options).
///
/// ```
/// use callgate::Callgate;
/// use callgate::http::{ForwardedHeader, HttpOptions};
///
/// // The server is behind a proxy that sets the header `Forwarded`.
/// let options = HttpOptions {
///     allowed_hosts: vec!["shop.example".to_owned()],
///     trusted_proxies: vec!["10.0.0.0/8".parse()?],
///     forwarded_header: ForwardedHeader::Forwarded,
///     ..HttpOptions::default()
/// };
/// let server = Callgate::builder().http_options(options).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub struct HttpOptions {
    /// Whether all endpoints except health and discovery require a credential.
    pub require_auth: bool,
    /// Maximum size of a request body, in bytes.
    pub max_body_bytes: usize,
    /// Maximum time to receive a request body.
    pub body_timeout: Duration,
    /// Accepted `Host` names, in addition to `localhost` and IP addresses. `*` accepts any name.
    pub allowed_hosts: Vec<String>,
    /// Accepted `Origin` values, such as `https://example.com`, in addition to origins on this machine and the origin
    /// of this server. `*` accepts any origin.
    pub allowed_origins: Vec<String>,
    /// Whether `GET /mcp?rawRequest=…` is available, for read-only tools.
    pub raw_request: bool,
    /// Whether MCP is also available at `/`.
    pub mcp_at_root: bool,
    /// The endpoints of the service.
    pub endpoints: EndpointSet,
    /// Whether `GET /metrics` is available. With [`require_auth`](Self::require_auth), it requires a credential.
    pub metrics: bool,
    /// Addresses of trusted proxies. The address of the client is read from a header only if such a proxy sent the
    /// request.
    pub trusted_proxies: Vec<IpNet>,
    /// The header that the trusted proxies set.
    pub forwarded_header: ForwardedHeader,
    /// Maximum number of requests in progress, including open streams.
    pub max_requests: usize,
    /// Maximum number of open streams: notification streams, and streams that clients resumed.
    pub max_streams: usize,
    /// Maximum number of running legacy calls. These calls continue when their clients disconnect.
    pub max_legacy_calls: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            require_auth: false,
            max_body_bytes: 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            raw_request: false,
            mcp_at_root: false,
            endpoints: EndpointSet::All,
            metrics: false,
            trusted_proxies: Vec::new(),
            forwarded_header: ForwardedHeader::default(),
            max_requests: 1024,
            max_streams: 512,
            max_legacy_calls: 1024,
        }
    }
}
