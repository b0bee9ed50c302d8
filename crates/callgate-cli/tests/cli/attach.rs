//! A Festi database that is attached and served unchanged.

mod servers;

use serde_json::json;

use super::fake::FakeService;
use super::support::{Server, TestDirectory};

const FESTI: &str = "festi.db";

/// The tables that Festi's own scripts create, with the rows of a small application.
const APPLICATION: &str = concat!(
    include_str!("../../../callgate-registry/tests/festi/sqlite.sql"),
    include_str!("../../../callgate-registry/tests/festi/application.sql"),
    "INSERT INTO users_types VALUES (1, 'admin'), (2, 'reader');
     INSERT INTO users VALUES (7, 1, 'root', 's3cret', 'token-of-root'),
         (123, 2, 'ada', 's3cret', 'token-of-ada'), (124, 2, 'bob', 's3cret', ''), (125, 2, 'eve', 's3cret', NULL);"
);

/// SQL statements of a Festi application, which define and grant access to a method.
const SECTION: &str = include_str!("../../../callgate-registry/tests/festi/section.sql");
const ACTION: &str = include_str!("../../../callgate-registry/tests/festi/action.sql");
const ROLE_GRANT: &str = include_str!("../../../callgate-registry/tests/festi/role_grant.sql");
const USER_GRANT: &str = include_str!("../../../callgate-registry/tests/festi/user_grant.sql");

const ATTACHED: [&str; 4] = ["--preset", "festi", "--attach", "sqlite:festi.db"];

fn application() -> TestDirectory {
    let dir = TestDirectory::new();
    dir.sql(FESTI, APPLICATION);
    dir.ok(&[&["migrate"], &ATTACHED[..]].concat());
    dir
}

fn serve_attached(dir: &TestDirectory, options: &[&str]) -> Server {
    dir.serve(&[&ATTACHED, options].concat())
}

fn lists_tool(server: &Server, token: &str, tool: &str) -> bool {
    server.tools(token).contains(&tool.to_owned())
}

fn status(server: &Server, token: &str) -> u16 {
    server.get(token, "/mcp/tools/list").status
}

fn run_ok(dir: &TestDirectory, arguments: &[&str]) -> String {
    dir.ok(&[arguments, &ATTACHED].concat())
}

fn run_refused(dir: &TestDirectory, arguments: &[&str]) -> String {
    let (code, stderr) = dir.run(&[arguments, &ATTACHED].concat()).failure();
    assert_eq!(code, 1, "{stderr}");
    stderr
}

#[test]
fn inserts_written_for_festi_change_the_tools_that_a_caller_sees() {
    let dir = application();
    dir.write("callgate.toml", "[attach]\nmethods_seconds = 1\n");
    let server = serve_attached(&dir, &[]);
    let (root, ada) = ("token-of-root", "token-of-ada");
    let visible =
        |server: &Server| [root, ada].map(|token| lists_tool(server, token, "deleteUser"));
    // The row names a section that does not exist, which closes the method.
    assert_eq!(server.tools(root), ["getProjects", "getUserInfo"]);
    for (sql, marker) in [(SECTION, "With a section."), (ACTION, "With an action.")] {
        dir.sql(FESTI, sql);
        // Nobody has a grant on the section yet. When this change of the description is visible,
        // the change above is visible too.
        dir.sql(
            FESTI,
            &format!(
                "UPDATE rpc_methods SET description = '{marker}' WHERE method = 'getUserInfo'"
            ),
        );
        server.wait_until("the insert counts", |server| {
            server.get(root, "/mcp/tools/list").body.contains(marker)
        });
        assert_eq!(visible(&server), [false, false]);
    }
    dir.sql(FESTI, ROLE_GRANT);
    server.wait_until("the role's grant counts", |server| visible(server) == [true, false]);
    dir.sql(FESTI, USER_GRANT);
    server.wait_until("the user's grant counts", |server| visible(server) == [true, true]);
    dir.sql(FESTI, "UPDATE festi_sections_user_permission SET value = 0");
    server.wait_until("a user's 0 denies", |server| !lists_tool(server, ada, "deleteUser"));
    dir.sql(
        FESTI,
        "INSERT INTO rpc_methods (plugin, method, rpc_method, params)
         VALUES ('Log', 'get', 'getLog', '[\"int[] $ids\"]')",
    );
    server.wait_until("the method is listed", |server| lists_tool(server, ada, "getLog"));
    dir.sql(FESTI, "DELETE FROM rpc_methods WHERE rpc_method = 'getLog'");
    server.wait_until("the method is gone", |server| !lists_tool(server, ada, "getLog"));
}

