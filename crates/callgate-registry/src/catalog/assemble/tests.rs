use callgate::Grants;
use callgate::gateway::SettingError;

use super::*;
use crate::rows::{SectionRow, SettingRow};

fn rows() -> CatalogRows {
    let section = |id, ident: &str| SectionRow {
        id,
        caption: String::new(),
        ident: ident.to_owned(),
        mask: "6".to_owned(),
    };
    CatalogRows {
        sections: vec![section(1, "content"), section(2, "system")],
        ..CatalogRows::default()
    }
}

fn row(id: &str) -> MethodRow {
    MethodRow {
        rpc_method: id.to_owned(),
        plugin: Some("P".to_owned()),
        method: Some(id.to_owned()),
        ..MethodRow::default()
    }
}

fn action(method: &str, id_section: i64, mask: &str) -> ActionRow {
    ActionRow {
        id_section,
        plugin: "P".to_owned(),
        method: method.to_owned(),
        mask: mask.to_owned(),
    }
}

fn assembly(code: &[Method]) -> Assembly<'_> {
    Assembly {
        code,
        exposure: Exposure::All,
        open_methods: None,
        prefix: Prefix::default(),
        upstreams: vec![LOCAL, "default"],
        previous: None,
    }
}

fn tool_count(catalog: &Catalog, grants: &[(&str, Mask)]) -> usize {
    catalog.listing(&grants.iter().copied().collect::<Grants>()).len()
}

const ALL: [(&str, Mask); 2] = [("content", Mask::Execute), ("system", Mask::Execute)];

#[test]
fn rows_without_a_section_are_open_unless_they_are_refused() {
    let mut rows = rows();
    rows.methods = vec![row("open"), row("protected")];
    rows.actions = vec![action("protected", 1, "2")];
    let code = [Method::new("in.code".parse().unwrap())];
    let count = |rows: &CatalogRows, configured| {
        let assembly = Assembly { open_methods: configured, ..assembly(&code) };
        let catalog = assemble(rows, assembly).catalog;
        let closed = catalog.by_id("open").unwrap().findings().contains(&Finding::NoSection);
        (
            tool_count(&catalog, &[]),
            tool_count(&catalog, &ALL),
            open_entries(&catalog).count(),
            closed,
        )
    };
    let (open, closed) = ((2, 3, 1, false), (1, 2, 0, true));
    let (allow, refuse) = (Some(OpenMethods::Allow), Some(OpenMethods::Refuse));
    assert_eq!(
        [None, allow, refuse].map(|configured| count(&rows, configured)),
        [open, open, closed]
    );
    for (value, expected) in [
        ("refuse", [closed; 3]),
        ("allow", [open; 3]),
        ("", [open, open, closed]),
        ("refsue", [closed; 3]),
    ] {
        let setting = SettingRow { name: "open_methods".to_owned(), value: value.to_owned() };
        let rows = CatalogRows { settings: vec![setting], ..rows.clone() };
        assert_eq!(
            [None, allow, refuse].map(|configured| count(&rows, configured)),
            expected,
            "`{value}`"
        );
    }
}

#[test]
fn actions_of_plugin_and_method_define_the_requirement() {
    let mut rows = rows();
    rows.methods = vec![row("m")];
    rows.actions = vec![action("m", 1, "4"), action("other", 2, "6")];
    let catalog = assemble(&rows, assembly(&[])).catalog;
    assert_eq!(tool_count(&catalog, &[("content", Mask::Write)]), 1);
    assert_eq!(tool_count(&catalog, &[("content", Mask::Read)]), 0);
}

#[test]
fn festi_bug_a_section_that_is_named_without_an_action_closes_the_method() {
    let mut rows = rows();
    rows.methods = vec![MethodRow { sections: Some("content".to_owned()), ..row("m") }];
    let catalog = assemble(&rows, assembly(&[])).catalog;
    assert_eq!(tool_count(&catalog, &ALL), 0);
    assert!(
        catalog
            .entries()
            .next()
            .unwrap()
            .findings()
            .contains(&Finding::SectionWithoutAction("content".into()))
    );
}

