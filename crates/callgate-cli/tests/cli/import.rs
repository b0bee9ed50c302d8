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
fn reading(name: &str, description: &str) -> Value {
    let result = json!({"name": "result", "schema": {}});
    json!({"name": name, "description": description, "params": [], "result": result})
}

impl TestDirectory {
    /// Imports a document, which must succeed. Returns the standard output.
    fn import(&self, document: &str, more: &[&str]) -> String {
        self.try_import(document, more).stdout()
    }

    fn try_import(&self, document: &str, more: &[&str]) -> CommandOutput {
        self.write("openrpc.json", document);
        self.run(&[&["import", "openrpc", "openrpc.json"], more].concat()).succeeded()
    }

    /// Returns the exported methods by id.
    pub(crate) fn exported(&self) -> serde_json::Map<String, Value> {
        let manifest: Value = serde_json::from_str(&self.ok(&["export"])).unwrap();
        let methods = manifest["methods"].as_array().unwrap().iter();
        methods.map(|it| (it["id"].as_str().unwrap().to_owned(), it.clone())).collect()
    }

    /// Returns the tool of a method.
    fn tool(&self, id: &str) -> Value {
        let shown: Value =
            serde_json::from_str(&self.ok(&["method", "show", id, "--json"])).unwrap();
        shown["tool"].clone()
    }
}

#[test]
fn a_second_import_changes_nothing_and_a_later_one_only_what_is_new() {
    let dir = TestDirectory::migrated();
    let first = document(&json!([reading("pet.get", "A pet."), reading("pet.list", "Pets.")]));
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
        reading("pet.get", "A pet, by its number."),
        reading("pet.list", "Pets."),
        reading("pet.find", "Pets that are like this."),
    ]));
    let said = dir.import(&second, &[]);
    assert!(said.starts_with("1 added, 1 changed, 0 removed"), "{said}");
    assert_eq!(dir.exported()["pet.get"]["description"], "A pet, by its number.");
}

