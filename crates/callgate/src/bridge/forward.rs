//! A message on its way to the server: sent, sent again where that is safe, or refused.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;

use super::Bridge;
use super::client::{self, Http, Kind};
use super::failure::Failure;
use super::message::{CallParams, Id, Modern, Request, from_server, rpc_error};
use super::session::Live;
use crate::http_client::send_error::{SendError, SendErrorKind};
use crate::mcp::parse::headers::{METHOD, NAME, PROTOCOL_VERSION, encode};
use crate::mcp::{HEADER_MISMATCH, UNSUPPORTED_VERSION};
use crate::wire::jsonrpc::{METHOD_NOT_FOUND, RpcError};

/// Between attempts, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// A server that takes a connection and breaks it does so this often.
const MAX_BREAKS: usize = 4;
const BREAK_PAUSE: Duration = Duration::from_millis(500);
/// An error of the server is no longer than this.
const MAX_REFUSAL: usize = 1 << 20;
/// Nor does it take longer.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);
/// So many pages of tools are read to find the schema of one.
const MAX_PAGES: usize = 100;

/// How a message may be sent.
#[derive(Debug, Default)]
pub(super) struct Delivery<'a> {
    /// The requests in it.
    pub(super) ids: &'a [Id],
    /// It waits for a server that is not up.
    pub(super) is_held: bool,
    /// It may be sent once more when the connection broke before an answer.
    pub(super) may_repeat: bool,
}

/// The response to a request, or the HTTP error that it is.
pub(super) type Sent = Result<Response<Incoming>, Refusal>;

/// An HTTP error.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    location: Option<String>,
    /// It says that it wants HTTPS.
    wants_tls: bool,
    /// The JSON-RPC error in its body.
    pub(super) json: Option<String>,
    error: Option<RpcError>,
}

impl Refusal {
    pub(super) async fn read(response: Response<Incoming>, http: &Http) -> Self {
        let status = response.status();
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let location = location.map(ToOwned::to_owned);
        let body = match client::kind(response.headers()) {
            Kind::Empty => None,
            _ => {
                let text = client::text(response.into_body(), MAX_REFUSAL);
                tokio::time::timeout(REFUSAL_TIMEOUT, text).await.ok().and_then(Result::ok)
            }
        };
        let message = body.as_deref().and_then(from_server);
        let error = message.as_ref().and_then(rpc_error);
        let wants_tls = status == StatusCode::BAD_REQUEST
            && !http.endpoint().is_https()
            && body.as_deref().is_some_and(names_https);
        let json = body.filter(|_| error.is_some());
        Self { status, location, wants_tls, json, error }
    }

    /// Whether it says that there is no such session. Some servers say 400 instead of 404.
    pub(super) fn is_lost_session(&self) -> bool {
        let names_it = |error: &RpcError| error.message.to_ascii_lowercase().contains("session");
        match self.status {
            StatusCode::NOT_FOUND => true,
            StatusCode::BAD_REQUEST => self.error.as_ref().is_some_and(names_it),
            _ => false,
        }
    }

    fn has_code(&self, code: i64) -> bool {
        self.error.as_ref().is_some_and(|error| error.code == code)
    }

    pub(super) fn failure(&self, http: &Http) -> Failure {
        if self.wants_tls {
            let words = format!("{} speaks TLS; try --protocol https", http.endpoint());
            return Failure::new(words).with_status(self.status);
        }
        let location = self.location.as_deref();
        Failure::of_status(http.endpoint(), self.status, location, http.credential())
    }

    pub(super) fn words(&self, http: &Http) -> String {
        match &self.error {
            Some(error) => error.to_string(),
            None => self.failure(http).words().to_owned(),
        }
    }

    /// Whether a server of the modern era alone would say this to `initialize`. A server that says nothing
    /// of MCP is taken for none.
    pub(super) fn is_about_the_era(&self) -> bool {
        [METHOD_NOT_FOUND, UNSUPPORTED_VERSION, HEADER_MISMATCH]
            .iter()
            .any(|code| self.has_code(*code))
            || !self.supported().is_empty()
    }

