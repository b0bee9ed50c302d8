//! `POST /jsonrpc`: plain JSON-RPC 2.0 for the catalog that MCP also uses, with batches and notifications.
//!
//! The HTTP status is 200, or 204 if there is no response. A single call has other statuses in three cases: 401 or 403
//! if the tool or its service requires a credential or a permission, so that clients see the challenge; 429 if a limit
//! is exceeded; and 413 if the arguments are too large for the tool. `rpc.discover` returns the OpenRPC document
//! of the caller's methods.

use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::value::RawValue;

use crate::access::Caller;
use crate::gateway::{CallRequest, CallResult};
use crate::transport::http::body::{self, Slices};
use crate::transport::http::{AppState, error, response};
use crate::upstream::CallError;
use crate::wire::jsonrpc::{
    self, EnvelopeError, INVALID_PARAMS, INVALID_REQUEST, LIMIT_EXCEEDED, Request, RpcError,
};

const DISCOVER: &str = "rpc.discover";
/// Error code: the document would be too large.
const DOCUMENT_TOO_LARGE: i64 = -32000;
/// Maximum number of documents that are built at the same time. Building a document occupies a core.
pub(crate) const MAX_DOCUMENTS: usize = 2;

/// `POST /jsonrpc`
pub(crate) async fn handle(state: &AppState, caller: &Caller, body: &[u8]) -> Response {
    let dispatcher = Dispatcher { state, caller };
    let outcome = match body::text(body) {
        Ok(text) if text.trim_start().starts_with('[') => dispatcher.batch(text).await,
        Ok(text) => dispatcher.single(text).await,
        Err(error) => Err(error),
    };
    outcome.unwrap_or_else(|error| json_response(jsonrpc::reply(None, Err(&error.into()))))
}

fn json_response(body: impl Into<Body>) -> Response {
    response::bytes_as_json(StatusCode::OK, body)
}

fn no_content() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

type Outcome = Result<CallResult<Box<RawValue>>, CallError>;

/// Handles the requests of one caller.
#[derive(Clone, Copy)]
struct Dispatcher<'a> {
    state: &'a AppState,
    caller: &'a Caller,
}

