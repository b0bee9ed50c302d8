//! The known differences, with the reasons.

use super::Difference;
use super::exchange::Kind;

/// Name, condition and reason of a difference. The first match counts.
type ExpectedDifference = (&'static str, fn(&Difference<'_>) -> bool, &'static str);

pub(crate) const DIFFERENCES: &[ExpectedDifference] = &[
    (
        "an older version in `_meta`",
        |it| it.callgate.is_error(400, -32022) && it.case.mutation.starts_with("a legacy version"),
        "The legacy versions have no such `_meta`, so Callgate replies -32022 with the modern \
         versions; rmcp accepts the request.",
    ),
    (
        "fractions as ids",
        |it| it.rmcp.has_no_message(415) && it.case.mutation == "id is a fraction",
        "The schema of every version allows strings and integers as ids. Callgate replies 400 \
         with a JSON-RPC error, rmcp 415 in plain text.",
    ),
    (
        "messages about wrong arguments",
        |it| {
            differ_in(it, "texts")
                && common_detail(it, "isError").is_some_and(|is_error| is_error == true)
        },
        "Callgate names the argument, the expected and the received value; rmcp leaves the \
         check to the handler.",
    ),
    (
        "structured content by revision",
        |it| differ_in(it, "structuredContent") && !it.case.era.is_modern(),
        "Structured content exists since 2025-06-18 and is an object in the versions of 2025, \
         so Callgate wraps a list; rmcp sends the value of the handler.",
    ),
    (
        "pages of other origins",
        |it| it.callgate.is_error(403, -32600) && it.case.mutation.starts_with("Origin"),
        "Callgate replies 403 to a foreign `Origin`; rmcp only checks it if configured.",
    ),
    (
        "refused requests",
        |it| it.callgate.is_error(403, -32600) && it.rmcp.has_no_message(403),
        "Callgate refuses a request with a JSON-RPC error, which clients show; rmcp with a text.",
    ),
    (
        "batches",
        |it| it.rmcp.has_no_message(415) && it.case.request.body().starts_with('['),
        "Callgate supports batches in 2025-03-26 and replies 400 -32600 in other versions; rmcp \
         does not support them.",
    ),
    (
        "bodies that are not a message",
        |it| it.rmcp.has_no_message(415) && it.callgate.status == 400,
        "Callgate replies 400 with a JSON-RPC error, rmcp 415 in plain text.",
    ),
    (
        "`Accept` without both media types",
        |it| it.rmcp.has_no_message(406),
        "Callgate replies with JSON if the client accepts it or names neither type, otherwise \
         with a stream; rmcp requires both types.",
    ),
    (
        "missing or other `Content-Type`",
        |it| it.rmcp.has_no_message(415) && it.case.mutation.starts_with("Content-Type"),
        "No rule requires a content type, and simple clients omit it. The check of `Origin` \
         protects against other sites.",
    ),
    (
        "other HTTP methods",
        |it| it.callgate.is_error(405, -32600) && it.rmcp.has_no_message(405),
        "Both reply 405, Callgate with a JSON-RPC error, rmcp in plain text.",
    ),
    (
        "streams and sessions of the legacy era",
        |it| it.case.request.verb != "POST" && !it.case.era.is_modern(),
        "Callgate supports streams and sessions with GET and DELETE; this rmcp server has neither.",
    ),
    (
        "unknown sessions",
        |it| it.callgate.is_error(404, -32600) && it.case.mutation.starts_with("a session"),
        "Callgate replies 404 to an unknown session in the legacy era; this rmcp server ignores \
         the header.",
    ),
    (
        "unexpected responses",
        |it| it.callgate.has_no_message(202) && it.rmcp.is_error(400, -32600),
        "Callgate replies 202 to a posted response in the legacy era; rmcp without sessions \
         rejects it.",
    ),
    (
        "a handshake with modern `_meta`",
        |it| it.callgate.is_error(404, -32601) && it.case.template.method == "initialize",
        "Callgate replies 404 -32601 to `initialize` with complete modern `_meta`, as the \
         conformance suite requires; rmcp accepts it.",
    ),
    (
        "discovery in the legacy era",
        |it| it.callgate.is_error(200, -32601) && it.case.template.method == "server/discover",
        "Without `_meta` and with a legacy header, this is a legacy request, and the legacy era \
         has no such method; rmcp requires `_meta`.",
    ),
    (
        "invalid params",
        |it| it.callgate.is_error(200, -32602) && is_unknown_method(it),
        "Callgate replies -32602; rmcp deserializes requests into types and reports a mismatch \
         as an unknown method.",
    ),
    (
        "a name header without a name in the body",
        |it| {
            it.callgate.is_error(400, -32020) && is_unknown_method(it) && !has_duplicate_header(it)
        },
        "Callgate replies -32020 if `Mcp-Name` differs from the body; rmcp reports a call \
         without a name as an unknown method.",
    ),
    (
        "a handshake without `clientInfo`",
        |it| it.callgate.is_result() && is_unknown_method(it),
        "Callgate does not require `clientInfo`; rmcp reports the handshake as an unknown method.",
    ),
    (
        "a version header on a handshake",
        |it| it.callgate.is_result() && it.rmcp.is_error(400, -32600),
        "Callgate ignores the header, since the handshake negotiates the version; rmcp requires \
         that both agree. The specification does not define this case.",
    ),
    (
        "a modern header without `_meta`",
        |it| it.callgate.is_error(400, -32602) && it.case.mutation.starts_with("version header"),
        "Callgate replies -32602 with the missing keys, as the conformance suite requires; rmcp \
         replies -32020, or plain text for future versions.",
    ),
    (
        "unknown versions",
        |it| it.callgate.is_error(400, -32600) && it.rmcp.has_no_message(400),
        "Both reply 400, Callgate with a JSON-RPC error, rmcp in plain text.",
    ),
    (
        "duplicate headers",
        |it| it.callgate.status == 400 && has_duplicate_header(it),
        "Callgate rejects duplicate headers, since two parsers could use different ones; rmcp \
         uses the first version header.",
    ),
    (
        "cursors",
        |it| it.callgate.is_error(200, -32602) && it.case.mutation.starts_with("cursor"),
        "Callgate replies -32602 to an unknown cursor; rmcp leaves pages to the handler, and \
         this handler has none.",
    ),
    (
        "unknown log levels",
        |it| it.callgate.is_error(200, -32602) && it.rmcp.is_result() && has_unknown_log_level(it),
        "Callgate replies -32602 to an unknown log level; rmcp does not check it.",
    ),
];

/// Returns a detail if it is equal in both replies.
fn common_detail<'a>(it: &'a Difference<'_>, key: &str) -> Option<&'a serde_json::Value> {
    let (callgate_detail, rmcp_detail) = (it.callgate.details.get(key), it.rmcp.details.get(key));
    callgate_detail.filter(|_| callgate_detail == rmcp_detail)
}

/// Returns `true` if two results differ only in this part.
fn differ_in(it: &Difference<'_>, part: &str) -> bool {
    let other_parts =
        ["isError", "texts", "structuredContent"].into_iter().filter(|key| *key != part);
    let other_parts_are_equal = other_parts.into_iter().all(|key| common_detail(it, key).is_some());
    it.callgate.is_result()
        && it.rmcp.is_result()
        && it.callgate.id == it.rmcp.id
        && other_parts_are_equal
}

fn is_unknown_method(it: &Difference<'_>) -> bool {
    it.rmcp.kind == Kind::Error(-32601)
}

fn has_duplicate_header(it: &Difference<'_>) -> bool {
    it.case.mutation.starts_with("version header") && it.case.mutation.ends_with("twice")
}

fn has_unknown_log_level(it: &Difference<'_>) -> bool {
    it.case.mutation == "unknown log level"
}
