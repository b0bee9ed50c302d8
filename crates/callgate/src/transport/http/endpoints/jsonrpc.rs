//! `POST /jsonrpc`: plain JSON-RPC 2.0 over the same catalog, with batches and notifications.
//!
//! HTTP only carries it: whatever became of a request, the status is 200, or 204 where there is
//! nothing to say. Only where the service behind a single call wants a credential or a permission it is
//! 401 or 403, so that the challenge is seen. `rpc.discover` gives the OpenRPC document of what the caller may use.

use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::value::RawValue;

use crate::access::Caller;
use crate::gateway::{CallRequest, CallResult, Gateway};
use crate::transport::http::body::{self, Slices};
use crate::transport::http::{App, error, response};
use crate::upstream::CallError;
use crate::wire::jsonrpc;
use crate::wire::jsonrpc::{EnvelopeError, INVALID_PARAMS, INVALID_REQUEST, Request, RpcError};

/// The one method of the protocol itself.
const DISCOVER: &str = "rpc.discover";
/// The methods are too many for a document.
const DOCUMENT_TOO_LARGE: i64 = -32000;
/// So many documents are made at once: each takes a core for a while.
pub(crate) const MAX_DOCUMENTS: usize = 2;

/// `POST /jsonrpc`
pub(crate) async fn answer(shared: &App, caller: &Caller, body: &[u8]) -> Response {
    let face = Face { shared, caller };
    let outcome = match body::text(body) {
        Ok(text) if text.trim_start().starts_with('[') => face.batch(text).await,
        Ok(text) => face.single(text).await,
        Err(error) => Err(error),
    };
    outcome.unwrap_or_else(|error| replied(jsonrpc::reply(None, Err(&error.into()))))
}

fn replied(body: impl Into<Body>) -> Response {
    response::bytes_as_json(StatusCode::OK, body)
}

fn nothing() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// The face to one caller.
#[derive(Clone, Copy)]
struct Face<'a> {
    shared: &'a App,
    caller: &'a Caller,
}

impl Face<'_> {
    async fn single(self, text: &str) -> Result<Response, EnvelopeError> {
        let request = Request::parse(text)?;
        if request.method == DISCOVER {
            return Ok(self.discover(&request).await);
        }
        let outcome = self.call(&request).await;
        let Some(id) = request.id else { return Ok(nothing()) };
        Ok(match outcome {
            Err(error @ (CallError::Unauthorized(_) | CallError::Forbidden(..))) => {
                error::rpc_failed(error::rpc_error(&error).0, Some(id), &error)
            }
            outcome => replied(rpc_reply(&self.shared.gateway, id, outcome)),
        })
    }

    /// The members run side by side, and their replies are in their order.
    async fn batch(self, text: &str) -> Result<Response, EnvelopeError> {
        let members = jsonrpc::batch(text)?.into_iter().map(|message| self.member(message));
        let mut slices = Vec::new();
        for reply in join_all(members).await.into_iter().flatten() {
            let before: &[u8] = if slices.is_empty() { b"[" } else { b"," };
            slices.extend([Bytes::from_static(before), reply]);
        }
        if slices.is_empty() {
            return Ok(nothing());
        }
        slices.push(Bytes::from_static(b"]"));
        Ok(replied(Body::new(Slices::new(slices))))
    }

    async fn member(self, message: &RawValue) -> Option<Bytes> {
        match Request::parse(message.get()) {
            Ok(request) if request.method == DISCOVER => {
                let problem = "`rpc.discover` cannot be in a batch, since its reply can be large; \
                               send it by itself";
                let error = RpcError::new(INVALID_REQUEST, problem);
                request.id.map(|id| jsonrpc::reply(Some(id), Err(&error)).into())
            }
            Ok(request) => {
                let outcome = self.call(&request).await;
                request.id.map(|id| rpc_reply(&self.shared.gateway, id, outcome))
            }
            Err(error) => Some(jsonrpc::reply(None, Err(&error.into())).into()),
        }
    }

    async fn call(self, request: &Request<'_>) -> Result<CallResult<Box<RawValue>>, CallError> {
        let call = CallRequest { id: &request.method, arguments: request.params, read_only: false };
        self.shared.gateway.call(self.caller, call).await
    }

    async fn discover(self, request: &Request<'_>) -> Response {
        let Some(id) = request.id else { return nothing() };
        let document = if request.params.is_none_or(is_empty) {
            self.document().await
        } else {
            Err(RpcError::new(INVALID_PARAMS, "`rpc.discover` takes no parameters"))
        };
        match document {
            Ok(document) => {
                let start = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":");
                let slices = [Bytes::from(start), document, Bytes::from_static(b"}")];
                replied(Body::new(Slices::new(slices)))
            }
            Err(error) => replied(jsonrpc::reply(Some(id), Err(&error))),
        }
    }

    /// Made on a thread of its own, since a large one would hold up others.
    async fn document(self) -> Result<Bytes, RpcError> {
        let gateway = Arc::clone(&self.shared.gateway);
        // Before there is a place: a service that is slow must not keep others from theirs.
        let caller = gateway.prepare(self.caller.clone()).await;
        // Nobody closes it.
        let place = Arc::clone(&self.shared.documents).acquire_owned().await.ok();
        let making = tokio::task::spawn_blocking(move || {
            let _place = place;
            gateway.open_rpc(&caller)
        });
        match making.await {
            Ok(document) => {
                document.map_err(|error| RpcError::new(DOCUMENT_TOO_LARGE, error.to_string()))
            }
            Err(error) => {
                let error_id = self.shared.gateway.next_call_id();
                let error = CallError::failed(error).logged(self.caller, DISCOVER, error_id);
                Err(error::rpc_error(&error).1)
            }
        }
    }
}

/// Writes a reply, whose bytes count against the budget until it is sent.
fn rpc_reply(
    gateway: &Gateway,
    id: &RawValue,
    outcome: Result<CallResult<Box<RawValue>>, CallError>,
) -> Bytes {
    let write = |error: &CallError| jsonrpc::reply(Some(id), Err(&error::rpc_error(error).1));
    match outcome {
        Ok(CallResult { value, reservation }) => {
            reservation.keep(jsonrpc::reply(Some(id), Ok(&value)).into())
        }
        Err(error) => {
            let reply = write(&error).into();
            gateway.reserved(reply).unwrap_or_else(|over| write(&over.into()).into())
        }
    }
}

/// Whether an object or a list has nothing in it.
fn is_empty(params: &RawValue) -> bool {
    let mut inside = params.get().chars();
    // The brackets.
    let _ = (inside.next(), inside.next_back());
    inside.as_str().trim().is_empty()
}
