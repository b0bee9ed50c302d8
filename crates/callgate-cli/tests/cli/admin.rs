//! The commands that administer a registry.

use serde_json::Value;

use super::support::TestDirectory;

#[test]
fn help_lists_commands_and_options() {
    let dir = TestDirectory::new();
    let mut help = String::new();
    for command in [
        &["--help"][..],
        &["serve", "--help"],
        &["method", "add", "--help"],
        &["token", "add", "--help"],
        &["grant", "set", "--help"],
    ] {
        help.push_str(&dir.ok(command));
        help.push_str("\n----\n");
    }
    insta::assert_snapshot!(help);
}

#[test]
fn usage_errors_exit_with_2_and_other_failures_with_1() {
    let dir = TestDirectory::new();
    for usage in [
        &["frobnicate"][..],
        &["serve", "--nope"],
        &["grant", "content", "read"],
        &["grant", "set", "content", "read"],
        &["grant"],
        &["setting", "show", "mcp_servername"],
        &["migrate", "--preset", "fest"],
        &["method", "add"],
    ] {
        assert_eq!(dir.run(usage).failure().0, 2, "{usage:?}");
    }
    insta::assert_debug_snapshot!(dir.run(&["user", "list"]).failure());
    assert!(!dir.path("callgate.db").exists(), "nothing is made by looking");
}

#[test]
fn a_method_cannot_change_the_sections_of_another_with_the_same_function() {
    let dir = TestDirectory::migrated();
    dir.ok(&["section", "add", "a"]);
    dir.ok(&["method", "add", "pay.run", "--section", "a:execute"]);
    let assert_refused = |arguments: &[&str]| {
        let (status, stderr) = dir.run(arguments).failure();
        assert_eq!(status, 1);
        let message = "has the same plugin `default` and function";
        assert!(stderr.contains(message) && stderr.contains("hint: remove one"), "{stderr}");
    };
    assert_refused(&["method", "add", "Pay.Run", "--section", "a:read"]);
    dir.ok(&["method", "add", "Pay.Run", "--section", "a:execute"]);
    assert_refused(&["method", "set", "Pay.Run", "--section", "a:read"]);
    assert_refused(&["method", "set", "Pay.Run", "--no-sections"]);
    dir.ok(&["method", "set", "Pay.Run", "--section", "a:execute", "--title", "Pay"]);
    for id in ["pay.run", "Pay.Run"] {
        let stdout = dir.ok(&["method", "show", id]);
        assert!(stdout.contains("section `a` needs execute"), "{stdout}");
    }
    dir.ok(&["method", "remove", "Pay.Run"]);
    dir.ok(&["method", "set", "pay.run", "--section", "a:read"]);
}

#[test]
fn the_strictest_of_several_masks_for_a_section_applies() {
    let dir = TestDirectory::migrated();
    dir.ok(&["section", "add", "a"]);
    let masks = ["--section", "a:execute", "--section", "a:read"];
    dir.ok(&[&["method", "add", "pay.run"], &masks[..]].concat());
    dir.ok(&["method", "add", "pay.list", "--section", "a:read"]);
    dir.ok(&[&["method", "set", "pay.list"], &masks[..]].concat());
    for id in ["pay.run", "pay.list"] {
        let stdout = dir.ok(&["method", "show", id]);
        assert!(stdout.contains("section `a` needs execute"), "{stdout}");
    }
}

#[test]
fn the_built_in_section_can_be_required_without_adding_it() {
    let dir = TestDirectory::migrated();
    dir.ok(&["method", "add", "a", "--section", "@authenticated:read"]);
    let stdout = dir.ok(&["method", "show", "a"]);
    assert!(stdout.contains("section `@authenticated` needs read"), "{stdout}");
}

