//! The service behind the gateways, written with hyper. Sends the same result to every request. A JSON-RPC request gets
//! the result in a JSON-RPC response with its id. Any other request gets the plain result.

use std::convert::Infallible;

use anyhow::Context as _;
use axum::body::Bytes;
use callgate_bench::model::USER;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpListener;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// Serves until it is killed.
pub(crate) async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await.context("cannot accept a connection")?;
        let _ = stream.set_nodelay(true);
        tokio::spawn(async {
            let service = service_fn(handle);
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn handle(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = match request.into_body().collect().await {
        Ok(body) => reply(&body.to_bytes()),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()),
    };
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn reply(body: &[u8]) -> (StatusCode, String) {
    match serde_json::from_slice(body) {
        Ok(Envelope { id: Some(id) }) => {
            let reply = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{USER}}}"#, id.get());
            (StatusCode::OK, reply)
        }
        Ok(Envelope { id: None }) => (StatusCode::OK, USER.to_owned()),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()),
    }
}
