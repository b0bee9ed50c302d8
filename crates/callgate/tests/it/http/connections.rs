//! Limits on connections and on requests in progress.

use std::net::{IpAddr, SocketAddr};

use callgate::http::{ServerOptions, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;

use super::*;

const ALICE: [u8; 4] = [127, 0, 0, 2];
const BOB: [u8; 4] = [127, 0, 0, 3];

/// Length of a result that does not fit into the buffers of a connection from [`connect`].
const LARGE: usize = 8_000_000;

/// A server with the methods `large` and `slow`. `slow` ends when there is a permit.
struct SlowServer {
    app: App,
    permits: Arc<Semaphore>,
}

impl SlowServer {
    fn new(options: HttpOptions) -> Self {
        let permits = Arc::new(Semaphore::new(0));
        let shared_permits = Arc::clone(&permits);
        let mut local = application();
        local.method(method("slow"), move |_, _: Value| {
            let permits = Arc::clone(&shared_permits);
            async move {
                permits.acquire().await.unwrap().forget();
                Ok::<_, Error>("done")
            }
        });
        local.method(method("large"), async |_, _: Value| Ok::<_, Error>("x".repeat(LARGE)));
        Self { app: App::with(local, options), permits }
    }

    fn listen(self, max_connections: usize) -> (SocketAddr, Arc<Semaphore>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(64 * 1024).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = socket.listen(128).unwrap();
        let address = listener.local_addr().unwrap();
        let options = ServerOptions { max_connections, ..ServerOptions::default() };
        tokio::spawn(serve(listener, self.app.service, options, std::future::pending()));
        (address, self.permits)
    }
}

async fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    socket.bind((IpAddr::from(from), 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// Sends a request on a new connection.
async fn send(from: [u8; 4], to: SocketAddr, line: &str, body: &str) -> TcpStream {
    let mut stream = connect(from, to).await;
    let head = "Host: localhost\r\nConnection: close";
    let length = body.len();
    let request = format!("{line} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads the reply. Fails if it takes nearly as long as the time limit of a silent connection.
async fn reply(mut stream: TcpStream) -> String {
    let mut reply = String::new();
    let read = stream.read_to_string(&mut reply);
    tokio::time::timeout(Duration::from_secs(10), read).await.unwrap().unwrap();
    reply
}

const LIST: &str = "GET /mcp/tools/list";
const CALL: &str = "POST /mcp/tools/invoke";
const SLOW: &str = r#"{"name":"slow","arguments":{}}"#;

#[tokio::test]
async fn silent_connections_of_one_address_do_not_block_other_addresses() {
    let (server, _) = SlowServer::new(options(|_| {})).listen(16);
    let mut silent = Vec::new();
    for number in 0..64 {
        let mut stream = connect(ALICE, server).await;
        if number % 2 == 0 {
            stream.write_all(b"GET /mcp/tools/list HTTP/1.1\r\nHost: loc").await.unwrap();
        }
        silent.push(stream);
        if number >= 16 {
            let listed = reply(send(BOB, server, LIST, "").await).await;
            assert!(listed.starts_with("HTTP/1.1 200 "), "{listed}");
        }
    }
}

#[tokio::test]
async fn requests_in_progress_continue_and_new_ones_are_503_except_for_health() {
    let (server, permits) = SlowServer::new(options(|_| {})).listen(2);
    let running = [send(ALICE, server, CALL, SLOW).await, send(ALICE, server, CALL, SLOW).await];
    // When a third connection of the same address is refused, the server has read both requests.
    let refused = async || reply(send(ALICE, server, LIST, "").await).await;
    while !refused().await.starts_with("HTTP/1.1 503 ") {}
    let refused = reply(send(BOB, server, LIST, "").await).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("retry-after"), "{refused}");
    assert!(refused.contains("too many connections"), "{refused}");
    let healthy = reply(send(BOB, server, "GET /healthz", "").await).await;
    assert!(healthy.starts_with("HTTP/1.1 200 "), "{healthy}");
    permits.add_permits(2);
    for stream in running {
        let done = reply(stream).await;
        assert!(done.ends_with(r#"{"result":"done"}"#), "{done}");
    }
}

#[tokio::test]
async fn a_response_that_is_being_sent_is_not_cut_off() {
    let (server, _) = SlowServer::new(options(|_| {})).listen(2);
    let call = r#"{"name":"large","arguments":{}}"#;
    let mut large = [send(ALICE, server, CALL, call).await, send(ALICE, server, CALL, call).await];
    for stream in &mut large {
        stream.read_u8().await.unwrap();
    }
    let refused = reply(send(BOB, server, LIST, "").await).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    for stream in large {
        let text = reply(stream).await;
        assert_eq!(text.matches('x').count(), LARGE);
    }
    let listed = reply(send(BOB, server, LIST, "").await).await;
    assert!(listed.starts_with("HTTP/1.1 200 "), "{listed}");
}

#[tokio::test]
async fn the_concurrent_requests_of_one_caller_are_limited() {
    let SlowServer { app, permits } = SlowServer::new(options(|options| options.max_requests = 8));
    let app = Arc::new(app);
    let call = |app: Arc<App>| async move { app.post("admin", "/mcp/tools/invoke", SLOW).await };
    let running: Vec<_> = (0..6).map(|_| tokio::spawn(call(Arc::clone(&app)))).collect();
    tokio::task::yield_now().await;
    let refused = call(Arc::clone(&app)).await;
    assert_eq!(refused.error_code(), (503, "unavailable".to_owned()));
    assert_eq!(refused.header("retry-after"), "2");
    assert!(refused.text.contains("you have too many requests"), "{}", refused.text);
    assert_eq!(app.get("reader", "/mcp/tools/list").await.status, 200);
    assert_eq!(app.get("", "/healthz").await.status, 200);
    permits.add_permits(6);
    for call in running {
        assert_eq!(call.await.unwrap().status, 200);
    }
    assert_eq!(app.get("admin", "/mcp/tools/list").await.status, 200);
}

#[tokio::test]
async fn an_open_stream_counts_as_a_request_in_progress() {
    let app = App::with(application(), options(|options| options.max_requests = 4));
    let listen = r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let request = request("POST", "reader", "/mcp")
            .header("accept", "text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "subscriptions/listen");
        let response = app.respond(request.body(Body::from(listen)).unwrap()).await;
        assert_eq!(response.status(), 200);
        streams.push(response);
    }
    assert_eq!(app.get("reader", "/mcp/tools/list").await.status, 503);
    streams.pop();
    assert_eq!(app.get("reader", "/mcp/tools/list").await.status, 200);
}

/// Starts a thread with its own runtime.
fn runtime(name: &str) -> tokio::runtime::Handle {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || runtime.block_on(std::future::pending::<()>())).unwrap();
    handle
}

#[tokio::test]
async fn each_runtime_serves_its_connections_until_the_server_stops() {
    let mut local = application();
    local.method(method("thread"), async |_, _: Value| {
        Ok::<_, Error>(std::thread::current().name().map(ToOwned::to_owned))
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let runtimes = vec![runtime("first"), runtime("second")];
    let options = ServerOptions { runtimes, ..ServerOptions::default() };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let service = App::with(local, super::options(|_| {})).service;
    let server = tokio::spawn(serve(listener, service, options, async {
        let _ = stopped.await;
    }));
    for thread in ["first", "second", "first"] {
        let body = r#"{"name":"thread","arguments":{}}"#;
        let called = reply(send(ALICE, address, CALL, body).await).await;
        assert!(called.ends_with(&format!(r#"{{"result":"{thread}"}}"#)), "{called}");
    }
    let mut idle = connect(ALICE, address).await;
    idle.write_all(b"GET /mcp/tools/list HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(idle.read(&mut [0]).await.unwrap(), 1);
    stop.send(()).unwrap();
    server.await.unwrap();
    // Ends, because idle connections are closed.
    reply(idle).await;
}