#[test]
fn festi_bug_a_method_in_two_sections_requires_both_in_any_order_of_rows() {
    for actions in [
        vec![action("m", 1, "2"), action("m", 2, "6")],
        vec![action("m", 2, "6"), action("m", 1, "2")],
    ] {
        let rows = CatalogRows { methods: vec![row("m")], actions, ..rows() };
        let catalog = assemble(&rows, assembly(&[])).catalog;
        assert_eq!(tool_count(&catalog, &[("content", Mask::Execute)]), 0);
        assert_eq!(tool_count(&catalog, &[("system", Mask::Execute)]), 0);
        assert_eq!(tool_count(&catalog, &ALL), 1);
    }
}

#[test]
fn festi_bug_the_mask_of_the_action_applies_instead_of_the_mask_of_the_section() {
    let mut rows = rows();
    rows.methods = vec![row("m")];
    rows.actions = vec![action("m", 1, "2")];
    rows.sections[0].mask = "6".to_owned();
    let catalog = assemble(&rows, assembly(&[])).catalog;
    assert_eq!(tool_count(&catalog, &[("content", Mask::Read)]), 1);
}

#[test]
fn missing_sections_and_invalid_masks_close_a_method() {
    for action in [action("m", 99, "2"), action("m", 1, "99"), action("m", 1, "lots")] {
        let rows = CatalogRows { methods: vec![row("m")], actions: vec![action], ..rows() };
        assert_eq!(tool_count(&assemble(&rows, assembly(&[])).catalog, &ALL), 0);
    }
    let named = MethodRow { sections: Some("gone".to_owned()), ..row("m") };
    let rows = CatalogRows { methods: vec![named], ..rows() };
    let catalog = assemble(&rows, assembly(&[])).catalog;
    assert_eq!(tool_count(&catalog, &ALL), 0);
    assert!(
        catalog
            .entries()
            .next()
            .unwrap()
            .findings()
            .contains(&Finding::MissingSection("gone".into()))
    );
}

#[test]
fn a_method_that_names_no_section_is_open() {
    let rows = CatalogRows { methods: vec![row("m")], ..rows() };
    assert_eq!(tool_count(&assemble(&rows, assembly(&[])).catalog, &[]), 1);
}

