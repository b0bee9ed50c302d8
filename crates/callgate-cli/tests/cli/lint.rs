//! `callgate lint`: checks tools for problems with known clients.

use serde_json::{Value, json};

use super::support::{CommandOutput, TestDirectory};

fn registry() -> TestDirectory {
    let dir = TestDirectory::migrated();
    dir.write(
        "callgate.toml",
        "open_methods = \"allow\"\n[upstreams.default]\nurl = \"http://127.0.0.1:9/\"\n",
    );
    dir
}

impl TestDirectory {
    fn add(&self, id: &str, options: &[&str]) {
        self.ok(&[&["method", "add", id], options].concat());
    }

    fn lint(&self, options: &[&str]) -> CommandOutput {
        self.run(&[&["lint"], options].concat())
    }

    fn problems(&self, options: &[&str]) -> Vec<Value> {
        let stdout = self.lint(&[&["--json"], options].concat()).stdout();
        let report: Value = serde_json::from_str(&stdout).unwrap();
        report["problems"].as_array().unwrap().clone()
    }

    fn codes(&self, options: &[&str]) -> Vec<String> {
        let code = |problem: Value| problem["code"].as_str().unwrap().to_owned();
        self.problems(options).into_iter().map(code).collect()
    }
}

const VALID: [&str; 5] =
    ["--read-only", "--description", "Looks it up.", "--input-schema", VALID_INPUT];
const VALID_INPUT: &str =
    r#"{"type":"object","properties":{"id":{"type":"integer","description":"Which."}}}"#;

#[test]
fn a_registry_without_problems_is_reported() {
    let dir = registry();
    dir.add("pet.get", &VALID);
    let output = dir.lint(&["--strict"]);
    assert_eq!(output.0.status.code(), Some(0), "{}", output.stderr());
    insta::assert_snapshot!(output.stdout());
}

#[test]
fn problems_are_listed_by_tool_with_hints() {
    let dir = registry();
    dir.add("pet.get", &VALID);
    dir.add("2fa.check", &["--param", "int $code"]);
    dir.ok(&["section", "add", "vet"]);
    dir.add("pet.feed", &["--destructive", "--section", "vet:write", "--upstream", "zoo"]);
    let tree = r##"{"type":"object","properties":{"tree":{"$ref":"#/$defs/T","description":"All."}},
        "$defs":{"T":{"type":"object","properties":{"in":{"$ref":"#/$defs/T"}}}}}"##;
    dir.add("pet.plant", &["--read-only", "--description", "Plants.", "--input-schema", tree]);
    dir.add(&format!("pet.{}", "n".repeat(54)), &VALID);
    dir.sql("callgate.db", "DELETE FROM sections WHERE ident = 'vet'");
    dir.sql(
        "callgate.db",
        "INSERT INTO rpc_methods (rpc_method, params) VALUES ('pet.odd', '[7]')",
    );
    let output = dir.lint(&[]);
    assert_eq!(output.0.status.code(), Some(1));
    insta::assert_snapshot!(output.stdout());
    insta::assert_snapshot!(output.stderr());
}

#[test]
fn only_rules_of_the_given_client_are_checked() {
    let dir = registry();
    dir.add(&"n".repeat(52), &VALID);
    let clients = |options: &[&str]| -> Vec<Value> {
        dir.problems(options).into_iter().map(|problem| problem["clients"].clone()).collect()
    };
    assert_eq!(clients(&[]), [json!(["claude"]), json!(["cursor"])]);
    assert_eq!(clients(&["--client", "cursor"]), [json!(["cursor"])]);
    assert_eq!(clients(&["--client", "gemini", "--client", "generic"]), Vec::<Value>::new());
    assert_eq!(dir.lint(&["--client", "generic"]).0.status.code(), Some(0));
    assert_eq!(clients(&["--server-name", "petpet"]), [json!(["claude"])]);
    dir.ok(&["setting", "set", "mcp_server_name", "p"]);
    assert_eq!(clients(&[]), Vec::<Value>::new(), "the names of server and tool count together");
    let (code, stderr) = dir.lint(&["--client", "emacs"]).failure();
    assert_eq!(code, 2);
    assert!(stderr.contains("possible values: generic, claude"), "{stderr}");
}

#[test]
fn the_length_of_a_name_includes_the_prefix() {
    let dir = registry();
    dir.add(&"n".repeat(40), &VALID);
    assert_eq!(dir.lint(&[]).0.status.code(), Some(0));
    dir.ok(&["setting", "set", "mcp_tools_prefix", "FESTI_MCP_FOR_ALL"]);
    assert_eq!(dir.codes(&[]), ["name-length", "name-length"]);
}

