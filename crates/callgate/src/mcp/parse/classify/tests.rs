//! Tests each row of the tables of `classify` over HTTP, and also over stdio if the result differs.
#![expect(clippy::needless_pass_by_value, reason = "calls read better with `json!` in place")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const MODERN: &str = "2026-07-28";

fn meta(version: &str) -> Value {
    json!({META_VERSION: version, META_CAPABILITIES: {}})
}

fn request(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

fn modern(method: &str, mut params: Value) -> String {
    params["_meta"] = meta(MODERN);
    request(method, params)
}

fn outcome(
    kind: InboundKind,
    headers: Option<&[(&str, &str)]>,
    body: &str,
    newest: Revision,
) -> String {
    let headers = headers.map(<[_]>::to_vec);
    match classify(kind, headers.as_ref().map(|h| h as &dyn Headers), body, newest) {
        Err(error) => {
            let id = if error.id.is_some() { "" } else { ", no id" };
            format!("{} {}{id}: {}", error.status, error.error.code, error.error.message)
        }
        Ok(Route::Modern(asked)) => format!("modern {}", asked.method_name),
        Ok(Route::Legacy { claimed, message }) => {
            let claimed = claimed.map_or("none", Revision::as_str);
            match message {
                Message::Request(asked) => format!("legacy {} ({claimed})", asked.method_name),
                Message::Notification { method, .. } => format!("notification {method}"),
                Message::Response { .. } => "response".to_owned(),
            }
        }
        Ok(Route::Batch { messages, .. }) => format!("batch of {}", messages.len()),
        Ok(Route::OpenStream { .. }) => "stream".to_owned(),
        Ok(Route::EndSession) => "end".to_owned(),
    }
}

fn post(headers: &[(&str, &str)], body: &str) -> String {
    outcome(InboundKind::Message, Some(headers), body, Revision::NEWEST)
}

fn version(version: &str) -> [(&'static str, &str); 1] {
    [("MCP-Protocol-Version", version)]
}

#[test]
fn get_and_delete_are_legacy_only() {
    let at = |kind, headers: &[(&str, &str)]| outcome(kind, Some(headers), "", Revision::NEWEST);
    assert!(at(InboundKind::OpenStream, &[]).starts_with("405"), "a client of HTTP+SSE");
    assert_eq!(at(InboundKind::OpenStream, &[("Mcp-Session-Id", "x")]), "stream");
    assert_eq!(at(InboundKind::OpenStream, &[("Last-Event-ID", "1")]), "stream");
    assert_eq!(at(InboundKind::OpenStream, &version("2025-06-18")), "stream");
    assert_eq!(at(InboundKind::EndSession, &version("2025-11-25")), "end");
    for kind in [InboundKind::OpenStream, InboundKind::EndSession] {
        assert!(at(kind, &version(MODERN)).starts_with("405"));
        assert!(at(kind, &version("2027-01-01")).starts_with("405"));
    }
}

#[test]
fn an_invalid_message_is_refused_without_an_id() {
    let parse = ["", "{", "nonsense", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} x", "["];
    for body in parse {
        assert!(post(&[], body).starts_with("400 -32700, no id"), "{body}: {}", post(&[], body));
    }
    let invalid = [
        r"1",
        r#""text""#,
        "{}",
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1e2,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
    ];
    for body in invalid {
        assert!(post(&[], body).starts_with("400 -32600, no id"), "{body}: {}", post(&[], body));
    }
    for body in [
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":1}"#,
    ] {
        assert!(post(&[], body).starts_with("400 -32600:"), "{body}: {}", post(&[], body));
    }
    let null = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#;
    assert_eq!(post(&[], null), "legacy ping (none)", "null counts as absent");
    // Errors of these messages have the id of the request.
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":1,"a":2}}}"#,
    ] {
        assert!(post(&[], body).starts_with("400 -32602:"), "{body}: {}", post(&[], body));
    }
}

#[test]
fn a_list_is_a_batch_of_legacy_messages() {
    let ping = request("ping", json!({}));
    assert_eq!(post(&[], &format!(" [{ping},{ping}]")), "batch of 2");
    assert_eq!(post(&version("2025-03-26"), &format!("[{ping}]")), "batch of 1");
    let with_modern = format!("[{ping},{}]", modern("tools/list", json!({})));
    assert!(post(&[], &with_modern).starts_with("400 -32600"));
    assert!(post(&version(MODERN), &format!("[{ping}]")).starts_with("400 -32600"));
    assert!(post(&[], "[]").starts_with("400 -32600"));
    let many = vec![ping.as_str(); 101].join(",");
    assert!(post(&[], &format!("[{many}]")).starts_with("400 -32600"));
    let handshake = format!("[{}]", request("initialize", json!({})));
    assert!(post(&[], &handshake).starts_with("400 -32600"));
    assert_eq!(outcome(InboundKind::RawRequest, None, &handshake, Revision::NEWEST), "batch of 1");
    // An invalid message gets its error at its position in the batch.
    assert_eq!(post(&[], &format!("[{ping},1]")), "batch of 2");
}

#[test]
fn initialize_without_complete_modern_meta_is_the_legacy_handshake() {
    let plain = request("initialize", json!({"protocolVersion": MODERN}));
    assert_eq!(post(&[], &plain), "legacy initialize (none)");
    assert_eq!(post(&version(MODERN), &plain), "legacy initialize (none)");
    assert_eq!(post(&version("1900-01-01"), &plain), "legacy initialize (none)");
    let half = request("initialize", json!({"_meta": {META_VERSION: MODERN}}));
    assert_eq!(post(&[], &half), "legacy initialize (none)");
    // With `_meta`, `initialize` is a modern request for a method that does not exist.
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "initialize")];
    assert_eq!(post(&headers, &modern("initialize", json!({}))), "modern initialize");
}

