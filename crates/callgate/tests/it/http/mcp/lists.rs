//! Handshakes, lists and resources in each revision.

use callgate::gateway::Settings;

use super::*;
use crate::log::capture_logs;

fn set(app: &App, key: &str, value: &str) {
    let mut settings = Settings::clone(&app.gateway.settings());
    settings.set(key, value).unwrap();
    app.gateway.set_settings(Arc::new(settings));
}

fn names(result: &Value) -> Vec<String> {
    let tools = result["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn initialize_negotiates_a_revision_and_names_the_server() {
    let (app, _) = app();
    set(&app, "mcp_server_name", "acme");
    set(&app, "mcp_server_version", "7");
    let mut agreed = Vec::new();
    for requested in [&REVISIONS[..], &["1999-01-01", "nonsense"]].concat() {
        let params = json!({"protocolVersion": requested, "capabilities": {}, "clientInfo": {}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let result = app.post("reader", "/mcp", body.to_string()).await.json()["result"].clone();
        assert_eq!(result["serverInfo"], json!({"name": "acme", "version": "7"}));
        assert!(result.get("resultType").is_none() && result.get("_meta").is_none());
        agreed.push((requested, result["protocolVersion"].as_str().unwrap().to_owned()));
    }
    insta::assert_debug_snapshot!(agreed);
    let missing = app.client("reader", "2025-06-18").error("initialize", json!({})).await;
    assert_eq!(missing, (200, -32602));
}

#[tokio::test]
async fn discover_returns_versions_capabilities_and_instructions() {
    let (app, _) = app();
    insta::assert_json_snapshot!(app.client("", MODERN).result("server/discover", json!({})).await);
    let legacy = app.client("", "2025-11-25").error("server/discover", json!({})).await;
    assert_eq!(legacy, (200, -32601));
}

#[tokio::test]
async fn tools_have_the_format_of_the_revision() {
    let (app, _) = app();
    let mut shapes = Vec::new();
    for revision in REVISIONS {
        let mut result = app.client("reader", revision).result("tools/list", json!({})).await;
        let tools = result["tools"].as_array().unwrap().clone();
        let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap().clone();
        result["tools"] = json!([tool("shape_object"), tool("shape_list")]);
        shapes.push(json!({revision: result}));
    }
    insta::assert_json_snapshot!(shapes);
}

#[tokio::test]
async fn the_prefix_is_in_the_list_and_in_the_call() {
    let (app, slow) = app();
    let mut builder = CatalogBuilder::new("ACME".parse().unwrap(), None);
    for method in tools(&slow).methods() {
        builder.add(method.clone(), 0, &Types::default(), []);
    }
    app.gateway.set_catalog(Arc::new(builder.finish()));
    for revision in REVISIONS {
        let client = app.client("reader", revision);
        let result = client.result("tools/list", json!({})).await;
        assert!(names(&result).iter().all(|name| name.starts_with("ACME__")), "{result}");
        client.call("ACME__shape_object", json!({})).await;
        let bare = client.error("tools/call", json!({"name": "shape_object"})).await;
        assert_eq!(bare, (200, -32602));
    }
}

#[tokio::test]
async fn mcp_accepts_the_tool_name_and_not_the_method_id() {
    let (app, _) = app();
    for revision in REVISIONS {
        let client = app.client("reader", revision);
        client.call("shape_object", json!({})).await;
        let by_id = client.error("tools/call", json!({"name": "shape.object"})).await;
        assert_eq!(by_id, (200, -32602));
    }
}

#[tokio::test]
async fn following_the_cursors_lists_each_tool_once() {
    let (app, _) = app();
    let all = names(&app.client("admin", MODERN).result("tools/list", json!({})).await);
    set(&app, "mcp_page_size", "4");
    for revision in REVISIONS {
        let client = app.client("admin", revision);
        let (mut listed, mut cursors, mut cursor) = (Vec::new(), Vec::new(), String::new());
        loop {
            let page = client.result("tools/list", json!({"cursor": cursor})).await;
            assert!(names(&page).len() <= 4);
            listed.extend(names(&page));
            let Some(next) = page.get("nextCursor") else { break };
            cursor = next.as_str().unwrap().to_owned();
            assert!(!cursors.contains(&cursor), "no cursor is repeated");
            cursors.push(cursor.clone());
        }
        assert_eq!(listed, all);
        assert_eq!(cursors.len(), all.len().div_ceil(4) - 1);
    }
}

#[tokio::test]
async fn each_tool_after_the_cursor_is_listed_once_if_the_catalog_changes_between_pages() {
    let numbered = |numbers: &[usize]| {
        numbers.iter().map(|number| method(&format!("m{number:02}"))).collect::<Vec<_>>()
    };
    let app = App::with(many(1), HttpOptions::default());
    set(&app, "mcp_page_size", "2");
    app.gateway.set_catalog(Arc::new(catalog_of(&numbered(&[10, 20, 30, 40]))));
    let client = app.client("reader", "2025-06-18");
    let first = client.result("tools/list", json!({})).await;
    assert_eq!(names(&first), ["m10", "m20"]);
    // The last listed method is removed, and others are added before and after it.
    app.gateway.set_catalog(Arc::new(catalog_of(&numbered(&[5, 10, 15, 25, 30, 40]))));
    let second = client.result("tools/list", json!({"cursor": first["nextCursor"]})).await;
    assert_eq!(names(&second), ["m25", "m30"]);
    let third = client.result("tools/list", json!({"cursor": second["nextCursor"]})).await;
    assert_eq!(names(&third), ["m40"]);
    assert!(third.get("nextCursor").is_none());
}

#[tokio::test]
async fn an_invalid_cursor_is_refused() {
    let (app, _) = app();
    for revision in REVISIONS {
        let client = app.client("reader", revision);
        for cursor in [json!("bogus"), json!("NTA="), json!("MTo"), json!(7), json!(null)] {
            let params = json!({"cursor": cursor});
            assert_eq!(client.error("tools/list", params).await, (200, -32602), "{cursor}");
        }
        for method in ["resources/list", "prompts/list", "resources/templates/list"] {
            let params = json!({"cursor": "bogus"});
            assert_eq!(client.error(method, params).await, (200, -32602), "{method}");
            client.result(method, json!({"cursor": ""})).await;
        }
    }
}

#[tokio::test]
async fn a_page_has_at_most_four_mebibytes() {
    let methods: Vec<Method> = (0..50)
        .map(|number| method(&format!("m{number:02}")).description("x".repeat(100_000)))
        .collect();
    let app = App::with(many(1), HttpOptions::default());
    app.gateway.set_catalog(Arc::new(catalog_of(&methods)));
    let client = app.client("reader", MODERN);
    let reply = client.request("tools/list", json!({})).await;
    assert!(reply.text.len() < 4 * 1024 * 1024 + 1024);
    assert_eq!(names(&reply.json()["result"]).len(), 41);
    assert!(reply.json()["result"]["nextCursor"].is_string());
}

#[tokio::test]
async fn instructions_summarise_the_tools_of_the_caller_unless_settings_replace_them() {
    let app = App::new();
    let mut instructions = Vec::new();
    for caller in ["", "reader", "admin"] {
        let legacy = app.client(caller, "2025-06-18").initialize().await;
        let modern = app.client(caller, MODERN).result("server/discover", json!({})).await;
        assert_eq!(legacy["instructions"], modern["instructions"]);
        assert_eq!(modern["cacheScope"], "private", "the text depends on the caller");
        instructions.push(format!("{caller}: {}", modern["instructions"].as_str().unwrap()));
    }
    insta::assert_debug_snapshot!(instructions);
    set(&app, "mcp_instructions", "Amounts are in cents.");
    let configured = app.client("reader", MODERN).result("server/discover", json!({})).await;
    assert_eq!(
        (&configured["instructions"], &configured["cacheScope"]),
        (&json!("Amounts are in cents."), &json!("public"))
    );
}

#[tokio::test]
async fn instructions_of_many_tools_fit_into_512_characters() {
    let app = App::with(many(1), HttpOptions::default());
    let methods: Vec<Method> =
        (0..900).map(|number| method(&format!("subject_number_{number}.get"))).collect();
    let methods: Vec<Method> =
        methods.into_iter().chain((0..900).map(|number| method(&format!("s{number}.a")))).collect();
    app.gateway.set_catalog(Arc::new(catalog_of(&methods)));
    let text = app.client("reader", "2025-06-18").initialize().await["instructions"].to_string();
    assert!(text.len() < 512, "{text}");
    assert!(text.contains("1800 tools, 1800 read-only. Subjects: subject (900), "), "{text}");
    assert!(text.contains(" more."), "{text}");
}

#[tokio::test]
async fn a_session_that_does_not_follow_the_cursor_is_logged_once() {
    let (app, _) = app();
    set(&app, "mcp_page_size", "4");
    let (log, _guard) = capture_logs();
    let warnings = || log.text().matches("did not follow `nextCursor`").count();
    let mut complete = app.client("reader", "2025-06-18");
    complete.initialize().await;
    let page = complete.result("tools/list", json!({})).await;
    complete.result("tools/list", json!({"cursor": page["nextCursor"]})).await;
    complete.call("shape_object", json!({})).await;
    assert_eq!(warnings(), 0);
    let mut incomplete = app.client("reader", "2025-06-18");
    incomplete.initialize().await;
    incomplete.call("shape_object", json!({})).await;
    assert_eq!(warnings(), 0, "this session has not listed any tools");
    for _ in 0..2 {
        incomplete.result("tools/list", json!({})).await;
        incomplete.call("shape_object", json!({})).await;
        assert_eq!(warnings(), 1);
    }
    assert!(log.text().contains("user=\"reader\""), "{}", log.text());
}

#[tokio::test]
async fn the_log_names_client_version_and_revision() {
    let (app, _) = app();
    let (log, _guard) = capture_logs();
    app.client("reader", "2025-06-18").initialize().await;
    let info = json!({"name": "modern\n", "version": "2"});
    let params = json!({"_meta": {"io.modelcontextprotocol/clientInfo": info}});
    app.client("", MODERN).result("server/discover", params).await;
    let lines = log.text();
    let lines: Vec<&str> = lines.lines().filter(|line| line.contains("client connected")).collect();
    let [legacy, modern] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(legacy.contains("DEBUG"), "{legacy}");
    for part in ["client=\"test\"", "version=\"1\"", "revision=2025-06-18", "user=\"reader\""] {
        assert!(legacy.contains(part), "{legacy}");
    }
    assert!(modern.contains("client=\"modern\\n\"") && modern.contains("revision=2026-07-28"));
}

#[tokio::test]
async fn only_modern_lists_have_a_time_to_live() {
    let (app, _) = app();
    set(&app, "mcp_list_ttl_ms", "5000");
    let methods = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"];
    for method in methods {
        let modern = app.client("reader", MODERN).result(method, json!({})).await;
        assert_eq!(modern["ttlMs"], 5000, "{method}");
        assert_eq!(modern["cacheScope"], "private");
        assert_eq!(modern["resultType"], "complete");
        for revision in &REVISIONS[..4] {
            let legacy = app.client("reader", revision).result(method, json!({})).await;
            for member in ["ttlMs", "cacheScope", "resultType", "_meta"] {
                assert!(legacy.get(member).is_none(), "{revision} {method} {member}");
            }
        }
    }
}

#[tokio::test]
async fn the_tools_are_also_a_resource() {
    let (app, _) = app();
    for revision in REVISIONS {
        let client = app.client("reader", revision);
        let list = client.result("resources/list", json!({})).await;
        assert_eq!(list["resources"].as_array().unwrap().len(), 1);
        assert_eq!(list["resources"][0]["name"], "tools");
        let uri = list["resources"][0]["uri"].clone();
        let read = client.result("resources/read", json!({"uri": uri})).await;
        let text: Value =
            serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
        let tools = client.result("tools/list", json!({})).await;
        assert_eq!(text, json!({"tools": tools["tools"]}));
        let other = client.error("resources/read", json!({"uri": "callgate://other"})).await;
        assert_eq!(other, (200, if revision == MODERN { -32602 } else { -32002 }));
    }
}

#[tokio::test]
async fn the_list_of_prompts_is_empty_by_default() {
    let (app, _) = app();
    for revision in REVISIONS {
        let client = app.client("reader", revision);
        assert_eq!(client.result("prompts/list", json!({})).await["prompts"], json!([]));
        assert_eq!(client.error("prompts/get", json!({"name": "x"})).await, (200, -32602));
    }
}

#[tokio::test]
async fn methods_that_a_revision_lacks_are_not_found() {
    let (app, _) = app();
    for method in ["ping", "logging/setLevel", "resources/subscribe", "tasks/list", "nonsense"] {
        assert_eq!(
            app.client("", MODERN).error(method, json!({})).await,
            (404, -32601),
            "{method}"
        );
    }
    let legacy = app.client("", "2025-06-18");
    for method in ["subscriptions/listen", "completion/complete", "nonsense"] {
        assert_eq!(legacy.error(method, json!({})).await, (200, -32601), "{method}");
    }
    assert_eq!(legacy.result("ping", json!({})).await, json!({}));
    assert_eq!(legacy.result("logging/setLevel", json!({"level": "info"})).await, json!({}));
    assert_eq!(legacy.error("logging/setLevel", json!({"level": "loud"})).await, (200, -32602));
    let level = json!({"_meta": {"io.modelcontextprotocol/logLevel": "loud"}});
    let unknown = app.client("", MODERN).error("nonsense", level.clone()).await;
    assert_eq!(unknown, (404, -32601), "the method is checked before the level");
    assert_eq!(app.client("", MODERN).error("tools/list", level).await, (200, -32602));
}

#[tokio::test]
async fn a_session_keeps_its_revision_when_the_newest_offered_revision_is_lowered() {
    let (app, _) = app();
    let mut client = app.client("reader", "2025-11-25");
    client.initialize().await;
    set(&app, "mcp_protocol_version", "2025-03-26");
    let tools = client.result("tools/list", json!({})).await;
    assert!(tools["tools"].as_array().unwrap().iter().any(|tool| tool.get("title").is_some()));
    client.session = None;
    assert_eq!(client.error("tools/list", json!({})).await, (400, -32600), "without a session");
}

#[tokio::test]
async fn the_newest_offered_revision_limits_both_eras() {
    let (app, _) = app();
    set(&app, "mcp_protocol_version", "2025-03-26");
    assert_eq!(app.client("", MODERN).error("server/discover", json!({})).await, (400, -32600));
    let newest = app.client("", "2025-11-25").initialize().await;
    assert_eq!(newest["protocolVersion"], "2025-03-26");
    let oldest = app.client("", "2024-11-05").initialize().await;
    assert_eq!(oldest["protocolVersion"], "2024-11-05");
    assert_eq!(app.client("", "2025-06-18").error("ping", json!({})).await, (400, -32600));
    let tools = app.client("", "2025-03-26").result("tools/list", json!({})).await;
    assert!(tools["tools"].as_array().unwrap().iter().all(|tool| tool.get("title").is_none()));
    let discovery = app.get("", "/.well-known/mcp.json").await.json();
    assert_eq!(discovery["protocol_versions"], json!(["2024-11-05", "2025-03-26"]));
    assert_eq!(app.get("", "/mcp/tools/list").await.status, 200, "REST ignores revisions");
}
