//! Manual changes survive the next import, are shown, and can be undone.

use serde_json::{Value, json};

use super::document;
use crate::fake::FakeService;
use crate::support::TestDirectory;

/// Returns a method as Lotus describes it: the schema wants an object, and the example is a string.
fn lotus(description: &str) -> Value {
    let cid = json!({"type": ["object"], "title": "Content Identifier", "examples": [{"/": "bafy2bzace"}]});
    let key =
        json!({"type": ["object"], "examples": ["0x5cbeecf99d3fdb3f25e309cc264f240bb0664031"]});
    json!({
        "name": "Filecoin.EthGetBalance",
        "description": description,
        "paramStructure": "by-position",
        "params": [
            {"name": "p1", "required": true, "schema": key},
            {"name": "p2", "required": true, "schema": cid},
        ],
        "result": {"name": "balance", "schema": {"type": "string"}},
    })
}

fn overrides(dir: &TestDirectory, id: &str) -> Value {
    let method: Value = serde_json::from_str(&dir.ok(&["method", "show", id, "--json"])).unwrap();
    method["overrides"].clone()
}

const ID: &str = "Filecoin.EthGetBalance";

#[test]
fn examples_that_violate_their_schema_are_noted_by_import_and_lint() {
    let dir = TestDirectory::migrated();
    let stderr = dir.run_import(&document(&json!([lotus("A balance.")])), &[]).stderr();
    assert!(
        stderr.contains("its schemas refuse its examples of `p1` of `Filecoin.EthGetBalance`;"),
        "{stderr}"
    );
    let definitions: Vec<Value> = (0..5)
        .map(|number| {
            let mut method = lotus("A balance.");
            method["name"] = json!(format!("m{number}"));
            method
        })
        .collect();
    let stderr = dir.run_import(&document(&json!(definitions)), &[]).stderr();
    assert!(
        stderr.contains("`p1` of `m0`, `p1` of `m1`, `p1` of `m2`, and 2 more methods;"),
        "{stderr}"
    );
    let stdout = dir.ok(&["lint"]);
    assert!(stdout.contains("an example of `p1` does not match the schema"), "{stdout}");
    for id in ["m0", "m1", "m2", "m3", "m4"] {
        dir.ok(&["method", "set", id, "--unchecked"]);
    }
    assert!(!dir.ok(&["lint", "--json"]).contains("refused-example"));
}

