//! Methods and permissions from the database of a Festi application.

use serde_json::json;

use super::super::support::{CommandOutput, TestDirectory};

/// The tables of Festi's own scripts, with the rows of a small application.
const APPLICATION: &str = r#"
    CREATE TABLE rpc_methods (
        id INTEGER PRIMARY KEY, plugin TEXT, method TEXT, rpc_method TEXT, params TEXT,
        description TEXT, sections TEXT, return_type TEXT, params_types TEXT
    );
    INSERT INTO rpc_methods (plugin, method, rpc_method, params, params_types, description, sections, return_type) VALUES
        ('Commits', 'batchCreateByProjectID', 'batchCreateByProjectID',
         '["CommitValuesObject[] $commits","string $serviceName","int $idProject"]',
         '["plugin\\Commits\\domain\\model\\CommitValuesObject[]","string","int"]',
         'Adds commits.', '["projects"]', 'int'),
        ('MyPlugin', 'getUserInfo', 'getUserInfo', '["int $idUser","bool $includeDetails = false"]',
         NULL, 'Looks up a user.', 'user_management', 'array'),
        ('MyPlugin', 'deleteUser', 'deleteUser', '["int $idUser"]', NULL, NULL, 'user_management', 'bool'),
        ('Projects', 'onDisplayList', 'getProjects', '["Response $response"]', '["Response"]', 'All projects.', NULL, 'bool'),
        ('Both', 'save', 'save', '[]', '[]', NULL, '', NULL),
        ('MCPServer', 'onToolsList', 'tools/list', '[]', '[]', NULL, NULL, NULL),
        ('Odd', 'odd', 'odd', '["int|"]', NULL, NULL, NULL, NULL),
        ('Odd', 'none', NULL, NULL, NULL, NULL, NULL, NULL);
    CREATE TABLE festi_sections (id INTEGER PRIMARY KEY, caption TEXT, ident TEXT, mask TEXT);
    INSERT INTO festi_sections VALUES (1, 'User Management', 'user_management', '6'), (2, 'Projects', 'projects', '4'), (3, 'Log', 'log', '2');
    CREATE TABLE festi_section_actions (id INTEGER PRIMARY KEY, id_section INT, plugin TEXT, method TEXT, mask TEXT, comment TEXT NOT NULL);
    INSERT INTO festi_section_actions (id_section, plugin, method, mask, comment) VALUES
        (1, 'MyPlugin', 'deleteUser', '6', 'Delete user action'), (1, 'myplugin', 'getuserinfo', '2', ''),
        (2, 'Both', 'save', '4', ''), (3, 'Both', 'save', '2', ''), (1, 'Gone', 'gone', '6', '');
    CREATE TABLE users_types (id INTEGER PRIMARY KEY, caption TEXT);
    INSERT INTO users_types VALUES (1, 'admin'), (2, 'reader');
    CREATE TABLE users (id INTEGER PRIMARY KEY, login TEXT, id_type INT, password TEXT, access_token TEXT);
    INSERT INTO users VALUES (123, 'ada', 1, 's3cret', 's3cret'), (124, 'bob', 2, 's3cret', 's3cret');
    CREATE TABLE festi_sections_user_types_permission (id_section INT, id_user_type INT, value INT);
    INSERT INTO festi_sections_user_types_permission VALUES (1, 1, 6), (1, 2, 2), (1, 2, 6), (2, 1, 99), (9, 1, 2);
    CREATE TABLE festi_sections_user_permission (id_section INT, id_user INT, value INT);
    INSERT INTO festi_sections_user_permission VALUES (1, 124, 0), (1, 123, 6);
"#;

fn application() -> TestDirectory {
    let dir = TestDirectory::migrated();
    dir.sql("festi.db", APPLICATION);
    dir
}

fn import(dir: &TestDirectory, options: &[&str]) -> CommandOutput {
    dir.run(&[&["import", "festi", "sqlite:festi.db"], options].concat()).expect_success()
}

#[test]
fn festi_methods_are_imported_with_the_sections_of_their_actions() {
    let dir = application();
    let before = std::fs::read(dir.path("festi.db")).unwrap();
    let output = import(&dir, &["--upstream", "php", "--dry-run"]);
    insta::assert_snapshot!(format!("{}---\n{}", output.stdout(), output.stderr()));
    let output = import(&dir, &["--upstream", "php"]);
    insta::assert_snapshot!(output.stdout());
    insta::assert_snapshot!(dir.ok(&["export"]));
    let repeated = import(&dir, &["--upstream", "php"]).stdout();
    assert!(repeated.contains("nothing changed"), "{repeated}");
    assert_eq!(dir.tool("getProjects")["inputSchema"]["properties"], json!({}));
    assert_eq!(dir.tool("deleteUser")["outputSchema"], json!({"type": "boolean"}));
    assert!(dir.tool("getProjects").get("outputSchema").is_none(), "it gives its `Response`");
    assert_eq!(std::fs::read(dir.path("festi.db")).unwrap(), before, "it is only read");
    assert_eq!(sidecar_file_count(&dir), 0);
}

