//! `callgate serve --demo`

use serde_json::{Value, json};

use super::bridge::Bridge;
use super::support::TestDirectory;

#[test]
fn tools_that_a_user_may_not_call_are_not_listed_and_are_404() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let (admin, reader) = (server.token("admin"), server.token("reader"));
    assert_eq!(
        server.tools(&admin),
        [
            "cache.rebuild",
            "content.article.create",
            "content.article.delete",
            "content.article.markdown",
            "content.articles.list",
            "content.types.list",
            "report.projects",
            "report.yearly",
            "user.get",
        ]
    );
    assert_eq!(
        server.tools(&reader),
        [
            "content.article.markdown",
            "content.articles.list",
            "content.types.list",
            "report.projects",
            "report.yearly",
        ]
    );
    assert_eq!(server.tools(""), ["content.types.list"]);
    let denied = server.invoke(&reader, "content.article.delete", &json!({"id": 1}));
    assert_eq!(denied.status, 404);
    assert_eq!(
        denied.body,
        r#"{"error":{"code":"tool_not_found","message":"Tool 'content.article.delete' not found or access denied"}}"#
    );
}

#[test]
fn a_created_article_is_listed_by_the_next_call() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let admin = server.token("admin");
    let call = |name: &str, arguments: Value| {
        let reply = server.invoke(&admin, name, &arguments);
        (reply.status, reply.json()["result"].clone())
    };
    let total = |page: &Value| page["total"].as_i64().unwrap();
    let (_, before) = call("content.articles.list", json!({"limit": 5}));
    assert_eq!(before["items"].as_array().unwrap().len(), 5);
    let (status, created) = call("content.article.create", json!({"title": "New", "body": "Text"}));
    assert_eq!((status, &created["author"]), (200, &json!("admin")));
    let last_page = json!({"limit": 1, "offset": total(&before)});
    let (_, after) = call("content.articles.list", last_page);
    assert_eq!((total(&after), &after["items"][0]["title"]), (total(&before) + 1, &json!("New")));
    let id = json!({"id": created["id"]});
    assert_eq!(call("content.article.markdown", id.clone()).1, "# New\n\nText\n\n*admin*\n");
    assert_eq!(call("content.article.delete", id.clone()), (200, json!(true)));
    let second_deletion = server.invoke(&admin, "content.article.delete", &id);
    assert_eq!(
        (second_deletion.status, &second_deletion.json()["error"]["code"]),
        (500, &json!("execution_error"))
    );
}

#[test]
fn methods_of_the_demo_return_the_expected_results() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--demo"]);
    let admin = server.token("admin");
    let result = |name: &str, arguments: Value| {
        server.invoke(&admin, name, &arguments).json()["result"].clone()
    };
    assert_eq!(result("cache.rebuild", json!({})), true);
    assert_eq!(result("content.types.list", json!({}))[0]["id"], "article");
    assert_eq!(
        result("user.get", json!({"id_user": 1})),
        json!({"id": 1, "name": "Ada Lindqvist"})
    );
    let details = result("user.get", json!({"id_user": 1, "include_details": true}));
    assert_eq!(details["roles"], json!(["administrator"]));
    let report = result("report.projects", json!({}));
    assert_eq!((&report["title"], &report["articles"]), (&json!("Projects"), &json!(12)));
    insta::assert_json_snapshot!(server.get(&admin, "/mcp/tools/list").json());
}

#[test]
fn each_start_replaces_demo_tokens_and_keeps_other_changes() {
    let dir = TestDirectory::new();
    let first = dir.serve(&["--demo"]);
    let old_token = first.token("reader");
    let added_token = dir.ok(&["token", "add", "reader", "--database", "sqlite:callgate-demo.db"]);
    dir.ok(&[
        "grant",
        "set",
        "--role",
        "reader",
        "content",
        "write",
        "--database",
        "sqlite:callgate-demo.db",
    ]);
    drop(first); // killed
    let second = dir.serve(&["--demo"]);
    assert_ne!(second.token("reader"), old_token);
    assert_eq!(second.get(&old_token, "/mcp/tools/list").status, 401);
    assert_eq!(second.get(added_token.trim(), "/mcp/tools/list").status, 200, "not named demo");
    assert!(second.tools(&second.token("reader")).contains(&"content.article.create".to_owned()));
}

#[test]
fn sections_of_code_exist_after_each_start() {
    let dir = TestDirectory::new();
    drop(dir.serve(&["--demo"]));
    dir.sql("callgate-demo.db", "DELETE FROM sections WHERE ident = 'system'");
    let server = dir.serve(&["--demo"]);
    let sections = dir.ok(&["section", "list", "--database", "sqlite:callgate-demo.db"]);
    assert!(sections.contains("system"), "{sections}");
    // The grant was on the removed section. A new section with the same name starts without grants.
    assert!(!server.tools(&server.token("admin")).contains(&"cache.rebuild".to_owned()));
}

#[test]
fn the_demo_refuses_a_registry_that_it_did_not_create() {
    let dir = TestDirectory::new();
    dir.ok(&["migrate", "--database", "sqlite:mine.db"]);
    dir.ok(&["user", "add", "ada", "--database", "sqlite:mine.db"]);
    let output =
        dir.run(&["serve", "--demo", "--database", "sqlite:mine.db", "--listen", "127.0.0.1:0"]);
    insta::assert_debug_snapshot!(output.failure());
}

#[test]
fn the_start_of_the_demo_prints_address_tokens_and_examples() {
    use std::io::{BufRead as _, BufReader};
    let dir = TestDirectory::new();
    let mut child = dir
        .command(&["serve", "--demo", "--listen", "127.0.0.1:0"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        lines.push(line.unwrap());
        // The end of the part to paste.
        if lines.last().is_some_and(|line| line == "}") {
            break;
        }
    }
    let start = lines.iter().position(|line| line == "{").unwrap();
    let configuration: Value = serde_json::from_str(&lines[start..].join("\n")).unwrap();
    let server = &configuration["mcpServers"]["callgate-demo"];
    let mut command = std::process::Command::new(server["command"].as_str().unwrap());
    let arguments = server["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
    let token = server["env"]["CALLGATE_TOKEN"].as_str().unwrap();
    command.args(arguments).env("CALLGATE_TOKEN", token);
    let mut bridge = Bridge::start(command);
    bridge.initialize();
    let params = json!({"name": "user_get", "arguments": {"id_user": 2}});
    let response = bridge.request(2, "tools/call", &params);
    assert!(response.to_string().contains("Ravi Menon"), "{response}");
    child.kill().unwrap();
    child.wait().unwrap();
    for line in lines.iter_mut().filter(|line| line.contains("\"command\"")) {
        *line = "      \"command\": \"PROGRAM\",".to_owned();
    }
    let port = lines[0].rsplit(':').next().unwrap();
    let text = lines.join("\n").replace(port, "PORT");
    let text: Vec<String> = text
        .split_inclusive(['\n', ' ', '=', '"'])
        .map(|part| {
            if part.starts_with("cg_") { format!("TOKEN{}", &part[46..]) } else { part.to_owned() }
        })
        .collect();
    insta::assert_snapshot!(text.concat());
}
