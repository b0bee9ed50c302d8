//! Several services and documents in one registry.

use serde_json::json;

use super::super::fake::FakeService;
use super::super::support::TestDirectory;
use super::{document, reading};

fn pets(names: &[&str]) -> String {
    document(&names.iter().map(|name| reading(name, "Pets.")).collect())
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
        FakeService::service(move |name, _| (name == "pet.get").then(|| json!(network)))
    });
    let tables = ["main", "test"].iter().zip(&networks);
    let tables =
        tables.map(|(name, fake)| format!("[upstreams.{name}]\nurl = \"{}\"\n", fake.url("/")));
    dir.write("callgate.toml", &tables.collect::<String>());
    let both = pets(&["pet.get", "pet.list"]);
    dir.import(&both, &["--upstream", "main", "--section", "pets:read"]);
    let refused = dir.import(&both, &["--upstream", "test"]);
    assert!(
        refused.contains(
            "refused  pet.get: upstream `main` already has a method with this id; import one of the two with `--prefix`"
        ),
        "{refused}"
    );
    let test = ["--upstream", "test", "--prefix", "test.", "--section", "pets:write"];
    let said = dir.import(&both, &test);
    assert!(said.starts_with("2 added"), "{said}");
    let again = dir.import(&both, &test);
    assert!(again.starts_with("nothing changed") && again.contains("2 unchanged"), "{again}");
    let method = &dir.exported()["test.pet.get"];
    assert_eq!(method["remote_name"], "pet.get");
    assert_eq!(method["sections"], json!({"pets": "write"}), "and those of `main` stay");
    assert_eq!(dir.exported()["pet.get"]["sections"], json!({"pets": "read"}));
    let shown = dir.ok(&["method", "show", "test.pet.get"]);
    assert!(shown.starts_with("test.pet.get, on upstream `test` as `pet.get`\n"), "{shown}");
    dir.ok(&["user", "add", "ada"]);
    dir.ok(&["grant", "set", "--user", "ada", "pets", "execute"]);
    for (id, network) in [("pet.get", "main\n"), ("test.pet.get", "test\n")] {
        assert_eq!(dir.ok(&["call", id, "--user", "ada"]), network);
    }
    // Methods that one network no longer has are hidden only for that network.
    let said = dir.import(&pets(&["pet.get"]), &test);
    assert!(said.starts_with("removed  test.pet.list: hidden"), "{said}");
    assert_eq!(exposed(&dir), ["pet.get", "pet.list", "test.pet.get"]);
}

#[test]
fn an_upstream_that_is_not_configured_is_noted() {
    let dir = TestDirectory::migrated();
    dir.write("callgate.toml", "[upstreams.node]\nurl = \"http://127.0.0.1:9/\"\n");
    let both = pets(&["pet.get"]);
    let told = dir.try_import(&both, &["--upstream", "nod"]).stderr();
    let note = "note: upstream `nod` is not configured; did you mean `node`?\n";
    assert!(told.contains(note), "{told}");
    let refused = dir.import(&both, &["--upstream", "node"]);
    assert!(
        refused.contains(
            "refused  pet.get: upstream `nod`, which is not configured, already has a method with this id; `callgate \
             method remove` removes it\n"
        ),
        "{refused}"
    );
    dir.ok(&["method", "remove", "pet.get"]);
    let right = dir.try_import(&both, &["--upstream", "node"]);
    assert!(right.stdout().starts_with("1 added"), "{}", right.stdout());
    assert!(!right.stderr().contains("not configured"), "{}", right.stderr());
    let early = dir.try_import(&pets(&["cat.get"]), &["--upstream", "zoo"]).stderr();
    let note = "note: upstream `zoo` is not configured, so its methods cannot be called; configure it with \
                `callgate upstream set zoo url=URL`\n";
    assert!(early.contains(note), "{early}");
    let told = dir.run(&["import", "openrpc", "--upstream", "nod"]).failure().1;
    assert!(told.ends_with("\nhint: did you mean `--upstream node`?\n"), "{told}");
}

#[test]
fn a_prefix_of_other_characters_is_refused() {
    let ran =
        TestDirectory::migrated().run(&["import", "openrpc", "pets.json", "--prefix", "te st/"]);
    let (code, told) = ran.failure();
    let expected = "expected ASCII letters and digits, `.`, `_`, `-`, `/` and `:`";
    assert!(code == 2 && told.contains(expected), "{told}");
}