#[test]
fn checks_of_arguments_can_be_disabled_without_a_change_of_the_listed_schema() {
    let service = FakeService::json_rpc(|_, params| Some(params.to_string().into()));
    let dir = TestDirectory::migrated();
    dir.write("callgate.toml", &format!("[upstreams.default]\nurl = \"{}\"\n", service.url("/")));
    dir.import(&document(&json!([lotus("A balance.")])), &[]);
    let arguments = json!({"p1": "0x5cbe", "p2": "finalized"});
    let call = || dir.serve(&[]).invoke("", ID, &arguments);
    assert_eq!(call().status, 400);
    let tool = dir.tool(ID);
    dir.ok(&["method", "set", ID, "--unchecked"]);
    let reply = call();
    assert_eq!(reply.json(), json!({"result": r#"["0x5cbe","finalized"]"#}), "{}", reply.body);
    assert_eq!(dir.tool(ID), tool, "clients see the schema of the document, and no mark");
    let note = format!("note: its arguments are not checked; `callgate method set {ID} --checked`");
    assert!(dir.ok(&["method", "show", ID]).contains(&note));
    let changes = overrides(&dir, ID);
    assert_eq!(
        changes,
        json!([{"column": "annotations", "value": r#"{"checkArguments":false}"#, "source": null}])
    );
    // The manual change survives an import that changes other columns.
    dir.import(&document(&json!([lotus("The balance of an account.")])), &[]);
    assert_eq!(call().status, 200);
    assert_eq!(dir.tool(ID)["description"], "The balance of an account.");
    dir.ok(&["method", "set", ID, "--reset", "annotations"]);
    assert_eq!((call().status, overrides(&dir, ID)), (400, json!([])));
    dir.ok(&["method", "set", ID, "--unchecked"]);
    dir.ok(&["method", "set", ID, "--checked"]);
    assert_eq!((call().status, overrides(&dir, ID)), (400, json!([])));
}

#[test]
fn manually_changed_columns_survive_an_import_and_can_be_reset() {
    let dir = TestDirectory::migrated();
    let first = document(&json!([lotus("A balance.")]));
    dir.import(&first, &["--section", "chain"]);
    let before = dir.exported();
    let schema = r#"{"type":"object","properties":{"p1":{"type":"string"}},"required":["p1"]}"#;
    dir.ok(&["method", "set", ID, "--input-schema", schema, "--output-schema", "null"]);
    dir.ok(&["method", "set", ID, "--title", "Balance", "--description", "Mine.", "--destructive"]);
    dir.ok(&["method", "set", ID, "--section", "chain:execute", "--hidden"]);
    dir.sql("callgate.db", "UPDATE rpc_methods SET params_by = 'name'");
    let changed = dir.exported();
    let second = first.replace("Content Identifier", "CID").replace("A balance.", "The balance.");
    let stdout = dir.import(&second, &["--section", "chain"]);
    assert!(
        stdout.starts_with(
            "kept     Filecoin.EthGetBalance: title, description, safety, exposed, input_schema, \
             output_schema, params_by, changed by hand\n"
        ),
        "{stdout}"
    );
    assert_eq!(dir.exported(), changed);
    let description = dir.ok(&["method", "show", ID]);
    for line in [
        "override: title is `Balance`; the source has nothing\n",
        "override: description is `Mine.`; the source has `The balance.`\n",
        "override: safety is `destructive`; the source has `guessed_read_only`\n",
        "override: params_by is `name`; the source has `position`\n",
        "override: output_schema is nothing; the source has `{\"type\":\"string\"}`\n",
        "override: sections is `chain:execute`; the source has `chain:read`\n",
    ] {
        assert!(description.contains(line), "{line}{description}");
    }
    let columns = [
        "title",
        "description",
        "safety",
        "exposed",
        "input_schema",
        "output_schema",
        "params_by",
        "sections",
    ];
    for column in columns {
        dir.ok(&["method", "set", ID, "--reset", column]);
    }
    assert_eq!(overrides(&dir, ID), json!([]));
    assert_eq!(dir.exported()[ID]["description"], "The balance.", "as the last import proposed it");
    dir.import(&first, &["--section", "chain"]);
    assert_eq!(dir.exported(), before);
}

#[test]
fn replacing_a_schema_by_a_signature_is_one_change() {
    let dir = TestDirectory::migrated();
    let source = document(&json!([lotus("A balance.")]));
    dir.import(&source, &[]);
    let before = dir.exported();
    dir.ok(&["method", "set", ID, "--param", "string $address"]);
    let changed = dir.exported();
    assert!(dir.import(&source, &[]).contains("params, input_schema, changed by hand"));
    assert_eq!(dir.exported(), changed);
    dir.ok(&["method", "set", ID, "--reset", "params"]);
    assert_eq!(dir.exported(), before);
}

#[test]
fn a_reset_without_effect_is_noted_and_a_reset_with_a_new_value_is_refused() {
    let dir = TestDirectory::migrated();
    dir.import(&document(&json!([lotus("A balance.")])), &["--section", "chain"]);
    let before = dir.exported();
    for column in ["description", "params", "sections"] {
        let stderr = dir.run(&["method", "set", ID, "--reset", column]).stderr();
        let note = format!(
            "note: `{column}` already has the value of the last import\nmethod `{ID}` is unchanged; "
        );
        assert!(stderr.starts_with(&note), "{stderr}");
    }
    dir.ok(&["method", "set", ID, "--description", "Mine."]);
    for (column, arguments) in [
        ("description", ["--description", "Other."]),
        ("params", ["--param", "int $id"]),
        ("annotations", ["--annotations", r#"{"a":1}"#]),
    ] {
        let output = dir.run(&[&["method", "set", ID, "--reset", column][..], &arguments].concat());
        let stderr = output.failure().1;
        let problem = format!("callgate: `--reset` and a new value are both given for `{column}`");
        assert!(stderr.contains(&problem), "{stderr}");
    }
    dir.ok(&["method", "set", ID, "--reset", "description", "--title", "Balance"]);
    dir.ok(&["method", "set", ID, "--reset", "title"]);
    assert_eq!(dir.exported(), before);
}

#[test]
fn only_columns_that_an_import_wrote_can_be_reset() {
    let dir = TestDirectory::migrated();
    dir.ok(&["method", "add", "pet.get", "--read-only"]);
    let stderr = dir.run(&["method", "set", "pet.get", "--reset", "title"]).failure().1;
    assert!(stderr.starts_with("callgate: no import wrote `pet.get`\nhint: "), "{stderr}");
    dir.import(&document(&json!([lotus("A balance.")])), &[]);
    let stderr = dir.run(&["method", "set", ID, "--reset", "sections"]).failure().1;
    assert!(
        stderr.contains("cannot reset `sections`: the import from OpenRPC document `Pets`"),
        "{stderr}"
    );
    assert_eq!(dir.run(&["method", "set", ID, "--reset", "upstream"]).failure().0, 2);
}
