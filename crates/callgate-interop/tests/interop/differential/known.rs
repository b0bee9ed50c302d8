//! The differences that are known. Rows and numbered sections are those of the notes on the protocol
//! (PROTOCOL.md), gaps are rmcp's there, and D-numbers are decisions.

use super::Difference;
use super::exchange::Kind;

/// A name, how to tell it, and why Callgate does it so. The first that fits counts.
type Known = (&'static str, fn(&Difference<'_>) -> bool, &'static str);

pub(crate) const DIFFERENCES: &[Known] = &[
    (
        "an older version in the `_meta`",
        |it| it.callgate.is_error(400, -32022) && it.case.mutation.starts_with("a legacy version"),
        "1.2: the older revisions have no `_meta` of this kind, so -32022 names the modern ones to try \
         again with; rmcp answers",
    ),
    (
        "fractions as ids",
        |it| it.rmcp.is_nothing(415) && it.case.mutation == "id is a fraction",
        "1.1 row 3: the schema of each revision has strings and integers as ids, so this is no \
         request; 400 with a JSON-RPC error, which rmcp says as 415 in plain text (gap 2)",
    ),
    (
        "words for wrong arguments",
        |it| differ_in(it, "texts") && said(it, "isError").is_some_and(|is_error| is_error == true),
        "D26: Callgate names the argument, what was expected and what came; rmcp leaves the check and \
         its words to the handler",
    ),
    (
        "structured content by revision",
        |it| differ_in(it, "structuredContent") && !it.case.era.is_modern(),
        "1.4, D7: nothing before 2025-06-18, and an object in the revisions of 2025, so a list is \
         wrapped; rmcp sends what the handler gave",
    ),
    (
        "pages of other sites",
        |it| it.callgate.is_nothing(403) && it.case.mutation.starts_with("Origin"),
        "1.1 row 1, D23: a foreign Origin is 403; rmcp does not look unless told to (gap 1)",
    ),
    (
        "batches",
        |it| it.rmcp.is_nothing(415) && it.case.request.body().starts_with('['),
        "1.1 row 4: 2025-03-26 has batches, elsewhere they are 400 -32600; rmcp has none (gaps 2, 3)",
    ),
    (
        "bodies that are no message",
        |it| it.rmcp.is_nothing(415) && it.callgate.status == 400,
        "1.1 row 3, D25: 400 with a JSON-RPC error; rmcp says 415 in plain text (gap 2)",
    ),
    (
        "clients that accept less",
        |it| it.rmcp.is_nothing(406),
        "D29: JSON where the client takes it or names nothing that there is, a stream where it only \
         takes that; rmcp wants both to be named (gap 4)",
    ),
    (
        "content types",
        |it| it.rmcp.is_nothing(415) && it.case.mutation.starts_with("Content-Type"),
        "no rule asks for one, and simple clients forget it; other sites are kept out by their Origin \
         (D23)",
    ),
    (
        "other verbs in plain text",
        |it| it.callgate.is_error(405, -32600) && it.rmcp.is_nothing(405),
        "1.1 row 2: 405 in both, with a JSON-RPC error here; rmcp writes plain text (gap 5)",
    ),
    (
        "streams and sessions of the legacy era",
        |it| it.case.request.verb != "POST" && !it.case.era.is_modern(),
        "1.6, D34: Callgate has a stream and sessions for who wants them, so GET and DELETE mean \
         something; this rmcp server has none",
    ),
    (
        "sessions that there are not",
        |it| it.callgate.is_error(404, -32600) && it.case.mutation.starts_with("a session"),
        "1.6, D34: an unknown session is 404 in the legacy era; this rmcp server has none and does not \
         look",
    ),
    (
        "answers that nobody waits for",
        |it| it.callgate.is_nothing(202) && it.rmcp.is_error(400, -32600),
        "1.1 row 9: a posted response is 202 in the legacy era; rmcp without sessions refuses it",
    ),
    (
        "a handshake with modern `_meta`",
        |it| it.callgate.is_error(404, -32601) && it.case.question.method == "initialize",
        "1.1, below the table: `initialize` with whole modern `_meta` is 404 -32601, as the \
         conformance suite wants; rmcp answers it",
    ),
    (
        "discovery in the legacy era",
        |it| it.callgate.is_error(200, -32601) && it.case.question.method == "server/discover",
        "1.1 row 8: without `_meta` and under a legacy header it is a legacy request, and there is no \
         such method there; rmcp asks for the `_meta`",
    ),
    (
        "params of a wrong form",
        |it| it.callgate.is_error(200, -32602) && is_unknown_method(it),
        "1.2: wrong params are -32602; rmcp reads requests into types, and takes one that does not fit \
         for an unknown method",
    ),
    (
        "a name header without a name",
        |it| it.callgate.is_error(400, -32020) && is_unknown_method(it) && !has_twice(it),
        "1.2: `Mcp-Name` that differs from the body is -32020; rmcp takes the call without a name for \
         an unknown method",
    ),
    (
        "a handshake without the client's name",
        |it| it.callgate.is_result() && is_unknown_method(it),
        "1.1 row 5: nothing depends on `clientInfo`, so it may be missing; rmcp takes the handshake \
         for an unknown method",
    ),
    (
        "a version header on a handshake",
        |it| it.callgate.is_result() && it.rmcp.is_error(400, -32600),
        "1.1 row 5 and below the table: a handshake is about finding a version, so the header says \
         nothing; the specification is silent, rmcp wants it to agree",
    ),
    (
        "a modern header without `_meta`",
        |it| it.callgate.is_error(400, -32602) && it.case.mutation.starts_with("version header"),
        "1.1 row 7: -32602 that names the missing keys, as the conformance suite wants; rmcp says \
         -32020, and plain text for versions to come",
    ),
    (
        "unknown versions in plain text",
        |it| it.callgate.is_error(400, -32600) && it.rmcp.is_nothing(400),
        "1.1 row 8: 400 in both, with a JSON-RPC error here; rmcp writes plain text (as in gap 5)",
    ),
    (
        "headers that are there twice",
        |it| it.callgate.status == 400 && has_twice(it),
        "1.2: duplicate headers are refused, since two readers could take different ones; rmcp takes \
         the first version header",
    ),
    (
        "cursors",
        |it| it.callgate.is_error(200, -32602) && it.case.mutation.starts_with("cursor"),
        "1.3, D32: a cursor that Callgate did not give is -32602; rmcp leaves pages to the handler, \
         and this one has none",
    ),
    (
        "log levels",
        |it| it.callgate.is_error(200, -32602) && it.rmcp.is_result() && loud(it),
        "1.2: a log level that there is not is -32602; rmcp does not look",
    ),
];

/// What both tools said under this key, where they said the same.
fn said<'a>(it: &'a Difference<'_>, key: &str) -> Option<&'a serde_json::Value> {
    let (ours, theirs) = (it.callgate.details.get(key), it.rmcp.details.get(key));
    ours.filter(|_| ours == theirs)
}

/// Whether two results are the same but for this part.
fn differ_in(it: &Difference<'_>, part: &str) -> bool {
    let others = ["isError", "texts", "structuredContent"].into_iter().filter(|key| *key != part);
    let is_same_otherwise = others.into_iter().all(|key| said(it, key).is_some());
    it.callgate.is_result()
        && it.rmcp.is_result()
        && it.callgate.id == it.rmcp.id
        && is_same_otherwise
}

fn is_unknown_method(it: &Difference<'_>) -> bool {
    it.rmcp.kind == Kind::Error(-32601)
}

fn has_twice(it: &Difference<'_>) -> bool {
    it.case.mutation.starts_with("version header") && it.case.mutation.ends_with("twice")
}

fn loud(it: &Difference<'_>) -> bool {
    it.case.mutation == "a log level that there is not"
}
