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
        Ok(Route::Modern(request)) => format!("modern {}", request.method_name),
        Ok(Route::Legacy { header_revision, message }) => {
            let header_revision = header_revision.map_or("none", Revision::as_str);
            match message {
                McpMessage::Request(request) => {
                    format!("legacy {} ({header_revision})", request.method_name)
                }
                McpMessage::Notification { method, .. } => format!("notification {method}"),
                McpMessage::Response { .. } => "response".to_owned(),
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

fn raw(headers: Option<&[(&str, &str)]>, body: &str) -> String {
    outcome(InboundKind::RawRequest, headers, body, Revision::NEWEST)
}

fn version(version: &str) -> [(&'static str, &str); 1] {
    [("MCP-Protocol-Version", version)]
}

#[test]
fn get_and_delete_are_accepted_only_in_the_legacy_era() {
    let outcome_of =
        |kind, headers: &[(&str, &str)]| outcome(kind, Some(headers), "", Revision::NEWEST);
    assert!(outcome_of(InboundKind::OpenStream, &[]).starts_with("405"), "a client of HTTP+SSE");
    assert_eq!(outcome_of(InboundKind::OpenStream, &[("Mcp-Session-Id", "x")]), "stream");
    assert_eq!(outcome_of(InboundKind::OpenStream, &[("Last-Event-ID", "1")]), "stream");
    assert_eq!(outcome_of(InboundKind::OpenStream, &version("2025-06-18")), "stream");
    assert_eq!(outcome_of(InboundKind::EndSession, &version("2025-11-25")), "end");
    for kind in [InboundKind::OpenStream, InboundKind::EndSession] {
        assert!(outcome_of(kind, &version(MODERN)).starts_with("405"));
        assert!(outcome_of(kind, &version("2027-01-01")).starts_with("405"));
    }
}

#[test]
fn an_invalid_message_is_refused_with_its_id_if_the_id_can_be_read() {
    let invalid_json =
        ["", "{", "nonsense", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} x", "["];
    for body in invalid_json {
        assert!(post(&[], body).starts_with("400 -32700, no id"), "{body}: {}", post(&[], body));
    }
    let invalid_envelopes = [
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
    for body in invalid_envelopes {
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
    let null_params = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#;
    assert_eq!(post(&[], null_params), "legacy ping (none)", "null counts as absent");
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
fn an_array_is_a_batch_of_legacy_messages() {
    let ping = request("ping", json!({}));
    assert_eq!(post(&[], &format!(" [{ping},{ping}]")), "batch of 2");
    assert_eq!(post(&version("2025-03-26"), &format!("[{ping}]")), "batch of 1");
    let mixed_batch = format!("[{ping},{}]", modern("tools/list", json!({})));
    assert!(post(&[], &mixed_batch).starts_with("400 -32600"));
    assert!(post(&version(MODERN), &format!("[{ping}]")).starts_with("400 -32600"));
    assert!(post(&[], "[]").starts_with("400 -32600"));
    let too_many = vec![ping.as_str(); 101].join(",");
    assert!(post(&[], &format!("[{too_many}]")).starts_with("400 -32600"));
    let handshake = format!("[{}]", request("initialize", json!({})));
    assert!(post(&[], &handshake).starts_with("400 -32600"));
    assert_eq!(raw(None, &handshake), "batch of 1");
    assert_eq!(raw(Some(&version("2025-11-25")), &format!("[{ping}]")), "batch of 1");
    assert!(raw(None, &mixed_batch).starts_with("400 -32600"));
    assert!(raw(Some(&version(MODERN)), &format!("[{ping}]")).starts_with("400 -32600"));
    // An invalid message gets its error at its position in the batch.
    assert_eq!(post(&[], &format!("[{ping},1]")), "batch of 2");
}

#[test]
fn initialize_without_complete_modern_meta_is_the_legacy_handshake() {
    let without_meta = request("initialize", json!({"protocolVersion": MODERN}));
    assert_eq!(post(&[], &without_meta), "legacy initialize (none)");
    assert_eq!(post(&version(MODERN), &without_meta), "legacy initialize (none)");
    assert_eq!(post(&version("1900-01-01"), &without_meta), "legacy initialize (none)");
    let with_partial_meta = request("initialize", json!({"_meta": {META_VERSION: MODERN}}));
    assert_eq!(post(&[], &with_partial_meta), "legacy initialize (none)");
    // With `_meta`, `initialize` is a modern request for a method that does not exist.
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "initialize")];
    assert_eq!(post(&headers, &modern("initialize", json!({}))), "modern initialize");
}

#[test]
fn a_request_with_a_revision_in_meta_is_modern() {
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")];
    assert_eq!(post(&headers, &modern("tools/list", json!({}))), "modern tools/list");
    let stdio =
        outcome(InboundKind::Message, None, &modern("tools/list", json!({})), Revision::NEWEST);
    assert_eq!(stdio, "modern tools/list", "no headers over stdio");
}

#[test]
fn a_modern_header_without_meta_is_refused_with_the_missing_keys() {
    for revision in [MODERN, "2027-01-01"] {
        let reply = post(&version(revision), &request("tools/list", json!({})));
        assert!(reply.starts_with("400 -32602:"), "{reply}");
        assert!(reply.contains(META_VERSION) && reply.contains(META_CAPABILITIES), "{reply}");
    }
}

#[test]
fn a_request_without_version_header_is_legacy_and_an_unknown_version_is_refused() {
    let list = request("tools/list", json!({}));
    assert_eq!(post(&[], &list), "legacy tools/list (none)");
    for supported in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(post(&version(supported), &list), format!("legacy tools/list ({supported})"));
    }
    for unsupported in ["1900-01-01", "latest", "2025-6-18", ""] {
        assert!(post(&version(unsupported), &list).starts_with("400 -32600:"), "{unsupported}");
    }
    let repeated_header =
        [("mcp-protocol-version", "2025-06-18"), ("mcp-protocol-version", "2025-06-18")];
    assert!(post(&repeated_header, &list).starts_with("400 -32600:"));
}

#[test]
fn responses_and_notifications_are_legacy() {
    let response = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    assert_eq!(post(&[], response), "response");
    assert!(post(&version(MODERN), response).starts_with("400 -32600"));
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(post(&[], notification), "notification notifications/initialized");
    assert_eq!(post(&version(MODERN), notification), "notification notifications/initialized");
}

#[test]
fn modern_requests_are_checked_in_the_documented_order() {
    let valid_headers =
        [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "a")];
    let call = |meta: Value| request("tools/call", json!({"name": "a", "_meta": meta}));
    assert_eq!(post(&valid_headers, &call(meta(MODERN))), "modern tools/call");
    let with_info = json!({
        META_VERSION: MODERN, META_CAPABILITIES: {},
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    });
    assert_eq!(post(&valid_headers, &call(with_info)), "modern tools/call");
    let mut replies = Vec::new();
    let mut record = |case: &str, reply: String| replies.push(format!("{case}: {reply}"));
    record("no capabilities", post(&valid_headers, &call(json!({META_VERSION: MODERN}))));
    record(
        "wrong forms",
        post(&valid_headers, &call(json!({META_VERSION: 1, META_CAPABILITIES: []}))),
    );
    record("header of another version", post(&version("2025-11-25"), &call(meta(MODERN))));
    record("no version header", post(&valid_headers[1..], &call(meta(MODERN))));
    let repeated_version = [valid_headers[0], valid_headers[0], valid_headers[1], valid_headers[2]];
    record("version header twice", post(&repeated_version, &call(meta(MODERN))));
    let unsupported_version =
        [("mcp-protocol-version", "2027-01-01"), valid_headers[1], valid_headers[2]];
    record("unsupported", post(&unsupported_version, &call(meta("2027-01-01"))));
    let legacy_version =
        [("mcp-protocol-version", "2025-11-25"), valid_headers[1], valid_headers[2]];
    record("a legacy revision in `_meta`", post(&legacy_version, &call(meta("2025-11-25"))));
    record("no method header", post(&[valid_headers[0], valid_headers[2]], &call(meta(MODERN))));
    let other_case = [valid_headers[0], ("mcp-method", "Tools/Call"), valid_headers[2]];
    record("method header in another case", post(&other_case, &call(meta(MODERN))));
    record("no name header", post(&valid_headers[..2], &call(meta(MODERN))));
    let other_name = [valid_headers[0], valid_headers[1], ("mcp-name", "A")];
    record("another name", post(&other_name, &call(meta(MODERN))));
    let invalid_base64 = [valid_headers[0], valid_headers[1], ("mcp-name", "=?base64?%?=")];
    record("a name that is not Base64", post(&invalid_base64, &call(meta(MODERN))));
    record(
        "a name header without a name in the body",
        post(&valid_headers, &modern("tools/call", json!({}))),
    );
    record(
        "neither a name header nor a name in the body",
        post(&valid_headers[..2], &modern("tools/call", json!({}))),
    );
    let encoded_name = [valid_headers[0], valid_headers[1], ("mcp-name", " =?base64?YQ==?= ")];
    record("an encoded name with space around it", post(&encoded_name, &call(meta(MODERN))));
    let resource_headers =
        [valid_headers[0], ("mcp-method", "resources/read"), ("mcp-name", "a://b")];
    record(
        "a resource",
        post(&resource_headers, &modern("resources/read", json!({"uri": "a://b"}))),
    );
    insta::assert_debug_snapshot!(replies);
}

fn outcome_without_modern_revisions(headers: Option<&[(&str, &str)]>, body: &str) -> String {
    outcome(InboundKind::Message, headers, body, Revision::V2025_06_18)
}

#[test]
fn a_server_without_modern_revisions_refuses_modern_requests() {
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "server/discover")];
    let body = modern("server/discover", json!({}));
    let http_outcome = outcome_without_modern_revisions(Some(&headers), &body);
    assert!(
        http_outcome.starts_with("400 -32600: Unsupported protocol version 2026-07-28"),
        "{http_outcome}"
    );
    assert!(outcome_without_modern_revisions(None, &body).starts_with("400 -32600:"));
    let list = request("tools/list", json!({}));
    assert_eq!(
        outcome_without_modern_revisions(Some(&version("2025-06-18")), &list),
        "legacy tools/list (2025-06-18)"
    );
    assert!(
        outcome_without_modern_revisions(Some(&version(MODERN)), &list).starts_with("400 -32600:")
    );
}

proptest! {
    #[test]
    fn classify_does_not_panic_on_arbitrary_text(body in r#"[\[\]{}":,a-z0-9_/ .-]{0,80}"#, version in "[0-9-]{0,12}") {
        let headers = vec![("mcp-protocol-version", version.as_str())];
        for headers in [None, Some(&headers as &dyn Headers)] {
            for kind in [InboundKind::Message, InboundKind::RawRequest, InboundKind::OpenStream, InboundKind::EndSession] {
                let _ = classify(kind, headers, &body, Revision::NEWEST);
            }
        }
    }

    #[test]
    fn the_order_of_members_does_not_affect_the_classification(order in Just(vec![0, 1, 2, 3]).prop_shuffle()) {
        let members = [
            "\"jsonrpc\":\"2.0\"".to_owned(),
            "\"id\":\"x\"".to_owned(),
            "\"method\":\"tools/list\"".to_owned(),
            format!("\"params\":{{\"_meta\":{}}}", meta(MODERN)),
        ];
        let body: Vec<&str> = order.iter().map(|index| members[*index].as_str()).collect();
        let body = format!("{{{}}}", body.join(","));
        prop_assert_eq!(outcome(InboundKind::Message, None, &body, Revision::NEWEST), "modern tools/list");
    }
}
