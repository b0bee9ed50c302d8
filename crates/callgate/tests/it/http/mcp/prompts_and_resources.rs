//! Prompts, resources and completion of the embedding program.

use std::collections::BTreeMap;

use callgate::mcp::{
    Complete, CompletionReference, CompletionRequest, Completions, GetPromptResult, Prompt,
    Prompts, Resource, Resources,
};
use callgate::upstream::ResourceContents;
use callgate::{Content, Context};

use super::*;

#[derive(Debug)]
struct Features;

impl Prompts for Features {
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Result<Vec<Prompt>, Error>> {
        let mut prompts = vec![
            Prompt::new("greet", "Greets.")
                .title("Greet")
                .required("who", "Whom")
                .optional("how", "How"),
            Prompt::new("sing", "Sings."),
        ];
        if caller.user.is_some() {
            prompts.push(Prompt::new("secret", "For users."));
        }
        Box::pin(async { Ok(prompts) })
    }

    fn get(
        self: Arc<Self>,
        _: Context,
        name: String,
        arguments: BTreeMap<String, String>,
    ) -> BoxFuture<'static, Result<Option<GetPromptResult>, Error>> {
        Box::pin(async move {
            Ok(Some(match name.as_str() {
                "greet" => GetPromptResult::default()
                    .description("A greeting")
                    .user(format!("Hello, {}!", arguments["who"]))
                    .user(Content::link("a:b", "more")),
                "sing" => panic!("password=hunter2"),
                _ => return Ok(None),
            }))
        })
    }
}

impl Resources for Features {
    fn list<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, Result<Vec<Resource>, Error>> {
        let resources =
            ["z:last", "a:first"].map(|uri| Resource::new(uri, "one").mime_type("text/plain"));
        Box::pin(async { Ok(resources.into()) })
    }

    fn templates<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, Result<Vec<Resource>, Error>> {
        Box::pin(async { Ok(vec![Resource::new("a:{id}", "some").description("Many.")]) })
    }

    fn read(
        self: Arc<Self>,
        context: Context,
        uri: String,
    ) -> BoxFuture<'static, Result<Option<Vec<ResourceContents>>, Error>> {
        Box::pin(async move {
            let user_name = context.caller.user.map_or_else(String::new, |user| user.name.clone());
            match uri.as_str() {
                "a:first" => {
                    Ok(Some(vec![ResourceContents::text(uri, format!("for {user_name}"))]))
                }
                "a:words" => Err(Error::tool("not today")),
                "a:broken" => Err(std::io::Error::other("password=hunter2").into()),
                _ => Ok(None),
            }
        })
    }

    fn can_read(&self, _: &Caller, uri: &str) -> bool {
        uri.starts_with("a:")
    }

    fn can_subscribe(&self) -> bool {
        true
    }
}

impl Complete for Features {
    fn complete(
        self: Arc<Self>,
        _: Context,
        argument: CompletionRequest,
    ) -> BoxFuture<'static, Result<Completions, Error>> {
        let CompletionRequest { reference, name, value, arguments } = argument;
        let reference = match reference {
            CompletionReference::Prompt { name } => name,
            CompletionReference::Template { uri } => uri,
        };
        let values = vec![reference, name, value, format!("{arguments:?}")];
        Box::pin(async { Ok(Completions::new(values)) })
    }
}

fn app_with_features() -> App {
    let features = Arc::new(Features);
    let services = Services {
        prompts: Some(Arc::clone(&features) as _),
        resources: Some(Arc::clone(&features) as _),
        completion: Some(features),
        ..Services::default()
    };
    App::with_services(application(), HttpOptions::default(), services)
}

#[tokio::test]
async fn offered_features_are_declared_as_capabilities() {
    let app = app_with_features();
    let expected = json!({
        "tools": {"listChanged": true},
        "resources": {"subscribe": true, "listChanged": true},
        "prompts": {"listChanged": true},
        "logging": {},
        "completions": {},
    });
    let modern = app.client("", MODERN).result("server/discover", json!({})).await;
    assert_eq!(modern["capabilities"], expected);
    let legacy = app.client("", "2025-11-25").initialize().await;
    assert_eq!(legacy["capabilities"], expected);
}