#[test]
fn a_revision_in_the_meta_is_modern() {
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")];
    assert_eq!(post(&headers, &modern("tools/list", json!({}))), "modern tools/list");
    let stdio =
        outcome(InboundKind::Message, None, &modern("tools/list", json!({})), Revision::NEWEST);
    assert_eq!(stdio, "modern tools/list", "no headers over stdio");
}

#[test]
fn a_modern_header_without_the_meta_names_what_is_missing() {
    for newer in [MODERN, "2027-01-01"] {
        let reply = post(&version(newer), &request("tools/list", json!({})));
        assert!(reply.starts_with("400 -32602:"), "{reply}");
        assert!(reply.contains(META_VERSION) && reply.contains(META_CAPABILITIES), "{reply}");
    }
}

#[test]
fn a_missing_version_header_is_legacy_and_an_unknown_one_is_refused() {
    let list = request("tools/list", json!({}));
    assert_eq!(post(&[], &list), "legacy tools/list (none)");
    for known in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(post(&version(known), &list), format!("legacy tools/list ({known})"));
    }
    for unknown in ["1900-01-01", "latest", "2025-6-18", ""] {
        assert!(post(&version(unknown), &list).starts_with("400 -32600:"), "{unknown}");
    }
    let twice = [("mcp-protocol-version", "2025-06-18"), ("mcp-protocol-version", "2025-06-18")];
    assert!(post(&twice, &list).starts_with("400 -32600:"));
}

#[test]
fn responses_and_notifications_are_legacy() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    assert_eq!(post(&[], answer), "response");
    assert!(post(&version(MODERN), answer).starts_with("400 -32600"));
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(post(&[], note), "notification notifications/initialized");
    assert_eq!(post(&version(MODERN), note), "notification notifications/initialized");
}

