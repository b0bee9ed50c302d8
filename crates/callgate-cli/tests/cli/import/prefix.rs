//! Several services and documents in one registry.

use serde_json::json;

use super::super::fake::FakeService;
use super::super::support::TestDirectory;
use super::{document, simple_method};

fn pets(names: &[&str]) -> String {
    document(&names.iter().map(|name| simple_method(name, "Pets.")).collect())
}

fn exposed(dir: &TestDirectory) -> Vec<String> {
    let methods = dir.exported().into_iter();
    methods.filter(|(_, method)| method["exposed"] != false).map(|(id, _)| id).collect()
}

/// A main and a test network have the same methods.
#[test]
fn two_services_with_the_same_methods_share_a_registry() {
    let dir = TestDirectory::migrated();
    let networks = ["main", "test"].map(|network| {
        FakeService::json_rpc(move |name, _| (name == "pet.get").then(|| json!(network)))
    });
    let tables = ["main", "test"].iter().zip(&networks);
    let tables =
        tables.map(|(name, fake)| format!("[upstreams.{name}]\nurl = \"{}\"\n", fake.url("/")));
    dir.write("callgate.toml", &tables.collect::<String>());
    let source = pets(&["pet.get", "pet.list"]);
    dir.import(&source, &["--upstream", "main", "--section", "pets:read"]);
    let refused = dir.import(&source, &["--upstream", "test"]);
    assert!(
        refused.contains(
            "refused  pet.get: upstream `main` already has a method with this id; import one of the two with `--prefix`"
        ),
        "{refused}"
    );
    let test = ["--upstream", "test", "--prefix", "test.", "--section", "pets:write"];
    let stdout = dir.import(&source, &test);
    assert!(stdout.starts_with("2 added"), "{stdout}");
    let repeated = dir.import(&source, &test);
    assert!(
        repeated.starts_with("nothing changed") && repeated.contains("2 unchanged"),
        "{repeated}"
    );
    let method = &dir.exported()["test.pet.get"];
    assert_eq!(method["remote_name"], "pet.get");
    assert_eq!(method["sections"], json!({"pets": "write"}), "and those of `main` stay");
    assert_eq!(dir.exported()["pet.get"]["sections"], json!({"pets": "read"}));
    let description = dir.ok(&["method", "show", "test.pet.get"]);
    assert!(
        description.starts_with("test.pet.get, on upstream `test` as `pet.get`\n"),
        "{description}"
    );
    dir.ok(&["user", "add", "ada"]);
    dir.ok(&["grant", "set", "--user", "ada", "pets", "execute"]);
    for (id, network) in [("pet.get", "main\n"), ("test.pet.get", "test\n")] {
        assert_eq!(dir.ok(&["call", id, "--user", "ada"]), network);
    }
    // Methods that one network no longer has are hidden only for that network.
    let stdout = dir.import(&pets(&["pet.get"]), &test);
    assert!(stdout.starts_with("removed  test.pet.list: hidden"), "{stdout}");
    assert_eq!(exposed(&dir), ["pet.get", "pet.list", "test.pet.get"]);
}

#[test]
fn an_upstream_that_is_not_configured_is_noted() {
    let dir = TestDirectory::migrated();
    dir.write("callgate.toml", "[upstreams.node]\nurl = \"http://127.0.0.1:9/\"\n");
    let source = pets(&["pet.get"]);
    let stderr = dir.run_import(&source, &["--upstream", "nod"]).stderr();
    let note = "note: upstream `nod` is not configured; did you mean `node`?\n";
    assert!(stderr.contains(note), "{stderr}");
    let refused = dir.import(&source, &["--upstream", "node"]);
    assert!(
        refused.contains(
            "refused  pet.get: upstream `nod`, which is not configured, already has a method with this id; `callgate \
             method remove` removes it\n"
        ),
        "{refused}"
    );
    dir.ok(&["method", "remove", "pet.get"]);
    let output = dir.run_import(&source, &["--upstream", "node"]);
    assert!(output.stdout().starts_with("1 added"), "{}", output.stdout());
    assert!(!output.stderr().contains("not configured"), "{}", output.stderr());
    let unconfigured = dir.run_import(&pets(&["cat.get"]), &["--upstream", "zoo"]).stderr();
    let note = "note: upstream `zoo` is not configured, so its methods cannot be called; configure it with \
                `callgate upstream set zoo url=URL`\n";
    assert!(unconfigured.contains(note), "{unconfigured}");
    let stderr = dir.run(&["import", "openrpc", "--upstream", "nod"]).failure().1;
    assert!(stderr.ends_with("\nhint: did you mean `--upstream node`?\n"), "{stderr}");
}

