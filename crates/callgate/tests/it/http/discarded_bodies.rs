//! Replies that are sent before the request's body is read, over sockets.

use std::net::SocketAddr;

use callgate::http::{ServerOptions, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const TWO_MEGABYTES: usize = 2 * 1024 * 1024;

async fn listen(app: App) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, app.service, ServerOptions::default(), std::future::pending()));
    address
}

/// Sends the whole request before it reads anything. Returns the reply.
async fn exchange(address: SocketAddr, head: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    reply
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_two_megabytes_gets_the_reply() {
    let open = listen(App::new()).await;
    let closed = App::with(application(), options(|options| options.require_auth = true));
    let closed = listen(closed).await;
    let chunks = [b"2000\r\n".as_slice(), &[b'x'; 0x2000], b"\r\n"].concat().repeat(256);
    let chunks = [chunks.as_slice(), b"0\r\n\r\n"].concat();
    let plain = vec![b'x'; TWO_MEGABYTES];
    let length = format!("Content-Length: {TWO_MEGABYTES}");
    let mut cases = Vec::new();
    for path in ["/mcp", "/mcp/tools/invoke", "/mcp/tools/open.echo", "/jsonrpc"] {
        cases.push((open, path, "Host: localhost", 413));
        cases.push((open, path, "Host: localhost\r\nAuthorization: Bearer nobody", 401));
        cases.push((closed, path, "Host: localhost", 401));
        cases.push((open, path, "Host: evil.example.com", 403));
        cases.push((open, path, "X-Host: none", 400));
    }
    cases.push((open, "/other", "Host: localhost", 404));
    cases.push((open, "/mcp/tools/list", "Host: localhost", 405));
    for (address, path, headers, status) in cases {
        for (framing, body) in [(&*length, &plain), ("Transfer-Encoding: chunked", &chunks)] {
            let head = format!(
                "POST {path} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n{framing}\r\n\r\n"
            );
            let reply = exchange(address, &head, body).await;
            assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{head}{reply}");
            assert!(reply.contains("\"error\""), "{head}{reply}");
        }
    }
}

#[tokio::test]
async fn a_connection_continues_after_a_discarded_body() {
    let address = listen(App::new()).await;
    let rejected = "POST /other HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n";
    let next = "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n";
    let body = format!("{}{next}", "x".repeat(300_000));
    let replies = exchange(address, rejected, body.as_bytes()).await;
    assert!(replies.starts_with("HTTP/1.1 404 "), "{replies}");
    assert!(replies.ends_with("{\"status\":\"ok\"}"), "{replies}");
}

#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let address = listen(App::new()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /other HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut sent = 0;
    while stream.write_all(&[b'x'; 0x2000]).await.is_ok() {
        sent += 0x2000;
        assert!(sent < 100_000_000, "the whole body is read");
    }
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_is_refused_before_it_sends_the_body() {
    let address = listen(App::new()).await;
    let head = "POST /mcp/tools/invoke HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
                Content-Length: 2097152\r\n\r\n";
    let reply = exchange(address, head, b"").await;
    assert!(reply.starts_with("HTTP/1.1 413 "), "{reply}");
}
