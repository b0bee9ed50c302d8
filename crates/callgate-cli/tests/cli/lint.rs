//! `callgate lint`: what clients would choke on.

use serde_json::{Value, json};

use super::support::{Place, Ran};

fn registry() -> Place {
    let place = Place::new();
    place.ok(&["migrate"]);
    place.write("callgate.toml", "[upstreams.default]\nurl = \"http://127.0.0.1:9/\"\n");
    place
}

impl Place {
    fn add(&self, id: &str, more: &[&str]) {
        self.ok(&[&["method", "add", id], more].concat());
    }

    fn lint(&self, more: &[&str]) -> Ran {
        self.run(&[&["lint"], more].concat())
    }

    fn problems(&self, more: &[&str]) -> Vec<Value> {
        let data = self.lint(&[&["--json"], more].concat()).data();
        let report: Value = serde_json::from_str(&data).unwrap();
        report["problems"].as_array().unwrap().clone()
    }

    fn codes(&self, more: &[&str]) -> Vec<String> {
        let of = |one: Value| one["code"].as_str().unwrap().to_owned();
        self.problems(more).into_iter().map(of).collect()
    }
}

const GOOD: [&str; 5] =
    ["--read-only", "--description", "Looks it up.", "--input-schema", GOOD_INPUT];
const GOOD_INPUT: &str =
    r#"{"type":"object","properties":{"id":{"type":"integer","description":"Which."}}}"#;

#[test]
fn a_registry_without_faults_is_told_so() {
    let place = registry();
    place.add("pet.get", &GOOD);
    let ran = place.lint(&["--strict"]);
    assert_eq!(ran.0.status.code(), Some(0), "{}", ran.talk());
    insta::assert_snapshot!(ran.data());
}

#[test]
fn what_is_wrong_is_told_by_tool_with_what_to_do() {
    let place = registry();
    place.add("pet.get", &GOOD);
    place.add("2fa.check", &["--param", "int $code"]);
    place.ok(&["section", "add", "vet"]);
    place.add("pet.feed", &["--destructive", "--section", "vet:write", "--upstream", "zoo"]);
    let tree = r##"{"type":"object","properties":{"tree":{"$ref":"#/$defs/T","description":"All."}},
        "$defs":{"T":{"type":"object","properties":{"in":{"$ref":"#/$defs/T"}}}}}"##;
    place.add("pet.plant", &["--read-only", "--description", "Plants.", "--input-schema", tree]);
    place.add(&format!("pet.{}", "n".repeat(54)), &GOOD);
    place.sql("callgate.db", "DELETE FROM sections WHERE ident = 'vet'");
    place.sql(
        "callgate.db",
        "INSERT INTO rpc_methods (rpc_method, params) VALUES ('pet.odd', '[7]')",
    );
    let ran = place.lint(&[]);
    assert_eq!(ran.0.status.code(), Some(1));
    insta::assert_snapshot!(ran.data());
    insta::assert_snapshot!(ran.talk());
}

#[test]
fn d35_a_client_is_told_what_it_refuses_and_nothing_of_others() {
    let place = registry();
    place.add(&"n".repeat(52), &GOOD);
    let clients = |more: &[&str]| -> Vec<Value> {
        place.problems(more).into_iter().map(|one| one["clients"].clone()).collect()
    };
    assert_eq!(clients(&[]), [json!(["claude"]), json!(["cursor"])]);
    assert_eq!(clients(&["--client", "cursor"]), [json!(["cursor"])]);
    assert_eq!(clients(&["--client", "gemini", "--client", "generic"]), Vec::<Value>::new());
    assert_eq!(place.lint(&["--client", "generic"]).0.status.code(), Some(0));
    assert_eq!(clients(&["--server-name", "petpet"]), [json!(["claude"])]);
    place.ok(&["settings", "set", "mcp_server_name", "p"]);
    assert_eq!(clients(&[]), Vec::<Value>::new(), "the names of server and tool count together");
    let (code, talk) = place.lint(&["--client", "emacs"]).failure();
    assert_eq!(code, 2);
    assert!(talk.contains("possible values: generic, claude"), "{talk}");
}

