//! A reverse proxy that consists of hyper's server and pooled client, and streams bodies.

use std::net::SocketAddr;

use anyhow::Context as _;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

/// Serves until it is killed.
pub(crate) async fn serve(listener: TcpListener, upstream: SocketAddr) -> anyhow::Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let uri = Uri::builder().scheme("http").authority(upstream.to_string()).path_and_query("/");
    let uri = uri.build()?;
    loop {
        let (stream, _) = listener.accept().await.context("cannot accept a connection")?;
        let _ = stream.set_nodelay(true);
        let (client, uri) = (client.clone(), uri.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| forward(&client, &uri, request));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn forward(
    client: &Client<HttpConnector, Incoming>,
    uri: &Uri,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>, Error> {
    *request.uri_mut() = uri.clone();
    client.request(request).await
}
