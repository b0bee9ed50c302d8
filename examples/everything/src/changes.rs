//! Tools that change the lists of the server, so that subscribed clients are notified.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use callgate::catalog::Catalog;
use callgate::mcp::Mcp;
use callgate::{Callgate, Content, Error, method, plugin};

use crate::resources::WATCHED;

/// State that the tools change.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    mcp: OnceLock<Weak<Mcp>>,
    /// The inactive catalog. One of the two catalogs contains the tool `more`, the other does not.
    inactive: Mutex<Arc<Catalog>>,
}

#[plugin::methods]
impl Changes {
    /// Notifies clients that the list of prompts changed.
    #[method(id = "changes.prompts", tool_name = "test_trigger_prompt_change", destructive)]
    fn prompts(&self) -> Result<Content, Error> {
        self.mcp()?.prompts_changed();
        Ok("Done.".into())
    }

    /// Notifies subscribed clients that the watched resource changed.
    #[method(id = "changes.resource", tool_name = "test_trigger_resource_update", destructive)]
    fn resource(&self) -> Result<Content, Error> {
        self.mcp()?.resource_updated(WATCHED);
        Ok("Done.".into())
    }

    /// Adds a tool, or removes it again.
    #[method(id = "changes.tools", tool_name = "test_trigger_tool_change", destructive)]
    fn tools(&self) -> Result<Content, Error> {
        let mcp = self.mcp()?;
        let mut inactive = self.inactive();
        let active = mcp.gateway().catalog();
        mcp.gateway().set_catalog(std::mem::replace(&mut inactive, active));
        Ok("Done.".into())
    }

    /// Sets the server that the tools change. The server begins with the catalog of `without`, which lacks the tool
    /// `more`.
    pub(crate) fn start(&self, server: &Callgate, without: &Callgate) {
        *self.inactive() = server.gateway().catalog();
        server.gateway().set_catalog(without.gateway().catalog());
        let _ = self.mcp.set(Arc::downgrade(server.mcp()));
    }

    fn mcp(&self) -> Result<Arc<Mcp>, Error> {
        let mcp = self.mcp.get().and_then(Weak::upgrade);
        mcp.ok_or_else(|| Error::tool("the server has not started"))
    }

    fn inactive(&self) -> MutexGuard<'_, Arc<Catalog>> {
        self.inactive.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Is added and removed by `test_trigger_tool_change`.
#[method(id = "more", tool_name = "comes_and_goes", read_only)]
pub(crate) fn more() -> Content {
    "Here I am.".into()
}