#[test]
fn a_festi_token_is_valid_in_either_header_until_it_is_replaced() {
    let dir = application();
    let server = serve_attached(&dir, &[]);
    assert_eq!([status(&server, "token-of-ada"), status(&server, "token-of-eve")], [200, 401]);
    assert_eq!(status(&server, ""), 401, "the preset needs a token");
    let status_with = |header: &str| {
        server.request_with("GET /mcp/tools/list", &format!("{header}\r\n"), "", "").status
    };
    assert_eq!(status_with("X-Authorization: token-of-ada"), 200);
    assert_eq!(
        [status_with("X-Authorization: nobodys"), status_with("X-Authorization: ")],
        [401, 401]
    );
    // The header `Authorization` may be meant for a proxy in front of the site.
    let basic = "Authorization: Basic YTpi";
    assert_eq!(status_with(&format!("{basic}\r\nX-Authorization: token-of-ada")), 200);
    assert_eq!(status_with(&format!("{basic}\r\nX-Authorization: nobodys")), 401);
    let bearer = "Authorization: Bearer nobodys";
    assert_eq!(
        [status_with(basic), status_with(&format!("{bearer}\r\nX-Authorization: token-of-ada"))],
        [401; 2]
    );
    assert_eq!(server.get("", "/mcp/tools/list?token=token-of-ada").status, 401);
    dir.sql(FESTI, "UPDATE users SET access_token = 'another' WHERE login = 'ada'");
    server.wait_until("the new token counts", |server| status(server, "another") == 200);
    server.wait_until("the old token is dead", |server| status(server, "token-of-ada") == 401);
    dir.sql(FESTI, "UPDATE users SET access_token = 'another' WHERE login = 'eve'");
    server.wait_until("what two have is nobody's", |server| status(server, "another") == 401);
}

#[test]
fn registry_tokens_authenticate_festi_users_and_calls_forward_the_callers_token() {
    let dir = application();
    let festi = FakeService::json_rpc(|method, params| Some(json!([method, params])));
    dir.write(
        "callgate.toml",
        &format!(
            "[upstreams.default]\nurl = \"{}\"\npass_caller = {{ token = \"X-Authorization\" }}\n",
            festi.url("/rpc/")
        ),
    );
    let registry_token = run_ok(&dir, &["token", "add", "ada"]);
    assert!(run_ok(&dir, &["token", "list"]).contains("ada"));
    let server = serve_attached(&dir, &[]);
    assert_eq!(server.tools(registry_token.trim()), ["getProjects", "getUserInfo"]);
    let header = "X-Authorization: token-of-ada\r\n";
    let body = json!({"name": "getUserInfo", "arguments": {"idUser": 5}}).to_string();
    let reply = server.request_with("POST /mcp/tools/invoke", header, "", &body);
    assert_eq!(
        reply.json()["result"],
        json!(["getUserInfo", {"idUser": 5, "includeDetails": false}])
    );
    assert_eq!(server.invoke("token-of-root", "getProjects", &json!({})).status, 200);
    let tokens = ["token-of-ada", "token-of-root"];
    for (request, token) in festi.log.requests().iter().zip(tokens) {
        assert!(request.head.contains(&format!("x-authorization: {token}")), "{}", request.head);
    }
    assert_eq!(festi.log.requests().len(), 2);
}

#[test]
fn settings_of_festi_take_precedence_over_those_of_the_registry() {
    let dir = application();
    let settings = run_ok(&dir, &["setting", "list"]);
    assert!(
        settings.contains("site") && settings.contains("FESTI_MCP") && !settings.contains("mail"),
        "{settings}"
    );
    run_ok(&dir, &["setting", "set", "mcp_tools_prefix", "SITE"]);
    insta::assert_snapshot!(run_refused(&dir, &["setting", "set", "mcp_server_name", "mine"]));
    let server = serve_attached(&dir, &[]);
    let name = || {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}});
        let headers =
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        let reply = server.request_with("POST /mcp", headers, "token-of-ada", &body.to_string());
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.body
    };
    assert!(name().contains("\"site\""));
    dir.sql(FESTI, "UPDATE festi_settings SET value = 'renamed' WHERE name = 'mcp_server_name'");
    server.wait_until("the setting counts", |_| name().contains("\"renamed\""));
}

