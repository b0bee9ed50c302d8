//! What the bridge costs, measured: a call through it beside the same call straight to the server.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bridge::{Bridge, to_demo};
use super::support::{Place, Server};

const CALLS: usize = 5000;

/// The call in both eras, and the headers that HTTP wants for it.
fn cases() -> [(&'static str, Value, String); 2] {
    let params = json!({"name": "user_get", "arguments": {"id_user": 2}});
    let call = |params: &Value| json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let legacy = call(&params);
    let mut modern = params;
    modern["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers =
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: user_get\r\n";
    [("legacy", legacy, String::new()), ("modern", call(&modern), headers.to_owned())]
}

/// The medians of calls straight to the server and through the bridge, which take turns.
fn medians(server: &Server, bridge: &mut Bridge, call: &Value, headers: &str) -> [Duration; 2] {
    let body = call.to_string();
    let mut request = String::from("POST / HTTP/1.1\r\nHost: localhost\r\n");
    write!(request, "Authorization: Bearer {}\r\n{headers}", server.token("admin")).unwrap();
    write!(request, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    let mut times = [Vec::new(), Vec::new()];
    let mut reply = vec![0; 1 << 16];
    for _ in 0..CALLS {
        let started = Instant::now();
        stream.write_all(request.as_bytes()).unwrap();
        let count = stream.read(&mut reply).unwrap();
        times[0].push(started.elapsed());
        assert!(reply[..count].starts_with(b"HTTP/1.1 200 "));
        let started = Instant::now();
        bridge.send(&body);
        let answer = bridge.next_line();
        times[1].push(started.elapsed());
        assert!(answer.contains("\"result\""), "{answer}");
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[CALLS / 2]
    })
}

/// In kilobytes.
fn resident(process: u32) -> u64 {
    let arguments = ["-o", "rss=", "-p", &process.to_string()];
    let output = std::process::Command::new("ps").args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[test]
#[ignore = "measures; part of `cargo xtask bench`, in release and on a machine that is not busy"]
fn the_bridge_adds_at_most_200_microseconds_and_takes_less_than_15_megabytes() {
    let place = Place::new();
    let server = place.serve(&["--demo"]);
    let mut bridge = to_demo(&place, &server, &[]);
    bridge.initialize();
    let mut report = String::new();
    let mut most = Duration::ZERO;
    for (era, call, headers) in cases() {
        let [straight, bridged] = medians(&server, &mut bridge, &call, &headers);
        let added = bridged.saturating_sub(straight);
        most = most.max(added);
        writeln!(report, "{era}: {straight:?} straight, {bridged:?} bridged, {added:?} added")
            .unwrap();
    }
    let memory = resident(bridge.process());
    writeln!(report, "memory: {memory} kB").unwrap();
    let _ = std::io::stderr().write_all(report.as_bytes());
    if !cfg!(debug_assertions) {
        assert!(most <= Duration::from_micros(200), "{report}");
        assert!(memory < 15_000, "{report}");
    }
}
