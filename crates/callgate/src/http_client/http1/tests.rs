//! Responses of a server that sends what each test tells it to.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::*;

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\n";

struct TestServer {
    listener: TcpListener,
    client: Http1Client,
}

async fn server() -> TestServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let connector = PlainConnector::tcp(uri, Duration::from_secs(10));
    TestServer { listener, client: Http1Client::new(connector, 2) }
}

impl TestServer {
    async fn accept(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }

    fn idle(&self) -> usize {
        self.client.idle.len()
    }

    /// Sends a request, and returns the status and the body, or the error.
    async fn call(&self) -> String {
        match self.client.send([HEAD, b"", b"body"]).await {
            Ok((head, exchange)) => {
                match exchange.body(&head, 1000, |_| Ok::<_, BodyError>(())).await {
                    Ok(body) => {
                        format!("{} {}", head.status.as_u16(), String::from_utf8_lossy(&body))
                    }
                    Err(error) => error.to_string(),
                }
            }
            Err(error) => format!("{:?}", error.kind),
        }
    }

    /// Answers the request on a new connection with these parts, and closes the connection. Returns the outcome, and
    /// whether the client kept the connection for another request.
    async fn respond(&self, parts: &[&str]) -> (String, bool) {
        let serving = async {
            let mut stream = self.accept().await;
            read_request(&mut stream).await;
            for part in parts {
                // The client may have closed the connection.
                let _ = stream.write_all(part.as_bytes()).await;
                tokio::task::yield_now().await;
            }
            let _ = stream.shutdown().await;
        };
        let (outcome, ()) = tokio::join!(self.call(), serving);
        let is_kept = self.idle() > 0;
        self.client.idle.clear();
        (outcome, is_kept)
    }
}

async fn read_request(stream: &mut TcpStream) {
    let mut request = vec![0; HEAD.len() + 4];
    stream.read_exact(&mut request).await.unwrap();
    assert!(request.ends_with(b"\r\n\r\nbody"));
}

