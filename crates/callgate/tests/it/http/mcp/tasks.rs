//! Calls that continue as tasks.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;

use axum::extract::ConnectInfo;
use callgate::ask::{Elicit, ListRoots};
use callgate::mcp::{Task, TaskStore};
use callgate::{Content, Context};

use super::*;

#[derive(Debug, Default)]
struct InMemoryTasks {
    tasks: Mutex<HashMap<String, Task>>,
    is_broken: AtomicBool,
}

impl TaskStore for InMemoryTasks {
    fn put(&self, task: Task) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            if self.is_broken.load(Ordering::SeqCst) {
                return Err(std::io::Error::other("password=hunter2").into());
            }
            // Serialized and parsed again, like in an external store.
            let text = serde_json::to_string(&task)?;
            self.tasks.lock().unwrap().insert(task.id, serde_json::from_str(&text)?);
            Ok(())
        })
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Task>, Error>> {
        let task = self.tasks.lock().unwrap().get(id).cloned();
        Box::pin(async { Ok(task) })
    }
}

fn with_tasks() -> (App, Slow, Arc<InMemoryTasks>) {
    let slow = Slow::new();
    let mut local = tools(&slow);
    let shared_slow = slow.clone();
    local.content_method(method("long"), move |context: Context, _: Value| {
        let slow = shared_slow.clone();
        async move {
            let dropped = OnDrop(Arc::clone(&slow.dropped));
            let is_task = context.client.become_task().await?;
            slow.started.add_permits(1);
            context.client.progress(1.0, None, Some("still at it"));
            slow.permits.acquire().await.unwrap().forget();
            std::mem::forget(dropped);
            Ok(Content::text(format!("task: {is_task}")))
        }
    });
    local.content_method(method("required"), async |context: Context, _: Value| {
        context.client.require_task().await?;
        let answer =
            context.client.ask("sure", Elicit::form("Sure?", json!({"type": "object"}))).await?;
        Ok(Content::text(format!("{:?}", answer.action)))
    });
    local.content_method(method("asks_around"), async |context: Context, _: Value| {
        let ask = |key| context.client.ask(key, Elicit::form("Sure?", json!({"type": "object"})));
        let before = ask("before").await?;
        let is_task = context.client.become_task().await?;
        let after = ask("after").await?;
        Ok(Content::text(format!("{:?} {is_task} {:?}", before.action, after.action)))
    });
    local.content_method(method("both"), async |context: Context, _: Value| {
        context.client.require_task().await?;
        let ask = |key| context.client.ask(key, Elicit::form("Sure?", json!({"type": "object"})));
        let (first, second, roots, became_task) =
            tokio::join!(ask("one"), ask("one"), context.client.ask("roots", ListRoots), async {
                context.client.become_task().await
            });
        let failed = [first.is_err(), second.is_err(), roots.is_err(), became_task.is_err()];
        Ok(Content::text(format!("{failed:?}")))
    });
    let store = Arc::new(InMemoryTasks::default());
    let services = Services { tasks: Some(Arc::clone(&store) as _), ..Services::default() };
    let app = App::with_services(local, HttpOptions::default(), services);
    (app, slow, store)
}

