//! HTTPS with a private certificate authority.

use std::sync::Arc;

use callgate::bridge::{Limits, Options};
use callgate_test_support::fake_service::{
    FakeResponse, FakeService, Handler, ReceivedRequest, ServiceLog, serve,
};
use callgate_test_support::tls;
use rcgen::{BasicConstraints, IsCa};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::bridge::BridgeClient;

/// Starts a server for `localhost`. Returns its URL and the certificate of its authority, in PEM.
async fn secure_server() -> (String, String) {
    let (acceptor, authority) = tls::localhost(&[]);
    (serve_with(acceptor).await, authority)
}

/// Starts a server with a self-signed certificate.
async fn self_signed_server(is_ca: IsCa) -> (String, String) {
    let (acceptor, certificate) = tls::self_signed(is_ca);
    (serve_with(acceptor).await, certificate)
}

async fn serve_with(acceptor: TlsAcceptor) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let handler: Handler = Arc::new(|request: &ReceivedRequest| {
                        request.result(json!({"token": request.header("authorization").is_some()}))
                    });
                    serve(stream, ServiceLog::default(), handler).await;
                }
            });
        }
    });
    url
}

#[tokio::test]
async fn https_trusts_a_configured_authority() {
    let (url, authority) = secure_server().await;
    let options = Options::new(url.parse().unwrap()).token(crate::bridge::TOKEN).unwrap();
    let mut client = BridgeClient::with(options.ca_certificates(authority.as_bytes()).unwrap());
    client.request(1, "ping", json!({})).await;
    assert_eq!(client.answer(1).await["result"]["token"], true);
}

#[tokio::test]
async fn https_rejects_other_authorities_at_once() {
    let (url, _) = secure_server().await;
    let (_, other_authority) = secure_server().await;
    let options = Options::new(url.parse().unwrap()).token(crate::bridge::TOKEN).unwrap();
    let mut client =
        BridgeClient::with(options.ca_certificates(other_authority.as_bytes()).unwrap());
    client.request(1, "initialize", json!({})).await;
    let message = client.answer(1).await["error"]["message"].to_string();
    assert!(message.contains("cannot trust") && message.contains("--ca-file"), "{message}");
}

#[tokio::test]
async fn a_silent_tls_handshake_times_out() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let connect = std::time::Duration::from_millis(50);
    let limits = Limits { connect, first_request_wait: connect, ..Limits::default() };
    let mut client = BridgeClient::with(Options::new(url.parse().unwrap()).limits(limits));
    client.request(1, "tools/call", json!({})).await;
    let message = client.answer(1).await["error"]["message"].to_string();
    assert!(message.contains("timed out"), "{message}");
}

/// As with a host whose network is down, connections are neither accepted nor refused.
#[tokio::test]
async fn all_requests_share_one_wait_for_a_silent_server() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let minute = std::time::Duration::from_mins(1);
    let first_request_wait = std::time::Duration::from_millis(100);
    let limits =
        Limits { connect: minute, request_wait: minute, first_request_wait, ..Limits::default() };
    let mut client = BridgeClient::with(Options::new(url.parse().unwrap()).limits(limits));
    for (id, method) in [(1, "server/discover"), (2, "initialize"), (3, "tools/list")] {
        client.request(id, method, json!({})).await;
        let message = client.answer(id).await["error"]["message"].to_string();
        assert!(message.contains("timed out"), "{method}: {message}");
    }
}

#[tokio::test]
async fn https_to_an_http_server_fails_at_once() {
    let server = FakeService::start(|request| request.result(json!({}))).await;
    let mut client = BridgeClient::start(&server.url("/mcp").replace("http:", "https:"));
    client.request(1, "initialize", json!({})).await;
    let message = client.answer(1).await["error"]["message"].to_string();
    assert!(message.contains("does not speak TLS; use `http://`"), "{message}");
    assert!(server.log.requests().is_empty());
}

#[tokio::test]
async fn http_to_an_https_server_fails_without_a_long_wait() {
    let (url, _) = secure_server().await;
    let mut client = BridgeClient::start(&url.replace("https:", "http:"));
    client.request(1, "initialize", json!({})).await;
    let message = client.answer(1).await["error"]["message"].to_string();
    assert!(message.contains("use `https://`"), "{message}");
    let page = "<h1>400 The plain HTTP request was sent to HTTPS port</h1>";
    let nginx = FakeService::start(move |_| FakeResponse::text(400, "text/html", page)).await;
    let mut client = BridgeClient::start(&nginx.url("/mcp"));
    client.request(1, "initialize", json!({})).await;
    let message = client.answer(1).await["error"]["message"].to_string();
    assert!(message.contains("speaks TLS; use `https://`"), "{message}");
}

#[tokio::test]
async fn a_server_that_closes_every_connection_is_not_waited_for() {
    for scheme in ["http", "https"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://{}/", listener.local_addr().unwrap());
        let accepting = tokio::spawn(async move {
            let mut count = 0;
            while let Ok((mut stream, _)) = listener.accept().await {
                count += 1;
                // Some bytes must be read first, because the connection would otherwise be reset.
                let mut buffer = [0; 16];
                let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await;
                if count == 4 {
                    break;
                }
            }
        });
        let mut client = BridgeClient::start(&url);
        client.request(1, "initialize", json!({})).await;
        let message = client.answer(1).await["error"]["message"].to_string();
        assert!(message.contains("TLS, use `http"), "{message}");
        accepting.await.unwrap();
    }
}

#[tokio::test]
async fn a_self_signed_certificate_is_trusted_unless_it_is_a_ca_certificate() {
    for is_ca in [IsCa::NoCa, IsCa::ExplicitNoCa] {
        let (url, certificate) = self_signed_server(is_ca).await;
        let options = Options::new(url.parse().unwrap());
        let mut client =
            BridgeClient::with(options.ca_certificates(certificate.as_bytes()).unwrap());
        client.request(1, "ping", json!({})).await;
        assert!(client.answer(1).await.get("result").is_some());
    }
    let (url, certificate) = self_signed_server(IsCa::Ca(BasicConstraints::Unconstrained)).await;
    let options = Options::new(url.parse().unwrap());
    let mut client = BridgeClient::with(options.ca_certificates(certificate.as_bytes()).unwrap());
    client.request(1, "ping", json!({})).await;
    let message = client.answer(1).await["error"]["message"].to_string();
    assert!(message.contains("is that of an authority (CA:TRUE)"), "{message}");
    assert!(!message.contains("CaUsedAsEndEntity"), "{message}");
}