#[test]
fn a_prefix_with_invalid_characters_is_refused() {
    let output =
        TestDirectory::migrated().run(&["import", "openrpc", "pets.json", "--prefix", "te st/"]);
    let (code, stderr) = output.failure();
    let expected = "expected ASCII letters and digits, `.`, `_`, `-`, `/` and `:`";
    assert!(code == 2 && stderr.contains(expected), "{stderr}");
}

#[test]
fn patterns_select_by_the_names_in_the_source() {
    let dir = TestDirectory::migrated();
    let options =
        ["--prefix", "a.", "--select", "pet.*", "--exclude", "pet.list", "--select", "cat.*"];
    let output = dir.run_import(&pets(&["pet.get", "pet.list", "dog.get"]), &options);
    assert_eq!(exposed(&dir), ["a.pet.get"]);
    assert!(output.stderr().contains("note: no method matches `cat.*`"), "{}", output.stderr());
}

/// The manifest sets a tool name. With the second prefix, this name is already used.
#[test]
fn a_manifest_is_imported_with_several_prefixes() {
    let dir = TestDirectory::migrated();
    dir.write(
        "pets.toml",
        "[[methods]]\nid = \"pet.get\"\ntool_name = \"get_pet\"\nplugin = \"Pets\"\nmethod = \"get\"\n\
         remote_name = \"getPet\"\nsections = { pets = \"read\" }\n",
    );
    for prefix in ["a.", "b."] {
        dir.ok(&["import", "manifest", "pets.toml", "--prefix", prefix, "--upstream", prefix]);
    }
    assert_eq!(dir.tool("a.pet.get")["name"], "a.pet.get");
    let method = &dir.exported()["b.pet.get"];
    assert_eq!((&method["remote_name"], &method["tool_name"]), (&json!("getPet"), &json!(null)));
    assert!(dir.exported()["a.pet.get"].get("plugin").is_none());
}

#[test]
fn documents_with_the_same_title_are_distinguished_by_name() {
    let dir = TestDirectory::migrated();
    let (first, second) = (pets(&["pet.get"]), pets(&["dog.get"]));
    dir.import(&first, &[]);
    let output = dir.run_import(&second, &[]);
    assert!(output.stdout().starts_with("removed  pet.get: hidden"), "{}", output.stdout());
    let note = "note: if the removed methods came from another source that is also called OpenRPC document `Pets`, \
                import that source again with `--name NAME`\n";
    assert!(output.stderr().contains(note), "{}", output.stderr());
    dir.import(&first, &["--name", "one"]);
    dir.import(&second, &[]);
    assert_eq!(exposed(&dir), ["dog.get", "pet.get"]);
    let stdout = dir.import(&pets(&["dog.find"]), &[]);
    assert!(stdout.starts_with("removed  dog.get: hidden"), "{stdout}");
    assert_eq!(exposed(&dir), ["dog.find", "pet.get"]);
}

