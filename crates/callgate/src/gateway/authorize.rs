//! Access decisions: a denied tool is reported as unknown. There is one exception: over REST and JSON-RPC, anonymous
//! callers are told if a tool requires a mask on [`Section::authenticated`], that is, a login.

use std::hint::black_box;
use std::sync::{Arc, LazyLock};

use tokio::runtime::Handle;
use tracing::{Dispatch, dispatcher};

use super::{Gateway, Snapshot, ToolRef};
use crate::access::{Caller, Requirement, Section};
use crate::catalog::{Catalog, Entry};
use crate::gateway::snapshot::FoundTool;
use crate::model::method::Safety;
use crate::upstream::{CallError, CallFailure, NotFound};

/// Maximum number of characters of a requested id in the log and in the error.
const MAX_ID_CHARACTERS: usize = 255;

impl Gateway {
    /// Finds a tool that the caller may use.
    pub(crate) fn find(
        &self,
        caller: &Caller,
        tool: ToolRef<'_>,
        read_only: bool,
    ) -> Result<FoundTool, CallError> {
        let snapshot = self.snapshot.load_full();
        let entry = match Self::authorize(&snapshot, caller, tool) {
            Err(_) if needs_login(&snapshot.catalog, caller, tool) => {
                return Err(self.login_required(tool));
            }
            authorized => authorized?,
        };
        if read_only && entry.call_safety() != Safety::ReadOnly {
            return Err(CallError::NotReadOnly(tool.as_str().to_owned()));
        }
        let entry = Arc::clone(entry);
        Ok(FoundTool::new(snapshot, entry))
    }

    fn login_required(&self, tool: ToolRef<'_>) -> CallError {
        let message = format!(
            "Tool '{}' requires a login; send a token as `Authorization: Bearer …`",
            tool.as_str()
        );
        let error_id = self.next_call_id();
        tracing::info!(tool = tool.as_str(), error_id, "login required for an anonymous caller");
        let failure = CallFailure { error_id, ..CallFailure::new(message, "no token") };
        CallError::Unauthorized(failure)
    }

    /// Checks access to a tool. A denied tool cannot be distinguished from an unknown one, not even by timing: both
    /// cases take the same steps, and [`log_denial`] finds the reason on another thread. For anonymous callers,
    /// [`find`](Self::find) makes an exception.
    pub(super) fn authorize<'a>(
        snapshot: &'a Arc<Snapshot>,
        caller: &Caller,
        tool: ToolRef<'_>,
    ) -> Result<&'a Arc<Entry>, NotFound> {
        let catalog = &snapshot.catalog;
        let entry = lookup(catalog, tool);
        let is_granted = requirement(entry).allows(&caller.grants);
        if let Some(entry) = entry.filter(|_| is_granted)
            && snapshot.visibility.is_visible(caller, entry)
        {
            return Ok(entry);
        }
        let method: String = tool.as_str().chars().take(MAX_ID_CHARACTERS).collect();
        let is_id = matches!(tool, ToolRef::Id(_));
        let (snapshot, caller, logged_method) =
            (Arc::clone(snapshot), caller.clone(), method.clone());
        let subscriber = dispatcher::get_default(Dispatch::clone);
        let log = move || {
            dispatcher::with_default(&subscriber, || {
                log_denial(&snapshot, &caller, &logged_method, is_id);
            });
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(log)),
            Err(_) => log(),
        }
        Err(NotFound(method))
    }
}

fn lookup<'a>(catalog: &'a Catalog, tool: ToolRef<'_>) -> Option<&'a Arc<Entry>> {
    match tool {
        ToolRef::Id(id) => catalog.by_id(id),
        ToolRef::Name(name) => catalog.by_name(name),
    }
}

/// Returns the requirement of a tool. The requirement of an unknown tool is one that nobody satisfies.
fn requirement(entry: Option<&Arc<Entry>>) -> &Requirement {
    static CLOSED: LazyLock<Requirement> = LazyLock::new(Requirement::closed);
    entry.map_or(&CLOSED, |entry| &entry.requirement)
}

/// Logs why a caller may not use a tool. Takes the same steps for an unknown tool as for a denied one. Otherwise the
/// time of the reply could show whether the tool exists, because this thread and the reply compete for the processor.
fn log_denial(snapshot: &Snapshot, caller: &Caller, method: &str, is_id: bool) {
    let catalog = &snapshot.catalog;
    let tool = if is_id { ToolRef::Id(method) } else { ToolRef::Name(method) };
    let (entry, by_id) = (lookup(catalog, tool), catalog.by_id(method));
    let by_grants = requirement(entry).decide(&caller.grants);
    let by_service = entry.and_then(|entry| snapshot.visibility.check(caller, entry).err());
    let decision = match (entry, by_id, by_service) {
        (Some(_), _, Some(by_service)) if by_grants.is_allowed() => by_service,
        (Some(_), ..) => by_grants.to_string(),
        (None, Some(entry), _) => {
            format!(
                "denied: this is the id of a method; over MCP, use its tool name `{}`",
                entry.name()
            )
        }
        (None, None, _) => {
            // Formats the reason also for an unknown tool, so that both cases take the same time.
            black_box(format!("({by_grants})"));
            "denied: there is no method with this id or tool name".to_owned()
        }
    };
    tracing::info!(caller = caller.name(), method, decision, "access denied");
}

/// Returns `true` if the caller is anonymous and gave the id of a method that requires a login. Over MCP, callers give
/// a tool name instead of an id. The tool is then reported as unknown, because clients would interpret the error as a
/// request to sign in to the server.
fn needs_login(catalog: &Catalog, caller: &Caller, tool: ToolRef<'_>) -> bool {
    let (None, ToolRef::Id(id)) = (&caller.user, tool) else { return false };
    let authenticated = Section::authenticated();
    requirement(catalog.by_id(id)).sections().iter().any(|(section, _)| *section == authenticated)
}
