//! `callgate import` and `callgate export` with small documents. `import/real.rs` has real ones.

mod drupal;
mod festi;
mod introspect;
mod manifest;
mod openrpc;
mod overrides;
mod php;
mod prefix;
mod real;
mod running;
mod safety;
mod shared_actions;
mod smallest_calls;

use serde_json::{Value, json};

use super::support::{CommandOutput, TestDirectory};

/// Returns a document with these methods.
fn document(methods: &Value) -> String {
    with_components(methods, &json!({}))
}

fn with_components(methods: &Value, components: &Value) -> String {
    let info = json!({"title": "Pets", "version": "1"});
    json!({"openrpc": "1.3.2", "info": info, "methods": methods, "components": components})
        .to_string()
}

/// Returns a read-only method with a result.
fn simple_method(name: &str, description: &str) -> Value {
    let result = json!({"name": "result", "schema": {}});
    json!({"name": name, "description": description, "params": [], "result": result})
}

impl TestDirectory {
    /// Imports a document, which must succeed. Returns the standard output.
    fn import(&self, document: &str, options: &[&str]) -> String {
        self.run_import(document, options).stdout()
    }

    fn run_import(&self, document: &str, options: &[&str]) -> CommandOutput {
        self.write("openrpc.json", document);
        self.run(&[&["import", "openrpc", "openrpc.json"], options].concat()).expect_success()
    }

    /// Returns the exported methods by id.
    pub(crate) fn exported(&self) -> serde_json::Map<String, Value> {
        let manifest: Value = serde_json::from_str(&self.ok(&["export"])).unwrap();
        let methods = manifest["methods"].as_array().unwrap().iter();
        methods.map(|it| (it["id"].as_str().unwrap().to_owned(), it.clone())).collect()
    }

    /// Returns the tool of a method.
    fn tool(&self, id: &str) -> Value {
        let method: Value =
            serde_json::from_str(&self.ok(&["method", "show", id, "--json"])).unwrap();
        method["tool"].clone()
    }
}