#[test]
fn an_overlay_adds_to_festi_methods_and_registry_rows_take_precedence() {
    let dir = application();
    dir.write(
        "overlay.toml",
        r#"
        [[methods]]
        id = "getUserInfo"
        title = "Of the file"
        description = "Of the file."
        safety = "read_only"
        [[methods]]
        id = "gone"
        safety = "read_only"
        [types.User]
        fields = [{ name = "id", type = "int" }]
        "#,
    );
    let overlay = ["--overlay", "overlay.toml"];
    let run = |arguments: &[&str]| run_ok(&dir, &[arguments, &overlay].concat());
    run(&["method", "set", "getUserInfo", "--title", "Of ours", "--tool-name", "user_info"]);
    let stdout = run(&["method", "show", "getUserInfo", "--user", "ada"]);
    insta::assert_snapshot!(stdout);
    assert!(!run(&["method", "list"]).contains("gone"));
    run(&["method", "set", "getUserInfo", "--hidden"]);
    assert!(!run(&["lint", "--json"]).contains("user_info"));
    let removed = dir.run(&[&["method", "remove", "getUserInfo"], &ATTACHED[..]].concat());
    assert_eq!(
        removed.stderr(),
        "removed the changes to `getUserInfo`; Festi still has the method\n"
    );
    assert!(run_ok(&dir, &["method", "show", "getUserInfo"]).contains("Looks up a user."));
    // Changes in Festi apply to columns that no overlay sets.
    dir.sql(FESTI, "UPDATE rpc_methods SET description = 'Finds.' WHERE method = 'getUserInfo'");
    assert!(run_ok(&dir, &["method", "show", "getUserInfo"]).contains("Finds."));
}

#[test]
fn registry_methods_are_served_too_and_can_require_sections_of_either_database() {
    let dir = application();
    dir.sql(FESTI, SECTION);
    dir.sql(FESTI, ROLE_GRANT);
    let add = |id: &str, section: &str| run_ok(&dir, &["method", "add", id, "--section", section]);
    run_ok(&dir, &["section", "add", "reports"]);
    add("report.users", "user_management:execute");
    add("report.sales", "reports:read");
    run_ok(&dir, &["grant", "set", "--user", "ada", "reports", "read"]);
    let server = serve_attached(&dir, &[]);
    assert_eq!(server.tools("token-of-root"), ["getProjects", "getUserInfo", "report.users"]);
    assert_eq!(server.tools("token-of-ada"), ["getProjects", "getUserInfo", "report.sales"]);
}

#[test]
fn changes_of_festi_rows_are_refused_with_their_table() {
    let dir = application();
    dir.sql(FESTI, SECTION);
    let errors: Vec<String> = [
        &["user", "add", "carol"][..],
        &["grant", "set", "--user", "ada", "user_management", "read"],
        &["grant", "set", "--role", "admin", "user_management", "read"],
        &["section", "add", "user_management"],
        &["method", "add", "deleteUser"],
        &["method", "set", "deleteUser", "--section", "user_management:read"],
        &["method", "set", "deleteUser", "--description", ""],
        &["method", "remove", "deleteUser"],
    ]
    .iter()
    .map(|arguments| run_refused(&dir, arguments))
    .collect();
    insta::assert_snapshot!(errors.join(""));
}