#[test]
fn modern_requests_fail_in_the_order_of_the_table() {
    let right = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "a")];
    let call = |meta: Value| request("tools/call", json!({"name": "a", "_meta": meta}));
    assert_eq!(post(&right, &call(meta(MODERN))), "modern tools/call");
    let with_info = json!({
        META_VERSION: MODERN, META_CAPABILITIES: {},
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    });
    assert_eq!(post(&right, &call(with_info)), "modern tools/call");
    let mut replies = Vec::new();
    let mut note = |what: &str, reply: String| replies.push(format!("{what}: {reply}"));
    note("no capabilities", post(&right, &call(json!({META_VERSION: MODERN}))));
    note("wrong forms", post(&right, &call(json!({META_VERSION: 1, META_CAPABILITIES: []}))));
    note("header of another version", post(&version("2025-11-25"), &call(meta(MODERN))));
    note("no version header", post(&right[1..], &call(meta(MODERN))));
    let twice = [right[0], right[0], right[1], right[2]];
    note("version header twice", post(&twice, &call(meta(MODERN))));
    let newer = [("mcp-protocol-version", "2027-01-01"), right[1], right[2]];
    note("unsupported", post(&newer, &call(meta("2027-01-01"))));
    let older = [("mcp-protocol-version", "2025-11-25"), right[1], right[2]];
    note("a legacy revision in `_meta`", post(&older, &call(meta("2025-11-25"))));
    note("no method header", post(&[right[0], right[2]], &call(meta(MODERN))));
    let other = [right[0], ("mcp-method", "Tools/Call"), right[2]];
    note("method header in another case", post(&other, &call(meta(MODERN))));
    note("no name header", post(&right[..2], &call(meta(MODERN))));
    let other = [right[0], right[1], ("mcp-name", "A")];
    note("another name", post(&other, &call(meta(MODERN))));
    let broken = [right[0], right[1], ("mcp-name", "=?base64?%?=")];
    note("a name that is not Base64", post(&broken, &call(meta(MODERN))));
    note(
        "a name header without a name in the body",
        post(&right, &modern("tools/call", json!({}))),
    );
    note(
        "neither a name header nor a name in the body",
        post(&right[..2], &modern("tools/call", json!({}))),
    );
    let encoded = [right[0], right[1], ("mcp-name", " =?base64?YQ==?= ")];
    note("an encoded name with space around it", post(&encoded, &call(meta(MODERN))));
    let read = [right[0], ("mcp-method", "resources/read"), ("mcp-name", "a://b")];
    note("a resource", post(&read, &modern("resources/read", json!({"uri": "a://b"}))));
    insta::assert_debug_snapshot!(replies);
}

fn capped(headers: Option<&[(&str, &str)]>, body: &str) -> String {
    outcome(InboundKind::Message, headers, body, Revision::V2025_06_18)
}

#[test]
fn below_the_modern_revision_modern_requests_fail_as_they_would_with_an_old_server() {
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "server/discover")];
    let body = modern("server/discover", json!({}));
    let http = capped(Some(&headers), &body);
    assert!(http.starts_with("400 -32600: Unsupported protocol version 2026-07-28"), "{http}");
    assert!(capped(None, &body).starts_with("400 -32600:"));
    let list = request("tools/list", json!({}));
    assert_eq!(capped(Some(&version("2025-06-18")), &list), "legacy tools/list (2025-06-18)");
    assert!(capped(Some(&version(MODERN)), &list).starts_with("400 -32600:"));
}

proptest! {
    #[test]
    fn any_text_is_classified_or_refused(body in r#"[\[\]{}":,a-z0-9_/ .-]{0,80}"#, version in "[0-9-]{0,12}") {
        let headers = vec![("mcp-protocol-version", version.as_str())];
        for headers in [None, Some(&headers as &dyn Headers)] {
            for kind in [InboundKind::Message, InboundKind::RawRequest, InboundKind::OpenStream, InboundKind::EndSession] {
                let _ = classify(kind, headers, &body, Revision::NEWEST);
            }
        }
    }

    #[test]
    fn members_in_any_order_are_the_same_message(order in Just(vec![0, 1, 2, 3]).prop_shuffle()) {
        let members = [
            "\"jsonrpc\":\"2.0\"".to_owned(),
            "\"id\":\"x\"".to_owned(),
            "\"method\":\"tools/list\"".to_owned(),
            format!("\"params\":{{\"_meta\":{}}}", meta(MODERN)),
        ];
        let body: Vec<&str> = order.iter().map(|at| members[*at].as_str()).collect();
        let body = format!("{{{}}}", body.join(","));
        prop_assert_eq!(outcome(InboundKind::Message, None, &body, Revision::NEWEST), "modern tools/list");
    }
}
