//! Pages of what an embedder lists: in the order of their keys, so that nothing is skipped or repeated
//! when the list changes between two pages.

use serde::Serialize;

use crate::gateway::settings::Settings;
use crate::mcp::Reply;
use crate::mcp::calls::context::RequestContext;
use crate::mcp::reply::error::Reject;
use crate::mcp::reply::message::{OutMessage, ResultWriter};
use crate::upstream::local::Error;
use crate::upstream::local::context::Context;
use crate::wire::cursor::AfterCursor;

/// Something in a list.
pub(crate) trait Item: Serialize + Send + 'static {
    /// What tells it from the others.
    fn key(&self) -> &str;
}

/// Where a page begins, and the member of the result that it is.
pub(crate) struct Page {
    member: &'static str,
    after: Option<String>,
}

/// Returns what the page before ended with.
pub(crate) fn after(context: &RequestContext<'_>) -> Result<Option<String>, Reject> {
    let cursor = context.request.params.text("cursor")?.unwrap_or_default();
    let after = AfterCursor::decode(&cursor)
        .map_err(|error| Reject::invalid_params(format!("`cursor`: {error}")))?;
    Ok(after.map(|AfterCursor(key)| key))
}

/// Answers a request for a page of a list: of what `all` returns, where there is something, and of `own`.
pub(crate) fn list<T: Item, F: Future<Output = Result<Vec<T>, Error>> + Send + 'static>(
    context: &RequestContext<'_>,
    (method, member): (&'static str, &'static str),
    all: Option<impl FnOnce(Context) -> F + Send + 'static>,
    own: Vec<T>,
) -> Result<Reply, Reject> {
    let page = Page { member, after: after(context)? };
    let Some(all) = all else {
        let settings = context.mcp.gateway.settings();
        return Ok(Reply::Message(page.write(context.result(200), &settings, own)));
    };
    context.run(method, all, move |mut items, call| {
        items.extend(own);
        Ok(page.write(call.result(200), &call.mcp.gateway.settings(), items))
    })
}

impl Page {
    fn write<T: Item>(
        self,
        mut result: ResultWriter,
        settings: &Settings,
        mut items: Vec<T>,
    ) -> OutMessage {
        items.sort_by(|a, b| a.key().cmp(b.key()));
        if let Some(after) = self.after {
            items.retain(|item| *item.key() > *after);
        }
        let page = items.get(..settings.page_size as usize).unwrap_or(&items);
        result.value(self.member, &page);
        if let Some(last) = page.last().filter(|_| page.len() < items.len()) {
            result.value("nextCursor", &AfterCursor::encode(last.key()));
        }
        result.cache(settings.list_ttl_ms, "private");
        result.finish(settings)
    }
}
