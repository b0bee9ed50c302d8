//! The request templates: every method, and every tool with valid and invalid arguments.

use serde_json::{Value, json};

use super::random::Random;
use super::request::RequestTemplate;

pub(crate) fn templates(random: &mut Random) -> Vec<RequestTemplate> {
    let mut templates = vec![
        template("server/discover", json!({})),
        template(
            "initialize",
            json!({"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
        ),
        template("ping", json!({})),
        template("tools/list", json!({})),
        template("resources/list", json!({})),
        template("resources/templates/list", json!({})),
        template("prompts/list", json!({})),
        template("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})),
        template("no/such/method", json!({})),
        template("tools/delete", json!({"name": "echo"})),
        template("notifications/initialized", json!({})),
        template("notifications/cancelled", json!({"requestId": 99})),
        template("notifications/no_such", json!({})),
    ];
    for (tool, valid, invalid) in tools(random) {
        let mut extra = valid[0].clone();
        extra["surprise"] = json!(random.text());
        let valid = valid.into_iter().map(|arguments| ("right", arguments));
        let invalid = invalid.into_iter().map(|arguments| ("wrong", arguments));
        for (kind, arguments) in valid.chain(invalid).chain([("extra", extra)]) {
            templates.push(call(
                &format!("{tool}, {kind}"),
                json!({"name": tool, "arguments": arguments}),
            ));
        }
        templates.push(call(&format!("{tool}, none"), json!({"name": tool})));
    }
    templates.push(call("unknown tool", json!({"name": "no_such_tool", "arguments": {}})));
    templates.push(call("empty name", json!({"name": "", "arguments": {}})));
    templates.push(call("null arguments", json!({"name": "now", "arguments": null})));
    templates.push(call("listed arguments", json!({"name": "echo", "arguments": ["x"]})));
    templates
}

fn template(method: &'static str, params: Value) -> RequestTemplate {
    RequestTemplate { label: String::new(), method, params }
}

fn call(label: &str, params: Value) -> RequestTemplate {
    RequestTemplate { label: label.to_owned(), method: "tools/call", params }
}

/// A tool with valid and invalid arguments.
type ToolArguments = (&'static str, Vec<Value>, Vec<Value>);

fn tools(random: &mut Random) -> Vec<ToolArguments> {
    let (a, b) = (random.integer(), random.integer());
    let place = json!({"x": random.integer(), "y": random.integer()});
    vec![
        (
            "echo",
            vec![json!({"text": random.text()}), json!({"text": random.text()})],
            vec![json!({"text": 1}), json!({"text": null}), json!({})],
        ),
        (
            "add",
            vec![json!({"a": a, "b": b}), json!({"a": random.integer(), "b": -1})],
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