#[test]
fn d1_the_prefix_counts_too() {
    let place = registry();
    place.add(&"n".repeat(40), &GOOD);
    assert_eq!(place.lint(&[]).0.status.code(), Some(0));
    place.ok(&["settings", "set", "mcp_tools_prefix", "FESTI_MCP_FOR_ALL"]);
    assert_eq!(place.codes(&[]), ["name-length", "name-length"]);
}

#[test]
fn warnings_fail_only_where_they_are_to() {
    let place = registry();
    place.add("pet.get", &["--read-only", "--input-schema", GOOD_INPUT]);
    assert_eq!(place.codes(&[]), ["no-description"]);
    assert_eq!(place.lint(&[]).0.status.code(), Some(0));
    let ran = place.lint(&["--strict"]);
    assert_eq!(ran.0.status.code(), Some(1));
    assert_eq!(ran.talk(), "callgate: 1 warning, and `--strict` takes none\n");
}

#[test]
fn what_is_found_often_is_folded_and_all_of_it_can_be_seen() {
    let place = registry();
    for number in 0..12 {
        place.add(&format!("pet.get{number}"), &["--read-only", "--input-schema", GOOD_INPUT]);
    }
    let ran = place.lint(&[]);
    insta::assert_snapshot!(ran.data());
    assert!(ran.talk().contains("`--all` shows them"), "{}", ran.talk());
    assert_eq!(place.lint(&["--all"]).data().matches("warning  no description").count(), 12);
    assert_eq!(place.codes(&[]).len(), 12);
}

#[test]
fn a_user_is_told_of_the_tools_that_they_see() {
    let place = registry();
    place.ok(&["section", "add", "pets"]);
    place.ok(&["user", "add", "ada"]);
    place.add("pet.open", &GOOD);
    place.add("pet.closed", &["--read-only", "--section", "pets:read"]);
    assert_eq!(place.codes(&[]), ["no-description"]);
    assert_eq!(place.codes(&["--user", "ada"]), Vec::<String>::new());
    place.ok(&["grant", "--user", "ada", "pets", "read"]);
    assert_eq!(place.codes(&["--user", "ada"]), ["no-description"]);
    assert!(place.lint(&["--user", "bob"]).failure().1.contains("there is no user `bob`"));
}

#[test]
fn d8_a_guessed_safety_is_noted_until_somebody_says_it() {
    let place = registry();
    let get = json!({"name": "pet.get", "description": "A pet.", "params": [], "result": {"name": "pet"}});
    let document =
        json!({"openrpc": "1.3.2", "info": {"title": "Pets", "version": "1"}, "methods": [get]});
    place.write("pets.json", &document.to_string());
    place.ok(&["import", "openrpc", "pets.json"]);
    assert_eq!(place.codes(&[]), ["guessed-safety"]);
    place.ok(&["method", "edit", "pet.get", "--destructive"]);
    assert_eq!(place.codes(&[]), Vec::<String>::new());
}

#[test]
fn d12_rows_that_name_what_is_not_there_are_noted() {
    let place = registry();
    place.sql(
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
    insta::assert_snapshot!(place.lint(&["--all"]).data());
}

#[test]
fn nothing_is_written() {
    let place = registry();
    place.add("pet.get", &GOOD);
    let before = place.ok(&["method", "list", "--json"]);
    assert!(before.contains(r#""tool_name":null"#), "{before}");
    place.lint(&[]);
    assert_eq!(place.ok(&["method", "list", "--json"]), before);
}

#[test]
fn an_upstream_that_is_wrong_is_a_warning() {
    let place = registry();
    place.ok(&["upstream", "set", "shop", "url=http://127.0.0.1:9/"]);
    place.sql("callgate.db", "UPDATE callgate_upstreams SET config = '{nope'");
    let said = place.ok(&["lint"]);
    assert!(
        said.contains("upstream `shop` is quarantined: its `config` is no JSON object"),
        "{said}"
    );
}