impl Dispatcher<'_> {
    async fn single(self, text: &str) -> Result<Response, EnvelopeError> {
        let request = Request::parse(text)?;
        if request.method == DISCOVER {
            return Ok(self.discover(&request).await);
        }
        let outcome = self.call(&request).await;
        let Some(id) = request.id else { return Ok(no_content()) };
        Ok(match outcome {
            Err(
                error @ (CallError::Unauthorized(_)
                | CallError::Forbidden(..)
                | CallError::ArgumentsTooLarge { .. }
                | CallError::RateLimited(_)
                | CallError::Busy(_)),
            ) => error::rpc_failed(Some(id), &error),
            outcome => json_response(self.encode(id, outcome)),
        })
    }

    /// Runs the requests of a batch concurrently. The responses have the order of the requests.
    async fn batch(self, text: &str) -> Result<Response, EnvelopeError> {
        let caller = &self.caller.in_batch();
        let dispatcher = Dispatcher { caller, ..self };
        let members = jsonrpc::batch(text)?.into_iter().enumerate();
        let members = members.map(|(index, message)| dispatcher.batch_member(index, message));
        let mut slices = Vec::new();
        for reply in join_all(members).await.into_iter().flatten() {
            let separator: &[u8] = if slices.is_empty() { b"[" } else { b"," };
            slices.extend([Bytes::from_static(separator), reply]);
        }
        if slices.is_empty() {
            return Ok(no_content());
        }
        slices.push(Bytes::from_static(b"]"));
        Ok(json_response(Body::new(Slices::new(slices))))
    }

    async fn batch_member(self, index: usize, message: &RawValue) -> Option<Bytes> {
        // The first request of the batch has already been counted.
        let admitted =
            if index == 0 { Ok(()) } else { self.state.gateway.count_request(self.caller) };
        match Request::parse(message.get()) {
            Ok(request) if admitted.is_err() => {
                let refused = Err(admitted.err()?.into());
                request.id.map(|id| self.encode(id, refused))
            }
            Ok(request) if request.method == DISCOVER => {
                let problem = "`rpc.discover` cannot be in a batch, since its reply can be large; \
                               send it by itself";
                let error = RpcError::new(INVALID_REQUEST, problem);
                request.id.map(|id| jsonrpc::reply(Some(id), Err(&error)).into())
            }
            Ok(request) => {
                let outcome = self.call(&request).await;
                request.id.map(|id| self.encode(id, outcome))
            }
            Err(error) => Some(jsonrpc::reply(None, Err(&error.into())).into()),
        }
    }

    async fn call(self, request: &Request<'_>) -> Outcome {
        let call = CallRequest { id: &request.method, arguments: request.params, read_only: false };
        self.state.gateway.call(self.caller, call).await
    }

    /// Encodes a response. Its bytes count against the memory budget until it is sent.
    fn encode(self, id: &RawValue, outcome: Outcome) -> Bytes {
        let write = |error: &CallError| jsonrpc::reply(Some(id), Err(&error::rpc_error(error).1));
        match outcome {
            Ok(CallResult { value, reservation }) => {
                reservation.keep(jsonrpc::reply(Some(id), Ok(&value)).into())
            }
            // These errors contain text of the service, which can be large.
            Err(error @ (CallError::Rpc(_) | CallError::Protocol(_))) => {
                let reply = write(&error);
                match self.state.gateway.reserve(self.caller, reply.len()) {
                    Ok(reservation) => reservation.keep(reply.into()),
                    Err(exceeded) => write(&exceeded.into()).into(),
                }
            }
            Err(error) => write(&error).into(),
        }
    }

    async fn discover(self, request: &Request<'_>) -> Response {
        let Some(id) = request.id else { return no_content() };
        let document = if request.params.is_none_or(is_empty) {
            self.document().await
        } else {
            Err(RpcError::new(INVALID_PARAMS, "`rpc.discover` takes no parameters"))
        };
        match document {
            Ok(document) => {
                let start = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":");
                let slices = [Bytes::from(start), document, Bytes::from_static(b"}")];
                json_response(Body::new(Slices::new(slices)))
            }
            Err(error) => json_response(jsonrpc::reply(Some(id), Err(&error))),
        }
    }

    /// Builds the document on a blocking thread, because a large document takes long. The bytes of the document count
    /// against the memory budget until it is sent.
    async fn document(self) -> Result<Bytes, RpcError> {
        let gateway = Arc::clone(&self.state.gateway);
        // Prepares the caller before taking a share, so that a slow service does not block the documents of other
        // callers.
        let caller = gateway.prepare(self.caller.clone()).await;
        let Ok(share) = self.state.documents.acquire(caller.principal()).await else {
            let problem =
                "too many of your `rpc.discover` requests are waiting; send fewer at the same time";
            return Err(RpcError::new(LIMIT_EXCEEDED, problem));
        };
        let join_handle = tokio::task::spawn_blocking(move || {
            let _share = share;
            gateway.open_rpc(&caller)
        });
        match join_handle.await {
            Ok(Ok(document)) => match self.state.gateway.reserve(self.caller, document.len()) {
                Ok(reservation) => Ok(reservation.keep(document)),
                Err(exceeded) => Err(error::rpc_error(&exceeded.into()).1),
            },
            Ok(Err(error)) => Err(RpcError::new(DOCUMENT_TOO_LARGE, error.to_string())),
            Err(error) => {
                let error_id = self.state.gateway.next_call_id();
                let error = CallError::failed(error).logged(self.caller, DISCOVER, error_id);
                Err(error::rpc_error(&error).1)
            }
        }
    }
}

/// Returns `true` if an object or a list is empty.
fn is_empty(params: &RawValue) -> bool {
    let mut content = params.get().chars();
    // Skips the two brackets.
    let _ = (content.next(), content.next_back());
    content.as_str().trim().is_empty()
}
