//! Tools that change what the server has, so that clients who listen are told.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use callgate::local::Error;
use callgate::mcp::Mcp;
use callgate::{CatalogBuilder, Content, Local, Method, Prefix, Safety, Types};

use crate::resources::WATCHED;
use crate::{Nothing, method, tool};

/// What there is to change.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    server: OnceLock<(Vec<Method>, Weak<Mcp>)>,
    /// Whether the tool is there that comes and goes.
    has_more: Mutex<bool>,
}

pub(crate) fn add(local: &mut Local, changes: &Arc<Changes>) -> anyhow::Result<()> {
    let mut trigger = |id, tool, description, change: fn(&Changes) -> Result<(), Error>| {
        let changes = Arc::clone(changes);
        let method = method(id, tool, description)?.safety(Safety::Destructive);
        local.content_method(method, move |_, _: Nothing| {
            let done = change(&changes).map(|()| Content::text("Done."));
            async { done }
        });
        anyhow::Ok(())
    };
    trigger(
        "changes.prompts",
        "test_trigger_prompt_change",
        "Says that prompts changed.",
        prompts,
    )?;
    let description = "Says that the watched resource changed.";
    trigger("changes.resource", "test_trigger_resource_update", description, resource)?;
    trigger("changes.tools", "test_trigger_tool_change", "Adds a tool, or takes it away.", tools)?;
    tool(local, ["more", "comes_and_goes", "Is there every other time."], async |_, _| {
        Ok(Content::text("Here I am."))
    })
}

fn prompts(changes: &Changes) -> Result<(), Error> {
    changes.mcp()?.prompts_changed();
    Ok(())
}

fn resource(changes: &Changes) -> Result<(), Error> {
    changes.mcp()?.resource_updated(WATCHED);
    Ok(())
}

fn tools(changes: &Changes) -> Result<(), Error> {
    let mut has_more = changes.has_more.lock().unwrap_or_else(PoisonError::into_inner);
    *has_more = !*has_more;
    drop(has_more);
    changes.serve_catalog()
}

impl Changes {
    /// Serves these methods.
    pub(crate) fn begin(&self, methods: Vec<Method>, mcp: &Arc<Mcp>) {
        let _ = self.server.set((methods, Arc::downgrade(mcp)));
        let _ = self.serve_catalog();
    }

    fn mcp(&self) -> Result<Arc<Mcp>, Error> {
        let server = self.server.get().and_then(|(_, mcp)| mcp.upgrade());
        server.ok_or_else(|| Error::tool("the server has not begun"))
    }

    /// Makes a catalog of the methods as of now, and puts it in force.
    fn serve_catalog(&self) -> Result<(), Error> {
        let mcp = self.mcp()?;
        let has_more = *self.has_more.lock().unwrap_or_else(PoisonError::into_inner);
        let mut catalog = CatalogBuilder::new(Prefix::default(), None);
        let methods = self.server.get().map(|(methods, _)| methods.as_slice()).unwrap_or_default();
        for method in methods.iter().filter(|it| has_more || it.id().as_str() != "more") {
            catalog.add(method.clone(), 0, &Types::default(), []);
        }
        mcp.gateway().set_catalog(Arc::new(catalog.finish()));
        Ok(())
    }
}