fn task_capabilities() -> Value {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// Polls until the task has this status.
async fn wait_for_status(client: &Client<'_>, task: &Value, status: &str) -> Value {
    loop {
        let current = client.result("tasks/get", json!({"taskId": task["taskId"]})).await;
        if current["status"] == status {
            return current;
        }
        assert!(
            ["working", "input_required"].contains(&current["status"].as_str().unwrap()),
            "{current}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_continues_as_a_task_and_stores_its_result() {
    let (app, slow, _) = with_tasks();
    let client = app.client("reader", MODERN).with_capabilities(task_capabilities()).await;
    let discovered = client.result("server/discover", json!({})).await;
    let extensions = &discovered["capabilities"]["extensions"];
    assert_eq!(*extensions, json!({"io.modelcontextprotocol/tasks": {}}));
    let task = client.call("long", json!({})).await;
    let mut redacted = task.clone();
    for member in ["taskId", "createdAt", "lastUpdatedAt"] {
        assert!(redacted[member].is_string());
        redacted[member] = json!("…");
    }
    insta::assert_json_snapshot!(redacted);
    slow.wait_until_started().await;
    // Longer than the time limit of a call.
    tokio::time::sleep(Duration::from_mins(5)).await;
    let working = wait_for_status(&client, &task, "working").await;
    assert_eq!(working["statusMessage"], "still at it");
    slow.permits.add_permits(1);
    let done = wait_for_status(&client, &task, "completed").await;
    assert_eq!(done["resultType"], "complete");
    assert_eq!(done["result"]["content"][0]["text"], "task: true");
}

#[tokio::test(start_paused = true)]
async fn limits_of_a_tool_apply_to_its_tasks() {
    let (app, slow, _) = with_tasks();
    rate_limits::set(&app, &[("limit_tools", "long 40 seconds, long 1 concurrent per caller")]);
    let client = app.client("reader", MODERN).with_capabilities(task_capabilities()).await;
    let task = client.call("long", json!({})).await;
    slow.wait_until_started().await;
    let refused = client.call("long", json!({})).await;
    assert_eq!(refused["isError"], true, "{refused}");
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("the limit is 1 per caller"), "{text}");
    // Longer than the time limit of calls that are not tasks.
    tokio::time::sleep(Duration::from_secs(35)).await;
    wait_for_status(&client, &task, "working").await;
    let done = wait_for_status(&client, &task, "completed").await;
    let text = done["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("stopped after 40s"), "{text}");
    assert_eq!(done["result"]["isError"], true);
    slow.permits.add_permits(1);
    let next_task = client.call("long", json!({})).await;
    wait_for_status(&client, &next_task, "completed").await;
}

#[tokio::test]
async fn clients_without_tasks_wait_or_are_refused() {
    let (app, slow, _) = with_tasks();
    slow.permits.add_permits(2);
    for revision in ["2025-11-25", MODERN] {
        let client = app.client("reader", revision);
        let result = client.call("long", json!({})).await;
        assert_eq!(result["content"][0]["text"], "task: false", "{revision}");
    }
    let modern = app.client("reader", MODERN);
    let reply = modern.request("tools/call", json!({"name": "required"})).await;
    assert_eq!(code(&reply), (400, -32021));
    let required = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    assert_eq!(reply.json()["error"]["data"]["requiredCapabilities"], required);
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        assert_eq!(modern.error(method, json!({"taskId": "x"})).await, (400, -32021), "{method}");
    }
    let legacy = app.client("reader", "2025-11-25").call("required", json!({})).await;
    assert_eq!(legacy["isError"], true);
    let rest = app.invoke("reader", "required", json!({})).await;
    assert_eq!(
        rest.json()["error"]["message"],
        "this method runs only as a task, and tasks are available only over MCP"
    );
    let plain = App::new();
    let client = plain.client("reader", MODERN).with_capabilities(task_capabilities()).await;
    assert_eq!(client.error("tasks/get", json!({"taskId": "x"})).await, (404, -32601));
    let discovered = client.result("server/discover", json!({})).await;
    assert!(discovered["capabilities"].get("extensions").is_none(), "the gateway has no tasks");
}

#[tokio::test]
async fn a_task_waits_for_the_answer_to_its_question() {
    let (app, _, _) = with_tasks();
    let client = app.client("reader", MODERN).with_capabilities(task_capabilities()).await;
    let task = client.call("required", json!({})).await;
    let question = wait_for_status(&client, &task, "input_required").await;
    assert_eq!(question["inputRequests"]["sure"]["method"], "elicitation/create");
    let update = |answers: Value| json!({"taskId": task["taskId"], "inputResponses": answers});
    for invalid in [json!({"other": 1}), json!({"sure": {"action": "dance"}}), json!({})] {
        client.result("tasks/update", update(invalid)).await;
        wait_for_status(&client, &task, "input_required").await;
    }
    assert_eq!(client.error("tasks/update", update(json!(1))).await, (200, -32602));
    client.result("tasks/update", update(json!({"sure": {"action": "decline"}}))).await;
    let done = wait_for_status(&client, &task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "Decline");
}

#[tokio::test]
async fn a_task_asks_only_for_declared_capabilities_and_each_key_once() {
    let (app, _, _) = with_tasks();
    let client = app.client("reader", MODERN).with_capabilities(task_capabilities()).await;
    let task = client.call("both", json!({})).await;
    let question = wait_for_status(&client, &task, "input_required").await;
    let keys: Vec<&String> = question["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["one"], "the client does not offer roots");
    let answers = json!({"one": {"action": "decline"}});
    let update = json!({"taskId": task["taskId"], "inputResponses": answers});
    client.result("tasks/update", update).await;
    let done = wait_for_status(&client, &task, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "[false, true, true, false]");
}

#[tokio::test]
async fn the_tasks_of_one_user_are_limited() {
    let (app, slow, _) = with_tasks();
    let client = app.client("reader", MODERN).with_capabilities(task_capabilities()).await;
    for _ in 0..64 {
        assert_eq!(client.call("long", json!({})).await["resultType"], "task");
    }
    assert_eq!(client.error("tools/call", json!({"name": "required"})).await, (200, -32603));
    let other = app.client("admin", MODERN).with_capabilities(task_capabilities()).await;
    assert_eq!(other.call("long", json!({})).await["resultType"], "task");
    slow.permits.add_permits(65);
}

#[tokio::test]
async fn the_tasks_of_one_anonymous_address_are_limited() {
    let (app, slow, _) = with_tasks();
    let client = app.client("", MODERN).with_capabilities(task_capabilities()).await;
    let send = async |address: [u8; 4], name: &str| {
        let message = client.message("tools/call", json!({"name": name}));
        let request =
            client.builder(&message).extension(ConnectInfo(SocketAddr::from((address, 1))));
        app.send(request.body(message.to_string().into()).unwrap()).await.json()
    };
    for _ in 0..64 {
        assert_eq!(send([192, 0, 2, 1], "long").await["result"]["resultType"], "task");
    }
    assert_eq!(send([192, 0, 2, 1], "required").await["error"]["code"], -32603);
    assert_eq!(send([192, 0, 2, 2], "long").await["result"]["resultType"], "task");
    slow.permits.add_permits(65);
}

#[tokio::test]
async fn a_task_belongs_to_its_user_and_can_be_cancelled() {
    let (app, slow, _) = with_tasks();
    let client = app.client("reader", MODERN).with_capabilities(task_capabilities()).await;
    let task = client.call("long", json!({})).await;
    slow.wait_until_started().await;
    let id = json!({"taskId": task["taskId"]});
    for other in ["admin", ""] {
        let other = app.client(other, MODERN).with_capabilities(task_capabilities()).await;
        assert_eq!(other.error("tasks/get", id.clone()).await, (200, -32602));
        assert_eq!(other.error("tasks/cancel", id.clone()).await, (200, -32602));
    }
    assert_eq!(client.error("tasks/get", json!({"taskId": "guess"})).await, (200, -32602));
    let acknowledged = client.result("tasks/cancel", id.clone()).await;
    assert!(acknowledged.get("taskId").is_none(), "{acknowledged}");
    wait_for_status(&client, &task, "cancelled").await;
    while slow.counts().1 == 0 {
        tokio::task::yield_now().await;
    }
    client.result("tasks/cancel", id).await;
    wait_for_status(&client, &task, "cancelled").await;
}

#[tokio::test]
async fn task_notifications_have_the_members_of_tasks_get() {
    let (app, slow, _) = with_tasks();
    let client = app.client("reader", MODERN).with_capabilities(task_capabilities()).await;
    let task = client.call("long", json!({})).await;
    slow.wait_until_started().await;
    let params = json!({"notifications": {"taskIds": [task["taskId"]]}});
    let mut streams = Vec::new();
    for caller in ["reader", "admin"] {
        let client = app.client(caller, MODERN).with_capabilities(task_capabilities()).await;
        let mut stream = client.stream("subscriptions/listen", params.clone()).await;
        let acknowledged = stream.next().await.unwrap();
        assert_eq!(acknowledged["params"]["notifications"], params["notifications"]);
        streams.push(stream);
    }
    slow.permits.add_permits(1);
    let mut notification = loop {
        let notification = streams[0].next().await.unwrap();
        assert_eq!(notification["method"], "notifications/tasks");
        if notification["params"]["status"] == "completed" {
            break notification["params"].clone();
        }
    };
    let meta = notification.as_object_mut().unwrap().shift_remove("_meta").unwrap();
    assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], 1);
    let mut task_state = wait_for_status(&client, &task, "completed").await;
    for member in ["resultType", "_meta"] {
        task_state.as_object_mut().unwrap().shift_remove(member);
    }
    assert_eq!(notification, task_state);
    app.mcp.close();
    assert_eq!(
        streams[1].next().await.unwrap()["method"],
        "notifications/cancelled",
        "the task belongs to another caller"
    );
    let plain = app.client("reader", MODERN);
    assert_eq!(plain.error("subscriptions/listen", params).await, (400, -32021));
}

#[tokio::test]
async fn a_task_that_cannot_be_stored_does_not_start() {
    let (app, slow, store) = with_tasks();
    store.is_broken.store(true, Ordering::SeqCst);
    let client = app.client("reader", MODERN).with_capabilities(task_capabilities()).await;
    let reply = client.request("tools/call", json!({"name": "required"})).await;
    assert_eq!(code(&reply), (200, -32603));
    assert!(!reply.text.contains("hunter2"), "{}", reply.text);
    slow.permits.add_permits(1);
    let result = client.call("long", json!({})).await;
    assert_eq!(result["content"][0]["text"], "task: false", "this method does not need a task");
    // Questions that were asked before are not lost.
    let params = |state: &Value, key: &str| {
        json!({
            "name": "asks_around", "arguments": {}, "requestState": state,
            "inputResponses": {key: {"action": "decline"}},
        })
    };
    let first = client.call("asks_around", json!({})).await;
    let second = client.result("tools/call", params(&first["requestState"], "before")).await;
    let last = client.result("tools/call", params(&second["requestState"], "after")).await;
    assert_eq!(last["content"][0]["text"], "Decline false Decline");
}
