//! The commands that look after a registry.

use super::support::Place;

fn registry() -> Place {
    let place = Place::new();
    place.ok(&["migrate"]);
    place
}

#[test]
fn help_says_what_there_is() {
    let place = Place::new();
    let mut help = String::new();
    for command in [
        &["--help"][..],
        &["serve", "--help"],
        &["method", "add", "--help"],
        &["token", "create", "--help"],
        &["grant", "--help"],
    ] {
        help.push_str(&place.ok(command));
        help.push_str("\n----\n");
    }
    insta::assert_snapshot!(help);
}

#[test]
fn wrong_usage_exits_with_2_and_failure_with_1() {
    let place = Place::new();
    for usage in [
        &["frobnicate"][..],
        &["serve", "--nope"],
        &["grant", "content", "read"],
        &["method", "add"],
    ] {
        assert_eq!(place.run(usage).failure().0, 2, "{usage:?}");
    }
    insta::assert_debug_snapshot!(place.run(&["user", "list"]).failure());
    assert!(!place.path("callgate.db").exists(), "nothing is made by looking");
}

#[test]
fn a_token_is_printed_alone() {
    let place = registry();
    place.ok(&["user", "add", "ada", "--role", "editors"]);
    let ran = place.run(&["token", "create", "ada", "--name", "laptop", "--expires-in", "30d"]);
    let data = ran.data();
    assert!(data.starts_with("cg_") && data.ends_with('\n') && data.len() == 47, "{data}");
    assert!(!ran.talk().contains(data.trim()));
    let listed = place.ok(&["token", "list"]);
    assert!(listed.contains("laptop") && !listed.contains(data.trim()), "{listed}");
    assert_eq!(place.run(&["token", "create", "bob"]).failure().0, 1);
}

#[test]
fn a_method_is_added_shown_changed_and_removed() {
    let place = registry();
    place.ok(&["section", "add", "content", "--caption", "Content"]);
    let added = place.run(&[
        "method",
        "add",
        "user.get",
        "--title",
        "Get user",
        "--description",
        "Looks up a user.",
        "--param",
        "int $id_user",
        "--param",
        "bool $include_details = false",
        "--returns",
        "User",
        "--read-only",
        "--section",
        "content:read",
        "--upstream",
        "php",
    ]);
    assert_eq!(added.0.status.code(), Some(0), "{}", added.talk());
    let mut told = added.talk();
    told.push_str(&place.ok(&["method", "list"]));
    place.ok(&["user", "add", "ada", "--role", "editors"]);
    told.push_str(&place.ok(&["method", "show", "user.get", "--caller", "ada"]));
    place.ok(&["grant", "--role", "editors", "content", "write"]);
    told.push_str(&place.ok(&["method", "show", "user.get", "--caller", "ada", "--json"]));
    place.ok(&["method", "edit", "user.get", "--destructive", "--no-sections", "--hidden"]);
    told.push_str(&place.ok(&["method", "show", "user.get"]));
    told.push_str(&place.ok(&["method", "list", "--json"]));
    insta::assert_snapshot!(told);
    place.ok(&["method", "remove", "user.get"]);
    assert_eq!(place.run(&["method", "show", "user.get"]).failure().0, 1);
}

#[test]
fn bad_definitions_are_refused_and_nothing_is_written() {
    let place = registry();
    place.ok(&["method", "add", "there"]);
    let failures: Vec<_> = [
        &["method", "add", "there"][..],
        &["method", "add", " "],
        &["method", "add", "m", "--param", "self $x"],
        &["method", "add", "m", "--param", "int $a", "--param", "int $a"],
        &["method", "add", "m", "--returns", "A&B"],
        &["method", "add", "m", "--annotations", "[1]"],
        &["method", "add", "m", "--input-schema", "{\"type\":\"array\"}"],
        &["method", "add", "m", "--tool-name", "a.b"],
        &["method", "add", "m", "--section", "gone:read"],
        &["method", "edit", "m", "--title", "T"],
        &["section", "add", ""],
        &["user", "add", "a\nb"],
    ]
    .iter()
    .map(|arguments| place.run(arguments).failure())
    .collect();
    insta::assert_debug_snapshot!(failures);
    assert_eq!(place.ok(&["method", "list", "--json"]).lines().count(), 1);
    assert_eq!(place.run(&["method", "add", "m", "--section", "content"]).failure().0, 2);
}

#[test]
fn lists_are_tables_or_lines_of_json() {
    let place = registry();
    place.ok(&["user", "add", "ada", "--role", "editors"]);
    place.ok(&["user", "add", "bob"]);
    place.ok(&["section", "add", "content"]);
    let mut listed = String::new();
    for arguments in [
        &["user", "list"][..],
        &["user", "list", "--json"],
        &["section", "list"],
        &["section", "list", "--json"],
        &["token", "list"],
    ] {
        listed.push_str(&place.ok(arguments));
        listed.push_str("--\n");
    }
    insta::assert_snapshot!(listed);
}

#[test]
fn other_databases_are_refused_without_showing_a_password() {
    let place = Place::new();
    let (code, talk) =
        place.run(&["migrate", "--database", "postgres://ada:hunter2@localhost/db"]).failure();
    assert_eq!(code, 1);
    assert!(talk.contains("sqlite:PATH") && !talk.contains("hunter2"), "{talk}");
}
