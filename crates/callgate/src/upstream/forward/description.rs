//! The ids in what a service says of its methods.

use serde::Deserialize;
use thiserror::Error;

use super::failure::Failure;
use super::target::site_path;

/// Maximum number of ids; a service that lists more is not believed.
pub(super) const MAX_IDS: usize = 10_000;

/// Method ids are not longer than this; longer names are left out.
const MAX_ID_BYTES: usize = 255;

/// Why it is not known what a service lists.
#[derive(Debug, Error)]
pub(super) enum NotListed {
    #[error(transparent)]
    Failure(#[from] Failure),
    #[error("the answer is no OpenRPC document: `methods` with a `name` each is missing")]
    NotOpenRpc,
    #[error("the answer is no list of tools: `tools` with a `name` each is missing")]
    NotTools,
    #[error("it lists more than {MAX_IDS} methods")]
    TooMany,
    #[error("it has more than {0} pages of tools, or gives one of them again")]
    Pages(usize),
    #[error("its pages of tools have more than {0} bytes together")]
    TooLarge(usize),
    #[error("it denies the list")]
    Denied,
    #[error("it answers with the error {0}")]
    Rpc(i64),
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct OpenRpc {
    methods: Vec<Named>,
}

#[derive(Deserialize)]
struct Tools {
    tools: Vec<Named>,
    #[serde(rename = "nextCursor")]
    next_cursor: Option<String>,
}

/// The ids in an OpenRPC document.
pub(super) fn open_rpc(document: &str) -> Result<Vec<String>, NotListed> {
    let OpenRpc { methods } = serde_json::from_str(document).map_err(|_| NotListed::NotOpenRpc)?;
    let mut ids = Vec::new();
    add(&mut ids, methods)?;
    Ok(ids)
}

/// Takes the ids of a page of tools in; comes back with the cursor of the next page.
pub(super) fn tools(page: &str, ids: &mut Vec<String>) -> Result<Option<String>, NotListed> {
    let page = page.trim_start_matches('\u{feff}');
    let Tools { tools, next_cursor } =
        serde_json::from_str(page).map_err(|_| NotListed::NotTools)?;
    add(ids, tools)?;
    Ok(next_cursor.filter(|cursor| !cursor.is_empty()))
}

fn add(ids: &mut Vec<String>, named: Vec<Named>) -> Result<(), NotListed> {
    if ids.len().saturating_add(named.len()) > MAX_IDS {
        return Err(NotListed::TooMany);
    }
    let fitting = named.into_iter().map(|one| one.name).filter(|id| id.len() <= MAX_ID_BYTES);
    ids.extend(fitting);
    Ok(())
}

/// The URL's path of a site's list of tools, by the path that its methods are called at.
pub(super) fn tools_path(path: &str) -> String {
    let base = path.rsplit_once("/mcp/tools/").map_or_else(|| site_path(path), |(base, _)| base);
    format!("{base}/mcp/tools/list")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_a_list_counts_and_an_empty_list_is_one() {
        let ids = |page: &str| {
            let mut ids = Vec::new();
            tools(page, &mut ids).map(|next| (ids, next)).map_err(|error| error.to_string())
        };
        let named = |name: &str| vec![name.to_owned()];
        assert_eq!(ids(r#"{"tools":[]}"#), Ok((Vec::new(), None)));
        assert_eq!(ids(r#"{"tools":[],"nextCursor":""}"#), Ok((Vec::new(), None)));
        assert_eq!(
            ids("\u{feff}{\"tools\":[{\"name\":\"a\",\"x\":1}],\"nextCursor\":\"NTA=\"}"),
            Ok((named("a"), Some("NTA=".to_owned())))
        );
        for wrong in [
            "",
            "<!DOCTYPE html>",
            "null",
            "[]",
            "{}",
            r#"{"tools":null}"#,
            r#"{"tools":{}}"#,
            r#"{"tools":["a"]}"#,
            r#"{"tools":[{"title":"a"}]}"#,
            r#"{"tools":[{"name":1}]}"#,
            r#"{"tools":[],"nextCursor":7}"#,
        ] {
            assert!(ids(wrong).is_err(), "{wrong}");
        }
        assert_eq!(open_rpc(r#"{"openrpc":"1.3.2","methods":[{"name":"a"}]}"#).unwrap(), ["a"]);
        assert!(open_rpc(r#"{"methods":[]}"#).unwrap().is_empty());
        for wrong in ["", "null", "{}", r#"{"methods":null}"#, r#"{"methods":[{}]}"#] {
            assert!(open_rpc(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn more_ids_than_the_limit_are_a_failure_and_names_that_no_id_has_are_left_out() {
        let named = |count: usize| vec![serde_json::json!({"name": "a"}); count];
        let document = |count| serde_json::json!({ "methods": named(count) }).to_string();
        assert_eq!(open_rpc(&document(MAX_IDS)).unwrap().len(), MAX_IDS);
        assert!(matches!(open_rpc(&document(MAX_IDS + 1)), Err(NotListed::TooMany)));
        let long = serde_json::json!({"methods": [{"name": "a".repeat(256)}, {"name": "b"}]});
        assert_eq!(open_rpc(&long.to_string()).unwrap(), ["b"]);
    }

    #[test]
    fn the_list_of_tools_is_beside_the_methods() {
        for (path, list) in [
            ("/jsonrpc", "/mcp/tools/list"),
            ("/de/jsonrpc/", "/de/mcp/tools/list"),
            ("/site/mcp/tools/node.get", "/site/mcp/tools/list"),
            ("/", "/mcp/tools/list"),
            ("/site", "/site/mcp/tools/list"),
        ] {
            assert_eq!(tools_path(path), list);
        }
    }
}
