//! Invalid replies of a site: they neither add nor open methods.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::import;
use crate::drupal_site::{self, Site, recorded_tools};
use crate::fake::FakeResponse;
use crate::support::TestDirectory;

/// Makes the site list these tools.
fn set_tools(site: &Site, tools: &Value) {
    let page = json!({"tools": tools, "nextCursor": null}).to_string();
    site.rule(move |request| {
        (request.target() == "GET /mcp/tools/list").then(|| (200, page.clone()).into())
    });
}

/// Imports, which must succeed. Returns the sections and the exposure of each method.
fn import_summary(site: &Site, dir: &TestDirectory, options: &[&str]) -> String {
    import(site, dir, "Bearer ada", options).expect_success();
    let methods = dir.exported();
    let lines = methods.values().map(|method| {
        let suffix = if method["exposed"] == false { " hidden" } else { "" };
        format!("{} {}{suffix}\n", method["id"].as_str().unwrap(), method["sections"])
    });
    lines.collect::<Vec<_>>().concat()
}

#[test]
fn sections_of_the_command_line_survive_a_change_of_the_site() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    let tool_with = |auth: Value| json!([{"name": "a.del", "annotations": {"auth": auth}}]);
    set_tools(&site, &tool_with(json!(null)));
    let staff = ["--section", "staff:execute"];
    let mut text = import_summary(&site, &dir, &staff);
    for auth in
        [json!({"level": "required"}), json!({"scopes": ["public:read"]}), json!({"level": "none"})]
    {
        set_tools(&site, &tool_with(auth));
        text.push_str(&import_summary(&site, &dir, &[]));
        text.push_str(&import_summary(&site, &dir, &staff));
    }
    insta::assert_snapshot!(text, @r#"
    a.del {"staff":"execute"}
    a.del {"@authenticated":"read","staff":"execute"}
    a.del {"@authenticated":"read","staff":"execute"}
    a.del {"@authenticated":"read","public":"read","staff":"execute"}
    a.del {"@authenticated":"read","public":"read","staff":"execute"}
    a.del {"@authenticated":"read","public":"read","staff":"execute"}
    a.del {"@authenticated":"read","public":"read","staff":"execute"}
    "#);
}

#[test]
fn a_manually_hidden_method_stays_hidden_if_the_site_lists_it_again() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    let (all_tools, one_tool) = (json!([{"name": "a"}, {"name": "b"}]), json!([{"name": "b"}]));
    set_tools(&site, &all_tools);
    import_summary(&site, &dir, &[]);
    dir.ok(&["method", "set", "a", "--hidden"]);
    for tools in [&all_tools, &one_tool, &all_tools] {
        set_tools(&site, tools);
        assert_eq!(import_summary(&site, &dir, &[]), "a {} hidden\nb {}\n");
    }
}

#[test]
fn an_unknown_restriction_does_not_open_a_tool() {
    for tool in [
        json!({"name": "a", "annotations": {"auth": {"level": "admin"}}}),
        json!({"name": "a", "annotations": {"auth": {"Level": "required"}}}),
        json!({"name": "a", "annotations": "required"}),
        json!({"name": "a", "inputSchema": 7, "annotations": {"auth": {"level": "required"}}}),
        json!([{"name": "a"}, {"name": "a", "annotations": {"auth": {"level": "required"}}}]),
    ] {
        let (site, dir) = (Site::start(), TestDirectory::migrated());
        let mut tools = match tool.clone() {
            Value::Array(tools) => tools,
            single => vec![single],
        };
        tools.push(json!({"name": "b"}));
        set_tools(&site, &json!(tools));
        assert_eq!(import_summary(&site, &dir, &[]), "b {}\n", "new: {tool}");
        set_tools(&site, &json!([{"name": "a"}, {"name": "b"}]));
        assert_eq!(import_summary(&site, &dir, &[]), "a {}\nb {}\n");
        set_tools(&site, &json!(tools));
        assert_eq!(import_summary(&site, &dir, &[]), "a {} hidden\nb {}\n", "{tool}");
    }
}

#[test]
fn ids_that_differ_in_case_only_do_not_share_sections() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    let tool = |name: &str, scope: &str| json!({"name": name, "annotations": {"auth": {"scopes": [scope]}}});
    let sections = "{\"@authenticated\":\"read\",\"content\":\"execute\"}";
    set_tools(&site, &json!([tool("a.del", "content:execute")]));
    assert_eq!(import_summary(&site, &dir, &[]), format!("a.del {sections}\n"));
    set_tools(&site, &json!([tool("A.DEL", "content:read"), tool("a.del", "content:execute")]));
    let stdout = import(&site, &dir, "Bearer ada", &[]).stdout();
    assert!(
        stdout.contains("refused  A.DEL: its id differs from `a.del` only in case"),
        "{stdout}"
    );
    assert_eq!(import_summary(&site, &dir, &[]), format!("a.del {sections}\n"));
}

