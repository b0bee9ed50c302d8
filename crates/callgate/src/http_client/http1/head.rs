//! The head of a response, and how the end of its body is found (RFC 9112, section 6.3).

use std::borrow::Cow;
use std::mem::MaybeUninit;

use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use httparse::{Header, ParserConfig, Response, Status};

use crate::http_client::send_error::SendError;

/// Maximum number of headers, as in hyper.
const MAX_HEADERS: usize = 100;

#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) headers: ResponseHeaders,
    pub(super) framing: Framing,
    /// Set if the connection stays open after the response.
    pub(super) is_persistent: bool,
}

/// Headers of a response.
#[derive(Debug, Clone)]
pub(crate) enum ResponseHeaders {
    Map(Box<HeaderMap>),
    /// The head of the response, which is parsed again if a header is needed. Most calls need no header.
    Raw(Box<[u8]>),
}

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

impl ResponseHead {
    /// Parses the head at the beginning of `bytes`. Returns its size and the parsed head, or `None` if the head is not
    /// complete.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(usize, Self)>, SendError> {
        let read_head = |size: usize, response: &Response<'_, '_>| {
            let head = Self::of(response, bytes.get(..size)?)?;
            Some((size, head))
        };
        match parse(bytes, read_head).map_err(|_| SendError::not_http())? {
            Status::Complete(head) => head.ok_or_else(SendError::not_http).map(Some),
            Status::Partial => Ok(None),
        }
    }

    fn of(response: &Response<'_, '_>, bytes: &[u8]) -> Option<Self> {
        let status = StatusCode::from_u16(response.code?).ok()?;
        let (framing_headers, version) = (FramingHeaders::of(response), response.version?);
        let framing = framing_headers.framing(status, version)?;
        let closes_connection =
            framing == Framing::UntilClose || status == StatusCode::SWITCHING_PROTOCOLS;
        let is_persistent = !closes_connection && framing_headers.is_persistent(version);
        Some(Self { status, headers: ResponseHeaders::Raw(bytes.into()), framing, is_persistent })
    }

    /// Returns `true` if another response to the same request follows.
    pub(super) fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }

    /// Returns the length of the body, if it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::UntilClose => None,
        }
    }
}

impl ResponseHeaders {
    pub(crate) fn map(&self) -> Cow<'_, HeaderMap> {
        match self {
            Self::Map(map) => Cow::Borrowed(map),
            Self::Raw(bytes) => match parse(bytes, |_, response| header_map(response)) {
                Ok(Status::Complete(map)) => Cow::Owned(map),
                _ => Cow::default(),
            },
        }
    }
}

/// No headers.
impl Default for ResponseHeaders {
    fn default() -> Self {
        Self::Raw(Box::default())
    }
}

/// Parses a head, and passes its size and its parts to `read`.
fn parse<T>(bytes: &[u8], read: impl FnOnce(usize, &Response<'_, '_>) -> T) -> httparse::Result<T> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = Response::new(&mut []);
    let parser = ParserConfig::default();
    let parsed = parser.parse_response_with_uninit_headers(&mut response, bytes, &mut headers)?;
    Ok(match parsed {
        Status::Complete(size) => Status::Complete(read(size, &response)),
        Status::Partial => Status::Partial,
    })
}

fn header_map(response: &Response<'_, '_>) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(response.headers.len());
    for Header { name, value } in &*response.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            map.append(name, value);
        }
    }
    map
}

/// The headers that say where a body ends, and whether the connection stays open.
#[derive(Debug, Default)]
struct FramingHeaders<'a> {
    length: Option<u64>,
    /// Set if a `Content-Length` is not a number, or if two of them differ.
    is_length_invalid: bool,
    /// The last transfer encoding.
    encoding: Option<&'a [u8]>,
    is_closed: bool,
    is_kept_alive: bool,
}

impl<'a> FramingHeaders<'a> {
    fn of(response: &Response<'_, 'a>) -> Self {
        let mut headers = Self::default();
        for Header { name, value } in &*response.headers {
            let mut values = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            if name.eq_ignore_ascii_case("content-length") {
                for number in values.map(length_of) {
                    let differs = headers.length.is_some() && headers.length != number;
                    headers.is_length_invalid |= differs || number.is_none();
                    headers.length = number;
                }
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                headers.encoding = values.next_back();
            } else if name.eq_ignore_ascii_case("connection") {
                for option in values {
                    headers.is_closed |= option.eq_ignore_ascii_case(b"close");
                    headers.is_kept_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
        }
        headers
    }

    /// Returns `None` for headers that contradict each other.
    fn framing(&self, status: StatusCode, version: u8) -> Option<Framing> {
        if self.encoding.is_none() && self.is_length_invalid {
            return None;
        }
        if status.is_informational() || matches!(status.as_u16(), 204 | 304) {
            return Some(Framing::Length(0));
        }
        let Some(encoding) = self.encoding else {
            return Some(self.length.map_or(Framing::UntilClose, Framing::Length));
        };
        let is_chunked = encoding.eq_ignore_ascii_case(b"chunked");
        let framing = if is_chunked { Framing::Chunked } else { Framing::UntilClose };
        // HTTP/1.0 has no transfer encodings.
        (version > 0).then_some(framing)
    }

    fn is_persistent(&self, version: u8) -> bool {
        // If a response has a length and an encoding, servers and proxies may disagree on where the next response
        // begins.
        let has_length = self.length.is_some() || self.is_length_invalid;
        let is_ambiguous = self.encoding.is_some() && has_length;
        (version == 1 || self.is_kept_alive) && !is_ambiguous && !self.is_closed
    }
}

fn length_of(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()
}