    /// The revisions that the server named.
    fn supported(&self) -> Vec<&str> {
        let data = self.error.as_ref().and_then(|error| error.data.as_ref());
        let list = data.and_then(|data| data.get("supported")?.as_array());
        list.into_iter().flatten().filter_map(|version| version.as_str()).collect()
    }

    /// For a client that opens with `initialize` at a server that does not take it.
    pub(super) fn era_failure(&self, http: &Http, requested: Option<&str>) -> Failure {
        let offers = match self.supported().as_slice() {
            [] => "it does not say what it speaks, perhaps only 2026-07-28".to_owned(),
            versions => format!("it speaks {}", versions.join(", ")),
        };
        let failure = Failure::new(format!(
            "{} does not take `initialize` of revision {}: HTTP {}; {offers}. The bridge translates no \
             eras: use a client that speaks a revision of the server's",
            http.endpoint(),
            requested.unwrap_or("unknown"),
            self.status,
        ))
        .with_status(self.status);
        match &self.error {
            Some(error) => failure.like(error),
            None => failure,
        }
    }
}

impl Bridge {
    /// Sends a request, in a new session if the old one is lost.
    pub(super) async fn send(&self, request: &Request) -> Result<Sent, Failure> {
        let (mut may_renew, mut may_learn) = (true, true);
        let delivery = Delivery {
            ids: &request.ids,
            is_held: request.opens(),
            may_repeat: request.only_reads(),
        };
        loop {
            let live = self.session_of(request);
            let headers = match &request.modern {
                Some(modern) => self.headers_of(request, modern),
                None => live.as_deref().map(Live::headers).unwrap_or_default(),
            };
            let response = self.deliver(&delivery, &headers, request.body.clone()).await?;
            if response.status().is_success() {
                return Ok(Ok(response));
            }
            let refusal = Refusal::read(response, &self.http).await;
            let lost = live.filter(|live| live.id.is_some() && refusal.is_lost_session());
            if let Some(live) = lost.filter(|_| std::mem::take(&mut may_renew)) {
                self.renew(&live).await?;
            } else if refusal.has_code(HEADER_MISMATCH)
                && &*request.method == "tools/call"
                && std::mem::take(&mut may_learn)
            {
                self.learn_schemas(request).await;
            } else {
                return Ok(Err(refusal));
            }
        }
    }

    /// The session that a request belongs to.
    pub(super) fn session_of(&self, request: &Request) -> Option<std::sync::Arc<Live>> {
        let has_none = request.modern.is_some() || request.is_handshake();
        self.session.live().filter(|_| !has_none)
    }

    fn headers_of(&self, request: &Request, modern: &Modern) -> HeaderMap {
        let mut headers = modern_headers(&modern.version, Some(&request.method));
        if let Some(name) = &modern.name {
            if let Ok(value) = HeaderValue::from_str(&encode(name)) {
                headers.insert(HeaderName::from_static(NAME), value);
            }
            if &*request.method == "tools/call" {
                let CallParams { arguments, .. } = request.params().unwrap_or_default();
                self.param_headers.add(name, arguments, &mut headers);
            }
        }
        headers
    }

    /// Reads the list of tools for itself, on the terms of a call.
    async fn learn_schemas(&self, call: &Request) {
        let Some(modern) = &call.modern else { return };
        let CallParams { meta: Some(meta), .. } = call.params().unwrap_or_default() else { return };
        let mut cursor: Option<Box<serde_json::value::RawValue>> = None;
        for page in 0..MAX_PAGES {
            let params = match &cursor {
                Some(cursor) => json!({"_meta": meta, "cursor": cursor}),
                None => json!({"_meta": meta}),
            };
            let body = json!({"jsonrpc": "2.0", "id": format!("callgate-bridge-{page}"),
                "method": "tools/list", "params": params});
            let list = Request {
                ids: Vec::new(),
                method: "tools/list".into(),
                body: body.to_string().into(),
                modern: Some(Modern { version: modern.version.clone(), name: None }),
            };
            let Some(json) = self.ask(&list).await else { return };
            let result = from_server(&json).and_then(|message| message.result);
            let Some(next) = result.and_then(|result| self.param_headers.learn(result)) else {
                return;
            };
            cursor = Some(next.to_owned());
        }
    }

