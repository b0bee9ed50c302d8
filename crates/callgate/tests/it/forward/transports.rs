//! TLS, HTTP/2 and Unix sockets.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use callgate::forward::CallOutcome;
use callgate_test_support::tls;
use http::{Request, Response, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use crate::forward::{ForwardApp, options};

type Versions = Arc<Mutex<Vec<Version>>>;

/// Serves only HTTP/2.
async fn serve_http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    versions: Versions,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        versions.lock().unwrap().push(request.version());
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let message: Value = serde_json::from_slice(&body).unwrap();
            let reply = json!({"jsonrpc": "2.0", "result": "two", "id": message["id"]});
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(reply.to_string()))))
        }
    });
    let server = http2::Builder::new(TokioExecutor::new());
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

/// Starts a server for `localhost` with HTTP/2 by ALPN. Returns its URL and the certificate of its authority.
async fn secure_server(versions: &Versions) -> (String, String) {
    let (acceptor, authority) = tls::localhost(&["h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    let versions = Arc::clone(versions);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, versions) = (acceptor.clone(), Arc::clone(&versions));
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve_http2(stream, versions).await;
                }
            });
        }
    });
    (url, authority)
}

#[tokio::test]
async fn http2_is_used_if_alpn_negotiates_it() {
    let versions = Versions::default();
    let (url, authority) = secure_server(&versions).await;
    let app = ForwardApp::with(options(&url).ca_certificates(authority.as_bytes()).unwrap());
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.1, json!({"result": "two"}));
    assert_eq!(*versions.lock().unwrap(), [Version::HTTP_2]);
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_not_trusted() {
    let versions = Versions::default();
    let (url, _) = secure_server(&versions).await;
    let app = ForwardApp::new(&url);
    let (text, _) = app.text("order_get", json!({"id": 1})).await;
    insta::assert_snapshot!(text, @"The service behind this tool cannot be reached safely: its certificate is not trusted, or it does not speak TLS. Nothing was run; an administrator has to fix it. (error id ID)");
    assert_eq!(app.count(CallOutcome::Untrusted), 1);
    assert!(versions.lock().unwrap().is_empty());
}

#[tokio::test]
async fn http2_is_used_without_tls_if_configured() {
    let versions = Versions::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let shared_versions = Arc::clone(&versions);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_http2(stream, Arc::clone(&shared_versions)));
        }
    });
    let mut options = options(&url);
    options.http2 = true;
    let app = ForwardApp::with(options);
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.1, json!({"result": "two"}));
    assert_eq!(*versions.lock().unwrap(), [Version::HTTP_2]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_service_can_listen_on_a_unix_socket() {
    use callgate_test_support::fake_service::{Handler, ReceivedRequest, ServiceLog, serve};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("service.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let log = ServiceLog::default();
    let handler: Handler = Arc::new(|request: &ReceivedRequest| request.result(json!("here")));
    let shared_log = log.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, shared_log.clone(), Arc::clone(&handler)));
        }
    });
    let app = ForwardApp::new(&format!("unix:{}:/rpc", path.display()));
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.1, json!({"result": "here"}));
    assert_eq!(log.requests()[0].request_line, "POST /rpc HTTP/1.1");
    assert_eq!(log.requests()[0].headers["host"], "localhost");
    drop(directory);
    let missing = ForwardApp::new("unix:/nonexistent/service.sock");
    let (text, _) = missing.text("order_get", json!({"id": 1})).await;
    assert!(text.contains("cannot be reached. Nothing was run"), "{text}");
}
