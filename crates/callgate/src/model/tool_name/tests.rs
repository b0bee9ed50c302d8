use std::collections::{BTreeMap, BTreeSet, HashSet};

use proptest::prelude::*;

use super::*;

fn names(prefix: &str, ids: &[&str]) -> Vec<String> {
    let methods: Vec<_> = ids.iter().map(|id| NameRequest { id, preferred: None }).collect();
    let names = tool_names(&prefix.parse().unwrap(), &methods, []);
    names.into_iter().map(|name| name.map_or_else(|e| e.to_string(), |n| n.to_string())).collect()
}

#[test]
fn every_name_has_the_prefix() {
    assert_eq!(
        names("FESTI_MCP", &["onJsonExportToGoogleCalendar"]),
        ["FESTI_MCP__onJsonExportToGoogleCalendar"]
    );
    assert_eq!(names("", &["getUserInfo"]), ["getUserInfo"]);
}

#[test]
fn other_characters_become_underscores() {
    assert_eq!(names("", &["cache.rebuild", "a:b c/é"]), ["cache_rebuild", "a_b_c__"]);
}

#[test]
fn valid_id_keeps_its_name_and_colliding_ones_get_a_hash() {
    let names = names("", &["a_b", "a.b", "a:b", "c.d"]);
    insta::assert_debug_snapshot!(names, @r#"
    [
        "a_b",
        "a_b_otw4o2hp",
        "a_b_hdd6lwmm",
        "c_d",
    ]
    "#);
}

#[test]
fn long_names_are_truncated_and_stay_distinct() {
    let long = "x".repeat(100);
    let other = format!("{long}y");
    let names = names("PREFIX", &[&long, &other]);
    assert!(names.iter().all(|name| name.len() == 64 && name.starts_with("PREFIX__xxx")));
    assert_ne!(names[0], names[1]);
}

#[test]
fn an_invalid_prefix_is_rejected() {
    for prefix in ["a::b", "a b", "a.b", &"x".repeat(41)] {
        assert!(prefix.parse::<Prefix>().is_err(), "{prefix}");
    }
}

#[test]
fn an_assigned_name_is_kept_if_it_equals_the_id_of_another_method() {
    let methods = [
        NameRequest { id: "a.b", preferred: Some("a_b") },
        NameRequest { id: "a_b", preferred: None },
        NameRequest { id: "c", preferred: Some("a_b") },
        NameRequest { id: "d", preferred: Some("not plain") },
    ];
    let names = tool_names(&Prefix::default(), &methods, []);
    assert_eq!(names[0].as_ref().unwrap().as_str(), "a_b");
    assert!(names[1].as_ref().unwrap().as_str().starts_with("a_b_"));
    assert_eq!(
        names[2].as_ref().unwrap_err().to_string(),
        "the tool name `a_b` is already used by another method"
    );
    assert!(names[3].is_err());
}

#[test]
fn a_stored_name_that_is_too_long_with_the_prefix_is_replaced() {
    let preferred = "y".repeat(60);
    let methods = [NameRequest { id: "some.id", preferred: Some(&preferred) }];
    let names = tool_names(&"LONGER_PREFIX".parse().unwrap(), &methods, []);
    assert_eq!(names[0].as_ref().unwrap().as_str(), "LONGER_PREFIX__some_id");
}

/// Ids that collide often: few letters, some non-ASCII letters, some long ids.
fn ids() -> impl Strategy<Value = BTreeSet<String>> {
    let id = prop_oneof![
        8 => "[ab._: é]{1,4}",
        1 => "[ab.]{60,70}",
        1 => any::<String>().prop_filter("not empty", |id| !id.is_empty()),
    ];
    prop::collection::btree_set(id, 0..40)
}

/// Assigns tool names; `stored` are the names stored in the registry.
fn assign(
    prefix: &Prefix,
    ids: &BTreeSet<String>,
    stored: &BTreeMap<String, String>,
) -> BTreeMap<String, ToolName> {
    let methods: Vec<_> = ids
        .iter()
        .map(|id| NameRequest { id, preferred: stored.get(id).map(String::as_str) })
        .collect();
    let names = tool_names(prefix, &methods, []);
    ids.iter().cloned().zip(names).filter_map(|(id, name)| Some((id, name.ok()?))).collect()
}

fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

proptest! {
    #[test]
    fn names_are_unique_and_stable_and_match_the_pattern(
        ids in ids(),
        more in ids(),
        prefix in prop_oneof![Just(""), Just("FESTI_MCP"), Just("a"), Just("a_b__c")],
    ) {
        let prefix: Prefix = prefix.parse().unwrap();
        let first = assign(&prefix, &ids, &BTreeMap::new());
        // Names match the pattern and begin with the prefix.
        for name in first.values() {
            prop_assert!(is_tool_name(name.as_str()), "{name}");
            prop_assert!(name.as_str().starts_with(prefix.as_str()));
        }
        // Names are unique.
        let distinct: HashSet<&ToolName> = first.values().collect();
        prop_assert_eq!(distinct.len(), first.len());
        // No method is refused. A refusal would need an id that equals the hashed name of another id.
        prop_assert_eq!(first.len(), ids.len());
        // Names do not change if methods are added and the registry stores the names that differ from the id.
        let stored: BTreeMap<String, String> = first
            .iter()
            .map(|(id, name)| (id.clone(), prefix.strip(name).to_owned()))
            .filter(|(id, local)| id != local)
            .collect();
        let all: BTreeSet<String> = ids.union(&more).cloned().collect();
        let second = assign(&prefix, &all, &stored);
        for (id, name) in &first {
            prop_assert_eq!(second.get(id), Some(name));
        }
        let distinct: HashSet<&ToolName> = second.values().collect();
        prop_assert_eq!(distinct.len(), second.len());
    }
}
