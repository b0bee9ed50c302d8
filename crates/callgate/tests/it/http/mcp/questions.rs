//! Methods that ask their client: in the modern era they run again, in the legacy era they wait.

use std::sync::atomic::AtomicU32;

use callgate::ask::{Elicit, ListRoots, Sample};
use callgate::mcp::LogLevel;
use callgate::upstream::{Capability, ToolContent};
use callgate::{Content, Context};

use super::*;

const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn name() -> Elicit {
    let properties = json!({"name": {"type": "string"}});
    Elicit::form(
        "Who are you?",
        json!({"type": "object", "properties": properties, "required": ["name"]}),
    )
}

async fn greet(context: Context, arguments: Value) -> Result<Content, Error> {
    let answer = context.client.ask("name", name()).await?;
    Ok(format!("{} {}!", arguments["greeting"], answer.content["name"]).into())
}

async fn ask_twice(context: Context, _: Value) -> Result<Content, Error> {
    let first = context.client.ask("one", name()).await?;
    let (second, roots) =
        tokio::join!(context.client.ask("two", name()), context.client.ask("roots", ListRoots));
    let roots = roots?.roots.len();
    Ok(format!("{} {} {roots}", first.content["name"], second?.content["name"]).into())
}

/// Returns an application that counts how often each method started.
fn app_with_questions() -> (App, Arc<AtomicU32>) {
    let (local, starts) = methods();
    (App::with(local, HttpOptions::default()), starts)
}

pub(super) fn methods() -> (Local, Arc<AtomicU32>) {
    let mut local = Local::default();
    let starts = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&starts);
    let greeting = method("greet").param(param("greeting", "string").default(json!("Hello")));
    local.content_method(greeting, move |context, arguments: Value| {
        count.fetch_add(1, Ordering::SeqCst);
        greet(context, arguments)
    });
    local.content_method(method("twice"), ask_twice);
    local.content_method(method("model"), async |context: Context, _: Value| {
        Ok(Content::text(context.client.ask("model", Sample::new("Why?", 9)).await?.text()))
    });
    local.content_method(method("works"), async |context: Context, _: Value| {
        context.client.ask("name", name()).await?;
        tokio::time::sleep(Duration::from_secs(20)).await;
        Ok(Content::text("worked"))
    });
    let count = Arc::new(AtomicU32::new(3));
    local.content_method(method("delete"), move |context: Context, _: Value| {
        let files = count.fetch_add(297, Ordering::SeqCst);
        async move {
            let question =
                Elicit::form(format!("Delete {files} files?"), json!({"type": "object"}));
            context.client.ask("sure", question).await?;
            Ok(Content::text(format!("{files} deleted")))
        }
    });
    local.content_method(
        method("promises").returns("array{a: int}".parse().unwrap()),
        async |_, arguments: Value| {
            let content = ToolContent::new(["words".into()]);
            Ok(if arguments == json!({}) { content } else { content.structured(json!({"a": 1})) })
        },
    );
    local.content_method(method("told"), async |context: Context, _: Value| {
        context.client.log(LogLevel::Info, "test", "heard");
        context.client.log(LogLevel::Debug, "test", json!({"not": "heard"}));
        context.client.progress(0.5, Some(1.0), Some("half"));
        context.client.progress(0.1, None, Some("back"));
        context.client.progress(f64::NAN, None, Some("nowhere"));
        Ok(Content::text(context.client.supports(Capability::Sampling).to_string()))
    });
    (local, starts)
}