#[test]
fn warnings_fail_the_command_only_with_strict() {
    let dir = registry();
    dir.add("pet.get", &["--read-only", "--input-schema", VALID_INPUT]);
    assert_eq!(dir.codes(&[]), ["no-description"]);
    assert_eq!(dir.lint(&[]).0.status.code(), Some(0));
    let output = dir.lint(&["--strict"]);
    assert_eq!(output.0.status.code(), Some(1));
    assert_eq!(output.stderr(), "callgate: found 1 warning, which `--strict` does not allow\n");
}

#[test]
fn repeated_problems_are_omitted_unless_all_are_requested() {
    let dir = registry();
    for number in 0..12 {
        dir.add(&format!("pet.get{number}"), &["--read-only", "--input-schema", VALID_INPUT]);
    }
    let output = dir.lint(&[]);
    insta::assert_snapshot!(output.stdout());
    assert!(
        output.stderr().contains("`--all` and `--json` print all problems"),
        "{}",
        output.stderr()
    );
    assert_eq!(dir.lint(&["--all"]).stdout().matches("warning  no description").count(), 12);
    assert_eq!(dir.codes(&[]).len(), 12);
}

#[test]
fn only_tools_of_the_given_user_are_checked() {
    let dir = registry();
    dir.ok(&["section", "add", "pets"]);
    dir.ok(&["user", "add", "ada"]);
    dir.add("pet.open", &VALID);
    dir.add("pet.closed", &["--read-only", "--section", "pets:read"]);
    assert_eq!(dir.codes(&[]), ["no-description"]);
    assert_eq!(dir.codes(&["--user", "ada"]), Vec::<String>::new());
    dir.ok(&["grant", "set", "--user", "ada", "pets", "read"]);
    assert_eq!(dir.codes(&["--user", "ada"]), ["no-description"]);
    assert!(dir.lint(&["--user", "bob"]).failure().1.contains("there is no user `bob`"));
}

#[test]
fn a_guessed_safety_is_noted_until_it_is_set() {
    let dir = registry();
    let get = json!({"name": "pet.get", "description": "A pet.", "params": [], "result": {"name": "pet"}});
    let document =
        json!({"openrpc": "1.3.2", "info": {"title": "Pets", "version": "1"}, "methods": [get]});
    dir.write("pets.json", &document.to_string());
    dir.ok(&["import", "openrpc", "pets.json"]);
    assert_eq!(dir.codes(&[]), ["guessed-safety"]);
    dir.ok(&["method", "set", "pet.get", "--destructive"]);
    assert_eq!(dir.codes(&[]), Vec::<String>::new());
}

#[test]
fn rows_that_refer_to_missing_rows_are_noted() {
    let dir = registry();
    dir.sql(
        "callgate.db",
        "INSERT INTO sections (id, caption, ident, mask) VALUES (1, 'Pets', 'pets', '6');
         INSERT INTO sections_user_permission (id_section, id_user, value) VALUES (1, 123, 6);
         INSERT INTO sections_user_types_permission (id_section, id_user_type, value) VALUES (1, 9, 2);
         INSERT INTO sections_user_types_permission (id_section, id_user_type, value) VALUES (77, 9, 2);
         INSERT INTO users (id, login, id_type) VALUES (5, 'ada', 9);
         INSERT INTO callgate_tokens (id_user, name, digest, created_at) VALUES (4, 'old', 'd', 1);
         INSERT INTO callgate_upstreams (name, config) VALUES ('shop', '{}');
         INSERT INTO callgate_credentials (id_user, upstream, secret, set_at)
             VALUES (4, 'shop', 's3cret', 1), (5, 'gone', 's3cret', 1), (5, 'shop', 's3cret', 1),
                 (5, 'default', 's3cret', 1);",
    );
    insta::assert_snapshot!(dir.lint(&["--all"]).stdout());
}

#[test]
fn lint_does_not_write_to_the_registry() {
    let dir = registry();
    dir.add("pet.get", &VALID);
    let before = dir.ok(&["method", "list", "--json"]);
    assert!(before.contains(r#""tool_name":null"#), "{before}");
    dir.lint(&[]);
    assert_eq!(dir.ok(&["method", "list", "--json"]), before);
}

#[test]
fn an_invalid_upstream_is_a_warning() {
    let dir = registry();
    dir.allow_targets("127.0.0.1:9");
    dir.ok(&["upstream", "set", "shop", "url=http://127.0.0.1:9/"]);
    dir.sql("callgate.db", "UPDATE callgate_upstreams SET config = '{nope'");
    let stdout = dir.ok(&["lint"]);
    assert!(
        stdout.contains("upstream `shop` is quarantined: its `config` is not a JSON object"),
        "{stdout}"
    );
}