#[tokio::test]
async fn the_end_of_a_body_is_determined_from_the_head() {
    let server = server().await;
    for (response, expected, is_kept) in [
        ("1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 ok", true),
        ("1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nok", "200 ok", true),
        ("1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "200 ", true),
        ("1.1 204 None\r\n\r\n", "204 ", true),
        ("1.1 304 Same\r\nContent-Length: 9\r\n\r\n", "304 ", true),
        ("1.1 200 OK\r\n\r\nok", "200 ok", false),
        ("1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok", "200 ok", false),
        ("1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 ok", false),
        ("1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "200 ok", true),
        ("1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 ok", true),
        ("1.1 101 Switching\r\n\r\n", "101 ", false),
        ("1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok", "200 ok", false),
        // The bytes after the response could be mistaken for the next response.
        ("1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!", "200 ok", false),
        ("1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", "NotHttp", false),
        ("1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", "NotHttp", false),
        ("1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "NotHttp", false),
        ("1.1 99999 OK\r\n\r\n", "NotHttp", false),
        ("", "Broken { has_response_bytes: true }", false),
    ] {
        let response = format!("HTTP/{response}");
        let outcome = server.respond(&[&response]).await;
        assert_eq!(outcome, (expected.to_owned(), is_kept), "{response}");
        // The same response arrives in two pieces.
        let (first, second) = response.split_at(response.len() / 2);
        assert_eq!(server.respond(&[first, second]).await.0, expected, "{response}");
    }
    assert_eq!(server.respond(&[]).await.0, "Broken { has_response_bytes: false }");
}

#[tokio::test]
async fn chunked_bodies_are_decoded_and_invalid_chunks_are_rejected() {
    let server = server().await;
    let long = "9".repeat(MAX_CHUNK_LINES + 1);
    let (long_size, long_trailer) =
        (format!("2;{long}\r\nok\r\n"), format!("0\r\na: {long}\r\n\r\n"));
    for (chunks, expected, is_kept) in [
        ("2\r\nok\r\n0\r\n\r\n", "200 ok", true),
        ("1;a=b\r\no\r\n1\r\nk\r\n0\r\nA: b\r\n\r\n", "200 ok", true),
        ("2\r\nok\r\n0\r\n\r\nHTTP", "200 ok", false),
        ("2\r\nokay\r\n0\r\n\r\n", "no line break after a chunk", false),
        ("x\r\nok\r\n0\r\n\r\n", "invalid size of a chunk", false),
        ("2\r\nok\r\n", CLOSED_IN_BODY, false),
        ("2\r\nok\r\n0\r\n", CLOSED_IN_BODY, false),
        ("fffffffffffffffff\r\n", "invalid size of a chunk", false),
        ("ffffffffffffffff\r\nok", CLOSED_IN_BODY, false),
        (&long_size, "invalid size of a chunk", false),
        (&long_trailer, "too long", false),
    ] {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (first, second) = chunks.split_at(chunks.len() / 2);
        for parts in [&[head, chunks][..], &[head, first, second]] {
            let (outcome, kept) = server.respond(parts).await;
            assert!(outcome.ends_with(expected), "{chunks}: {outcome}");
            assert_eq!(kept && parts.len() == 2, is_kept && parts.len() == 2, "{chunks}");
        }
    }
    let both = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    assert_eq!(server.respond(&[both]).await, ("200 ok".to_owned(), false));
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_rejected() {
    let server = server().await;
    let body = "7".repeat(1001);
    for head in ["Content-Length: 1001\r\n", "Connection: close\r\n"] {
        let response = format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}");
        let (outcome, is_kept) = server.respond(&[&response]).await;
        assert_eq!((outcome.as_str(), is_kept), ("the response is longer than 1000 bytes", false));
    }
}

#[tokio::test]
async fn a_response_that_arrives_before_the_request_is_written_is_read() {
    let server = server().await;
    let body = vec![b'7'; 64 << 20];
    let serving = async {
        let mut stream = server.accept().await;
        let response = b"HTTP/1.1 413 Too large\r\nContent-Length: 2\r\n\r\nno";
        stream.write_all(response).await.unwrap();
        stream
    };
    let (exchange, _stream) = tokio::join!(server.client.send([HEAD, b"", &body]), serving);
    let (head, exchange) = exchange.unwrap();
    assert_eq!(head.status, 413);
    assert_eq!(exchange.body(&head, 9, |_| Ok::<_, BodyError>(())).await.unwrap(), b"no");
    assert_eq!(server.idle(), 0);
}

#[tokio::test]
async fn connections_are_reused_until_they_are_closed() {
    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let server = server().await;
    let serving = async {
        let mut stream = server.accept().await;
        for _ in 0..3 {
            read_request(&mut stream).await;
            stream.write_all(RESPONSE).await.unwrap();
        }
        stream
    };
    let calls = async {
        for _ in 0..3 {
            assert_eq!(server.call().await, "200 ");
        }
    };
    let (stream, ()) = tokio::join!(serving, calls);
    assert_eq!(server.idle(), 1);
    drop(stream);
    // Lets the client notice that the connection is closed.
    tokio::task::yield_now().await;
    let (outcome, is_kept) =
        server.respond(&["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]).await;
    assert_eq!((outcome.as_str(), is_kept), ("200 ok", true), "on another connection");
}

#[tokio::test]
async fn idle_connections_are_closed_after_a_timeout() {
    let server = server().await;
    let serving = async {
        let mut stream = server.accept().await;
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        stream
    };
    let (_, mut stream) = tokio::join!(server.call(), serving);
    assert_eq!(server.idle(), 1);
    tokio::time::pause();
    // Waits until the connection is closed. Meanwhile, the paused clock advances.
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(server.idle(), 0);
}

#[test]
fn an_idle_connection_moves_to_the_runtime_that_uses_it() {
    let runtime = || runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (other, current) = (runtime(), runtime());
    let (server, stream) = other.block_on(async {
        let server = server().await;
        let (outcome, stream) = tokio::join!(server.call(), async {
            let mut stream = server.accept().await;
            read_request(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na").await.unwrap();
            stream.into_std().unwrap()
        });
        assert_eq!(outcome, "200 a");
        (server, stream)
    });
    // The other runtime does not run from here on.
    current.block_on(async {
        let mut stream = TcpStream::from_std(stream).unwrap();
        let serving = async {
            read_request(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nb").await.unwrap();
        };
        let (outcome, ()) = tokio::join!(server.call(), serving);
        assert_eq!(outcome, "200 b");
    });
}

#[test]
fn a_connection_that_the_service_closed_is_not_moved_to_another_runtime() {
    let runtime = || runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (other, current) = (runtime(), runtime());
    let response = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na";
    let (server, listener) = other.block_on(async {
        let server = server().await;
        let serving = async {
            let mut stream = server.accept().await;
            read_request(&mut stream).await;
            stream.write_all(response).await.unwrap();
            stream
        };
        let (outcome, stream) = tokio::join!(server.call(), serving);
        assert_eq!(outcome, "200 a");
        // The other runtime does not run from here on, so it does not notice that the connection is closed.
        drop(stream);
        let TestServer { listener, client } = server;
        (client, listener.into_std().unwrap())
    });
    current.block_on(async {
        let server =
            TestServer { listener: TcpListener::from_std(listener).unwrap(), client: server };
        let serving = async {
            let mut stream = server.accept().await;
            read_request(&mut stream).await;
            stream.write_all(response).await.unwrap();
        };
        let (outcome, ()) = tokio::join!(server.call(), serving);
        assert_eq!(outcome, "200 a", "over a new connection");
    });
}