#[test]
fn attach_errors_have_hints() {
    let dir = application();
    dir.sql("other.db", "CREATE TABLE rpc_methods (id INTEGER, rpc_method TEXT)");
    dir.sql("prefixed.db", APPLICATION);
    dir.sql("prefixed.db", "ALTER TABLE festi_section_actions RENAME TO my_section_actions");
    dir.sql("renamed.db", APPLICATION);
    for table in ["sections", "section_actions"] {
        dir.sql("renamed.db", &format!("ALTER TABLE festi_{table} RENAME TO my_{table}"));
    }
    dir.ok(&["migrate", "--database", "sqlite:users.db"]);
    dir.ok(&["user", "add", "carol", "--database", "sqlite:users.db"]);
    let errors: Vec<String> = [
        &["method", "list", "--preset", "festi", "--attach", "sqlite:none.db"][..],
        &["method", "list", "--preset", "festi", "--attach", "sqlite:other.db"],
        &["method", "list", "--preset", "festi", "--attach", "sqlite:prefixed.db"],
        &["method", "list", "--preset", "festi", "--attach", "sqlite:renamed.db"],
        &["method", "list", "--preset", "festi", "--attach", "oracle://ada:s3cret@host/site"],
        &["method", "list", "--attach", "sqlite:festi.db"],
        &["method", "list", "--overlay", "overlay.toml"],
        &[&["method", "list", "--database", "sqlite:users.db"], &ATTACHED[..]].concat(),
    ]
    .iter()
    .map(|arguments| {
        let (code, stderr) = dir.run(arguments).failure();
        assert_eq!(code, 1, "{stderr}");
        stderr
    })
    .collect();
    assert!(!errors.join("").contains("s3cret"));
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn registry_rows_can_be_changed_while_the_festi_database_is_unavailable() {
    let dir = application();
    run_ok(&dir, &["token", "add", "ada"]);
    std::fs::rename(dir.path(FESTI), dir.path("away.db")).unwrap();
    run_refused(&dir, &["token", "list"]);
    dir.allow_targets("localhost:9000");
    for command in [
        &["token", "remove", "1"][..],
        &["key", "rotate", "--now"],
        &["key", "list"],
        &["upstream", "set", "php", "url=http://localhost:9000/rpc"],
        &["upstream", "list"],
        &["upstream", "show", "php"],
    ] {
        run_ok(&dir, command);
    }
    let removed =
        dir.run(&[&["upstream", "remove", "php"], &ATTACHED[..]].concat()).expect_success();
    assert!(removed.stderr().contains("note: failed to count the methods that use `php`"));
}

#[test]
fn a_registry_that_belongs_to_festi_is_not_served_alone_and_has_no_users() {
    let dir = application();
    // The hint of this error names the same registry and Festi database.
    let output = dir.run_with(&[&["serve", "--stdio"], &ATTACHED[..]].concat(), "");
    let stderr = output.stderr();
    let hint = "callgate token add USER --database sqlite:callgate.db --preset festi --attach \
                sqlite:festi.db";
    assert!(stderr.contains(hint), "{stderr}");
    let import = ["import", "festi", "sqlite:festi.db", "--users"];
    let errors = [
        dir.run(&["serve"]).failure(),
        dir.run(&["call", "removeUser"]).failure(),
        dir.run(&["user", "add", "carol"]).failure(),
        dir.run(&import).failure(),
        dir.run(&[&import, &ATTACHED[..]].concat()).failure(),
    ]
    .map(|(code, stderr)| format!("{code}: {stderr}"));
    insta::assert_snapshot!(errors.join(""));
    run_ok(&dir, &["token", "add", "ada"]);
}

#[test]
fn a_password_in_the_url_of_a_festi_database_causes_a_warning() {
    let dir = TestDirectory::new();
    let url = "mysql://ada:s3cret@127.0.0.1:1/site";
    let attached = dir.run(&["method", "list", "--preset", "festi", "--attach", url]).stderr();
    let imported = dir.run(&["import", "festi", url]).stderr();
    assert!(!attached.contains("s3cret") && !imported.contains("s3cret"));
    let warning = "warning: other users of this machine can see the password in";
    let expected = format!("{warning} `--attach`; set `CALLGATE_ATTACH_PASSWORD` or");
    assert!(attached.contains(&expected), "{attached}");
    let expected = format!("{warning} the URL of the source; give `--password-file` instead");
    assert!(imported.contains(&expected), "{imported}");
}

#[test]
fn nothing_is_written_to_the_festi_database_and_no_secret_is_printed() {
    let dir = application();
    // The tool name of this method differs from its id, so it is stored. It is stored in the
    // registry.
    dir.sql(
        FESTI,
        "INSERT INTO rpc_methods (plugin, method, rpc_method) VALUES ('A', 'b', 'a.b c')",
    );
    let before = std::fs::read(dir.path(FESTI)).unwrap();
    let server = serve_attached(&dir, &[]);
    assert!(lists_tool(&server, "token-of-ada", "a.b c"));
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("s3cret") && !log.contains("token-of"), "{log}");
    for command in [&["lint"][..], &["export"], &["method", "list"], &["user", "list"]] {
        let output = dir.run(&[command, &ATTACHED].concat());
        let text = format!("{}{}", output.stdout(), output.stderr());
        assert!(!text.contains("s3cret") && !text.contains("token-of"), "{text}");
    }
    assert_eq!(std::fs::read(dir.path(FESTI)).unwrap(), before);
}
