//! Fuzz targets and the invariants that they check.
//!
//! `fuzz/` has the binaries; the tests run the same targets over the corpora.

use std::time::SystemTime;

use crate::access::Caller;
use crate::mcp::parse::classify::{Route, classify};
use crate::mcp::parse::envelope::read_message;
use crate::mcp::{Headers, InboundKind, McpError, SessionKey, Sessions};
use crate::model::type_expr::TypeExpr;
use crate::wire::cursor::{OffsetCursor, decode_after, encode_after};
use crate::wire::revision::Revision;

/// Classifies a message. The first line of the input is the kind of message. Headers, an empty line and the body
/// follow.
pub fn classify_message(input: &str) {
    let (head, body) = input.split_once("\n\n").unwrap_or(("", input));
    let (kind, headers) = head.split_once('\n').unwrap_or((head, ""));
    let kind = match kind {
        "GET" => InboundKind::OpenStream,
        "DELETE" => InboundKind::EndSession,
        "RAW" => InboundKind::RawRequest,
        _ => InboundKind::Message,
    };
    let headers: Vec<(&str, &str)> =
        headers.lines().filter_map(|line| line.split_once(':')).collect();
    for headers in [Some(&headers as &dyn Headers), None] {
        for newest in [Revision::NEWEST, Revision::NEWEST_LEGACY] {
            match classify(kind, headers, body, newest) {
                Ok(Route::Modern(_)) => assert!(newest.is_modern(), "not offered"),
                Ok(Route::Batch { messages, .. }) => {
                    messages.into_iter().filter_map(Result::err).for_each(|it| check_refusal(&it));
                }
                Ok(_) => {}
                Err(error) => check_refusal(&error),
            }
        }
    }
}

/// Checks the reply to a refused message: the status is from 200 to 499, and the body is JSON on one line with the
/// member `error`.
fn check_refusal(error: &McpError) {
    assert!((200..500).contains(&error.status), "{error:?}");
    let message = error.message().into_slices().concat();
    assert!(!message.contains(&b'\n'), "{error:?}");
    let message: serde_json::Value = serde_json::from_slice(&message).unwrap_or_default();
    assert!(message.get("error").is_some(), "{error:?}");
}

/// Parses a message. Checks that an accepted message is valid JSON-RPC.
pub fn envelope(body: &str) {
    let plain: Result<serde_json::Value, _> = serde_json::from_str(body);
    match read_message(body) {
        Ok(_) => {
            let plain = plain.unwrap_or_default();
            assert_eq!(plain.get("jsonrpc").and_then(|it| it.as_str()), Some("2.0"), "{body}");
        }
        Err(error) => check_refusal(&error),
    }
}

/// Parses a reply of a service. Checks that an accepted result equals that of a plain JSON parser and belongs to the
/// request.
#[cfg(feature = "forward")]
pub fn replies(body: &str) {
    let plain = body.trim_start_matches('\u{feff}');
    let in_batch = crate::upstream::forward::reply_in_batch(body, "mcp_1");
    // Numbers and nesting depths that `Value` does not support are passed through, so they are not compared.
    let Ok(plain) = serde_json::from_str::<serde_json::Value>(plain) else {
        let _ = crate::upstream::forward::result_of(body, "mcp_1");
        return;
    };
    if let Some(reply) = in_batch {
        let reply: serde_json::Value = serde_json::from_str(&reply).unwrap_or_default();
        assert_eq!(reply.get("id").and_then(|id| id.as_str()), Some("mcp_1"), "{body}");
        assert!(
            plain == reply || plain.as_array().is_some_and(|all| all.contains(&reply)),
            "{body}"
        );
    }
    if let Some(result) = crate::upstream::forward::result_of(body, "mcp_1") {
        assert_eq!(plain.get("id").and_then(|id| id.as_str()), Some("mcp_1"), "{body}");
        let result: Result<serde_json::Value, _> = serde_json::from_str(&result);
        assert_eq!(plain.get("result"), result.ok().as_ref(), "{body}");
    }
}

/// Parses the head of a service's response. Checks that the bytes of the head alone are a complete head, and that fewer
/// bytes are not.
#[cfg(feature = "forward")]
pub fn http_response(bytes: &[u8]) {
    use crate::http_client::http1::head_size;

    let Some(size) = head_size(bytes) else { return };
    for end in 0..=size {
        let expected = (end == size).then_some(size);
        assert_eq!(bytes.get(..end).and_then(head_size), expected, "{end} of {size} bytes");
    }
}

/// Parses a type. Checks that parsing the printed type returns the same type.
pub fn type_notation(text: &str) {
    if let Ok(ty) = text.parse::<TypeExpr>() {
        let written = ty.to_string();
        assert_eq!(written.parse::<TypeExpr>().as_ref(), Ok(&ty), "{text} {written}");
    }
}

