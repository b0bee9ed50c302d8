//! The order of precedence: defaults, then the file, then the environment, then flags.

use serde_json::json;

use super::support::{CommandOutput, TestDirectory};

#[test]
fn flags_override_the_environment_and_the_environment_overrides_the_file() {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", "database = \"sqlite:file.db\"\nrequire_auth = true\n");
    let server = dir.serve(&[]);
    assert_eq!(server.start["database"], "sqlite:file.db");
    assert_eq!(server.start["require_auth"], true);
    drop(server);
    let variables =
        [("CALLGATE_DATABASE", "sqlite:environment.db"), ("CALLGATE_REQUIRE_AUTH", "false")];
    let server = dir.serve_with(&variables, &[]);
    assert_eq!(server.start["database"], "sqlite:environment.db");
    assert_eq!(server.start["require_auth"], false);
    drop(server);
    let flags = ["--database", "sqlite:flag.db", "--require-auth"];
    let server = dir.serve_with(&variables, &flags);
    assert_eq!(server.start["database"], "sqlite:flag.db");
    assert_eq!(server.start["require_auth"], true);
}

#[test]
fn an_unknown_key_is_an_error_that_suggests_the_nearest_key() {
    let dir = TestDirectory::new();
    let mut failures = Vec::new();
    for text in [
        "listn = \"127.0.0.1:1\"",
        "[tables]\nprefx = \"a_\"",
        "[table]\nprefix = \"a_\"",
        "requireauth = true",
        "listen = [1]",
        "[log]\nlevel = \"info\"",
        "listen = \"nowhere\"",
        "max_body_bytes = 0",
        "preset = \"wordpress\"",
        "log_format = \"xml\"",
        "exposure = \"some\"",
        "[tables]\nprefix = \"a; drop\"",
        "zzz = 1",
        "allowed_origins = \"app.example.com\"",
        "allowed_origins = \"*, https://app.example.com/\"",
        "listen = ",
    ] {
        dir.write("callgate.toml", text);
        failures.push(dir.run(&["migrate"]).failure());
    }
    insta::assert_debug_snapshot!(failures);
    std::fs::remove_file(dir.path("callgate.toml")).unwrap();
    let output = dir.command(&["migrate"]).env("CALLGATE_LISEN", "x").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("did you mean `CALLGATE_LISTEN`"), "{stderr}");
    // Variables that Kubernetes sets for a service named `callgate` are ignored.
    let output = dir
        .command(&["migrate"])
        .env("CALLGATE_SERVICE_HOST", "10.0.0.1")
        .env("CALLGATE_PORT", "tcp://10.0.0.1:8080")
        .output()
        .unwrap();
    assert!(output.status.success());
    let (code, stderr) = dir.run(&["migrate", "--config", "none.toml"]).failure();
    assert_eq!(code, 1);
    assert!(stderr.contains("cannot read `none.toml`"), "{stderr}");
}

#[test]
fn an_unknown_table_is_an_error_that_suggests_the_nearest_table() {
    let dir = TestDirectory::new();
    let errors: String =
        ["upstream.default", "import.shop", "limit", "upstreams.shop.credentials", "zoo"]
            .map(|table| {
                dir.write("callgate.toml", &format!("[{table}]\nurl = \"http://localhost/\"\n"));
                dir.run(&["migrate"]).failure().1
            })
            .concat();
    insta::assert_snapshot!(errors);
}

#[test]
fn an_invalid_log_level_is_an_error() {
    let dir = TestDirectory::new();
    let stderr = |filter: &str| {
        dir.write("callgate.toml", &format!("log = \"{filter}\"\n"));
        dir.run(&["migrate"]).failure().1
    };
    insta::assert_snapshot!(stderr("debgu"), @"callgate: `log` in callgate.toml is `debgu`; expected `off`, `error`, `warn`, `info`, `debug` or `trace`, or a list such as `info,callgate=debug`");
    for invalid in ["info,debgu", "callgate=debgu", "callgate", "info,callgate=debug=x"] {
        assert!(
            stderr(invalid).contains(&format!("`log` in callgate.toml is `{invalid}`")),
            "{invalid}"
        );
    }
    std::fs::remove_file(dir.path("callgate.toml")).unwrap();
    // Commands that use no registry also check the key.
    let mut bridge = dir.command(&["bridge"]);
    let output = CommandOutput(bridge.env("CALLGATE_LOG", "debgu").output().unwrap());
    assert!(output.failure().1.contains("`log` in CALLGATE_LOG is `debgu`"), "{}", output.stderr());
    for filter in ["WARN", "5", "off", "info,callgate=debug", "callgate[call{id=1}]=trace,warn"] {
        let output = dir.command(&["migrate"]).env("CALLGATE_LOG", filter).output().unwrap();
        assert!(output.status.success(), "{filter}");
    }
}

