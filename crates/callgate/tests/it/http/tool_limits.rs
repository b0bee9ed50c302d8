//! Limits of single tools other than rates, on every endpoint.

use super::rate_limits::{ALICE, BOB, CODE, mcp, modern, seconds, set};
use super::*;

/// Returns an application with these limits. The tool `open.nap` takes a minute. The tool `open.text` returns `length`
/// characters.
fn limited(limits: &str) -> App {
    let mut local = application();
    local.method(method("open.nap"), async |_, _: Value| {
        tokio::time::sleep(Duration::from_mins(1)).await;
        Ok::<_, Error>("rested")
    });
    local.method(method("open.text").param(param("length", "int")), async |_, arguments: Value| {
        let length = usize::try_from(arguments["length"].as_u64().unwrap()).unwrap();
        Ok::<_, Error>("x".repeat(length))
    });
    let app = App::with(local, HttpOptions::default());
    set(&app, &[("limit_tools", limits)]);
    app
}

fn rpc(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

/// Sends a call to every endpoint that is not MCP. Returns the replies and whether they are JSON-RPC.
async fn call_rest_and_json_rpc(
    app: &App,
    caller: &str,
    id: &str,
    arguments: &Value,
) -> Vec<(Reply, bool)> {
    let call = rpc(id, arguments).to_string();
    vec![
        (app.invoke(caller, id, arguments.clone()).await, false),
        (app.post(caller, &format!("/mcp/tools/{id}"), call.clone()).await, true),
        (app.post(caller, "/jsonrpc", call).await, true),
    ]
}

/// Returns the texts of the errors of a call over MCP, in both eras.
async fn mcp_errors(app: &App, caller: &str, id: &str, arguments: &Value) -> Vec<String> {
    let params = json!({"name": id.replace('.', "_"), "arguments": arguments});
    let mut texts = Vec::new();
    for message in [modern("tools/call", params.clone()), rpc("tools/call", &params)] {
        let reply = mcp(app, caller, &message).await;
        let result = &reply.json()["result"];
        assert_eq!((reply.status.as_u16(), &result["isError"]), (200, &json!(true)));
        texts.push(result["content"][0]["text"].as_str().unwrap().to_owned());
    }
    texts
}

#[tokio::test]
async fn arguments_larger_than_a_tool_allows_are_413() {
    let app = limited("open.* 20 argument bytes, open.echo 1/h");
    let large = json!({"value": "0123456789"});
    for (reply, is_rpc) in call_rest_and_json_rpc(&app, ALICE, "open.echo", &large).await {
        let error = &reply.json()["error"];
        let code = if is_rpc { json!(CODE) } else { json!("arguments_too_large") };
        assert_eq!((reply.status.as_u16(), &error["code"]), (413, &code), "{}", reply.text);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("have 22 bytes; the limit of this tool is 20 bytes"), "{message}");
    }
    for text in mcp_errors(&app, ALICE, "open.echo", &large).await {
        assert!(text.contains("the limit of this tool is 20 bytes"), "{text}");
    }
    let batch = json!([rpc("open.echo", &large), rpc("open.echo", &json!({"value": 1}))]);
    let replies = app.post(ALICE, "/jsonrpc", batch.to_string()).await.json();
    assert_eq!(replies[0]["error"]["code"], CODE);
    assert_eq!(replies[1]["result"], json!({"value": 1}), "a refused call does not count");
}