/// Parses cursors. Checks that decoding an encoded cursor returns the same cursor.
pub fn cursors(text: &str) {
    if let Ok(cursor) = OffsetCursor::decode(text) {
        assert_eq!(OffsetCursor::decode(&cursor.encode()), Ok(cursor), "{text}");
    }
    if let Ok(Some(key)) = decode_after(text) {
        assert_eq!(decode_after(&encode_after(&key)), Ok(Some(key)));
    }
}

/// Parses session ids and request states. Checks that forged ids and states are rejected, and that unsealing a sealed
/// text returns the text.
pub fn session_ids(text: &str) {
    let sessions = Sessions::new([SessionKey::new(&[7; 32])]);
    assert!(sessions.unseal(text).is_none(), "{text}");
    assert!(sessions.find(text, &Caller::anonymous(), SystemTime::now()).is_none(), "{text}");
    let sealed = sessions.seal(text.as_bytes()).unwrap_or_default();
    assert_eq!(sessions.unseal(&sealed).as_deref(), Some(text.as_bytes()));
    // Must not panic.
    let _ = sessions.find(&sealed, &Caller::anonymous(), SystemTime::now());
}

/// Parses server-sent events. The first byte of the input is the chunk size. Checks that the chunk size does not change
/// the result.
#[cfg(feature = "bridge")]
pub fn sse(input: &[u8]) {
    use crate::bridge::reply::sse::SseDecoder;
    const LIMIT: usize = 200;
    let Some((chunk_size, bytes)) = input.split_first() else { return };
    let mut unsplit = SseDecoder::new(LIMIT);
    let expected = unsplit.push(bytes);
    let mut chunked = SseDecoder::new(LIMIT);
    let mut events = Vec::new();
    for chunk in bytes.chunks(usize::from(*chunk_size).max(1)) {
        match chunked.push(chunk) {
            Ok(more) => events.extend(more),
            Err(error) => return assert_eq!(expected, Err(error)),
        }
    }
    assert_eq!(expected, Ok(events));
    assert_eq!(unsplit.last_event_id(), chunked.last_event_id());
    assert_eq!(unsplit.retry(), chunked.retry());
}

/// Parses the body and the query of REST requests.
#[cfg(feature = "http")]
pub fn rest(text: &str) {
    use crate::transport::http::parsers::{invoke_request, query_parameter};
    let plain: Result<serde_json::Value, _> = serde_json::from_str(text);
    if let (Ok((name, arguments)), Ok(plain)) = (invoke_request(text), &plain) {
        assert_eq!(plain.get("name").and_then(|name| name.as_str()), Some(&*name), "{text}");
        let arguments: Result<serde_json::Value, _> = serde_json::from_str(arguments.get());
        assert_eq!(plain.get("arguments"), arguments.ok().as_ref(), "{text}");
    }
    if let Ok(uri) = format!("/mcp/tools/list?{text}").parse() {
        let _ = query_parameter(&uri, "cursor");
    }
    if let Some(decoded) = crate::wire::percent::decoded(text) {
        assert!(decoded.len() <= text.len(), "{text}");
    }
}

/// Parses `Accept` and the headers of proxies. Checks that a client cannot choose its own address with these headers.
#[cfg(feature = "http")]
pub fn http_headers(text: &str) {
    use std::net::IpAddr;

    use axum::http::{HeaderName, HeaderValue, Request};

    use crate::transport::http::parsers::{AcceptedTypes, client_address};
    use crate::transport::http::{ForwardedHeader, HttpOptions};
    const CLIENT: &str = "192.0.2.7";
    let Ok(value) = HeaderValue::from_str(text) else { return };
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.headers.insert("accept", value.clone());
    let accepted = AcceptedTypes::of(&parts.headers);
    assert!(accepted.json || accepted.stream, "{text}");
    assert!(accepted.stream || !accepted.stream_first, "{text}");
    let address = |text: &str| text.parse::<IpAddr>().ok();
    let (proxy, client) = (address("10.0.0.1"), address(CLIENT));
    for (header, name) in [
        (ForwardedHeader::XForwardedFor, "x-forwarded-for"),
        (ForwardedHeader::Forwarded, "forwarded"),
    ] {
        let trusted_proxies = "10.0.0.0/8".parse().into_iter().collect();
        let options =
            HttpOptions { trusted_proxies, forwarded_header: header, ..HttpOptions::default() };
        let is_standard = header == ForwardedHeader::Forwarded;
        let client_element = if is_standard { format!("for={CLIENT}") } else { CLIENT.to_owned() };
        parts.headers.clear();
        parts.headers.insert(name, value.clone());
        assert_eq!(client_address(&parts, client, &options), client, "{text}");
        // The proxy adds a header, or adds an element to the header that the client sent.
        parts.headers.extend(
            HeaderValue::from_str(&client_element)
                .map(|client_element| (HeaderName::from_static(name), client_element)),
        );
        assert_eq!(client_address(&parts, proxy, &options), client, "{text}");
        let mut added = vec![format!("{text}, {client_element}")];
        if is_standard && !text.contains(['"', '\\']) {
            added.push(format!("{client_element};host=\"{text}\""));
        }
        for value in added {
            let Ok(value) = HeaderValue::from_str(&value) else { continue };
            parts.headers.insert(name, value);
            let resolved = client_address(&parts, proxy, &options);
            assert!(resolved == client || resolved == proxy, "{text}");
        }
    }
}