#[test]
fn the_exposed_column_and_the_exposure_determine_which_methods_are_tools() {
    let exposed =
        |id: &str, value: Option<&str>| MethodRow { exposed: value.map(str::to_owned), ..row(id) };
    let rows = CatalogRows {
        methods: vec![exposed("yes", Some("1")), exposed("no", Some("0")), exposed("silent", None)],
        ..rows()
    };
    let ids = |exposure| {
        let catalog = assemble(&rows, Assembly { exposure, ..assembly(&[]) }).catalog;
        catalog.entries().map(|entry| entry.id().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(Exposure::All), ["silent", "yes"]);
    assert_eq!(ids(Exposure::Marked), ["yes"]);
}

#[test]
fn a_duplicate_id_is_quarantined_and_the_first_row_is_served() {
    let row_with_title = |title: &str| MethodRow { title: Some(title.to_owned()), ..row("m") };
    let rows =
        CatalogRows { methods: vec![row_with_title("first"), row_with_title("second")], ..rows() };
    let catalog = assemble(&rows, assembly(&[])).catalog;
    assert_eq!((catalog.len(), catalog.quarantined().len()), (1, 1));
    let tool = catalog.tool(catalog.entries().next().unwrap());
    assert!(std::str::from_utf8(&tool).unwrap().contains("first"));
}

#[test]
fn a_row_with_an_unknown_upstream_is_listed_with_a_finding() {
    let rows = CatalogRows {
        methods: vec![MethodRow { upstream: Some("nowhere".to_owned()), ..row("m") }],
        ..rows()
    };
    let catalog = assemble(&rows, assembly(&[])).catalog;
    assert!(
        catalog
            .entries()
            .next()
            .unwrap()
            .findings()
            .contains(&Finding::UnknownUpstream("nowhere".to_owned()))
    );
}

fn code() -> Method {
    Method::new("m".parse().unwrap()).description("From code.").requires("content", Mask::Read)
}

fn overlay() -> MethodRow {
    MethodRow { plugin: Some(LOCAL.to_owned()), upstream: Some(LOCAL.to_owned()), ..row("m") }
}

fn only_tool(catalog: &Catalog) -> serde_json::Value {
    serde_json::from_slice(&catalog.tool(catalog.entries().next().unwrap())).unwrap()
}

#[test]
fn a_method_in_code_needs_no_row_and_a_row_is_an_overlay() {
    let code = [code()];
    let without_row = assemble(&rows(), assembly(&code)).catalog;
    assert_eq!(only_tool(&without_row)["description"], "From code.");
    let row = MethodRow {
        title: Some("From the row".to_owned()),
        safety: Some("read_only".to_owned()),
        params: Some(r#"["int $ignored"]"#.to_owned()),
        ..overlay()
    };
    let rows = CatalogRows { methods: vec![row], ..rows() };
    let tool = only_tool(&assemble(&rows, assembly(&code)).catalog);
    assert_eq!(tool["title"], "From the row");
    assert_eq!(tool["description"], "From code.");
    assert_eq!(tool["annotations"]["readOnlyHint"], true);
    assert_eq!(tool["inputSchema"]["properties"], serde_json::json!({}), "code owns parameters");
}

#[test]
fn actions_change_masks_and_add_sections_but_cannot_remove_the_section_of_code() {
    let code = [code()];
    let action = |id_section, mask: &str| ActionRow {
        plugin: LOCAL.to_owned(),
        ..action("m", id_section, mask)
    };
    let mut rows = CatalogRows { methods: vec![overlay()], ..rows() };
    let allowed = |rows: &CatalogRows, grants: &[(&str, Mask)]| {
        tool_count(&assemble(rows, assembly(&code)).catalog, grants) == 1
    };
    assert!(!allowed(&rows, &[]), "the code's section, without an action row");
    assert!(allowed(&rows, &[("content", Mask::Read)]));
    rows.actions = vec![action(1, "6")];
    assert!(!allowed(&rows, &[("content", Mask::Write)]));
    rows.actions = vec![action(2, "2")];
    assert!(!allowed(&rows, &[("system", Mask::Execute)]), "the action adds a section");
    assert!(allowed(&rows, &ALL));
}

#[test]
fn local_rows_without_code_and_other_rows_with_the_id_of_code_are_quarantined() {
    let code = [code()];
    let rows = CatalogRows { methods: vec![row("m")], ..rows() };
    let catalog = assemble(&rows, assembly(&code)).catalog;
    assert_eq!(only_tool(&catalog)["description"], "From code.");
    assert_eq!(catalog.quarantined().len(), 1);
    // A row for a method in code that this program does not have.
    let rows = CatalogRows { methods: vec![overlay()], ..rows };
    let catalog = assemble(&rows, assembly(&[])).catalog;
    assert_eq!((catalog.len(), catalog.quarantined().len()), (0, 1));
}

#[test]
fn a_section_that_an_overlay_names_without_an_action_closes_the_method() {
    let open = [Method::new("m".parse().unwrap())];
    let row = MethodRow { sections: Some("[\"system\"]".to_owned()), ..overlay() };
    let rows = CatalogRows { methods: vec![row], ..rows() };
    assert_eq!(tool_count(&assemble(&rows, assembly(&open)).catalog, &ALL), 0);
}

#[test]
fn the_first_of_two_overlays_applies_and_the_second_is_quarantined() {
    let hidden = MethodRow { exposed: Some("0".to_owned()), ..overlay() };
    let rows = CatalogRows { methods: vec![hidden, overlay()], ..rows() };
    let catalog = assemble(&rows, assembly(&[code()])).catalog;
    assert_eq!((catalog.len(), catalog.quarantined().len()), (0, 1));
}

#[test]
fn actions_protect_their_methods_regardless_of_case() {
    let rows = CatalogRows {
        methods: vec![row("deleteUser")],
        actions: vec![ActionRow { plugin: "p".to_owned(), ..action("DELETEUSER", 1, "6") }],
        ..rows()
    };
    let catalog = assemble(&rows, assembly(&[])).catalog;
    assert_eq!(tool_count(&catalog, &[]), 0);
    assert_eq!(tool_count(&catalog, &ALL), 1);
}

#[test]
fn findings_report_why_a_method_is_closed_and_change_with_the_rows() {
    let mut rows = CatalogRows {
        methods: vec![MethodRow { sections: Some("gone".to_owned()), ..row("m") }, row("n")],
        actions: vec![action("n", 1, "99")],
        ..rows()
    };
    let first = Arc::new(assemble(&rows, assembly(&[])).catalog);
    let is_closed = |catalog: &Catalog, id: &str| {
        catalog.by_id(id).unwrap().findings().iter().any(Finding::closes)
    };
    assert!(is_closed(&first, "m") && is_closed(&first, "n"));
    rows.sections.push(SectionRow {
        id: 3,
        caption: String::new(),
        ident: "gone".to_owned(),
        mask: String::new(),
    });
    let previous = Some(first);
    let second = assemble(&rows, Assembly { previous, ..assembly(&[]) }).catalog;
    let findings = second.by_id("m").unwrap().findings();
    assert!(findings.contains(&Finding::SectionWithoutAction("gone".into())), "{findings:?}");
}

#[test]
fn a_hidden_method_keeps_its_tool_name_and_a_duplicate_gets_none() {
    let row_with_id = |id: i64, name: &str| MethodRow { id, ..row(name) };
    let hidden = MethodRow {
        exposed: Some("0".to_owned()),
        tool_name: Some("m_x".to_owned()),
        ..row_with_id(1, "m.x")
    };
    let rows = CatalogRows {
        methods: vec![hidden, row_with_id(2, "m:x"), row_with_id(3, "a.b"), row_with_id(4, "a.b")],
        ..rows()
    };
    let assembled = assemble(&rows, assembly(&[]));
    assert_ne!(assembled.catalog.by_id("m:x").unwrap().name().as_str(), "m_x");
    let ids: Vec<i64> = assembled.new_names.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [2, 3]);
}

#[test]
fn a_row_can_hide_a_method_in_code() {
    let rows = CatalogRows {
        methods: vec![MethodRow { exposed: Some("0".to_owned()), ..overlay() }],
        ..rows()
    };
    assert!(assemble(&rows, assembly(&[code()])).catalog.is_empty());
}

#[test]
fn tool_names_that_differ_from_the_id_are_stored_and_do_not_change() {
    let row_with_id = |id: i64, name: &str| MethodRow { id, ..row(name) };
    let mut rows =
        CatalogRows { methods: vec![row_with_id(1, "a.b"), row_with_id(2, "plain")], ..rows() };
    let assembled = assemble(&rows, assembly(&[]));
    assert_eq!(assembled.new_names, [(1, "a_b".to_owned())]);
    rows.methods[0].tool_name = Some("a_b".to_owned());
    rows.methods.push(row_with_id(3, "a_b"));
    let assembled = assemble(&rows, assembly(&[]));
    assert_eq!(assembled.catalog.by_id("a.b").unwrap().name().as_str(), "a_b");
    assert_eq!(assembled.new_names.len(), 1, "only the new method's name");
    assert!(assembled.new_names[0].1.starts_with("a_b_"));
}

#[test]
fn a_rebuild_from_a_previous_catalog_applies_changed_rows_and_classes() {
    let mut rows = CatalogRows { methods: vec![row("a"), row("b")], ..rows() };
    rows.actions = vec![action("a", 1, "2")];
    let first = Arc::new(assemble(&rows, assembly(&[])).catalog);
    let rebuild = |rows: &CatalogRows| {
        let previous = Some(Arc::clone(&first));
        assemble(rows, Assembly { previous, ..assembly(&[]) }).catalog
    };
    rows.methods[1].title = Some("New".to_owned());
    rows.actions[0].mask = "6".to_owned();
    let second = rebuild(&rows);
    assert!(std::str::from_utf8(&second.tool(second.by_id("b").unwrap())).unwrap().contains("New"));
    assert_eq!(tool_count(&second, &[("content", Mask::Read)]), 1, "only `b`, which is open");
    // The definition of a class changes every method that uses the class.
    rows.methods[0].params = Some(r#"["Foo $x"]"#.to_owned());
    let first = Arc::new(assemble(&rows, assembly(&[])).catalog);
    rows.types.push(TypeRow {
        name: "Foo".to_owned(),
        fields: Some(r#"[{"name":"bar","type":"int"}]"#.to_owned()),
        schema: None,
    });
    let previous = Some(Arc::clone(&first));
    let second = assemble(&rows, Assembly { previous, ..assembly(&[]) }).catalog;
    let tool = second.tool(second.by_id("a").unwrap());
    assert!(std::str::from_utf8(&tool).unwrap().contains("bar"));
}

#[test]
fn invalid_classes_are_quarantined_and_methods_are_served() {
    let mut rows = CatalogRows { methods: vec![row("a")], ..rows() };
    for (name, fields, schema) in [
        ("not a class", None, None),
        ("A", Some("{"), None),
        ("B", Some(r#"[{"name":"x","type":"self"}]"#), None),
        ("C", None, Some(r#"{"$ref":"file:///etc/passwd"}"#)),
    ] {
        rows.types.push(TypeRow {
            name: name.to_owned(),
            fields: fields.map(str::to_owned),
            schema: schema.map(str::to_owned),
        });
    }
    let catalog = assemble(&rows, assembly(&[])).catalog;
    assert_eq!((catalog.len(), catalog.quarantined().len()), (1, 4));
}

#[test]
fn an_invalid_setting_is_replaced_by_the_current_value() {
    let setting =
        |name: &str, value: &str| SettingRow { name: name.to_owned(), value: value.to_owned() };
    let mut rows = rows();
    rows.settings = vec![setting("mcp_tools_prefix", "GOOD"), setting("theirs", "anything")];
    let (valid, errors) = settings(&rows.settings, &Settings::default());
    assert!(errors.is_empty());
    rows.settings[0].value = "not good".to_owned();
    let (updated, errors) = settings(&rows.settings, &valid);
    assert_eq!(updated.tools_prefix.as_str(), "GOOD");
    assert!(matches!(&errors[..], [SettingError::Value { .. }]));
}

#[test]
fn a_method_whose_list_of_sections_has_no_names_is_quarantined() {
    let mut rows = rows();
    rows.methods = [",", " ", " , ", "[\"\"]"]
        .map(|text| MethodRow { sections: Some(text.to_owned()), ..row("m") })
        .into();
    rows.methods.push(MethodRow { sections: Some(String::new()), ..row("open") });
    rows.methods.push(MethodRow { sections: Some("[]".to_owned()), ..row("also.open") });
    let catalog = assemble(&rows, assembly(&[])).catalog;
    assert_eq!((tool_count(&catalog, &ALL), tool_count(&catalog, &[])), (2, 2));
    assert_eq!(catalog.quarantined().len(), 4);
}