    /// A request of our own; the first message that answers it.
    async fn ask(&self, request: &Request) -> Option<String> {
        let modern = request.modern.as_ref()?;
        let headers = self.headers_of(request, modern);
        let delivery = Delivery { may_repeat: true, ..Delivery::default() };
        let response = self.deliver(&delivery, &headers, request.body.clone()).await.ok()?;
        self.first_answer(response).await
    }

    /// Whether somebody waits for it still.
    fn is_wanted(&self, delivery: &Delivery<'_>) -> bool {
        delivery.ids.is_empty() || self.in_flight.are_waiting(delivery.ids)
    }

    /// Sends bytes, again and again while that is safe and there is time.
    pub(super) async fn deliver(
        &self,
        delivery: &Delivery<'_>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        let limit = if delivery.is_held { self.limits.hold } else { self.limits.patience };
        let end = Instant::now() + limit;
        let mut pause = FIRST_PAUSE;
        let (mut may_repeat, mut breaks) = (delivery.may_repeat, 0);
        loop {
            self.in_flight.set_sent(delivery.ids, true);
            let sent = self.http.post(headers, body.clone()).await;
            if let Some(status) = sent.as_ref().ok().map(Response::status)
                && !is_gateway_error(status)
            {
                if knows_us(status) {
                    self.set_reached(Ok(()));
                }
                return sent.map_err(|error| self.not_sent(&error));
            }
            let error = sent.as_ref().err();
            let never_left = error.is_some_and(SendError::never_left);
            breaks += usize::from(error.is_some_and(SendError::is_break));
            let is_safe = never_left
                || delivery.is_held
                || (!is_time_out(&sent) && std::mem::take(&mut may_repeat));
            let again = is_safe
                && !error.is_some_and(SendError::is_final)
                && breaks < MAX_BREAKS
                && Instant::now() + pause < end
                && self.is_wanted(delivery);
            if !again {
                return sent.map_err(|error| self.not_sent(&error));
            }
            if never_left {
                self.in_flight.set_sent(delivery.ids, false);
            }
            let why = error.map_or("something in front of it answers", |error| &error.words);
            self.set_reached(Err(why.to_owned()));
            // A port that is forwarded to a server which is not up breaks connections too.
            tokio::time::sleep(if breaks > 0 { BREAK_PAUSE } else { pause }).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    fn not_sent(&self, error: &SendError) -> Failure {
        let endpoint = self.http.endpoint();
        let failure = Failure::of_sending(endpoint, error);
        let was_there = *self.last_reached() == Some(Ok(()));
        match error.kind {
            SendErrorKind::Broken { .. } if !was_there && !endpoint.is_https() => {
                failure.and("If the server speaks TLS, try --protocol https")
            }
            _ => failure,
        }
    }
}

/// Returns the headers of a modern message.
pub(super) fn modern_headers(version: &str, method: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    for (name, value) in [(PROTOCOL_VERSION, Some(version)), (METHOD, method)] {
        if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    headers
}

/// What servers say to HTTP where they expect TLS: nginx, Apache and Go, each in its own words.
fn names_https(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    [
        "plain http request was sent to https port",
        "speaking plain http to an ssl",
        "to an https server",
    ]
    .iter()
    .any(|words| body.contains(words))
}

/// Whether a proxy waited in vain for the server, which may be at work still.
fn is_time_out(sent: &Result<Response<Incoming>, SendError>) -> bool {
    sent.as_ref().is_ok_and(|response| response.status() == StatusCode::GATEWAY_TIMEOUT)
}

/// Whether this may be an MCP server that has let us in.
fn knows_us(status: StatusCode) -> bool {
    !matches!(status.as_u16(), 401 | 403..=405 | 501)
}

/// What proxies say when the server behind them is not there.
fn is_gateway_error(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}