#[test]
fn the_preset_festi_sets_tables_and_settings_and_requires_a_token() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--preset", "festi"]);
    assert_eq!(server.start["require_auth"], true);
    assert_eq!(server.get("", "/mcp/tools/list").status, 401);
    dir.sql(
        "callgate.db",
        "INSERT INTO festi_sections (caption, ident, mask) VALUES ('C', 'content', '6')",
    );
    // Other commands find the tables without the option `--preset`.
    let settings = dir.ok(&["setting", "list"]);
    assert_eq!(
        settings,
        "mcp_protocol_version=2025-06-18\nmcp_server_name=festi-mcp\nmcp_server_version=1.0.0\n\
         mcp_instructions=\nmcp_tools_prefix=FESTI_MCP\nmcp_page_size=1000\nmcp_list_ttl_ms=0\n\
         limit_requests_per_caller=\nlimit_requests=\nlimit_tools=\nopen_methods=\n"
    );
    assert!(dir.ok(&["section", "list"]).contains("content"));
    dir.ok(&["user", "add", "ada"]);
    let token = dir.ok(&["token", "add", "ada"]);
    server.wait_until("the token counts", |server| {
        server.get(token.trim(), "/mcp/tools/list").status == 200
    });
    drop(server);
    // A preset writes only settings that are missing.
    dir.ok(&["setting", "set", "mcp_server_name", "mine"]);
    let server = dir.serve(&["--preset", "festi"]);
    assert_eq!(server.get("", "/.well-known/mcp.json").json()["name"], "mine");
}

#[test]
fn the_preset_drupal_serves_only_marked_methods() {
    let dir = TestDirectory::new();
    let server = dir.serve(&["--preset", "drupal"]);
    dir.sql(
        "callgate.db",
        "INSERT INTO rpc_methods (rpc_method, exposed) VALUES ('marked', 1), ('silent', NULL)",
    );
    server.wait_until("the marked one is listed", |server| server.tools("") == ["marked"]);
}

#[test]
fn invalid_settings_are_refused() {
    let dir = TestDirectory::migrated();
    let failures: Vec<_> = [
        ["mcp_protocol_version", "2020-01-01"],
        ["mcp_tools_prefix", "a::b"],
        ["mcp_nothing", "x"],
    ]
    .map(|[key, value]| dir.run(&["setting", "set", key, value]).failure())
    .into();
    insta::assert_debug_snapshot!(failures);
    assert_eq!(dir.ok(&["setting", "show", "mcp_tools_prefix"]), "\n");
    assert_eq!(json!(dir.run(&["setting", "show", "mcp_nothing"]).failure().0), 2);
}

#[test]
fn a_database_is_a_string_or_a_table() {
    let dir = TestDirectory::new();
    let database = "[database]\nurl = \"sqlite:table.db\"\nmax_connections = 2\n\
                    statement_timeout_seconds = 3\nload_timeout_seconds = 4\n";
    dir.write("callgate.toml", database);
    dir.ok(&["migrate"]);
    assert!(dir.path("table.db").exists());
    let mut failures = Vec::new();
    for text in [
        "[database]\nmax_connections = 0",
        "[database]\nconnect_timeout_seconds = 0",
        "[database]\npasswd = \"x\"",
        "[database]\nurl = \"postgres://ada@127.0.0.1:1/db\"\npassword_file = \"none\"",
    ] {
        dir.write("callgate.toml", text);
        failures.push(dir.run(&["migrate"]).failure());
    }
    insta::assert_debug_snapshot!(failures);
}

#[test]
fn a_password_on_the_command_line_causes_a_warning_that_omits_the_password() {
    let dir = TestDirectory::new();
    let url = "mysql://ada:hunter2@127.0.0.1:1/db";
    let mut warnings = Vec::new();
    for arguments in [
        &["migrate", "--database", url][..],
        &["registry", "copy", url, "sqlite:to.db"],
        &["registry", "copy", "sqlite:from.db", url],
    ] {
        let (_, stderr) = dir.run(arguments).failure();
        assert!(!stderr.contains("hunter2"), "{stderr}");
        warnings.push(stderr.lines().next().unwrap().to_owned());
    }
    insta::assert_debug_snapshot!(warnings);
    let mut command = dir.command(&["migrate", "--database", "mysql://ada@127.0.0.1:1/db"]);
    let output = command.env("CALLGATE_DATABASE_PASSWORD", "hunter2").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("warning") && !stderr.contains("hunter2"), "{stderr}");
}

#[test]
fn a_page_size_below_the_number_of_tools_causes_a_warning() {
    let dir = TestDirectory::migrated();
    for id in ["a.get", "b.get"] {
        dir.ok(&["method", "add", id, "--read-only"]);
    }
    dir.ok(&["method", "add", "c.get", "--read-only", "--hidden"]);
    let stderr = |size: &str| dir.run(&["setting", "set", "mcp_page_size", size]).stderr();
    let warning = "warning: a page has at most 1 of the 2 tools, and many clients read only the first page, so they \
                   do not see the other tools\n";
    assert_eq!(stderr("1"), format!("mcp_page_size=1\n{warning}"));
    assert_eq!(stderr("2"), "mcp_page_size=2\n");
}
