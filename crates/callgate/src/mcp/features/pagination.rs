//! Pages of lists that the embedding program provides. Items are sorted by key, so that no item is skipped or repeated
//! if the list changes between two pages.

use serde::Serialize;

use crate::gateway::Settings;
use crate::mcp::{CallTarget, EncodedMessage, McpError, McpResponse, RequestContext, ResultWriter};
use crate::upstream::local::{Context, Error};
use crate::wire::cursor::{decode_after, encode_after};

/// An item of a list.
pub(crate) trait ListItem: Serialize + Send + 'static {
    /// Returns the key, which is unique in the list.
    fn key(&self) -> &str;
}

/// A page: the name of the list in the result, and the key after which the page begins.
struct ListPage {
    member: &'static str,
    after: Option<String>,
}

/// Reads `cursor`, which contains the last key of the previous page.
pub(crate) fn after(context: &RequestContext<'_>) -> Result<Option<String>, McpError> {
    let cursor = context.request.params.text("cursor")?.unwrap_or_default();
    decode_after(&cursor).map_err(|error| McpError::invalid_params(format!("`cursor`: {error}")))
}

/// Answers a list request with one page. The list consists of `builtin_items` and, if `load_items` is set, the items
/// that its future returns.
pub(crate) fn list<T: ListItem, F: Future<Output = Result<Vec<T>, Error>> + Send + 'static>(
    context: &RequestContext<'_>,
    (method, member): (&'static str, &'static str),
    load_items: Option<impl FnOnce(Context) -> F + Send + 'static>,
    builtin_items: Vec<T>,
) -> Result<McpResponse, McpError> {
    let page = ListPage { member, after: after(context)? };
    let Some(load_items) = load_items else {
        let settings = context.mcp.gateway.settings();
        return Ok(McpResponse::Message(page.write(context.result(200), &settings, builtin_items)));
    };
    context.run(CallTarget::of(method), load_items, move |mut items, call| {
        items.extend(builtin_items);
        Ok(page.write(call.result(200), &call.mcp.gateway.settings(), items))
    })
}

impl ListPage {
    fn write<T: ListItem>(
        self,
        mut result: ResultWriter,
        settings: &Settings,
        mut items: Vec<T>,
    ) -> EncodedMessage {
        items.sort_by(|a, b| a.key().cmp(b.key()));
        if let Some(after) = self.after {
            items.retain(|item| *item.key() > *after);
        }
        let page = items.get(..settings.page_size as usize).unwrap_or(&items);
        result.value(self.member, &page);
        if let Some(last) = page.last().filter(|_| page.len() < items.len()) {
            result.value("nextCursor", &encode_after(last.key()));
        }
        result.cache(settings.list_ttl_ms, "private");
        result.finish(settings)
    }
}
