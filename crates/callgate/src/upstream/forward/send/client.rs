//! The HTTP client of one service.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Response, Uri};
use hyper::body::Incoming;

use crate::http_client::connector::Connector;
use crate::http_client::send_error::SendError;
use crate::http_client::tls::{TlsSetupError, client_config};
use crate::http_client::{Pool, bytes_counted, pool_builder, request};
use crate::upstream::budget::BudgetReservation;
use crate::upstream::forward::{Failure, ForwardLimits, ForwardOptions, ServiceResponse};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[derive(Debug, Clone)]
pub(crate) struct ServiceClient {
    uri: Uri,
    pool: Pool,
}

impl ServiceClient {
    pub(crate) fn new(options: &ForwardOptions) -> Result<Self, TlsSetupError> {
        let pool = pool_builder(options.limits.concurrent)
            .http2_only(options.http2)
            .build(connector(options)?);
        Ok(Self { uri: options.target.uri().clone(), pool })
    }

    /// Sends a POST request to `uri`, or to the URL of the service, and reads the response. Reads at most `limit` bytes
    /// and counts them in `reservation`.
    pub(crate) async fn post(
        &self,
        uri: Option<Uri>,
        mut headers: HeaderMap,
        body: Bytes,
        limit: usize,
        reservation: &BudgetReservation,
    ) -> Result<ServiceResponse, Failure> {
        headers.insert(ACCEPT, JSON);
        headers.insert(CONTENT_TYPE, JSON);
        let uri = uri.unwrap_or_else(|| self.uri.clone());
        read(self.send(Method::POST, uri, headers, body).await?, limit, reservation).await
    }

    pub(crate) async fn get(
        &self,
        uri: Uri,
        mut headers: HeaderMap,
        limit: usize,
    ) -> Result<ServiceResponse, Failure> {
        headers.insert(ACCEPT, JSON);
        let response = self.send(Method::GET, uri, headers, Bytes::new()).await?;
        read(response, limit, &BudgetReservation::default()).await
    }

    #[cfg(feature = "websocket")]
    pub(crate) async fn upgrade(&self, headers: HeaderMap) -> Result<Response<Incoming>, Failure> {
        self.send(Method::GET, self.uri.clone(), headers, Bytes::new()).await
    }

    async fn send(
        &self,
        method: Method,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        let sent = self.pool.request(request(method, uri, headers, body)).await;
        sent.map_err(|error| Failure::Send(SendError::of(&error)))
    }
}

/// Returns the time limit for connecting. It is shorter than the time limit of a call, so that a call without a
/// connection is not reported as one that may have run.
pub(crate) fn connect_limit(limits: ForwardLimits) -> Duration {
    limits.connect.min(limits.timeout / 2)
}

fn connector(options: &ForwardOptions) -> Result<Connector, TlsSetupError> {
    let (target, time_limit) = (&options.target, connect_limit(options.limits));
    #[cfg(unix)]
    if let Some(socket) = target.socket() {
        return Ok(Connector::unix(socket, time_limit));
    }
    let tls = client_config(target.endpoint(), &options.roots, "`ca_file`")?;
    // The opening handshake of a WebSocket uses HTTP/1.1.
    if target.is_websocket() {
        return Ok(Connector::new(&tls, time_limit));
    }
    Ok(Connector::with_http2(&tls, time_limit))
}

async fn read(
    response: Response<Incoming>,
    limit: usize,
    reservation: &BudgetReservation,
) -> Result<ServiceResponse, Failure> {
    let (head, body) = response.into_parts();
    if head.status.is_redirection() {
        return Err(Failure::redirected(head.status, &head.headers));
    }
    let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length > limit)
    {
        return Err(Failure::TooLarge(limit));
    }
    let count = |bytes| reservation.add(bytes).map_err(Failure::from);
    let body = bytes_counted(body, limit, count).await?;
    let response = |body| ServiceResponse { status: head.status, headers: head.headers, body };
    match String::from_utf8(body) {
        Ok(body) => Ok(response(body)),
        // Error pages may have another encoding than UTF-8.
        Err(error) => {
            let body = String::from_utf8_lossy(error.as_bytes()).into_owned();
            Err(response(body).not_utf8())
        }
    }
}
