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
    let shown: Value = serde_json::from_str(&dir.ok(&["method", "show", id, "--json"])).unwrap();
    shown["overrides"].clone()
}

const ID: &str = "Filecoin.EthGetBalance";

#[test]
fn a_document_that_refuses_its_own_examples_is_noted_by_import_and_lint() {
    let dir = TestDirectory::migrated();
    let talk = dir.try_import(&document(&json!([lotus("A balance.")])), &[]).stderr();
    assert!(
        talk.contains("its schemas refuse its examples of `p1` of `Filecoin.EthGetBalance`;"),
        "{talk}"
    );
    let all: Vec<Value> = (0..5)
        .map(|number| {
            let mut method = lotus("A balance.");
            method["name"] = json!(format!("m{number}"));
            method
        })
        .collect();
    let talk = dir.try_import(&document(&json!(all)), &[]).stderr();
    assert!(
        talk.contains("`p1` of `m0`, `p1` of `m1`, `p1` of `m2`, and 2 more methods;"),
        "{talk}"
    );
    let found = dir.ok(&["lint"]);
    assert!(found.contains("an example of `p1` does not match the schema"), "{found}");
    for id in ["m0", "m1", "m2", "m3", "m4"] {
        dir.ok(&["method", "set", id, "--unchecked"]);
    }
    assert!(!dir.ok(&["lint", "--json"]).contains("refused-example"));
}

#[test]
fn checking_is_off_for_one_method_and_clients_still_see_its_schema() {
    let service = FakeService::service(|_, params| Some(params.to_string().into()));
    let dir = TestDirectory::migrated();
    dir.write("callgate.toml", &format!("[upstreams.default]\nurl = \"{}\"\n", service.url("/")));
    dir.import(&document(&json!([lotus("A balance.")])), &[]);
    let arguments = json!({"p1": "0x5cbe", "p2": "finalized"});
    let call = || dir.serve(&[]).invoke("", ID, &arguments);
    assert_eq!(call().status, 400);
    let shown = dir.tool(ID);
    dir.ok(&["method", "set", ID, "--unchecked"]);
    let reply = call();
    assert_eq!(reply.json(), json!({"result": r#"["0x5cbe","finalized"]"#}), "{}", reply.body);
    assert_eq!(dir.tool(ID), shown, "clients see the schema of the document, and no mark");
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
fn every_column_that_people_changed_survives_and_can_be_taken_back() {
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
    let said = dir.import(&second, &["--section", "chain"]);
    assert!(
        said.starts_with(
            "kept     Filecoin.EthGetBalance: title, description, safety, exposed, input_schema, \
             output_schema, params_by, changed by hand\n"
        ),
        "{said}"
    );
    assert_eq!(dir.exported(), changed);
    let shown = dir.ok(&["method", "show", ID]);
    for line in [
        "override: title is `Balance`; the source has nothing\n",
        "override: description is `Mine.`; the source has `The balance.`\n",
        "override: safety is `destructive`; the source has `guessed_read_only`\n",
        "override: params_by is `name`; the source has `position`\n",
        "override: output_schema is nothing; the source has `{\"type\":\"string\"}`\n",
        "override: sections is `chain:execute`; the source has `chain:read`\n",
    ] {
        assert!(shown.contains(line), "{line}{shown}");
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
fn a_signature_in_place_of_a_schema_is_one_change() {
    let dir = TestDirectory::migrated();
    let all = document(&json!([lotus("A balance.")]));
    dir.import(&all, &[]);
    let before = dir.exported();
    dir.ok(&["method", "set", ID, "--param", "string $address"]);
    let changed = dir.exported();
    assert!(dir.import(&all, &[]).contains("params, input_schema, changed by hand"));
    assert_eq!(dir.exported(), changed);
    dir.ok(&["method", "set", ID, "--reset", "params"]);
    assert_eq!(dir.exported(), before);
}

#[test]
fn a_reset_says_if_there_is_nothing_to_take_back_and_excludes_a_new_value() {
    let dir = TestDirectory::migrated();
    dir.import(&document(&json!([lotus("A balance.")])), &["--section", "chain"]);
    let before = dir.exported();
    for column in ["description", "params", "sections"] {
        let told = dir.run(&["method", "set", ID, "--reset", column]).stderr();
        let note = format!(
            "note: `{column}` already has the value of the last import\nmethod `{ID}` is unchanged; "
        );
        assert!(told.starts_with(&note), "{told}");
    }
    dir.ok(&["method", "set", ID, "--description", "Mine."]);
    for (column, arguments) in [
        ("description", ["--description", "Other."]),
        ("params", ["--param", "int $id"]),
        ("annotations", ["--annotations", r#"{"a":1}"#]),
    ] {
        let ran = dir.run(&[&["method", "set", ID, "--reset", column][..], &arguments].concat());
        let told = ran.failure().1;
        let problem = format!("callgate: `--reset` and a new value are both given for `{column}`");
        assert!(told.contains(&problem), "{told}");
    }
    dir.ok(&["method", "set", ID, "--reset", "description", "--title", "Balance"]);
    dir.ok(&["method", "set", ID, "--reset", "title"]);
    assert_eq!(dir.exported(), before);
}

#[test]
fn only_values_of_imports_are_restored() {
    let dir = TestDirectory::migrated();
    dir.ok(&["method", "add", "pet.get", "--read-only"]);
    let told = dir.run(&["method", "set", "pet.get", "--reset", "title"]).failure().1;
    assert!(told.starts_with("callgate: no import wrote `pet.get`\nhint: "), "{told}");
    dir.import(&document(&json!([lotus("A balance.")])), &[]);
    let told = dir.run(&["method", "set", ID, "--reset", "sections"]).failure().1;
    assert!(
        told.contains("cannot reset `sections`: the import from OpenRPC document `Pets`"),
        "{told}"
    );
    assert_eq!(dir.run(&["method", "set", ID, "--reset", "upstream"]).failure().0, 2);
}