#[tokio::test]
async fn prompts_are_listed_and_filled_in_for_permitted_callers() {
    let app = app_with_features();
    for revision in REVISIONS {
        let client = app.client("", revision);
        let listed = client.result("prompts/list", json!({})).await;
        let greet = json!({
            "name": "greet", "title": "Greet", "description": "Greets.",
            "arguments": [
                {"name": "who", "description": "Whom", "required": true},
                {"name": "how", "description": "How", "required": false},
            ],
        });
        assert_eq!(listed["prompts"][0], greet);
        assert_eq!(listed["prompts"].as_array().unwrap().len(), 2, "{revision}");
        assert_eq!(listed.get("ttlMs").is_some(), revision == MODERN);
        let params = json!({"name": "greet", "arguments": {"who": "Ada"}});
        let filled = client.result("prompts/get", params).await;
        assert_eq!(filled["messages"][0]["content"]["text"], "Hello, Ada!");
        let link = if revision < "2025-06-18" { "text" } else { "resource_link" };
        assert_eq!(filled["messages"][1]["content"]["type"], link, "d10 {revision}");
        let reader = app.client("reader", revision).result("prompts/list", json!({})).await;
        assert_eq!(reader["prompts"].as_array().unwrap().len(), 3);
    }
}

#[tokio::test]
async fn an_unknown_prompt_or_a_missing_argument_is_refused() {
    let app = app_with_features();
    let client = app.client("", MODERN);
    for params in [
        json!({"name": "nothing"}),
        json!({"name": "secret"}),
        json!({"name": "greet"}),
        json!({"name": "greet", "arguments": {"how": "loud"}}),
        json!({"name": "greet", "arguments": {"who": 1}}),
        json!({"name": "greet", "arguments": []}),
        json!({}),
    ] {
        assert_eq!(client.error("prompts/get", params.clone()).await, (200, -32602), "{params}");
    }
    let duplicate = r#"{"who": "a", "who": "b"}"#;
    let message = client.message("prompts/get", json!({"name": "greet", "arguments": "X"}));
    let body = message.to_string().replace(r#""X""#, duplicate);
    let request = client.builder(&message).body(body.into()).unwrap();
    assert_eq!(code(&app.send(request).await), (200, -32602), "d25 a name twice");
    let reply = client.request("prompts/get", json!({"name": "sing"})).await;
    assert_eq!(code(&reply), (200, -32603), "a panic is a failed request");
    assert!(!reply.text.contains("hunter2"), "{}", reply.text);
}

#[tokio::test]
async fn resources_are_listed_in_pages_read_and_refused() {
    let app = app_with_features();
    let settings =
        callgate::gateway::Settings { page_size: 2, ..callgate::gateway::Settings::default() };
    app.gateway.set_settings(Arc::new(settings));
    for revision in ["2025-11-25", MODERN] {
        let client = app.client("reader", revision);
        let first = client.result("resources/list", json!({})).await;
        let uris = |page: &Value| -> Vec<String> {
            let resources = page["resources"].as_array().unwrap();
            resources.iter().map(|it| it["uri"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(uris(&first), ["a:first", "callgate://tools"]);
        let cursor = json!({"cursor": first["nextCursor"]});
        let second = client.result("resources/list", cursor).await;
        assert_eq!((uris(&second), second.get("nextCursor")), (vec!["z:last".to_owned()], None));
        assert_eq!(client.error("resources/list", json!({"cursor": "x"})).await, (200, -32602));
        let templates = client.result("resources/templates/list", json!({})).await;
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "a:{id}");
        let read = client.result("resources/read", json!({"uri": "a:first"})).await;
        assert_eq!(read["contents"][0], json!({"uri": "a:first", "text": "for reader"}));
        let missing = client.request("resources/read", json!({"uri": "a:nothing"})).await;
        let expected = if revision == MODERN { -32602 } else { -32002 };
        assert_eq!(code(&missing), (200, expected));
        assert_eq!(missing.json()["error"]["data"]["uri"], "a:nothing");
        let tool_error = client.request("resources/read", json!({"uri": "a:words"})).await.json();
        assert_eq!(tool_error["error"]["message"], "not today");
        let broken = client.request("resources/read", json!({"uri": "a:broken"})).await;
        assert_eq!(code(&broken), (200, -32603));
        assert!(!broken.text.contains("hunter2"), "{}", broken.text);
    }
}

#[tokio::test]
async fn arguments_are_completed() {
    let app = app_with_features();
    for revision in REVISIONS {
        let client = app.client("", revision);
        let params = json!({
            "ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": "who", "value": "A"},
            "context": {"arguments": {"how": "loud"}},
        });
        let result = client.result("completion/complete", params).await;
        let values = json!(["greet", "who", "A", r#"{"how": "loud"}"#]);
        let expected = json!({"values": values, "total": 4, "hasMore": false});
        assert_eq!(result["completion"], expected);
        for params in [
            json!({"ref": {"type": "ref/other"}, "argument": {"name": "a", "value": ""}}),
            json!({"ref": {"type": "ref/prompt", "name": "greet"}}),
            json!({}),
        ] {
            assert_eq!(client.error("completion/complete", params).await, (200, -32602));
        }
        let plain = App::new();
        let status = if revision == MODERN { 404 } else { 200 };
        let refused = plain.client("", revision).error("completion/complete", json!({})).await;
        assert_eq!(refused, (status, -32601));
    }
}

#[tokio::test]
async fn only_arguments_of_visible_prompts_and_resources_are_completed() {
    let app = app_with_features();
    let prompt = |name: &str| json!({"type": "ref/prompt", "name": name});
    let template = |uri: &str| json!({"type": "ref/resource", "uri": uri});
    let params =
        |reference: &Value| json!({"ref": reference, "argument": {"name": "a", "value": ""}});
    for revision in REVISIONS {
        let (anonymous, reader) = (app.client("", revision), app.client("reader", revision));
        for reference in [prompt("greet"), template("a:{id}"), template("a:first")] {
            anonymous.result("completion/complete", params(&reference)).await;
        }
        reader.result("completion/complete", params(&prompt("secret"))).await;
        let secret = anonymous.request("completion/complete", params(&prompt("secret"))).await;
        let unknown = anonymous.request("completion/complete", params(&prompt("nobody"))).await;
        assert_eq!(secret.status, unknown.status, "{revision}");
        assert_eq!(secret.text.replace("secret", "nobody"), unknown.text, "{revision}");
        let expected = if revision == MODERN { -32602 } else { -32002 };
        let hidden = anonymous.error("completion/complete", params(&template("b:{id}"))).await;
        assert_eq!(hidden, (200, expected), "{revision}");
    }
}

/// Does not define which caller may read which resource.
#[derive(Debug)]
struct WithoutCanRead;

impl Resources for WithoutCanRead {
    fn list<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, Result<Vec<Resource>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn read(
        self: Arc<Self>,
        _: Context,
        _: String,
    ) -> BoxFuture<'static, Result<Option<Vec<ResourceContents>>, Error>> {
        Box::pin(async { Ok(None) })
    }

    fn can_subscribe(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn without_can_read_no_updates_of_resources_are_sent() {
    let services = Services { resources: Some(Arc::new(WithoutCanRead)), ..Services::default() };
    let app = App::with_services(application(), HttpOptions::default(), services);
    let requested = json!({"resourcesListChanged": true, "resourceSubscriptions": ["a:first"]});
    let params = json!({"notifications": requested});
    let mut stream = app.client("reader", MODERN).stream("subscriptions/listen", params).await;
    stream.next().await.unwrap();
    app.mcp.resource_updated("a:first");
    app.mcp.resources_changed();
    let first = stream.next().await.unwrap();
    assert_eq!(first["method"], "notifications/resources/list_changed");
}

#[test]
fn at_most_100_completions_are_sent() {
    let many = Completions::new((0..150).map(|number| number.to_string()));
    let json = serde_json::to_value(&many).unwrap();
    assert_eq!(json["values"].as_array().unwrap().len(), 100);
    assert_eq!((&json["total"], &json["hasMore"]), (&json!(150), &json!(true)));
}

#[tokio::test]
async fn a_modern_client_gets_the_notifications_that_it_requested() {
    let app = app_with_features();
    let client = app.client("reader", MODERN);
    let requested = json!({
        "promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["a:first"],
    });
    let params = json!({"notifications": requested});
    let mut stream = client.stream("subscriptions/listen", params).await;
    let acknowledged = stream.next().await.unwrap();
    assert_eq!(acknowledged["params"]["notifications"], requested);
    app.mcp.resource_updated("a:other");
    app.mcp.resource_updated("a:first");
    let updated = stream.next().await.unwrap();
    assert_eq!(updated["method"], "notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "a:first");
    assert_eq!(updated["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    app.mcp.prompts_changed();
    app.mcp.resources_changed();
    for feature in ["prompts", "resources"] {
        let changed = stream.next().await.unwrap();
        assert_eq!(changed["method"], format!("notifications/{feature}/list_changed"));
    }
    let nothing = json!({"notifications": {}});
    let mut stream = client.stream("subscriptions/listen", nothing).await;
    stream.next().await.unwrap();
    app.mcp.prompts_changed();
    app.mcp.close();
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/cancelled");
}

#[tokio::test]
async fn a_slow_client_is_notified_for_all_its_subscriptions() {
    let app = app_with_features();
    let requested = json!({"promptsListChanged": true, "resourceSubscriptions": ["a:first"]});
    let params = json!({"notifications": requested});
    let client = app.client("reader", MODERN);
    let mut stream = client.stream("subscriptions/listen", params).await;
    stream.next().await.unwrap();
    for number in 0..1000 {
        app.mcp.resource_updated(&format!("a:{number}"));
    }
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/prompts/list_changed");
    assert_eq!(stream.next().await.unwrap()["params"]["uri"], "a:first");
}

#[tokio::test]
async fn concurrent_subscriptions_are_all_stored_up_to_the_limit() {
    let app = app_with_features();
    let client = app.client("reader", "2025-11-25").with_capabilities(json!({})).await;
    let subscribe = |uri: String| {
        let client = &client;
        async move { client.request("resources/subscribe", json!({"uri": uri})).await.status }
    };
    let all = ["a:1", "a:2", "a:3"].map(|uri| subscribe(uri.to_owned()));
    let level = client.request("logging/setLevel", json!({"level": "error"}));
    let [first, second, third] = all;
    tokio::join!(first, second, third, level);
    let session = client.session.clone().unwrap();
    let get = request("GET", "reader", "/mcp").header("accept", "text/event-stream");
    let get = get.header("mcp-session-id", &session).body(Body::empty()).unwrap();
    let mut stream = Stream::of(app.respond(get).await);
    for uri in ["a:1", "a:2", "a:3"] {
        app.mcp.resource_updated(uri);
        assert_eq!(stream.next().await.unwrap()["params"]["uri"], uri);
    }
    let long = json!({"uri": "x".repeat(17 * 1024)});
    assert_eq!(client.error("resources/subscribe", long).await, (200, -32602));
}

#[tokio::test]
async fn a_legacy_session_can_subscribe_to_resources() {
    let app = app_with_features();
    let client = app.client("reader", "2025-11-25").with_capabilities(json!({})).await;
    let get = |session: &str| {
        let request = request("GET", "reader", "/mcp").header("accept", "text/event-stream");
        request.header("mcp-session-id", session).body(Body::empty()).unwrap()
    };
    let session = client.session.clone().unwrap();
    let mut stream = Stream::of(app.respond(get(&session)).await);
    let subscribed = client.result("resources/subscribe", json!({"uri": "a:first"})).await;
    assert_eq!(subscribed, json!({}));
    app.mcp.resource_updated("a:other");
    app.mcp.resource_updated("a:first");
    assert_eq!(stream.next().await.unwrap()["params"], json!({"uri": "a:first"}));
    client.result("resources/unsubscribe", json!({"uri": "a:first"})).await;
    app.mcp.resource_updated("a:first");
    app.mcp.prompts_changed();
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/prompts/list_changed");
    let stateless = app.client("reader", "2025-11-25");
    let refused = stateless.error("resources/subscribe", json!({"uri": "a:first"})).await;
    assert_eq!(refused, (200, -32602));
    let plain = App::new();
    let plain = plain.client("reader", "2025-11-25").with_capabilities(json!({})).await;
    let refused = plain.error("resources/subscribe", json!({"uri": "a"})).await;
    assert_eq!(refused, (200, -32601));
}