#[test]
fn loosened_access_is_reported() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    let scoped = |scope: &str| json!([{"name": "a", "annotations": {"auth": {"scopes": [scope]}}}]);
    set_tools(&site, &scoped("content:write"));
    import_summary(&site, &dir, &[]);
    set_tools(&site, &scoped("content:read"));
    let stderr = import(&site, &dir, "Bearer ada", &[]).stderr();
    let note = "note: `a` now requires @authenticated:read content:read; before, it required \
                @authenticated:read content:write";
    assert!(stderr.contains(note), "{stderr}");
}

/// A reply of a site in place of its list.
#[derive(Debug, Clone)]
enum InvalidReply {
    Page(u16),
    Truncated,
    Empty,
    Cursor(Value),
    Unexpected(Value),
}

impl InvalidReply {
    fn response(&self, list: &str) -> FakeResponse {
        match self {
            Self::Page(status) => drupal_site::page(*status),
            Self::Truncated => (200, list[..list.len() / 2].to_owned()).into(),
            Self::Empty => (200, json!({"tools": []}).to_string()).into(),
            Self::Cursor(cursor) => {
                let mut list: Value = serde_json::from_str(list).unwrap();
                list["nextCursor"] = cursor.clone();
                (200, list.to_string()).into()
            }
            Self::Unexpected(value) => (200, value.to_string()).into(),
        }
    }
}

fn invalid_reply() -> impl Strategy<Value = InvalidReply> {
    prop_oneof![
        prop::sample::select(vec![200_u16, 301, 400, 401, 403, 404, 405, 410, 429, 500, 502, 503])
            .prop_map(InvalidReply::Page),
        Just(InvalidReply::Truncated),
        Just(InvalidReply::Empty),
        prop::sample::select(vec![json!(7), json!("again"), json!({}), json!(true)])
            .prop_map(InvalidReply::Cursor),
        prop::sample::select(vec![
            json!([]),
            json!({"tools": {}}),
            json!({"data": []}),
            json!({"result": {"tools": []}}),
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "Method not found"}}),
        ])
        .prop_map(InvalidReply::Unexpected),
    ]
}

/// Returns the file of a registry with the tools that `ada` sees: a copy is faster than an import.
static REGISTRIES: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    // The copy includes the write-ahead log.
    let copy = |name: &str| {
        let path = dir.path(name);
        dir.sql("callgate.db", &format!("VACUUM INTO '{}'", path.display()));
        std::fs::read(path).unwrap()
    };
    let empty = copy("empty.db");
    assert!(import(&site, &dir, "Bearer ada", &[]).0.status.success());
    [empty, copy("filled.db")]
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// No reply of a site adds a method that its list does not have.
    #[test]
    fn invalid_replies_add_no_methods_that_the_site_does_not_list(
        first in prop::option::of(invalid_reply()),
        second in prop::option::of(invalid_reply()),
        credential in prop::sample::select(vec!["Bearer ada", "Bearer bob", "Basic ada", "Bearer mia", ""]),
        is_repeated in any::<bool>(),
    ) {
        let (site, dir) = (Site::start(), TestDirectory::new());
        std::fs::write(dir.path("callgate.db"), &REGISTRIES[usize::from(is_repeated)]).unwrap();
        let before = dir.exported();
        prop_assert_eq!(before.len(), if is_repeated { 86 } else { 0 });
        let is_changed = first.is_some() || second.is_some();
        site.rule(move |request| {
            let reply = match request.target() {
                "GET /mcp/tools/list" => first.as_ref(),
                "GET /mcp/tools/list?cursor=NTA%3D" => second.as_ref(),
                _ => None,
            };
            let list = json!({"tools": [{"name": "probe.echo"}]}).to_string();
            reply.map(|reply| reply.response(&list))
        });
        let output = import(&site, &dir, credential, &[]);
        let after = dir.exported();
        let listed = recorded_tools("ada-bearer");
        prop_assert!(after.keys().all(|id| listed.contains(id)), "{}", output.stderr());
        if is_changed && !output.0.status.success() {
            prop_assert_eq!(before, after, "a source that fails changes nothing");
        }
    }
}