#[test]
fn patterns_select_by_the_names_in_the_source() {
    let dir = TestDirectory::migrated();
    let more =
        ["--prefix", "a.", "--select", "pet.*", "--exclude", "pet.list", "--select", "cat.*"];
    let ran = dir.try_import(&pets(&["pet.get", "pet.list", "dog.get"]), &more);
    assert_eq!(exposed(&dir), ["a.pet.get"]);
    assert!(ran.stderr().contains("note: no method matches `cat.*`"), "{}", ran.stderr());
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
fn documents_with_one_title_are_told_apart_by_name() {
    let dir = TestDirectory::migrated();
    let (one, two) = (pets(&["pet.get"]), pets(&["dog.get"]));
    dir.import(&one, &[]);
    let ran = dir.try_import(&two, &[]);
    assert!(ran.stdout().starts_with("removed  pet.get: hidden"), "{}", ran.stdout());
    let note = "note: if the removed methods came from another source that is also called OpenRPC document `Pets`, \
                import that source again with `--name NAME`\n";
    assert!(ran.stderr().contains(note), "{}", ran.stderr());
    dir.import(&one, &["--name", "one"]);
    dir.import(&two, &[]);
    assert_eq!(exposed(&dir), ["dog.get", "pet.get"]);
    let said = dir.import(&pets(&["dog.find"]), &[]);
    assert!(said.starts_with("removed  dog.get: hidden"), "{said}");
    assert_eq!(exposed(&dir), ["dog.find", "pet.get"]);
}

/// A method belongs to the document that added it, as long as that document has it.
#[test]
fn a_method_of_two_documents_is_that_of_the_first() {
    let dir = TestDirectory::migrated();
    let of = |title: &str, names: &[&str]| {
        let all = names.iter().map(|name| reading(name, title)).collect();
        document(&all).replace("\"Pets\"", &format!("\"{title}\""))
    };
    let text = |id: &str| dir.exported()[id]["description"].clone();
    dir.import(&of("Cats", &["ping", "cat.get"]), &[]);
    let both = of("Dogs", &["ping", "dog.get"]);
    let ran = dir.try_import(&both, &[]);
    insta::assert_snapshot!(ran.stdout(), @"
    kept     ping: all columns, since OpenRPC document `Cats` has the method too
    1 added, 0 changed, 0 removed, 0 hidden, 1 kept, 0 refused, 0 unchanged
    ");
    assert!(ran.stderr().contains("to import both methods, use `--prefix`; "), "{}", ran.stderr());
    let again = dir.import(&of("Cats", &["ping", "cat.get"]), &[]);
    assert!(again.contains("2 unchanged"), "{again}");
    assert_eq!(text("ping"), "Cats");
    // First one document loses the method, then the other.
    let said = dir.import(&of("Cats", &["cat.get"]), &["--prune"]);
    assert!(
        said.starts_with(
            "kept     ping: all columns, since OpenRPC document `Dogs` has the method\n"
        ),
        "{said}"
    );
    dir.import(&both, &[]);
    assert_eq!((exposed(&dir).len(), text("ping")), (3, json!("Dogs")));
    let said = dir.import(&of("Dogs", &["dog.get"]), &[]);
    assert!(said.starts_with("removed  ping: hidden"), "{said}");
    // If a document has lost a method, the method belongs to the next document that has it.
    dir.import(&of("Cats", &["ping", "cat.get"]), &[]);
    assert_eq!((exposed(&dir).len(), text("ping")), (3, json!("Cats")));
    // If both documents have lost the method, the method is not kept.
    dir.import(&both, &[]);
    dir.import(&of("Dogs", &["dog.get"]), &[]);
    dir.import(&of("Cats", &["cat.get"]), &[]);
    assert_eq!(exposed(&dir), ["cat.get", "dog.get"]);
}

#[test]
fn a_document_with_a_new_title_replaces_its_earlier_version_by_name() {
    let dir = TestDirectory::migrated();
    dir.import(&pets(&["pet.get"]), &["--section", "pets:read"]);
    let second = document(&json!([reading("pet.get", "A pet."), reading("pet.list", "Pets.")]));
    let second = second.replace("\"Pets\"", "\"Pets 2\"");
    let ran = dir.try_import(&second, &["--section", "pets:write"]);
    insta::assert_snapshot!(ran.stdout(), @"
    kept     pet.get: all columns, since OpenRPC document `Pets` has the method too; this source requires pets:write
    1 added, 0 changed, 0 removed, 0 hidden, 1 kept, 0 refused, 0 unchanged
    ");
    let note = "import this source with `--name` and the earlier title";
    assert!(ran.stderr().contains(note), "{}", ran.stderr());
    let said = dir.import(&second, &["--section", "pets:write", "--name", "Pets"]);
    assert!(said.contains("0 added, 1 changed, 0 removed"), "{said}");
    assert_eq!(dir.exported()["pet.get"]["sections"], json!({"pets": "write"}));
}

#[test]
fn a_style_of_parameters_is_that_of_one_upstream() {
    let dir = TestDirectory::migrated();
    dir.import(&pets(&["pet.get"]), &["--upstream", "main", "--params-by", "position-null"]);
    let ran = dir.try_import(&pets(&["cat.get"]), &["--upstream", "test"]);
    assert!(!ran.stderr().contains("--params-by"), "{}", ran.stderr());
    let style = |id: &str| dir.exported()[id]["params_by"].clone();
    assert_eq!([style("pet.get"), style("cat.get")], ["position-null", "either"]);
    dir.import(&pets(&["cat.get"]), &["--upstream", "test", "--params-by", "name"]);
    assert_eq!([style("pet.get"), style("cat.get")], ["position-null", "name"]);
}