/// Returns the number of files beside the database.
fn sidecar_file_count(dir: &TestDirectory) -> usize {
    let names = std::fs::read_dir(dir.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("festi.db-")).count()
}

#[test]
fn a_database_with_a_write_ahead_log_is_not_written() {
    let dir = application();
    dir.sql("festi.db", "PRAGMA journal_mode = WAL");
    let before = std::fs::read(dir.path("festi.db")).unwrap();
    assert!(import(&dir, &[]).stdout().contains("5 added"));
    assert_eq!(
        (std::fs::read(dir.path("festi.db")).unwrap() == before, sidecar_file_count(&dir)),
        (true, 0)
    );
}

#[test]
fn festi_users_keep_their_grants_and_a_zero_denies() {
    let dir = application();
    import(&dir, &["--users"]);
    let decision = |id: &str, user: &str| {
        let output = dir.run(&["method", "show", id, "--user", user]);
        let stdout = output.stdout();
        let line = stdout.lines().find(|line| line.contains(user)).unwrap_or_default();
        format!("{id} {line}")
    };
    let decisions: Vec<String> =
        ["getUserInfo", "deleteUser", "save", "getProjects", "batchCreateByProjectID"]
            .into_iter()
            .flat_map(|id| [decision(id, "ada"), decision(id, "bob")])
            .collect();
    insta::assert_snapshot!(decisions.join("\n"));
    assert!(!dir.ok(&["user", "list", "--json"]).contains("s3cret"));
}

#[test]
fn existing_users_are_not_changed_or_mistaken_for_users_of_the_source() {
    let dir = application();
    dir.sql(
        "callgate.db",
        "INSERT INTO users_types (id, caption) VALUES (1, 'guest'), (7, 'reader');
         INSERT INTO users (id, login) VALUES (123, 'carol'), (9, 'bob');
         INSERT INTO sections (id, caption, ident, mask) VALUES (5, 'Mine', 'user_management', 2);
         INSERT INTO sections_user_types_permission (id_section, id_user_type, value) VALUES (5, 7, 4);",
    );
    let output = import(&dir, &["--users", "--dry-run"]);
    let lines: Vec<String> = format!("{}{}", output.stdout(), output.stderr())
        .lines()
        .filter(|line| {
            ["+ section", "+ role", "+ user", "+ grant", "access", "note: role", "note: user"]
                .iter()
                .any(|it| line.starts_with(it))
        })
        .map(ToOwned::to_owned)
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
    import(&dir, &["--users"]);
    assert!(import(&dir, &["--users"]).stdout().contains("nothing changed"));
    let sections = dir.ok(&["section", "list"]);
    assert!(sections.contains("Mine") && sections.contains("Projects"), "{sections}");
}

#[test]
fn a_new_user_does_not_inherit_the_rows_of_a_deleted_one() {
    let dir = application();
    // The source: grants without a holder, and duplicate names.
    dir.sql(
        "festi.db",
        "INSERT INTO users_types VALUES (3, 'reader'), (4, 'clerk'), (5, 'cook'), (6, 'free');
         INSERT INTO users VALUES (125, 'ada', 2, '', ''), (126, 'eve', 3, '', ''),
             (127, 'fay', 4, '', ''), (128, 'gus', 5, '', ''), (129, 'hal', 6, '', '');
         INSERT INTO festi_sections_user_types_permission VALUES (1, 3, 6), (1, 77, 6);
         INSERT INTO festi_sections_user_permission VALUES (1, 125, 6), (1, 78, 6);",
    );
    // The registry: rows of deleted users and roles.
    dir.sql(
        "callgate.db",
        "INSERT INTO sections (id, caption, ident, mask) VALUES (5, 'Mine', 'mine', 2);
         INSERT INTO sections_user_types_permission (id_section, id_user_type, value) VALUES (5, 4, 6);
         INSERT INTO users (id, login, id_type) VALUES (9, 'zoe', 5);
         INSERT INTO sections_user_permission (id_section, id_user, value) VALUES (5, 126, 6);
         INSERT INTO callgate_tokens (id_user, name, digest, created_at) VALUES (127, 'old', 'd', 1);
         INSERT INTO callgate_credentials (id_user, upstream, secret, set_at)
             VALUES (128, 'shop', 's3cret', 1);",
    );
    let output = import(&dir, &["--users", "--dry-run"]);
    let text = format!("{}{}", output.stdout(), output.stderr());
    let prefixes =
        ["+ role", "+ user", "+ grant", "note: role", "note: user", "note: the grants of"];
    let has_prefix = |line: &&str| prefixes.iter().any(|prefix| line.starts_with(prefix));
    insta::assert_snapshot!(text.lines().filter(has_prefix).collect::<Vec<_>>().join("\n"));
    import(&dir, &["--users"]);
    assert!(import(&dir, &["--users"]).stdout().contains("nothing changed"));
}

