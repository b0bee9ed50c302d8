//! Several services and documents in one registry.

use serde_json::json;

use super::super::fake::FakeService;
use super::super::support::TestDirectory;
use super::{document, reading, registry};

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
    let dir = registry();
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
            "refused  pet.get: upstream `main` has a method of that name; import one of them with `--prefix`"
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
    // What one network no longer has is hidden there only.
    let said = dir.import(&pets(&["pet.get"]), &test);
    assert!(said.starts_with("removed  test.pet.list: hidden"), "{said}");
    assert_eq!(exposed(&dir), ["pet.get", "pet.list", "test.pet.get"]);
}

#[test]
fn patterns_select_by_the_names_in_the_source() {
    let dir = registry();
    let more =
        ["--prefix", "a.", "--select", "pet.*", "--exclude", "pet.list", "--select", "cat.*"];
    let ran = dir.try_import(&pets(&["pet.get", "pet.list", "dog.get"]), &more);
    assert_eq!(exposed(&dir), ["a.pet.get"]);
    assert!(ran.stderr().contains("note: no method matches `cat.*`"), "{}", ran.stderr());
}

/// The manifest names a tool, whose name would be taken with the second prefix.
#[test]
fn a_manifest_is_imported_with_several_prefixes() {
    let dir = registry();
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
    let dir = registry();
    let (one, two) = (pets(&["pet.get"]), pets(&["dog.get"]));
    dir.import(&one, &["--name", "one"]);
    dir.import(&two, &["--name", "two"]);
    assert_eq!(exposed(&dir), ["dog.get", "pet.get"]);
    let said = dir.import(&pets(&["dog.find"]), &["--name", "two"]);
    assert!(said.starts_with("removed  dog.get: hidden"), "{said}");
    assert_eq!(exposed(&dir), ["dog.find", "pet.get"]);
}
