//! Methods with the same plugin and function, which share their sections.

use serde_json::json;

use super::super::support::{CommandOutput, TestDirectory};

/// Returns a manifest with methods of one function: id, section and mask.
fn manifest(name: &str, methods: &[(&str, &str, &str)]) -> String {
    let methods = methods.iter().map(|(id, section, mask)| {
        json!({"id": id, "plugin": "K", "method": "run", "sections": {*section: mask}})
    });
    json!({"name": name, "methods": methods.collect::<Vec<_>>()}).to_string()
}

fn import(dir: &TestDirectory, text: &str) -> CommandOutput {
    dir.write("manifest", text);
    dir.run(&["import", "manifest", "manifest"]).expect_success()
}

/// Returns the sections of methods.
fn sections(dir: &TestDirectory, ids: &[&str]) -> Vec<serde_json::Value> {
    let methods = dir.exported();
    ids.iter().map(|id| methods[*id]["sections"].clone()).collect()
}

#[test]
fn the_strictest_mask_of_the_methods_of_a_function_applies_to_all_of_them() {
    let dir = TestDirectory::migrated();
    let source = manifest("k", &[("k.one", "a", "execute"), ("k.two", "a", "read")]);
    let execute = json!({"a": "execute"});
    let stdout = import(&dir, &source).stdout();
    let expected =
        "k.two: sections, since other methods of plugin `K` and function `run` require more\n";
    assert!(stdout.contains(expected), "{stdout}");
    assert_eq!(sections(&dir, &["k.one", "k.two"]), [execute.clone(), execute.clone()]);
    let stdout = import(&dir, &source).stdout();
    assert!(stdout.contains("nothing changed") && stdout.contains(expected), "{stdout}");
    // A change of one method alone does not lower the mask, even if the other method is not
    // selected.
    let lower = manifest("k", &[("k.one", "a", "execute"), ("k.two", "a", "write")]);
    dir.write("manifest", &lower);
    dir.ok(&["import", "manifest", "manifest", "--select", "k.two"]);
    assert_eq!(sections(&dir, &["k.one", "k.two"]), [execute.clone(), execute]);
    // If both methods require less, the mask is lowered.
    let output = import(&dir, &manifest("k", &[("k.one", "a", "read"), ("k.two", "a", "read")]));
    assert!(
        output.stderr().contains("`k.one` now requires a:read; before, it required a:execute"),
        "{}",
        output.stderr()
    );
    let read = json!({"a": "read"});
    assert_eq!(sections(&dir, &["k.one", "k.two"]), [read.clone(), read]);
}

#[test]
fn a_later_import_does_not_weaken_a_method_of_the_same_function() {
    let dir = TestDirectory::migrated();
    import(&dir, &manifest("one", &[("k.one", "a", "write")]));
    import(&dir, &manifest("two", &[("k.two", "a", "read")]));
    let write = json!({"a": "write"});
    assert_eq!(sections(&dir, &["k.one", "k.two"]), [write.clone(), write]);
    // A stricter mask applies to both, and is reported.
    let output = import(&dir, &manifest("three", &[("k.three", "a", "execute")]));
    let note = "note: `k.one` now requires a:execute, because other methods of plugin `K` and function `run` require it\n";
    assert!(output.stderr().contains(note), "{}", output.stderr());
    let execute = json!({"a": "execute"});
    assert_eq!(sections(&dir, &["k.one", "k.three"]), [execute.clone(), execute]);
}

#[test]
fn a_method_that_moves_to_another_function_keeps_its_mask() {
    let dir = TestDirectory::migrated();
    import(&dir, &manifest("one", &[("k.one", "a", "read")]));
    let manifest_of = |plugin: &str, sections: &str| {
        let method =
            format!(r#"{{"id": "k.two", "plugin": "{plugin}", "method": "run" {sections}}}"#);
        format!(r#"{{"name": "two", "methods": [{method}]}}"#)
    };
    import(&dir, &manifest_of("L", r#", "sections": {"a": "execute"}"#));
    import(&dir, &manifest_of("K", ""));
    let methods = dir.exported();
    assert_eq!(methods["k.two"]["plugin"], "K");
    assert_eq!(methods["k.two"]["sections"], json!({"a": "execute"}));
}

#[test]
fn php_classes_with_the_same_name_do_not_weaken_each_other() {
    let dir = TestDirectory::migrated();
    std::fs::create_dir(dir.path("src")).unwrap();
    for (directory, namespace, tag) in
        [("blog", "Blog", "@mcpDestructive"), ("shop", "Shop", "@mcpReadOnly")]
    {
        let doc = format!("/** @rpc {directory}.handle\n * {tag}\n * @section users */");
        dir.write(
            &format!("src/{directory}.php"),
            &format!(
                "<?php namespace App\\{namespace}; class UserPlugin {{ {doc} public function handle() {{}} }}"
            ),
        );
    }
    dir.ok(&["import", "php", "src"]);
    let write = json!({"users": "write"});
    assert_eq!(sections(&dir, &["blog.handle", "shop.handle"]), [write.clone(), write]);
}