#[test]
fn a_database_with_missing_tables_is_read() {
    let dir = TestDirectory::migrated();
    dir.sql(
        "festi.db",
        "CREATE TABLE rpc_methods (method TEXT); INSERT INTO rpc_methods VALUES ('getUser');",
    );
    let output = import(&dir, &["--table-prefix", "app_"]);
    insta::assert_snapshot!(format!("{}---\n{}", output.stdout(), output.stderr()));
}

#[test]
fn unreadable_festi_databases_are_reported_with_hints() {
    let dir = TestDirectory::migrated();
    dir.sql("empty.db", "CREATE TABLE other (id INT)");
    dir.sql(
        "other.db",
        "CREATE TABLE rpc_methods (rpc_method TEXT); CREATE TABLE app_section_actions (mask INT)",
    );
    dir.write("text.db", "this is no database, whatever its name says; it is only text in a file");
    let mut errors = String::new();
    for arguments in [
        &["oracle://root:s3cret@localhost/festi"][..],
        &["sqlite:nowhere.db"],
        &["sqlite:empty.db"],
        &["sqlite:text.db"],
        &["sqlite:other.db"],
        &["sqlite:empty.db", "--upstream", "local"],
    ] {
        let (code, stderr) = dir.run(&[&["import", "festi"], arguments].concat()).failure();
        assert_eq!(code, 1);
        errors += &stderr;
    }
    let output = dir.run(&["import", "festi", "sqlite:empty.db", "--table-prefix", "a-b"]);
    errors += &output.stderr();
    assert!(!errors.contains("s3cret"), "{errors}");
    assert!(!dir.path("nowhere.db").exists());
    insta::assert_snapshot!(errors);
}

/// The methods of the Festi database as PHP source, with sections and without masks.
const SOURCE: &str = "<?php
    class MyPlugin {
        /**
         * Looks up a user, or all.
         * @rpc getUserInfo
         * @section user_management
         */
        public function getUserInfo(int $idUser) {}
        /**
         * Looks at nothing.
         * @rpc deleteUser
         * @section user_management
         * @mcpReadOnly
         */
        public function deleteUser(int $idUser) {}
        /**
         * @rpc save
         * @section log
         * @section audit
         */
        public function save() {}
        /**
         * Reads.
         * @rpc batchCreateByProjectID
         * @section projects
         * @mcpReadOnly
         */
        public function batchCreateByProjectID() {}
    }";

#[test]
fn imports_of_php_source_and_database_do_not_weaken_sections_of_each_other() {
    let dir = application();
    import(&dir, &[]);
    dir.write("My.php", SOURCE);
    let source = || dir.ok(&["import", "php", ".", "--name", "app"]);
    let sections = |id: &str| dir.exported()[id]["sections"].clone();
    let check = || {
        assert_eq!(sections("getUserInfo"), json!({"user_management": "read"}));
        assert_eq!(sections("deleteUser"), json!({"user_management": "execute"}));
        assert_eq!(sections("save"), json!({"projects": "write", "log": "read", "audit": "write"}));
        assert_eq!(sections("batchCreateByProjectID"), json!({"projects": "closed"}));
    };
    let stdout = source();
    assert!(
        stdout.contains("kept     save: sections, because another kind of source requires more\n"),
        "{stdout}"
    );
    check();
    for _ in 0..2 {
        import(&dir, &[]);
        check();
        source();
        check();
    }
    // If only the database defines the mask of a method, the import of a changed database changes
    // the mask.
    dir.sql("festi.db", "UPDATE festi_section_actions SET mask = '4' WHERE method = 'deleteUser'");
    import(&dir, &[]);
    source();
    assert_eq!(sections("deleteUser"), json!({"user_management": "write"}));
    dir.ok(&["method", "set", "deleteUser", "--section", "user_management:read"]);
    source();
    import(&dir, &[]);
    assert_eq!(sections("deleteUser"), json!({"user_management": "read"}), "a person said it");
}