#[test]
fn manual_changes_are_kept_and_reported() {
    let dir = TestDirectory::migrated();
    dir.ok(&["section", "add", "vet"]);
    let all = ["pet.a", "pet.b", "pet.c", "pet.d", "pet.e"];
    let of = |text: &str| document(&all.iter().map(|id| reading(id, text)).collect());
    dir.import(&of("One."), &["--section", "pets:read"]);
    dir.ok(&["method", "set", "pet.a", "--title", "Mine"]);
    dir.ok(&["method", "set", "pet.b", "--description", "Mine."]);
    dir.ok(&["method", "set", "pet.c", "--destructive"]);
    dir.ok(&["method", "set", "pet.d", "--section", "vet:execute"]);
    dir.ok(&["method", "set", "pet.e", "--hidden"]);
    let said = dir.import(&of("Two."), &["--section", "pets:read"]);
    insta::assert_snapshot!(said, @"
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
    assert!(dir.import(&of("Two."), &["--section", "pets:read"]).contains("nothing changed"));
    // Without `--section` the import does not change the sections.
    dir.import(&of("Three."), &[]);
    assert_eq!(dir.exported()["pet.a"]["sections"], json!({"pets": "read"}));
}

#[test]
fn a_missing_method_is_hidden_and_restored_or_pruned() {
    let dir = TestDirectory::migrated();
    let one = reading("pet.get", "A pet.");
    let both = document(&json!([one, reading("pet.old", "An old pet.")]));
    let alone = document(&json!([one]));
    dir.ok(&["method", "add", "pet.mine", "--read-only"]);
    dir.import(&both, &["--section", "pets"]);
    let said = dir.import(&alone, &[]);
    assert!(said.contains("removed  pet.old: hidden; `--prune` deletes it\n"), "{said}");
    assert_eq!(dir.exported()["pet.old"]["exposed"], false);
    assert!(dir.import(&alone, &[]).contains("nothing changed"));
    assert!(dir.import(&both, &[]).contains("1 changed"));
    let back = &dir.exported()["pet.old"];
    assert_eq!((&back["exposed"], &back["sections"]["pets"]), (&json!(true), &json!("write")));
    // Methods of other sources do not change.
    let other = both.replace("Pets", "Cats").replace("pet.", "cat.");
    assert!(dir.import(&other, &[]).contains("2 added, 0 changed, 0 removed"));
    assert!(dir.import(&alone, &["--prune"]).contains("removed  pet.old: deleted\n"));
    let ran = dir.run(&["import", "openrpc", "openrpc.json", "--prune", "--watch"]);
    assert!(
        ran.failure().1.starts_with("callgate: `--prune` cannot be used with `--watch`\nhint: ")
    );
    let left: Vec<String> = dir.exported().keys().cloned().collect();
    assert_eq!(left, ["cat.get", "cat.old", "pet.get", "pet.mine"]);
}

#[test]
fn a_dry_run_shows_the_changes_and_writes_nothing() {
    let dir = TestDirectory::migrated();
    let get = |schema: Value| {
        let id = json!({"name": "id", "required": true, "schema": schema});
        let result = json!({"name": "pet", "schema": {}});
        json!({"name": "pet.get", "summary": "A pet.", "params": [id], "result": result})
    };
    let old = document(&json!([get(json!({"type": "integer"})), reading("pet.gone", "")]));
    let new = document(&json!([
        get(json!({"type": "integer", "minimum": 1})),
        reading("pet.list", "All pets.\nOr some."),
        {"name": "pet.remove", "params": [{"name": "why"}], "result": {"name": "ok"}},
        {"name": "pet.odd", "params": [{"name": "a"}, {"name": "a"}]},
        {"name": "pet.past", "params": [], "deprecated": true, "result": {"name": "ok"}},
    ]));
    dir.import(&old, &[]);
    let before = dir.ok(&["export"]);
    let ran = dir.try_import(&new, &["--dry-run", "--section", "pets"]);
    insta::assert_snapshot!(ran.stdout());
    assert!(ran.stderr().contains("nothing was written"), "{}", ran.stderr());
    assert_eq!(dir.ok(&["export"]), before);
}

#[test]
fn patterns_select_methods_and_others_stay() {
    let dir = TestDirectory::migrated();
    let all = document(&json!([
        reading("pet.get", ""),
        reading("pet.list", ""),
        reading("user.get", ""),
        reading("user.list", ""),
    ]));
    let ran =
        dir.try_import(&all, &["--select", "pet.*", "--select", "user.*", "--exclude", "*.list"]);
    assert!(ran.stdout().contains("2 added"), "{}", ran.stdout());
    assert!(ran.stdout().contains("2 not selected"), "{}", ran.stdout());
    let ids: Vec<String> = dir.exported().keys().cloned().collect();
    assert_eq!(ids, ["pet.get", "user.get"]);
    let said = dir.import(&document(&json!([reading("pet.get", "")])), &["--select", "pet.*"]);
    assert!(said.contains("nothing changed"), "user.get is not meant: {said}");
    let ran = dir.try_import(&all, &["--select", "cat.*"]);
    assert!(ran.stderr().contains("note: no method matches `cat.*`"), "{}", ran.stderr());
    let odd = document(&json!([reading("pet.get", ""), {"name": "pet.odd", "params": 1}]));
    let ran = dir.try_import(&odd, &["--exclude", "pet.odd"]);
    assert!(!ran.stderr().contains("no method matches"), "{}", ran.stderr());
}

#[test]
fn a_section_without_a_mask_gets_one_by_safety() {
    let dir = TestDirectory::migrated();
    let all = json!([reading("pet.get", ""), reading("pet.delete", ""), reading("pet.feed", "")]);
    dir.import(&document(&all), &["--section", "pets", "--section", "audit:execute"]);
    let methods = dir.exported();
    for (id, mask) in [("pet.get", "read"), ("pet.delete", "write"), ("pet.feed", "write")] {
        assert_eq!(methods[id]["sections"], json!({"audit": "execute", "pets": mask}), "{id}");
    }
    for wrong in ["pets:none", "pets:all", ""] {
        let ran = dir.run(&["import", "openrpc", "openrpc.json", "--section", wrong]);
        assert_eq!(ran.failure().0, 2, "{wrong}");
    }
}

#[test]
fn an_id_of_another_upstream_is_refused_and_an_existing_method_is_adopted() {
    let dir = TestDirectory::migrated();
    dir.write("callgate.toml", "[upstreams.zoo]\nurl = \"http://127.0.0.1:9/\"\n");
    dir.ok(&["method", "add", "pet.get", "--upstream", "zoo", "--read-only"]);
    dir.ok(&["method", "add", "pet.list", "--title", "Mine", "--param", "int $page"]);
    let all = document(&json!([reading("pet.get", "A."), reading("pet.list", "B.")]));
    let said = dir.import(&all, &[]);
    assert!(
        said.contains(
            "refused  pet.get: upstream `zoo` already has a method with this id; import one of the two"
        ),
        "{said}"
    );
    assert!(said.contains("kept     pet.list: title, changed by hand\n"), "{said}");
    let list = &dir.exported()["pet.list"];
    assert_eq!((&list["title"], &list["description"]), (&json!("Mine"), &json!("B.")));
    assert!(list.get("params").is_none(), "what it takes is the document's to say: {list}");
    let ran = dir.run(&["import", "openrpc", "openrpc.json", "--upstream", "local"]);
    insta::assert_debug_snapshot!(ran.failure(), @r#"
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
