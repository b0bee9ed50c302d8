//! Determines the address of the client, including clients behind proxies.

use std::net::{IpAddr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::header::FORWARDED;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};

use super::HttpOptions;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The header in which trusted proxies send the address of the client.
///
/// Value of [`HttpOptions::forwarded_header`]. [`HttpOptions`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, which nginx and most load balancers set.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Returns the address of the client that sent a request.
///
/// Without a trusted proxy, this is the peer of the connection. If the peer is a trusted proxy, this is the last
/// address in the proxies' header that is not a trusted proxy: the client can forge all earlier addresses. The header
/// that is not configured is ignored, because proxies pass on headers that they do not set.
pub(crate) fn client_address(
    parts: &Parts,
    peer: Option<IpAddr>,
    options: &HttpOptions,
) -> Option<IpAddr> {
    let connect_info = || parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let peer = peer.or_else(|| connect_info().map(|info| info.0.ip()))?.to_canonical();
    if !is_trusted(peer, options) {
        return Some(peer);
    }
    let mut nearest = peer;
    for hop in forwarded(&parts.headers, options.forwarded_header).into_iter().rev() {
        let Some(address) = hop else { break };
        nearest = address;
        if !is_trusted(address, options) {
            break;
        }
    }
    Some(nearest)
}

/// Returns `true` if this is the address of a trusted proxy.
pub(super) fn is_trusted(address: IpAddr, options: &HttpOptions) -> bool {
    options.trusted_proxies.iter().any(|range| range.contains(&address))
}

/// Returns the addresses in the headers, beginning with the client's. `None` stands for an address that cannot be
/// parsed.
fn forwarded(headers: &HeaderMap, header: ForwardedHeader) -> Vec<Option<IpAddr>> {
    let (name, is_standard) = match header {
        ForwardedHeader::XForwardedFor => (X_FORWARDED_FOR, false),
        ForwardedHeader::Forwarded => (FORWARDED, true),
    };
    let values = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    if is_standard {
        let elements = values.flat_map(|value| split_unquoted(value, ','));
        elements.map(|element| address(for_parameter(element)?)).collect()
    } else {
        values.flat_map(|value| value.split(',')).map(address).collect()
    }
}

/// Splits a text at a separator, except within quoted strings. The client may have sent `host="a,for=1.2.3.4"`.
fn split_unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quotes = Quotes::default();
    text.split(move |character| !quotes.is_quoted(character) && character == separator)
}

/// Tracks whether a position in a text is within a quoted string.
#[derive(Default)]
struct Quotes {
    is_open: bool,
    is_escaped: bool,
}

impl Quotes {
    /// Returns `true` if the next character is within a quoted string.
    fn is_quoted(&mut self, character: char) -> bool {
        match character {
            _ if std::mem::take(&mut self.is_escaped) => {}
            '\\' => self.is_escaped = self.is_open,
            '"' => self.is_open = !self.is_open,
            _ => {}
        }
        self.is_open
    }
}

/// Returns the value of `for` in an element of `Forwarded` (RFC 7239).
fn for_parameter(element: &str) -> Option<&str> {
    let mut quotes = Quotes::default();
    element.chars().for_each(|character| _ = quotes.is_quoted(character));
    if quotes.is_open {
        // The client did not end a quoted string, so the element also contains text that the proxy added.
        return None;
    }
    split_unquoted(element, ';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then_some(value)
    })
}

/// Parses an address, which may be in quotes and brackets and may have a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    if text.starts_with('"') != text.ends_with('"') {
        return None;
    }
    let text = text.trim_matches('"');
    let address = text.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip()));
    let address = address.ok().or_else(|| text.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    type HeaderList = &'static [(&'static str, &'static str)];

    fn address_of_client(peer: &str, headers: HeaderList) -> String {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let trusted_proxies = vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        let is_standard = peer == "::1";
        let forwarded_header =
            if is_standard { ForwardedHeader::Forwarded } else { ForwardedHeader::XForwardedFor };
        let options = HttpOptions { trusted_proxies, forwarded_header, ..HttpOptions::default() };
        client_address(&parts, peer.parse().ok(), &options).unwrap().to_string()
    }

    #[test]
    fn forwarded_headers_are_read_only_from_trusted_proxies_starting_with_the_last() {
        let cases: [(&str, HeaderList, &str); 14] = [
            ("192.0.2.1", &[("x-forwarded-for", "198.51.100.1")], "192.0.2.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &[("x-forwarded-for", "198.51.100.1")], "198.51.100.1"),
            ("::ffff:10.0.0.1", &[("x-forwarded-for", "198.51.100.1")], "198.51.100.1"),
            ("10.0.0.1", &[("x-forwarded-for", "1.1.1.1, 198.51.100.1, 10.0.0.9")], "198.51.100.1"),
            (
                "10.0.0.1",
                &[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "198.51.100.1")],
                "198.51.100.1",
            ),
            ("10.0.0.1", &[("x-forwarded-for", "198.51.100.1, unknown")], "10.0.0.1"),
            (
                "::1",
                &[
                    ("forwarded", "for=1.1.1.1, For=\"[2001:db8::7]:4711\";proto=https"),
                    ("x-forwarded-for", "1.1.1.1"),
                ],
                "2001:db8::7",
            ),
            ("::1", &[("forwarded", "for=_hidden")], "::1"),
            ("::1", &[("forwarded", "for=9.9.9.9;host=\"a,for=6.6.6.6\"")], "9.9.9.9"),
            ("::1", &[("forwarded", "for=9.9.9.9;host=\"a,for=6.6.6.6;x=\"")], "9.9.9.9"),
            ("::1", &[("forwarded", "for=\"6.6.6.6\";\", for=9.9.9.9")], "::1"),
            ("::1", &[("forwarded", "host=\"\\\";for=6.6.6.6;x=\";for=9.9.9.9")], "9.9.9.9"),
            (
                "10.0.0.1",
                &[("forwarded", "for=6.6.6.6"), ("x-forwarded-for", "198.51.100.1")],
                "198.51.100.1",
            ),
        ];
        for (peer, headers, expected) in cases {
            assert_eq!(address_of_client(peer, headers), expected, "{peer} {headers:?}");
        }
    }
}