#[test]
fn sections_of_a_database_take_precedence_over_the_command_line() {
    let dir = application();
    import(&dir, &["--section", "app:read"]);
    let methods = dir.exported();
    assert_eq!(methods["deleteUser"]["sections"], json!({"user_management": "execute"}));
    assert_eq!(methods["getProjects"]["sections"], json!({"app": "read"}));
}

#[test]
fn the_strictest_of_several_actions_is_required() {
    // The first action needs read.
    for (sql, expected) in [
        ("UPDATE more SET mask = '6' WHERE id = 1", "execute"),
        ("UPDATE more SET mask = '6' WHERE id = 2", "execute"),
        ("UPDATE more SET mask = '6' || id", "closed"),
        ("UPDATE more SET mask = '9' WHERE id = 1", "closed"),
    ] {
        let dir = application();
        dir.sql(
            "festi.db",
            "CREATE TABLE more (id INT, mask TEXT); INSERT INTO more VALUES (1, '2'), (2, '4');",
        );
        dir.sql("festi.db", sql);
        dir.sql(
            "festi.db",
            "INSERT INTO festi_section_actions (id_section, plugin, method, mask, comment)
             SELECT 1, 'MyPlugin', 'getUserInfo', mask, '' FROM more ORDER BY id",
        );
        import(&dir, &[]);
        let sections = dir.exported()["getUserInfo"]["sections"].clone();
        assert_eq!(sections, json!({"user_management": expected}), "{sql}");
    }
}

#[test]
fn a_method_that_moves_to_another_plugin_is_not_a_manual_change() {
    let dir = application();
    import(&dir, &[]);
    let sections = || dir.exported()["deleteUser"]["sections"].clone();
    dir.sql(
        "festi.db",
        "UPDATE rpc_methods SET plugin = 'Other' WHERE method = 'deleteUser';
         UPDATE festi_section_actions SET plugin = 'Other', mask = '4' WHERE method = 'deleteUser'",
    );
    let stdout = import(&dir, &[]).stdout();
    assert!(stdout.contains("1 changed") && stdout.contains("0 kept"), "{stdout}");
    assert_eq!(sections(), json!({"user_management": "write"}));
    dir.ok(&["method", "set", "deleteUser", "--section", "user_management:execute"]);
    dir.sql(
        "festi.db",
        "UPDATE rpc_methods SET plugin = 'Third' WHERE method = 'deleteUser';
         UPDATE festi_section_actions SET plugin = 'Third', mask = '2' WHERE method = 'deleteUser'",
    );
    let stdout = import(&dir, &[]).stdout();
    assert!(stdout.contains("kept     deleteUser: sections, changed by hand\n"), "{stdout}");
    assert_eq!(sections(), json!({"user_management": "execute"}));
}

#[test]
fn a_second_application_does_not_change_the_sections_of_the_first() {
    let dir = application();
    import(&dir, &["--upstream", "one"]);
    dir.sql("second.db", APPLICATION);
    dir.sql(
        "second.db",
        "UPDATE rpc_methods SET rpc_method = 'second.' || rpc_method;
         UPDATE festi_section_actions SET mask = '2' WHERE method = 'deleteUser'",
    );
    let second = || dir.ok(&["import", "festi", "sqlite:second.db", "--upstream", "two"]);
    let stdout = second();
    let refused = "refused  second.deleteUser: a method of upstream `one` has the same \
                   plugin `MyPlugin` and function `deleteUser`, but requires different sections\n";
    assert!(stdout.contains(refused), "{stdout}");
    let methods = dir.exported();
    assert_eq!(methods["deleteUser"]["sections"], json!({"user_management": "execute"}));
    assert_eq!(methods["second.getUserInfo"]["sections"], json!({"user_management": "read"}));
    assert!(!methods.contains_key("second.deleteUser"));
    // A later import of the second application, with another mask or another plugin, does not
    // change the sections of the first application.
    dir.sql(
        "second.db",
        "UPDATE festi_section_actions SET mask = '6' WHERE method = 'getuserinfo';
         UPDATE rpc_methods SET plugin = 'MyPlugin', method = 'deleteUser' WHERE method = 'save'",
    );
    let stdout = second();
    assert!(stdout.contains("refused  second.getUserInfo: a method of upstream `one`"), "{stdout}");
    assert!(stdout.contains("refused  second.save: a method of upstream `one`"), "{stdout}");
    assert_eq!(dir.exported()["getUserInfo"]["sections"], json!({"user_management": "read"}));
    assert!(import(&dir, &["--upstream", "one"]).stdout().contains("nothing changed"));
}