#[test]
fn a_repeated_import_changes_nothing_and_a_new_version_changes_only_differences() {
    let dir = TestDirectory::migrated();
    let first =
        document(&json!([simple_method("pet.get", "A pet."), simple_method("pet.list", "Pets.")]));
    assert!(
        dir.import(&first, &[])
            .ends_with("2 added, 0 changed, 0 removed, 0 hidden, 0 kept, 0 refused, 0 unchanged\n")
    );
    let before = dir.ok(&["export"]);
    insta::assert_snapshot!(dir.import(&first, &[]), @"
    nothing changed
    0 added, 0 changed, 0 removed, 0 hidden, 0 kept, 0 refused, 2 unchanged
    ");
    assert_eq!(dir.ok(&["export"]), before);
    let second = document(&json!([
        simple_method("pet.get", "A pet, by its number."),
        simple_method("pet.list", "Pets."),
        simple_method("pet.find", "Pets that are like this."),
    ]));
    let stdout = dir.import(&second, &[]);
    assert!(stdout.starts_with("1 added, 1 changed, 0 removed"), "{stdout}");
    assert_eq!(dir.exported()["pet.get"]["description"], "A pet, by its number.");
}

#[test]
fn manual_changes_are_kept_and_reported() {
    let dir = TestDirectory::migrated();
    dir.ok(&["section", "add", "vet"]);
    let ids = ["pet.a", "pet.b", "pet.c", "pet.d", "pet.e"];
    let document_with =
        |text: &str| document(&ids.iter().map(|id| simple_method(id, text)).collect());
    dir.import(&document_with("One."), &["--section", "pets:read"]);
    dir.ok(&["method", "set", "pet.a", "--title", "Mine"]);
    dir.ok(&["method", "set", "pet.b", "--description", "Mine."]);
    dir.ok(&["method", "set", "pet.c", "--destructive"]);
    dir.ok(&["method", "set", "pet.d", "--section", "vet:execute"]);
    dir.ok(&["method", "set", "pet.e", "--hidden"]);
    let stdout = dir.import(&document_with("Two."), &["--section", "pets:read"]);
    insta::assert_snapshot!(stdout, @"
    kept     pet.a: title, changed by hand
    kept     pet.b: description, changed by hand
    kept     pet.c: safety, changed by hand
    kept     pet.d: sections, changed by hand
    kept     pet.e: exposed, changed by hand
    0 added, 4 changed, 0 removed, 0 hidden, 5 kept, 0 refused, 1 unchanged
    ");
    let methods = dir.exported();
    assert_eq!(methods["pet.a"]["title"], "Mine");
    assert_eq!(methods["pet.b"]["description"], "Mine.");
    assert_eq!(methods["pet.c"]["safety"], "destructive");
    assert_eq!(methods["pet.d"]["sections"], json!({"vet": "execute"}));
    assert_eq!(methods["pet.e"]["exposed"], false);
    for id in ["pet.a", "pet.c", "pet.d", "pet.e"] {
        assert_eq!(methods[id]["description"], "Two.", "{id}: what they left is the source's");
    }
    assert!(
        dir.import(&document_with("Two."), &["--section", "pets:read"]).contains("nothing changed")
    );
    // Without `--section` the import does not change the sections.
    dir.import(&document_with("Three."), &[]);
    assert_eq!(dir.exported()["pet.a"]["sections"], json!({"pets": "read"}));
}

#[test]
fn a_missing_method_is_hidden_and_restored_or_pruned() {
    let dir = TestDirectory::migrated();
    let method = simple_method("pet.get", "A pet.");
    let complete = document(&json!([method, simple_method("pet.old", "An old pet.")]));
    let reduced = document(&json!([method]));
    dir.ok(&["method", "add", "pet.mine", "--read-only"]);
    dir.import(&complete, &["--section", "pets"]);
    let stdout = dir.import(&reduced, &[]);
    assert!(stdout.contains("removed  pet.old: hidden; `--prune` deletes it\n"), "{stdout}");
    assert_eq!(dir.exported()["pet.old"]["exposed"], false);
    assert!(dir.import(&reduced, &[]).contains("nothing changed"));
    assert!(dir.import(&complete, &[]).contains("1 changed"));
    let restored = &dir.exported()["pet.old"];
    assert_eq!(
        (&restored["exposed"], &restored["sections"]["pets"]),
        (&json!(true), &json!("write"))
    );
    // Methods of other sources do not change.
    let other_document = complete.replace("Pets", "Cats").replace("pet.", "cat.");
    assert!(dir.import(&other_document, &[]).contains("2 added, 0 changed, 0 removed"));
    assert!(dir.import(&reduced, &["--prune"]).contains("removed  pet.old: deleted\n"));
    let output = dir.run(&["import", "openrpc", "openrpc.json", "--prune", "--watch"]);
    assert!(
        output.failure().1.starts_with("callgate: `--prune` cannot be used with `--watch`\nhint: ")
    );
    let ids: Vec<String> = dir.exported().keys().cloned().collect();
    assert_eq!(ids, ["cat.get", "cat.old", "pet.get", "pet.mine"]);
}

#[test]
fn a_dry_run_shows_the_changes_and_writes_nothing() {
    let dir = TestDirectory::migrated();
    let get = |schema: Value| {
        let id = json!({"name": "id", "required": true, "schema": schema});
        let result = json!({"name": "pet", "schema": {}});
        json!({"name": "pet.get", "summary": "A pet.", "params": [id], "result": result})
    };
    let old = document(&json!([get(json!({"type": "integer"})), simple_method("pet.gone", "")]));
    let new = document(&json!([
        get(json!({"type": "integer", "minimum": 1})),
        simple_method("pet.list", "All pets.\nOr some."),
        {"name": "pet.remove", "params": [{"name": "why"}], "result": {"name": "ok"}},
        {"name": "pet.odd", "params": [{"name": "a"}, {"name": "a"}]},
        {"name": "pet.past", "params": [], "deprecated": true, "result": {"name": "ok"}},
    ]));
    dir.import(&old, &[]);
    let before = dir.ok(&["export"]);
    let output = dir.run_import(&new, &["--dry-run", "--section", "pets"]);
    insta::assert_snapshot!(output.stdout());
    assert!(output.stderr().contains("nothing was written"), "{}", output.stderr());
    assert_eq!(dir.ok(&["export"]), before);
}

#[test]
fn patterns_select_methods_and_other_methods_are_unchanged() {
    let dir = TestDirectory::migrated();
    let source = document(&json!([
        simple_method("pet.get", ""),
        simple_method("pet.list", ""),
        simple_method("user.get", ""),
        simple_method("user.list", ""),
    ]));
    let output = dir
        .run_import(&source, &["--select", "pet.*", "--select", "user.*", "--exclude", "*.list"]);
    assert!(output.stdout().contains("2 added"), "{}", output.stdout());
    assert!(output.stdout().contains("2 not selected"), "{}", output.stdout());
    let ids: Vec<String> = dir.exported().keys().cloned().collect();
    assert_eq!(ids, ["pet.get", "user.get"]);
    let stdout =
        dir.import(&document(&json!([simple_method("pet.get", "")])), &["--select", "pet.*"]);
    assert!(stdout.contains("nothing changed"), "user.get is not meant: {stdout}");
    let output = dir.run_import(&source, &["--select", "cat.*"]);
    assert!(output.stderr().contains("note: no method matches `cat.*`"), "{}", output.stderr());
    let invalid =
        document(&json!([simple_method("pet.get", ""), {"name": "pet.odd", "params": 1}]));
    let output = dir.run_import(&invalid, &["--exclude", "pet.odd"]);
    assert!(!output.stderr().contains("no method matches"), "{}", output.stderr());
}

#[test]
fn a_section_without_a_mask_gets_a_mask_by_the_safety_of_the_method() {
    let dir = TestDirectory::migrated();
    let definitions = json!([
        simple_method("pet.get", ""),
        simple_method("pet.delete", ""),
        simple_method("pet.feed", "")
    ]);
    dir.import(&document(&definitions), &["--section", "pets", "--section", "audit:execute"]);
    let methods = dir.exported();
    for (id, mask) in [("pet.get", "read"), ("pet.delete", "write"), ("pet.feed", "write")] {
        assert_eq!(methods[id]["sections"], json!({"audit": "execute", "pets": mask}), "{id}");
    }
    for invalid in ["pets:none", "pets:all", ""] {
        let output = dir.run(&["import", "openrpc", "openrpc.json", "--section", invalid]);
        assert_eq!(output.failure().0, 2, "{invalid}");
    }
}

#[test]
fn an_id_of_another_upstream_is_refused_and_an_existing_method_is_adopted() {
    let dir = TestDirectory::migrated();
    dir.write("callgate.toml", "[upstreams.zoo]\nurl = \"http://127.0.0.1:9/\"\n");
    dir.ok(&["method", "add", "pet.get", "--upstream", "zoo", "--read-only"]);
    dir.ok(&["method", "add", "pet.list", "--title", "Mine", "--param", "int $page"]);
    let source =
        document(&json!([simple_method("pet.get", "A."), simple_method("pet.list", "B.")]));
    let stdout = dir.import(&source, &[]);
    assert!(
        stdout.contains(
            "refused  pet.get: upstream `zoo` already has a method with this id; import one of the two"
        ),
        "{stdout}"
    );
    assert!(stdout.contains("kept     pet.list: title, changed by hand\n"), "{stdout}");
    let method = &dir.exported()["pet.list"];
    assert_eq!((&method["title"], &method["description"]), (&json!("Mine"), &json!("B.")));
    assert!(method.get("params").is_none(), "what it takes is the document's to say: {method}");
    let output = dir.run(&["import", "openrpc", "openrpc.json", "--upstream", "local"]);
    insta::assert_debug_snapshot!(output.failure(), @r#"
    (
        1,
        "callgate: `local` is the upstream of functions in the program itself\nhint: name another upstream with `--upstream`\n",
    )
    "#);
}

#[test]
fn a_registry_of_an_older_version_is_refused() {
    let dir = TestDirectory::migrated();
    dir.sql("callgate.db", "UPDATE callgate_migrations SET name = 'registry'");
    insta::assert_debug_snapshot!(dir.run(&["export"]).failure().1, @r#""callgate: cannot open the registry `sqlite:callgate.db`: the registry was created by a build from before the first release\nhint: create a new registry: run `callgate export > methods.json` with the build that created the old one; then, with another file or an empty database, run `callgate migrate` and `callgate import manifest methods.json`, and add users, grants and tokens again\n""#);
    insta::assert_debug_snapshot!(dir.run(&["migrate"]).failure().1, @r#""callgate: cannot migrate the registry `sqlite:callgate.db`: the registry was created by a build from before the first release\nhint: create a new registry: run `callgate export > methods.json` with the build that created the old one; then, with another file or an empty database, run `callgate migrate` and `callgate import manifest methods.json`, and add users, grants and tokens again\n""#);
}
