//! Parses lists of methods: OpenRPC documents, and pages of tools.

use serde::Deserialize;
use thiserror::Error;

use crate::upstream::forward::Failure;
use crate::upstream::forward::target::site_path;

/// Maximum number of methods in a list. A longer list is an error.
pub(crate) const MAX_IDS: usize = 10_000;

/// Maximum length of a method id. Longer ids are skipped.
const MAX_ID_BYTES: usize = 255;

#[derive(Debug, Error)]
pub(crate) enum MethodListError {
    #[error(transparent)]
    Failure(#[from] Failure),
    #[error(
        "the response is not an OpenRPC document: expected an array `methods` in which each item has a `name`"
    )]
    NotOpenRpc,
    #[error(
        "the response is not a list of tools: expected an array `tools` in which each item has a `name`"
    )]
    NotTools,
    #[error("the service lists more than {MAX_IDS} methods")]
    TooMany,
    #[error("the list has more than {0} pages, or repeats a page")]
    Pages(usize),
    #[error("the pages of the list are larger than {0} bytes together")]
    TooLarge(usize),
    #[error("the service denies the list")]
    Denied,
    #[error("the service returned the error {0}")]
    Rpc(i64),
}

#[derive(Deserialize)]
struct NamedItem {
    name: String,
}

#[derive(Deserialize)]
struct OpenRpc {
    methods: Vec<NamedItem>,
}

#[derive(Deserialize)]
struct ToolPage {
    tools: Vec<NamedItem>,
    #[serde(rename = "nextCursor")]
    next_cursor: Option<String>,
}

pub(crate) fn open_rpc(document: &str) -> Result<Vec<String>, MethodListError> {
    let OpenRpc { methods } =
        serde_json::from_str(document).map_err(|_| MethodListError::NotOpenRpc)?;
    let mut ids = Vec::new();
    add(&mut ids, methods)?;
    Ok(ids)
}

/// Adds the ids of a page of tools. Returns the cursor of the next page.
pub(crate) fn tools(page: &str, ids: &mut Vec<String>) -> Result<Option<String>, MethodListError> {
    let page = page.trim_start_matches('\u{feff}');
    let ToolPage { tools, next_cursor } =
        serde_json::from_str(page).map_err(|_| MethodListError::NotTools)?;
    add(ids, tools)?;
    Ok(next_cursor.filter(|cursor| !cursor.is_empty()))
}

fn add(ids: &mut Vec<String>, items: Vec<NamedItem>) -> Result<(), MethodListError> {
    if ids.len().saturating_add(items.len()) > MAX_IDS {
        return Err(MethodListError::TooMany);
    }
    let valid = items.into_iter().map(|item| item.name).filter(|id| id.len() <= MAX_ID_BYTES);
    ids.extend(valid);
    Ok(())
}

/// Returns the path of the list of tools. `path` is the path of the JSON-RPC endpoint or of a tool.
pub(crate) fn tools_path(path: &str) -> String {
    let base = path.rsplit_once("/mcp/tools/").map_or_else(|| site_path(path), |(base, _)| base);
    format!("{base}/mcp/tools/list")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lists_are_accepted_and_invalid_lists_are_rejected() {
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
        for invalid in [
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
            assert!(ids(invalid).is_err(), "{invalid}");
        }
        assert_eq!(open_rpc(r#"{"openrpc":"1.3.2","methods":[{"name":"a"}]}"#).unwrap(), ["a"]);
        assert!(open_rpc(r#"{"methods":[]}"#).unwrap().is_empty());
        for invalid in ["", "null", "{}", r#"{"methods":null}"#, r#"{"methods":[{}]}"#] {
            assert!(open_rpc(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn too_many_ids_are_an_error_and_ids_that_are_too_long_are_skipped() {
        let named = |count: usize| vec![serde_json::json!({"name": "a"}); count];
        let document = |count| serde_json::json!({ "methods": named(count) }).to_string();
        assert_eq!(open_rpc(&document(MAX_IDS)).unwrap().len(), MAX_IDS);
        assert!(matches!(open_rpc(&document(MAX_IDS + 1)), Err(MethodListError::TooMany)));
        let long = serde_json::json!({"methods": [{"name": "a".repeat(256)}, {"name": "b"}]});
        assert_eq!(open_rpc(&long.to_string()).unwrap(), ["b"]);
    }

    #[test]
    fn the_path_of_the_tool_list_is_derived_from_the_path_of_the_service() {
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