pub(super) fn accept(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

#[tokio::test]
async fn a_modern_method_runs_again_with_its_answers() {
    let (app, starts) = app_with_questions();
    let client = app.client("reader", MODERN).with_capabilities(json!({"elicitation": {}})).await;
    let question = client.call("greet", json!({"greeting": "Hi"})).await;
    let mut redacted = question.clone();
    assert!(redacted["requestState"].is_string());
    redacted["requestState"] = json!("…");
    insta::assert_json_snapshot!(redacted);
    let params = json!({
        "name": "greet",
        "arguments": {"greeting": "Hi"},
        "inputResponses": {"name": accept("Ada"), "more": 1},
        "requestState": question["requestState"],
    });
    let result = client.result("tools/call", params).await;
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["content"][0]["text"], r#""Hi" "Ada"!"#);
    assert_eq!(starts.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn the_request_state_contains_earlier_answers() {
    let (app, _) = app_with_questions();
    let capabilities = json!({"elicitation": {}, "roots": {}});
    let client = app.client("reader", MODERN).with_capabilities(capabilities).await;
    let keys = |result: &Value| -> Vec<String> {
        result["inputRequests"].as_object().unwrap().keys().cloned().collect()
    };
    let first = client.call("twice", json!({})).await;
    assert_eq!(keys(&first), ["one"]);
    let retry = |state: &Value, answers: Value| {
        json!({
            "name": "twice", "arguments": {}, "requestState": state, "inputResponses": answers,
        })
    };
    let answers = json!({"one": accept("A")});
    let second = client.result("tools/call", retry(&first["requestState"], answers)).await;
    assert_eq!(
        keys(&second),
        ["roots", "two"],
        "questions that are awaited together are asked together"
    );
    let only_roots = json!({"roots": {"roots": [{"uri": "file:///"}]}});
    let third = client.result("tools/call", retry(&second["requestState"], only_roots)).await;
    assert_eq!(keys(&third), ["two"], "an unanswered question is asked again");
    let state = &third["requestState"];
    let last = client.result("tools/call", retry(state, json!({"two": accept("B")}))).await;
    assert_eq!(last["content"][0]["text"], r#""A" "B" 1"#);
}

#[tokio::test]
async fn a_request_state_is_valid_only_for_its_request_and_user() {
    let (app, starts) = app_with_questions();
    let client = app.client("reader", MODERN).with_capabilities(json!({"elicitation": {}})).await;
    let question = client.call("greet", json!({"greeting": "Hi"})).await;
    let state = question["requestState"].as_str().unwrap();
    let params = |state: &str, name: &str, greeting: &str| {
        json!({
            "name": name,
            "arguments": {"greeting": greeting},
            "inputResponses": {"name": accept("Ada")},
            "requestState": state,
        })
    };
    let before = starts.load(Ordering::SeqCst);
    for (state, name, greeting) in [
        (&*format!("{state}-TAMPERED"), "greet", "Hi"),
        ("", "greet", "Hi"),
        (state, "greet", "Ho"),
        (state, "twice", "Hi"),
    ] {
        let refused = client.error("tools/call", params(state, name, greeting)).await;
        assert_eq!(refused, (200, -32602), "{state} {name} {greeting}");
    }
    let other = app.client("admin", MODERN).with_capabilities(json!({"elicitation": {}})).await;
    assert_eq!(other.error("tools/call", params(state, "greet", "Hi")).await, (200, -32602));
    let session =
        app.client("reader", "2025-11-25").with_capabilities(json!({})).await.session.unwrap();
    let refused = client.error("tools/call", params(&session, "greet", "Hi")).await;
    assert_eq!(refused, (200, -32602), "a session's id is signed with the same key");
    assert_eq!(starts.load(Ordering::SeqCst), before, "no method ran");
}

#[tokio::test]
async fn an_invalid_answer_repeats_the_question_or_is_refused() {
    let (app, _) = app_with_questions();
    let client = app.client("reader", MODERN).with_capabilities(json!({"elicitation": {}})).await;
    for answer in [json!(1), json!({"action": "accept"}), json!({"action": "maybe"})] {
        let params = json!({"name": "greet", "inputResponses": {"name": answer}});
        let result = client.result("tools/call", params).await;
        assert_eq!(result["resultType"], "input_required", "{answer}");
    }
    for responses in [json!(null), json!([]), json!("x")] {
        let params = json!({"name": "greet", "inputResponses": responses});
        assert_eq!(client.error("tools/call", params).await, (200, -32602), "{responses}");
    }
    let client = app
        .client("reader", MODERN)
        .with_capabilities(json!({"elicitation": {}, "roots": {}}))
        .await;
    let too_large =
        json!({"name": "twice", "inputResponses": {"one": accept(&"x".repeat(300_000))}});
    assert_eq!(client.error("tools/call", too_large).await, (200, -32602));
}

#[tokio::test]
async fn a_modern_client_must_declare_the_capability_of_a_question() {
    let (app, _) = app_with_questions();
    let client = app.client("reader", MODERN);
    let reply = client.request("tools/call", json!({"name": "model"})).await;
    assert_eq!(code(&reply), (400, -32021));
    let data = &reply.json()["error"]["data"];
    assert_eq!(*data, json!({"requiredCapabilities": {"sampling": {}}}));
    let url_only = json!({"elicitation": {"url": {}}});
    let client = app.client("reader", MODERN).with_capabilities(url_only).await;
    assert_eq!(client.error("tools/call", json!({"name": "greet"})).await, (400, -32021));
}

/// Returns a client's answer to a question.
pub(super) fn answer(question: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
}

#[tokio::test]
async fn a_legacy_method_waits_for_its_answer() {
    for revision in LEGACY {
        let (app, starts) = app_with_questions();
        let client =
            app.client("reader", revision).with_capabilities(json!({"elicitation": {}})).await;
        let mut stream = client.stream("tools/call", json!({"name": "greet"})).await;
        let question = stream.next().await.unwrap();
        assert_eq!(question["method"], "elicitation/create", "{revision}");
        assert_eq!(question["params"]["message"], "Who are you?");
        assert_eq!(client.send(&answer(&question, accept("Ada"))).await.status, 202);
        let result = stream.next().await.unwrap();
        assert_eq!(result["result"]["content"][0]["text"], r#""Hello" "Ada"!"#);
        assert!(stream.next().await.is_none());
        assert_eq!(starts.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn answers_of_other_sessions_are_ignored_and_invalid_answers_are_errors() {
    let (app, _) = app_with_questions();
    let client =
        app.client("reader", "2025-11-25").with_capabilities(json!({"elicitation": {}})).await;
    let other =
        app.client("reader", "2025-11-25").with_capabilities(json!({"elicitation": {}})).await;
    let mut stream = client.stream("tools/call", json!({"name": "greet"})).await;
    let question = stream.next().await.unwrap();
    // Answers of another session, to an unknown question, and without a session are accepted but have no effect.
    assert_eq!(other.send(&answer(&question, accept("Eve"))).await.status, 202);
    assert_eq!(client.send(&answer(&json!({"id": 7}), accept("Eve"))).await.status, 202);
    let stateless = app.client("reader", "2025-11-25");
    assert_eq!(stateless.send(&answer(&question, accept("Eve"))).await.status, 202);
    assert_eq!(client.send(&answer(&question, json!({"action": "dance"}))).await.status, 202);
    let result = stream.next().await.unwrap();
    assert_eq!(result["result"]["isError"], true);
    let text = result["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("the client's answer is not usable"), "{text}");

    let mut stream = client.stream("tools/call", json!({"name": "greet"})).await;
    let question = stream.next().await.unwrap();
    let error = json!({"code": -1, "message": "User rejected"});
    let refusal = json!({"jsonrpc": "2.0", "id": question["id"], "error": error});
    assert_eq!(client.send(&refusal).await.status, 202);
    let text = &stream.next().await.unwrap()["result"]["content"][0]["text"];
    assert_eq!(text, "the client did not answer: User rejected (code -1)");
}

#[tokio::test]
async fn the_error_explains_why_a_legacy_client_cannot_be_asked() {
    let (app, _) = app_with_questions();
    let text_of = |reply: Reply| reply.json()["result"]["content"][0]["text"].clone();
    let client = app.client("reader", "2025-11-25").with_capabilities(json!({})).await;
    let reply = client.request("tools/call", json!({"name": "greet"})).await;
    assert_eq!(text_of(reply), "the client does not offer elicitation");
    let stateless = app.client("reader", "2025-11-25");
    let reply = stateless.request("tools/call", json!({"name": "greet"})).await;
    assert_eq!(text_of(reply), "the client cannot be asked: it has no session");
    let mut json_only =
        app.client("reader", "2025-11-25").with_capabilities(json!({"elicitation": {}})).await;
    json_only.accept = "application/json";
    let reply = json_only.request("tools/call", json!({"name": "greet"})).await;
    assert_eq!(
        text_of(reply),
        "the client cannot be asked: its request does not accept an event stream"
    );
    let reply = app.invoke("reader", "greet", json!({})).await;
    assert_eq!(reply.json()["error"]["message"], "there is no client to ask");
}

#[tokio::test(start_paused = true)]
async fn a_client_can_answer_after_the_time_limit_of_calls() {
    let (app, _) = app_with_questions();
    let client =
        app.client("reader", "2025-11-25").with_capabilities(json!({"elicitation": {}})).await;
    let mut stream = client.stream("tools/call", json!({"name": "greet"})).await;
    let question = stream.next().await.unwrap();
    tokio::time::sleep(Duration::from_mins(3)).await;
    client.send(&answer(&question, accept("Ada"))).await;
    assert_eq!(stream.next().await.unwrap()["result"]["content"][0]["text"], r#""Hello" "Ada"!"#);
    // The call does not wait forever.
    let mut stream = client.stream("tools/call", json!({"name": "greet"})).await;
    stream.next().await.unwrap();
    assert_eq!(stream.next().await.unwrap()["result"]["isError"], true);
}

#[tokio::test(start_paused = true)]
async fn the_time_until_an_answer_does_not_count_against_the_time_limit() {
    let (app, _) = app_with_questions();
    let client =
        app.client("reader", "2025-11-25").with_capabilities(json!({"elicitation": {}})).await;
    for seconds in [5, 29, 31, 59] {
        let mut stream = client.stream("tools/call", json!({"name": "works"})).await;
        let question = stream.next().await.unwrap();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        client.send(&answer(&question, accept("Ada"))).await;
        let result = stream.next().await.unwrap();
        assert_eq!(result["result"]["content"][0]["text"], "worked", "{seconds}");
    }
}

#[tokio::test]
async fn an_answer_does_not_apply_to_another_question_with_the_same_key() {
    let (app, _) = app_with_questions();
    let client = app.client("reader", MODERN).with_capabilities(json!({"elicitation": {}})).await;
    let question = client.call("delete", json!({})).await;
    let message = &question["inputRequests"]["sure"]["params"]["message"];
    assert_eq!(message, "Delete 3 files?");
    let params = json!({
        "name": "delete",
        "arguments": {},
        "requestState": question["requestState"],
        "inputResponses": {"sure": {"action": "accept", "content": {}}},
    });
    let repeated = client.result("tools/call", params).await;
    assert_eq!(repeated["inputRequests"]["sure"]["params"]["message"], "Delete 300 files?");
}

#[tokio::test]
async fn a_question_ends_when_its_client_disconnects_or_ends_the_session() {
    let (app, _) = app_with_questions();
    let client =
        app.client("reader", "2025-11-25").with_capabilities(json!({"elicitation": {}})).await;
    let mut stream = client.stream("tools/call", json!({"name": "greet"})).await;
    stream.next().await.unwrap();
    let session = client.session.clone().unwrap();
    let end = request("DELETE", "reader", "/mcp").header("mcp-session-id", &session);
    assert_eq!(app.send(end.body(Body::empty()).unwrap()).await.status, 204);
    assert!(stream.next().await.is_none(), "calls end with their session");

    let slow = Slow::new();
    let mut local = Local::default();
    let shared_slow = slow.clone();
    local.content_method(method("asks"), move |context: Context, _: Value| {
        let slow = shared_slow.clone();
        async move {
            let result = context.client.ask("roots", ListRoots).await;
            assert!(result.is_err());
            slow.finished.fetch_add(1, Ordering::SeqCst);
            Ok(Content::text("gave up"))
        }
    });
    let app = App::with(local, HttpOptions::default());
    let client = app.client("reader", "2025-11-25").with_capabilities(json!({"roots": {}})).await;
    let mut stream = client.stream("tools/call", json!({"name": "asks"})).await;
    stream.next().await.unwrap();
    drop(stream);
    while slow.counts().0 == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_missing_structured_result_is_an_error_in_revisions_with_output_schemas() {
    let (app, _) = app_with_questions();
    for (revision, is_error) in [("2025-03-26", false), ("2025-11-25", true), (MODERN, true)] {
        let client = app.client("reader", revision);
        let result = client.call("promises", json!({})).await;
        assert_eq!(result["isError"] == true, is_error, "{revision}");
    }
}

#[tokio::test]
async fn logs_and_progress_of_a_method_are_sent_before_its_result_if_requested() {
    let (app, _) = app_with_questions();
    for revision in ["2025-11-25", MODERN] {
        let client =
            app.client("reader", revision).with_capabilities(json!({"sampling": {}})).await;
        let mut params = json!({"name": "told", "_meta": {"progressToken": 7}});
        if revision == MODERN {
            params["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
        } else {
            client.result("logging/setLevel", json!({"level": "info"})).await;
        }
        let mut stream = client.stream("tools/call", params).await;
        let log = stream.next().await.unwrap();
        assert_eq!(log["params"], json!({"level": "info", "logger": "test", "data": "heard"}));
        let progress = stream.next().await.unwrap();
        let expected = json!({"progressToken": 7, "progress": 0.5, "total": 1, "message": "half"});
        assert_eq!(progress["params"], expected);
        assert_eq!(stream.next().await.unwrap()["result"]["content"][0]["text"], "true");
        assert!(stream.next().await.is_none());
        let without_notifications = app.client("reader", revision).call("told", json!({})).await;
        assert_eq!(
            without_notifications["content"][0]["text"], "false",
            "without logs and progress, the reply is JSON"
        );
    }
}