/// Checks the arguments of a call. Accepted arguments have the declared types and no duplicate keys.
pub fn arguments(text: &str) {
    use crate::model::arguments::{CompiledInput, ParamFormat, ParamStyle};
    static PLAN: std::sync::LazyLock<Option<CompiledInput>> = std::sync::LazyLock::new(|| {
        let schema = br#"{"type":"object","required":["id"],"additionalProperties":false,
            "properties":{"id":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}},
            "sort":{"anyOf":[{"enum":["a","b"]},{"type":"null"}],"default":"a"}}}"#;
        CompiledInput::compile(schema).ok()
    });
    let (Some(plan), Ok(raw)) = (&*PLAN, serde_json::from_str(text)) else { return };
    let styles = ParamStyle::ALL.map(|style| ParamFormat { style, null_is_absent: true });
    let strict = ParamFormat { style: ParamStyle::Named, null_is_absent: false };
    for format in styles.into_iter().chain([strict]) {
        let Ok(params) = plan.params(Some(raw), format) else { continue };
        let params = crate::wire::strict_json::value(params.get()).unwrap_or_default();
        let (id, sort) = match &params {
            serde_json::Value::Object(named) => (named.get("id"), named.get("sort")),
            list => (list.get(0), list.get(2)),
        };
        assert!(id.is_some_and(serde_json::Value::is_number), "{text} became {params}");
        let is_sort = |sort: &serde_json::Value| sort.is_null() || sort == "a" || sort == "b";
        assert!(sort.is_none_or(is_sort), "{text} became {params}");
    }
}

/// Reads lines that a client sends to the bridge, and finds the ids of lines that are too long.
#[cfg(feature = "bridge")]
pub fn bridge_lines(input: &[u8]) {
    use futures_util::FutureExt as _;

    use crate::bridge::receive::message::{ClientMessage, ids_of_rejected, parse_server_message};
    use crate::bridge::receive::truncated_id::truncated_id;
    use crate::wire::lines::{Line, read_line};
    const LIMIT: usize = 200;
    let mut rest = input;
    while let Some(Ok(line)) = read_line(&mut rest, LIMIT).now_or_never() {
        let ids = match line {
            Line::End => return,
            Line::TooLong(ends) => truncated_id(&ends).into_iter().collect(),
            Line::Text(line) => {
                assert!(line.len() <= LIMIT);
                let text = String::from_utf8_lossy(&line).into_owned();
                let _ = parse_server_message(&text);
                match ClientMessage::parse(line.into()) {
                    Ok(ClientMessage { ids, cancels, .. }) => {
                        ids.into_iter().chain(cancels).collect()
                    }
                    Err(_) => ids_of_rejected(&text),
                }
            }
        };
        for id in ids {
            assert!(serde_json::from_str::<&serde_json::value::RawValue>(id.as_json()).is_ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Target = fn(&str);

    #[test]
    fn the_corpora_have_no_findings() {
        let targets: [(&str, Target); 6] = [
            ("arguments", arguments),
            ("classify", classify_message),
            ("cursors", cursors),
            ("envelope", envelope),
            ("session_ids", session_ids),
            ("type_notation", type_notation),
        ];
        for (name, target) in targets {
            for bytes in corpus(name) {
                target(&String::from_utf8_lossy(&bytes));
            }
        }
    }

    #[cfg(feature = "http")]
    #[test]
    fn the_corpora_of_http_have_no_findings() {
        for (name, target) in [("rest", rest as Target), ("http_headers", http_headers)] {
            for bytes in corpus(name) {
                target(&String::from_utf8_lossy(&bytes));
            }
        }
    }

    #[cfg(feature = "forward")]
    #[test]
    fn the_corpus_of_responses_has_no_findings() {
        for bytes in corpus("http_response") {
            http_response(&bytes);
        }
    }

    #[cfg(feature = "bridge")]
    #[test]
    fn the_corpus_of_lines_has_no_findings() {
        for bytes in corpus("bridge_lines") {
            bridge_lines(&bytes);
        }
    }

    #[cfg(feature = "bridge")]
    #[test]
    fn the_corpus_of_events_has_no_findings() {
        for bytes in corpus("sse") {
            for chunk_size in 0..8 {
                sse(&[&[chunk_size], bytes.as_slice()].concat());
            }
        }
    }

    #[cfg(feature = "forward")]
    #[test]
    fn the_corpus_of_replies_has_no_findings() {
        for bytes in corpus("replies") {
            replies(&String::from_utf8_lossy(&bytes));
        }
    }

    fn corpus(name: &str) -> Vec<Vec<u8>> {
        let corpora = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let entries = std::fs::read_dir(corpora.join(name)).unwrap();
        let inputs: Vec<_> =
            entries.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
        assert!(!inputs.is_empty(), "{name} has no corpus");
        inputs
    }
}
