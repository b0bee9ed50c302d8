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
    /// The inactive catalog, with one tool more or less.
    other: Mutex<Arc<Catalog>>,
}

#[plugin::methods]
impl Changes {
    /// Says that prompts changed.
    #[method(id = "changes.prompts", tool_name = "test_trigger_prompt_change", destructive)]
    fn prompts(&self) -> Result<Content, Error> {
        self.mcp()?.prompts_changed();
        Ok("Done.".into())
    }

    /// Says that the watched resource changed.
    #[method(id = "changes.resource", tool_name = "test_trigger_resource_update", destructive)]
    fn resource(&self) -> Result<Content, Error> {
        self.mcp()?.resource_updated(WATCHED);
        Ok("Done.".into())
    }

    /// Adds a tool, or takes it away.
    #[method(id = "changes.tools", tool_name = "test_trigger_tool_change", destructive)]
    fn tools(&self) -> Result<Content, Error> {
        let mcp = self.mcp()?;
        let mut other = self.other();
        let in_force = mcp.gateway().catalog();
        mcp.gateway().set_catalog(std::mem::replace(&mut other, in_force));
        Ok("Done.".into())
    }

    /// Creates the plugin. The other catalog has all tools except [`more`].
    pub(crate) fn begin(&self, server: &Callgate, without: &Callgate) {
        *self.other() = server.gateway().catalog();
        server.gateway().set_catalog(without.gateway().catalog());
        let _ = self.mcp.set(Arc::downgrade(server.mcp()));
    }

    fn mcp(&self) -> Result<Arc<Mcp>, Error> {
        let mcp = self.mcp.get().and_then(Weak::upgrade);
        mcp.ok_or_else(|| Error::tool("the server has not begun"))
    }

    fn other(&self) -> MutexGuard<'_, Arc<Catalog>> {
        self.other.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Is there every other time.
#[method(id = "more", tool_name = "comes_and_goes", read_only)]
pub(crate) fn more() -> Content {
    "Here I am.".into()
}