#[tokio::test]
async fn results_larger_than_a_tool_allows_are_errors() {
    let app = limited("open.text 100 result bytes, open.t* 200 result bytes");
    for (reply, _) in call_rest_and_json_rpc(&app, ALICE, "open.text", &json!({"length": 98})).await
    {
        assert_eq!(reply.status, 200, "with quotes, the result has 100 bytes: {}", reply.text);
    }
    let arguments = json!({"length": 99});
    for (reply, _) in call_rest_and_json_rpc(&app, ALICE, "open.text", &arguments).await {
        let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("larger than 100 bytes"), "{message}");
        assert!(!reply.text.contains("xxx"), "{}", reply.text);
    }
    for text in mcp_errors(&app, ALICE, "open.text", &arguments).await {
        assert!(text.contains("larger than 100 bytes, which is the limit of this tool"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_take_longer_than_a_tool_allows_are_stopped() {
    let app = limited("open.nap 5 seconds");
    let started = tokio::time::Instant::now();
    let mut texts: Vec<String> = mcp_errors(&app, ALICE, "open.nap", &json!({})).await;
    for (reply, _) in call_rest_and_json_rpc(&app, ALICE, "open.nap", &json!({})).await {
        texts.push(reply.json()["error"]["message"].as_str().unwrap().to_owned());
    }
    for text in &texts {
        assert!(text.contains("stopped after 5s, which is the time limit of this tool"), "{text}");
    }
    assert_eq!(started.elapsed().as_secs(), 5 * texts.len() as u64);
    set(&app, &[("limit_tools", "open.nap 90 seconds")]);
    let reply = app.invoke(ALICE, "open.nap", json!({})).await;
    assert!(reply.text.contains("Tool execution failed"), "the limit of all calls: {}", reply.text);
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_beyond_the_limit_of_a_tool_are_429() {
    for (limits, limit) in
        [("open.nap 1 concurrent", "1."), ("* 1 concurrent per caller", "1 per caller.")]
    {
        let app = limited(limits);
        let (running, other) = tokio::join!(
            // The time limit of all calls ends this call.
            app.invoke(ALICE, "open.nap", json!({})),
            async {
                for (reply, is_rpc) in
                    call_rest_and_json_rpc(&app, ALICE, "open.nap", &json!({})).await
                {
                    let error = &reply.json()["error"];
                    let code = if is_rpc { json!(CODE) } else { json!("busy") };
                    assert_eq!((reply.status.as_u16(), &error["code"]), (429, &code));
                    assert_eq!(seconds(&reply), 2);
                    let message = error["message"].as_str().unwrap();
                    assert!(message.contains(&format!("the limit is {limit}")), "{message}");
                }
                for text in mcp_errors(&app, ALICE, "open.nap", &json!({})).await {
                    assert!(text.contains(&format!("the limit is {limit}")), "{text}");
                    assert!(text.contains("Try again in 2 seconds"), "{text}");
                }
                app.invoke(ALICE, "open.echo", json!({"value": 1})).await
            }
        );
        assert_eq!((running.status.as_u16(), other.status.as_u16()), (500, 200));
    }
}

#[tokio::test(start_paused = true)]
async fn each_call_of_a_batch_counts_as_a_concurrent_call() {
    let app = limited("open.nap 2 concurrent, open.nap 9 seconds");
    let nap = rpc("open.nap", &json!({}));
    let replies = app.post(ALICE, "/jsonrpc", json!([nap, nap, nap]).to_string()).await.json();
    let codes: Vec<&Value> =
        replies.as_array().unwrap().iter().map(|reply| &reply["error"]["code"]).collect();
    assert_eq!(codes, [&json!(-32603), &json!(-32603), &json!(CODE)], "two calls ran");
    let call = rpc("tools/call", &json!({"name": "open_nap", "arguments": {}}));
    let replies = mcp(&app, ALICE, &json!([call, call, call])).await.json();
    let texts: Vec<&str> = replies
        .as_array()
        .unwrap()
        .iter()
        .map(|reply| reply["result"]["content"][0]["text"].as_str().unwrap())
        .collect();
    let refused = texts.iter().filter(|text| text.contains("the limit is 2.")).count();
    assert_eq!(refused, 1, "{texts:?}");
}

#[tokio::test(start_paused = true)]
async fn one_caller_cannot_use_all_concurrent_calls_of_a_tool() {
    let app = limited("open.nap 4 concurrent");
    let nap = || app.invoke(ALICE, "open.nap", json!({}));
    let (first, second, third, fourth, other) =
        tokio::join!(nap(), nap(), nap(), nap(), app.invoke(BOB, "open.nap", json!({})));
    let statuses = [first, second, third, fourth, other].map(|reply| reply.status.as_u16());
    assert_eq!(statuses, [500, 500, 500, 429, 500], "500 is the time limit of all calls");
}

#[tokio::test]
async fn limits_of_a_tool_are_hidden_from_callers_without_access() {
    let hidden = "content.article.delete";
    let app = limited("* 1 argument bytes");
    let denied = app.invoke(BOB, hidden, json!({"id": 1})).await;
    let unknown = app.invoke(BOB, "nothing", json!({"id": 1})).await;
    assert_eq!(denied.status, StatusCode::NOT_FOUND);
    assert_eq!(denied.text.replace(hidden, "nothing"), unknown.text);
    assert_eq!(app.invoke(ALICE, hidden, json!({"id": 1})).await.status, 413);
}