#[test]
fn annotations_and_the_check_of_arguments_are_set_separately() {
    let dir = TestDirectory::migrated();
    let set = |arguments: &[&str]| {
        dir.ok(&[&["method"], arguments].concat());
        let stdout = dir.ok(&["method", "show", "a", "--json"]);
        let tool: Value = serde_json::from_str(&stdout).unwrap();
        let has_hint = tool["tool"]["annotations"].get("openWorldHint").is_some();
        (has_hint, !stdout.contains("its arguments are not checked"))
    };
    let hint = ["--annotations", r#"{"openWorldHint":true}"#];
    assert_eq!(set(&[&["add", "a", "--unchecked"], &hint[..]].concat()), (true, false));
    assert_eq!(set(&["set", "a", "--checked"]), (true, true));
    assert_eq!(set(&["set", "a", "--unchecked"]), (true, false));
    assert_eq!(set(&["set", "a", "--annotations", "{}"]), (false, false));
    assert_eq!(set(&[&["set", "a", "--checked"], &hint[..]].concat()), (true, true));
}

#[test]
fn earlier_spellings_of_commands_still_work() {
    let dir = TestDirectory::migrated();
    dir.ok(&["user", "add", "ada", "--role", "editors"]);
    dir.ok(&["section", "add", "content"]);
    dir.ok(&["method", "add", "a", "--section", "content:read"]);
    dir.ok(&["method", "edit", "a", "--title", "A"]);
    dir.ok(&["grant", "--role", "editors", "content", "read"]);
    dir.ok(&["grant", "content", "6", "--user", "ada"]);
    let stdout = dir.ok(&["method", "show", "a", "--caller", "ada"]);
    assert!(stdout.contains("ada: allowed"), "{stdout}");
    dir.ok(&["token", "create", "ada"]);
    dir.ok(&["token", "revoke", "1"]);
    dir.ok(&["settings", "set", "mcp_server_name", "shop"]);
    assert_eq!(dir.ok(&["settings", "get", "mcp_server_name"]), "shop\n");
    assert_eq!(dir.ok(&["settings", "get"]), dir.ok(&["setting", "list"]));
    dir.ok(&["keys", "rotate", "--now"]);
    assert_eq!(dir.ok(&["keys", "list"]), dir.ok(&["key", "list"]));
    dir.allow_targets("localhost");
    let output =
        dir.run_with(&["upstream", "set", "u", "--json"], r#"{"url":"http://localhost/"}"#);
    assert_eq!(output.0.status.code(), Some(0), "{}", output.stderr());
    dir.write("secret", "s");
    dir.ok(&["credential", "set", "ada", "u", "--file", "secret"]);
    dir.ok(&["--database", "sqlite:callgate.db", "user", "list"]);
}

#[test]
fn grants_are_listed_as_a_table_and_every_list_and_show_prints_json() {
    let dir = TestDirectory::migrated();
    dir.ok(&["user", "add", "ada", "--role", "editors"]);
    dir.ok(&["section", "add", "content"]);
    dir.ok(&["grant", "set", "--role", "editors", "content", "write"]);
    dir.ok(&["grant", "set", "--user", "ada", "content", "none"]);
    dir.allow_targets("localhost");
    dir.ok(&["upstream", "set", "shop", "url=http://localhost/"]);
    let mut stdout = String::new();
    for command in [
        &["grant", "list"][..],
        &["grant", "list", "--json"],
        &["setting", "list", "--json"],
        &["setting", "show", "mcp_server_name", "--json"],
        &["upstream", "show", "shop", "--json"],
        &["section", "list", "--json"],
        &["user", "list", "--json"],
    ] {
        stdout.push_str(&dir.ok(command).replace(env!("CARGO_PKG_VERSION"), "VERSION"));
    }
    insta::assert_snapshot!(stdout);
}

#[test]
fn completions_and_man_pages_are_generated() {
    let dir = TestDirectory::new();
    dir.write("callgate.toml", "not a configuration");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(dir.ok(&["completions", shell]).contains("callgate"), "{shell}");
    }
    dir.ok(&["man", "man"]);
    let page = std::fs::read_to_string(dir.path("man/callgate-method-set.1")).unwrap();
    assert!(page.contains("Change a method"), "{page}");
}

#[test]
fn a_token_is_the_only_output_on_stdout() {
    let dir = TestDirectory::migrated();
    dir.ok(&["user", "add", "ada", "--role", "editors"]);
    let output = dir.run(&["token", "add", "ada", "--name", "laptop", "--expires-in", "30d"]);
    let stdout = output.stdout();
    assert!(stdout.starts_with("cg_") && stdout.ends_with('\n') && stdout.len() == 47, "{stdout}");
    assert!(!output.stderr().contains(stdout.trim()));
    assert!(
        output.stderr().contains("created token 1 for `ada`; the token expires at 20"),
        "{}",
        output.stderr()
    );
    let stderr = dir.run(&["token", "add", "ada"]).stderr();
    assert!(stderr.contains("for `ada`; the token does not expire, and"), "{stderr}");
    let listed = dir.ok(&["token", "list"]);
    assert!(listed.contains("laptop") && !listed.contains(stdout.trim()), "{listed}");
    assert_eq!(dir.run(&["token", "add", "bob"]).failure().0, 1);
}

#[test]
fn a_method_is_added_shown_changed_and_removed() {
    let dir = TestDirectory::migrated();
    dir.ok(&["section", "add", "content", "--caption", "Content"]);
    let added = dir.run(&[
        "method",
        "add",
        "user.get",
        "--title",
        "Get user",
        "--description",
        "Looks up a user.",
        "--param",
        "int $id_user",
        "--param",
        "bool $include_details = false",
        "--returns",
        "User",
        "--read-only",
        "--section",
        "content:read",
        "--upstream",
        "php",
    ]);
    assert_eq!(added.0.status.code(), Some(0), "{}", added.stderr());
    let mut outputs = added.stderr();
    outputs.push_str(&dir.ok(&["method", "list"]));
    dir.ok(&["user", "add", "ada", "--role", "editors"]);
    outputs.push_str(&dir.ok(&["method", "show", "user.get", "--user", "ada"]));
    dir.ok(&["grant", "set", "--role", "editors", "content", "write"]);
    outputs.push_str(&dir.ok(&["method", "show", "user.get", "--user", "ada", "--json"]));
    dir.ok(&["method", "set", "user.get", "--destructive", "--no-sections", "--hidden"]);
    outputs.push_str(&dir.ok(&["method", "show", "user.get"]));
    outputs.push_str(&dir.ok(&["method", "list", "--json"]));
    insta::assert_snapshot!(outputs);
    dir.ok(&["method", "remove", "user.get"]);
    assert_eq!(dir.run(&["method", "show", "user.get"]).failure().0, 1);
}

#[test]
fn invalid_definitions_are_refused_and_nothing_is_written() {
    let dir = TestDirectory::migrated();
    dir.ok(&["method", "add", "there"]);
    let failures: Vec<_> = [
        &["method", "add", "there"][..],
        &["method", "add", " "],
        &["method", "add", "m", "--param", "self $x"],
        &["method", "add", "m", "--param", "int $a", "--param", "int $a"],
        &["method", "add", "m", "--returns", "A&B"],
        &["method", "add", "m", "--annotations", "[1]"],
        &["method", "add", "m", "--input-schema", "{\"type\":\"array\"}"],
        &["method", "add", "m", "--tool-name", "a.b"],
        &["method", "add", "m", "--section", "gone:read"],
        &["method", "set", "m", "--title", "T"],
        &["section", "add", ""],
        &["user", "add", "a\nb"],
    ]
    .iter()
    .map(|arguments| dir.run(arguments).failure())
    .collect();
    insta::assert_debug_snapshot!(failures);
    assert_eq!(dir.ok(&["method", "list", "--json"]).lines().count(), 1);
    assert_eq!(dir.run(&["method", "add", "m", "--section", "content"]).failure().0, 2);
}

#[test]
fn lists_are_tables_or_lines_of_json() {
    let dir = TestDirectory::migrated();
    dir.ok(&["user", "add", "ada", "--role", "editors"]);
    dir.ok(&["user", "add", "bob"]);
    dir.ok(&["section", "add", "content"]);
    let mut listed = String::new();
    for arguments in [
        &["user", "list"][..],
        &["user", "list", "--json"],
        &["section", "list"],
        &["section", "list", "--json"],
        &["token", "list"],
    ] {
        listed.push_str(&dir.ok(arguments));
        listed.push_str("--\n");
    }
    insta::assert_snapshot!(listed);
}

#[test]
fn errors_of_unsupported_and_unreachable_databases_contain_no_password() {
    let dir = TestDirectory::new();
    // An unsupported database, and a port on which no server listens.
    for (url, expected) in [
        ("oracle://ada:hunter2@localhost/db", "sqlite:PATH"),
        ("postgres://ada:hunter2@127.0.0.1:1/db", "`postgres://ada@127.0.0.1:1/db`"),
    ] {
        let (code, stderr) = dir.run(&["migrate", "--database", url]).failure();
        assert_eq!(code, 1);
        assert!(stderr.contains(expected) && !stderr.contains("hunter2"), "{stderr}");
    }
}

#[test]
fn methods_of_code_cannot_be_opened_or_redefined() {
    let dir = TestDirectory::new();
    drop(dir.serve(&["--demo"]));
    let database = ["--database", "sqlite:callgate-demo.db"];
    let run = |arguments: &[&str]| dir.run(&[arguments, &database].concat());
    let refused = run(&["method", "set", "content.article.delete", "--no-sections"]);
    insta::assert_debug_snapshot!(refused.failure());
    assert_eq!(run(&["method", "set", "user.get", "--param", "int $x"]).failure().0, 1);
    dir.sql("callgate-demo.db", "DELETE FROM section_actions");
    let stdout = run(&["method", "show", "cache.rebuild", "--user", "reader"]).stdout();
    assert!(!stdout.contains("open to every") && !stdout.contains("allowed"), "{stdout}");
    let removed = run(&["method", "remove", "cache.rebuild"]).stderr();
    assert!(removed.contains("still serves it"), "{removed}");
}

#[test]
fn an_edit_of_the_upstream_does_not_open_a_method() {
    let dir = TestDirectory::migrated();
    dir.ok(&["section", "add", "secret"]);
    dir.ok(&["user", "add", "ada"]);
    dir.ok(&["method", "add", "x", "--section", "secret:execute"]);
    dir.ok(&["method", "set", "x", "--upstream", "legacy"]);
    let stdout = dir.ok(&["method", "show", "x", "--user", "ada"]);
    assert!(stdout.contains("ada: denied"), "{stdout}");
    // The method also stays closed if its action is deleted.
    dir.sql("callgate.db", "DELETE FROM section_actions");
    let stdout = dir.ok(&["method", "show", "x", "--user", "ada"]);
    assert!(stdout.contains("ada: denied"), "{stdout}");
    assert!(dir.ok(&["method", "list"]).contains("secret:closed"));
}

#[test]
fn lists_show_the_state_of_each_row_on_one_line() {
    let dir = TestDirectory::migrated();
    dir.sql(
        "callgate.db",
        "INSERT INTO rpc_methods (rpc_method, exposed, safety) VALUES
            ('bad', 1, 'bogus'), ('dup', 1, NULL), ('dup', 1, NULL), ('hidden', 0, NULL),
            ('line' || char(10) || 'break', 1, NULL)",
    );
    insta::assert_snapshot!(dir.ok(&["method", "list"]));
    let removed = dir.run(&["method", "remove", "dup"]).stderr();
    assert!(removed.contains("2 rows"), "{removed}");
}

#[test]
fn token_lifetimes_are_limited_and_late_expiry_is_displayed_as_9999() {
    let dir = TestDirectory::migrated();
    dir.ok(&["user", "add", "ada"]);
    for lifetime in ["0s", "9000years"] {
        assert_eq!(dir.run(&["token", "add", "ada", "--expires-in", lifetime]).failure().0, 2);
    }
    dir.sql(
        "callgate.db",
        "INSERT INTO callgate_tokens (id_user, name, digest, created_at, expires_at)
         VALUES (1, 'far', 'x', 0, 9000000000000000000)",
    );
    assert!(dir.ok(&["token", "list"]).contains("9999-12-31"));
}

#[test]
fn database_errors_name_the_database_and_have_hints() {
    let dir = TestDirectory::new();
    dir.write("text.db", &"not a database at all, only text ".repeat(40));
    drop(dir.serve(&["--demo"]));
    dir.sql("taken.db", "CREATE TABLE users (a TEXT)");
    let failures: Vec<_> = [
        ["user", "list", "--database", "sqlite:text.db"],
        ["user", "list", "--database", "sqlite:none/x.db"],
        ["user", "list", "--preset", "drupal"],
    ]
    .iter()
    .map(|arguments| dir.run(arguments).failure())
    .chain([
        dir.run(&["migrate", "--database", "sqlite:none/x.db"]).failure(),
        dir.run(&["migrate", "--database", "sqlite:taken.db"]).failure(),
    ])
    .collect();
    insta::assert_debug_snapshot!(failures);
}

#[test]
fn an_invalid_parameter_is_refused_with_the_correct_syntax() {
    let dir = TestDirectory::migrated();
    let errors: Vec<String> = [
        "id",
        "int id",
        "id int",
        "id: int",
        "int",
        "int id = 3",
        "?array<string, int> map",
        "",
        "int $id = abc",
        "int $id = [1]",
        "bool $id = 3",
        "string $id = 3",
    ]
    .map(|param| {
        let stderr = dir.run(&["method", "add", "a.b", "--param", param]).failure().1;
        stderr.lines().next().unwrap().to_owned()
    })
    .into();
    insta::assert_debug_snapshot!(errors);
    assert_eq!(dir.ok(&["method", "list", "--json"]), "");
    let valid = ["int $id", "$any", "int $id = null", "array $list = []", "string $text = 'a = b'"];
    for (index, param) in valid.iter().enumerate() {
        dir.ok(&["method", "add", &format!("m{index}"), "--param", param]);
    }
    let stderr = dir.run(&["method", "set", "m0", "--param", "int $id = 'x'"]).failure().1;
    assert!(stderr.contains("the default of parameter `id` does not match the type"), "{stderr}");
}

#[test]
fn a_row_with_an_invalid_parameter_is_reported_with_the_correct_syntax() {
    let dir = TestDirectory::migrated();
    dir.sql(
        "callgate.db",
        r#"INSERT INTO rpc_methods (rpc_method, params) VALUES ('a', '["int id"]')"#,
    );
    let stderr = dir.run(&["method", "show", "a"]).failure().1;
    assert!(stderr.contains("`int id` has no name; write `int $id`"), "{stderr}");
}

#[test]
fn a_change_without_effect_is_reported() {
    let dir = TestDirectory::migrated();
    dir.ok(&["method", "add", "a", "--title", "A"]);
    for arguments in [&["method", "edit", "a"][..], &["method", "set", "a", "--title", "A"]] {
        let stderr = dir.run(arguments).stderr();
        assert!(stderr.starts_with("method `a` is unchanged; "), "{stderr}");
    }
    assert!(
        dir.run(&["method", "set", "a", "--title", "B"]).stderr().starts_with("changed method")
    );
}

#[test]
fn a_token_is_removed_by_its_number_and_not_by_its_user() {
    let dir = TestDirectory::migrated();
    dir.ok(&["user", "add", "bob"]);
    dir.ok(&["token", "add", "bob"]);
    dir.ok(&["token", "add", "bob", "--name", "laptop"]);
    let errors =
        ["bob", "ada", "77"].map(|argument| dir.run(&["token", "revoke", argument]).failure().1);
    insta::assert_snapshot!(errors.concat(), @"
    callgate: `bob` is not the number of a token
    hint: the tokens of `bob` are 1, 2; `callgate token list` describes them
    callgate: `ada` is not the number of a token
    hint: `callgate token list` shows the tokens with their numbers
    callgate: there is no token `77`
    hint: `callgate token list` shows the tokens
    ");
}

#[test]
fn tokens_of_one_user_or_of_all_users_are_listed() {
    let dir = TestDirectory::migrated();
    for user in ["ada", "bob"] {
        dir.ok(&["user", "add", user]);
        dir.ok(&["token", "add", user]);
    }
    let count = |arguments: &[&str]| dir.ok(arguments).lines().count();
    assert_eq!(count(&["token", "list", "--json"]), 2);
    assert_eq!(count(&["token", "list", "bob", "--json"]), 1);
    let (_, stderr) = dir.run(&["token", "list", "eve"]).failure();
    assert!(stderr.contains("there is no user `eve`"), "{stderr}");
}

#[test]
fn a_token_can_expire_on_a_date() {
    let dir = TestDirectory::migrated();
    dir.ok(&["user", "add", "bob"]);
    for date in ["2100-01-31", "2100-01-31T12:30:00Z", "2100-01-31 12:30:00"] {
        dir.ok(&["token", "add", "bob", "--expires-in", date]);
    }
    let stdout = dir.ok(&["token", "list"]);
    assert_eq!(stdout.matches("2100-01-31T00:00:00Z").count(), 1, "{stdout}");
    assert_eq!(stdout.matches("2100-01-31T12:30:00Z").count(), 2, "{stdout}");
    let errors = ["soon", "30", "2020-01-31", "2100-02-31", "9999-01-01"].map(|date| {
        let stderr = dir.run(&["token", "add", "bob", "--expires-in", date]).failure().1;
        stderr.lines().next().unwrap().to_owned()
    });
    insta::assert_snapshot!(errors.join("\n"), @"
    error: invalid value 'soon' for '--expires-in <DURATION|DATE>': expected a duration such as `30d` or `12h`, or a date such as `2030-01-31` or `2030-01-31T12:00:00Z`
    error: invalid value '30' for '--expires-in <DURATION|DATE>': expected a duration such as `30d` or `12h`, or a date such as `2030-01-31` or `2030-01-31T12:00:00Z`
    error: invalid value '2020-01-31' for '--expires-in <DURATION|DATE>': expected a time between 1 second and 100 years from now
    error: invalid value '2100-02-31' for '--expires-in <DURATION|DATE>': expected a duration such as `30d` or `12h`, or a date such as `2030-01-31` or `2030-01-31T12:00:00Z`
    error: invalid value '9999-01-01' for '--expires-in <DURATION|DATE>': expected a time between 1 second and 100 years from now
    ");
}
