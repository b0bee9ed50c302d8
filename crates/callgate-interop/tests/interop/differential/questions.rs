//! The questions: every method, and every tool with valid and invalid arguments.

use serde_json::{Value, json};

use super::random::Random;
use super::request::Question;

pub(crate) fn questions(random: &mut Random) -> Vec<Question> {
    let mut all = vec![
        ask("server/discover", json!({})),
        ask("initialize", json!({"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})),
        ask("ping", json!({})),
        ask("tools/list", json!({})),
        ask("resources/list", json!({})),
        ask("resources/templates/list", json!({})),
        ask("prompts/list", json!({})),
        ask("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})),
        ask("no/such/method", json!({})),
        ask("tools/delete", json!({"name": "echo"})),
        ask("notifications/initialized", json!({})),
        ask("notifications/cancelled", json!({"requestId": 99})),
        ask("notifications/no_such", json!({})),
    ];
    for (tool, right, wrong) in tools(random) {
        let mut extra = right[0].clone();
        extra["surprise"] = json!(random.text());
        let known = right.into_iter().map(|arguments| ("right", arguments));
        let unknown = wrong.into_iter().map(|arguments| ("wrong", arguments));
        for (kind, arguments) in known.chain(unknown).chain([("extra", extra)]) {
            all.push(call(
                &format!("{tool}, {kind}"),
                json!({"name": tool, "arguments": arguments}),
            ));
        }
        all.push(call(&format!("{tool}, none"), json!({"name": tool})));
    }
    all.push(call("unknown tool", json!({"name": "no_such_tool", "arguments": {}})));
    all.push(call("empty name", json!({"name": "", "arguments": {}})));
    all.push(call("null arguments", json!({"name": "now", "arguments": null})));
    all.push(call("listed arguments", json!({"name": "echo", "arguments": ["x"]})));
    all
}

fn ask(method: &'static str, params: Value) -> Question {
    Question { what: String::new(), method, params }
}

fn call(what: &str, params: Value) -> Question {
    Question { what: what.to_owned(), method: "tools/call", params }
}

/// A tool with valid and invalid arguments.
type Tried = (&'static str, Vec<Value>, Vec<Value>);

fn tools(random: &mut Random) -> Vec<Tried> {
    let (a, b) = (random.whole(), random.whole());
    let place = json!({"x": random.whole(), "y": random.whole()});
    vec![
        (
            "echo",
            vec![json!({"text": random.text()}), json!({"text": random.text()})],
            vec![json!({"text": 1}), json!({"text": null}), json!({})],
        ),
        (
            "add",
            vec![json!({"a": a, "b": b}), json!({"a": random.whole(), "b": -1})],
            vec![json!({"a": a.to_string(), "b": b}), json!({"a": a}), json!({"a": 0.5, "b": b})],
        ),
        ("fail", vec![json!({"what": random.text()})], vec![json!({"what": []})]),
        (
            "place",
            vec![json!({"where": place}), json!({"where": place, "label": random.text()})],
            vec![json!({"where": {"x": 1}}), json!({"where": [1, 2]}), json!({"label": "here"})],
        ),
        ("now", vec![json!({})], vec![]),
        ("list", vec![json!({})], vec![]),
        ("words", vec![json!({})], vec![]),
        ("nothing", vec![json!({})], vec![]),
    ]
}
