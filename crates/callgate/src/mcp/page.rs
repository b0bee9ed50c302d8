//! Pages of what an embedder lists: in the order of their keys, so that nothing is skipped or
//! repeated when the list changes between two pages.

use serde::Serialize;

use super::message::{OutMessage, ResultWriter};
use super::reject::Reject;
use super::requested::Requested;
use crate::cursor::AfterCursor;

/// Something in a list.
pub(crate) trait Item: Serialize {
    /// What tells it from the others.
    fn key(&self) -> &str;
}

/// Where a page begins, and how it is written.
#[derive(Debug)]
pub(super) struct PageOf {
    id: Box<serde_json::value::RawValue>,
    mcp: std::sync::Arc<super::Mcp>,
    terms: super::Terms,
    after: Option<String>,
    member: &'static str,
}

impl PageOf {
    /// A request for a page of these.
    pub(super) fn of(request: &Requested<'_>, member: &'static str) -> Result<Self, Reject> {
        let cursor = request.asked.params.text("cursor").map_err(Reject::invalid_params)?;
        let after = AfterCursor::decode(&cursor.unwrap_or_default())
            .map_err(|error| Reject::invalid_params(format!("`cursor`: {error}")))?;
        let after = after.map(|AfterCursor(key)| key);
        let (id, mcp) = (request.asked.id.to_owned(), std::sync::Arc::clone(request.mcp));
        Ok(Self { id, mcp, terms: request.terms, after, member })
    }

    /// The page, out of all.
    pub(super) fn write<T: Item>(self, mut items: Vec<T>) -> OutMessage {
        let settings = self.mcp.gateway.settings();
        items.sort_by(|a, b| a.key().cmp(b.key()));
        if let Some(after) = self.after {
            items.retain(|item| *item.key() > *after);
        }
        let size = settings.page_size as usize;
        let mut result = ResultWriter::new(&self.id, self.terms.revision, 200);
        let page = items.get(..size).unwrap_or(&items);
        result.value(self.member, &page);
        if let Some(last) = page.last().filter(|_| page.len() < items.len()) {
            result.value("nextCursor", &AfterCursor::encode(last.key()));
        }
        result.cache(settings.list_ttl_ms, "private");
        result.finish(&settings)
    }
}