/// A method belongs to the document that added it, as long as that document has it.
#[test]
fn a_method_in_two_documents_belongs_to_the_document_that_added_it() {
    let dir = TestDirectory::migrated();
    let document_of = |title: &str, names: &[&str]| {
        let methods = names.iter().map(|name| simple_method(name, title)).collect();
        document(&methods).replace("\"Pets\"", &format!("\"{title}\""))
    };
    let description = |id: &str| dir.exported()[id]["description"].clone();
    dir.import(&document_of("Cats", &["ping", "cat.get"]), &[]);
    let dogs = document_of("Dogs", &["ping", "dog.get"]);
    let output = dir.run_import(&dogs, &[]);
    insta::assert_snapshot!(output.stdout(), @"
    kept     ping: all columns, since OpenRPC document `Cats` has the method too
    1 added, 0 changed, 0 removed, 0 hidden, 1 kept, 0 refused, 0 unchanged
    ");
    assert!(
        output.stderr().contains("to import both methods, use `--prefix`; "),
        "{}",
        output.stderr()
    );
    let repeated = dir.import(&document_of("Cats", &["ping", "cat.get"]), &[]);
    assert!(repeated.contains("2 unchanged"), "{repeated}");
    assert_eq!(description("ping"), "Cats");
    // First one document loses the method, then the other.
    let stdout = dir.import(&document_of("Cats", &["cat.get"]), &["--prune"]);
    assert!(
        stdout.starts_with(
            "kept     ping: all columns, since OpenRPC document `Dogs` has the method\n"
        ),
        "{stdout}"
    );
    dir.import(&dogs, &[]);
    assert_eq!((exposed(&dir).len(), description("ping")), (3, json!("Dogs")));
    let stdout = dir.import(&document_of("Dogs", &["dog.get"]), &[]);
    assert!(stdout.starts_with("removed  ping: hidden"), "{stdout}");
    // If a document has lost a method, the method belongs to the next document that has it.
    dir.import(&document_of("Cats", &["ping", "cat.get"]), &[]);
    assert_eq!((exposed(&dir).len(), description("ping")), (3, json!("Cats")));
    // If both documents have lost the method, the method is not kept.
    dir.import(&dogs, &[]);
    dir.import(&document_of("Dogs", &["dog.get"]), &[]);
    dir.import(&document_of("Cats", &["cat.get"]), &[]);
    assert_eq!(exposed(&dir), ["cat.get", "dog.get"]);
}

#[test]
fn a_document_with_a_new_title_replaces_its_earlier_version_by_name() {
    let dir = TestDirectory::migrated();
    dir.import(&pets(&["pet.get"]), &["--section", "pets:read"]);
    let second =
        document(&json!([simple_method("pet.get", "A pet."), simple_method("pet.list", "Pets.")]));
    let second = second.replace("\"Pets\"", "\"Pets 2\"");
    let output = dir.run_import(&second, &["--section", "pets:write"]);
    insta::assert_snapshot!(output.stdout(), @"
    kept     pet.get: all columns, since OpenRPC document `Pets` has the method too; the imported source requires pets:write
    1 added, 0 changed, 0 removed, 0 hidden, 1 kept, 0 refused, 0 unchanged
    ");
    let note = "import this source with `--name` and the earlier title";
    assert!(output.stderr().contains(note), "{}", output.stderr());
    let stdout = dir.import(&second, &["--section", "pets:write", "--name", "Pets"]);
    assert!(stdout.contains("0 added, 1 changed, 0 removed"), "{stdout}");
    assert_eq!(dir.exported()["pet.get"]["sections"], json!({"pets": "write"}));
}

#[test]
fn a_parameter_style_applies_to_one_upstream_only() {
    let dir = TestDirectory::migrated();
    dir.import(&pets(&["pet.get"]), &["--upstream", "main", "--params-by", "position-null"]);
    let output = dir.run_import(&pets(&["cat.get"]), &["--upstream", "test"]);
    assert!(!output.stderr().contains("--params-by"), "{}", output.stderr());
    let style = |id: &str| dir.exported()[id]["params_by"].clone();
    assert_eq!([style("pet.get"), style("cat.get")], ["position-null", "either"]);
    dir.import(&pets(&["cat.get"]), &["--upstream", "test", "--params-by", "name"]);
    assert_eq!([style("pet.get"), style("cat.get")], ["position-null", "name"]);
}
