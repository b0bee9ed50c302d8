//! Invalid replies of a site: they neither add nor open methods.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::import;
use crate::drupal_site::{self, Site, listed};
use crate::fake::FakeResponse;
use crate::support::TestDirectory;

/// Makes the site list these tools.
fn list(site: &Site, tools: &Value) {
    let page = json!({"tools": tools, "nextCursor": null}).to_string();
    site.rule(move |asked| {
        (asked.target() == "GET /mcp/tools/list").then(|| (200, page.clone()).into())
    });
}

/// Imports, which must succeed. Returns the sections and the exposure of each method.
fn imported(site: &Site, dir: &TestDirectory, more: &[&str]) -> String {
    import(site, dir, "Bearer ada", more).succeeded();
    let methods = dir.exported();
    let shown = methods.values().map(|method| {
        let hidden = if method["exposed"] == false { " hidden" } else { "" };
        format!("{} {}{hidden}\n", method["id"].as_str().unwrap(), method["sections"])
    });
    shown.collect::<Vec<_>>().concat()
}

#[test]
fn sections_of_the_command_line_survive_a_change_of_the_site() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    let with = |auth: Value| json!([{"name": "a.del", "annotations": {"auth": auth}}]);
    list(&site, &with(json!(null)));
    let staff = ["--section", "staff:execute"];
    let mut told = imported(&site, &dir, &staff);
    for auth in
        [json!({"level": "required"}), json!({"scopes": ["public:read"]}), json!({"level": "none"})]
    {
        list(&site, &with(auth));
        told.push_str(&imported(&site, &dir, &[]));
        told.push_str(&imported(&site, &dir, &staff));
    }
    insta::assert_snapshot!(told, @r#"
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
fn a_manually_hidden_method_stays_hidden_when_it_returns() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    let (both, one) = (json!([{"name": "a"}, {"name": "b"}]), json!([{"name": "b"}]));
    list(&site, &both);
    imported(&site, &dir, &[]);
    dir.ok(&["method", "set", "a", "--hidden"]);
    for tools in [&both, &one, &both] {
        list(&site, tools);
        assert_eq!(imported(&site, &dir, &[]), "a {} hidden\nb {}\n");
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
            one => vec![one],
        };
        tools.push(json!({"name": "b"}));
        list(&site, &json!(tools));
        assert_eq!(imported(&site, &dir, &[]), "b {}\n", "new: {tool}");
        list(&site, &json!([{"name": "a"}, {"name": "b"}]));
        assert_eq!(imported(&site, &dir, &[]), "a {}\nb {}\n");
        list(&site, &json!(tools));
        assert_eq!(imported(&site, &dir, &[]), "a {} hidden\nb {}\n", "{tool}");
    }
}

#[test]
fn ids_that_differ_in_case_only_do_not_share_sections() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    let tool = |name: &str, scope: &str| json!({"name": name, "annotations": {"auth": {"scopes": [scope]}}});
    let needs = "{\"@authenticated\":\"read\",\"content\":\"execute\"}";
    list(&site, &json!([tool("a.del", "content:execute")]));
    assert_eq!(imported(&site, &dir, &[]), format!("a.del {needs}\n"));
    list(&site, &json!([tool("A.DEL", "content:read"), tool("a.del", "content:execute")]));
    let said = import(&site, &dir, "Bearer ada", &[]).stdout();
    assert!(said.contains("refused  A.DEL: its id differs from `a.del` only in case"), "{said}");
    assert_eq!(imported(&site, &dir, &[]), format!("a.del {needs}\n"));
}

#[test]
fn loosened_access_is_reported() {
    let (site, dir) = (Site::start(), TestDirectory::migrated());
    let scoped = |scope: &str| json!([{"name": "a", "annotations": {"auth": {"scopes": [scope]}}}]);
    list(&site, &scoped("content:write"));
    imported(&site, &dir, &[]);
    list(&site, &scoped("content:read"));
    let told = import(&site, &dir, "Bearer ada", &[]).stderr();
    let note = "note: `a` now requires @authenticated:read content:read; before, it required \
                @authenticated:read content:write";
    assert!(told.contains(note), "{told}");
}

/// A reply of a site in place of its list.
#[derive(Debug, Clone)]
enum Instead {
    Page(u16),
    Half,
    Empty,
    Cursor(Value),
    Odd(Value),
}

impl Instead {
    fn answer(&self, list: &str) -> FakeResponse {
        match self {
            Self::Page(status) => drupal_site::page(*status),
            Self::Half => (200, list[..list.len() / 2].to_owned()).into(),
            Self::Empty => (200, json!({"tools": []}).to_string()).into(),
            Self::Cursor(cursor) => {
                let mut list: Value = serde_json::from_str(list).unwrap();
                list["nextCursor"] = cursor.clone();
                (200, list.to_string()).into()
            }
            Self::Odd(value) => (200, value.to_string()).into(),
        }
    }
}

fn instead() -> impl Strategy<Value = Instead> {
    prop_oneof![
        prop::sample::select(vec![200_u16, 301, 400, 401, 403, 404, 405, 410, 429, 500, 502, 503])
            .prop_map(Instead::Page),
        Just(Instead::Half),
        Just(Instead::Empty),
        prop::sample::select(vec![json!(7), json!("again"), json!({}), json!(true)])
            .prop_map(Instead::Cursor),
        prop::sample::select(vec![
            json!([]),
            json!({"tools": {}}),
            json!({"data": []}),
            json!({"result": {"tools": []}}),
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "Method not found"}}),
        ])
        .prop_map(Instead::Odd),
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
    fn only_marked_methods_become_callable(
        first in prop::option::of(instead()),
        second in prop::option::of(instead()),
        who in prop::sample::select(vec!["Bearer ada", "Bearer bob", "Basic ada", "Bearer mia", ""]),
        is_again in any::<bool>(),
    ) {
        let (site, dir) = (Site::start(), TestDirectory::new());
        std::fs::write(dir.path("callgate.db"), &REGISTRIES[usize::from(is_again)]).unwrap();
        let before = dir.exported();
        prop_assert_eq!(before.len(), if is_again { 86 } else { 0 });
        let is_changed = first.is_some() || second.is_some();
        site.rule(move |asked| {
            let instead = match asked.target() {
                "GET /mcp/tools/list" => first.as_ref(),
                "GET /mcp/tools/list?cursor=NTA%3D" => second.as_ref(),
                _ => None,
            };
            let list = json!({"tools": [{"name": "probe.echo"}]}).to_string();
            instead.map(|instead| instead.answer(&list))
        });
        let ran = import(&site, &dir, who, &[]);
        let after = dir.exported();
        let marked = listed("ada-bearer");
        prop_assert!(after.keys().all(|id| marked.contains(id)), "{}", ran.stderr());
        if is_changed && !ran.0.status.success() {
            prop_assert_eq!(before, after, "a source that fails changes nothing");
        }
    }
}
