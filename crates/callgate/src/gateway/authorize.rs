//! Access decisions: a denied tool is reported as unknown.

use super::{Gateway, NotFound, Snapshot, ToolRef};
use crate::access::{Caller, Section};
use crate::catalog::{Catalog, Entry};
use crate::gateway::snapshot::FoundTool;
use crate::model::method::Safety;
use crate::upstream::{CallError, CallFailure};

/// Maximum length of a requested id in the log and in the error.
const MAX_SHOWN_ID: usize = 255;

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
            decided => decided?,
        };
        if read_only && entry.safety() != Safety::ReadOnly {
            return Err(CallError::NotReadOnly(tool.as_str().to_owned()));
        }
        let ordinal = entry.ordinal;
        Ok(FoundTool { snapshot, ordinal })
    }

    fn login_required(&self, tool: ToolRef<'_>) -> CallError {
        let message = format!(
            "Tool '{}' requires a login; send a token as `Authorization: Bearer …`",
            tool.as_str()
        );
        let error_id = self.next_call_id();
        tracing::info!(error_id, "login required for an anonymous caller");
        let failure = CallFailure { error_id, ..CallFailure::new(message, "no token") };
        CallError::Unauthorized(failure)
    }

    /// Checks access to a tool. Denied tools look unknown to the caller, also in timing, so both cases are
    /// logged; the log has the reason.
    pub(super) fn authorize<'a>(
        snapshot: &'a Snapshot,
        caller: &Caller,
        tool: ToolRef<'_>,
    ) -> Result<&'a Entry, NotFound> {
        let catalog = &snapshot.catalog;
        let entry = match tool {
            ToolRef::Id(id) => catalog.by_id(id),
            ToolRef::Name(name) => catalog.by_name(name),
        };
        // Both take the same steps: an unknown tool is decided like one that nobody may use, and the log has
        // texts of about the same length.
        let requirement = match entry {
            Some(entry) => catalog.requirement(entry),
            None => Catalog::closed(),
        };
        let mut by_service = None;
        if let Some(entry) = entry.filter(|_| requirement.allows(&caller.grants)) {
            match snapshot.visibility.check(caller, entry) {
                Ok(()) => return Ok(entry),
                Err(decision) => by_service = Some(decision),
            }
        }
        let by_grants = requirement.decide(&caller.grants).to_string();
        let by_id = catalog.by_id(tool.as_str());
        let decision = match (entry, by_id) {
            (Some(_), _) => by_service.unwrap_or(by_grants),
            (None, Some(entry)) => {
                format!("denied: over MCP this method is called `{}`", entry.name())
            }
            (None, None) => "denied: there is no method with this id or tool name".to_owned(),
        };
        let method: String = tool.as_str().chars().take(MAX_SHOWN_ID).collect();
        tracing::info!(caller = caller.name(), method = &*method, decision, "access denied");
        Err(NotFound(method))
    }
}

/// Returns `true` if a method requires a login and the caller is anonymous. Over MCP the tool is unknown
/// instead, since clients would take the error as a request to sign in to the server.
fn needs_login(catalog: &Catalog, caller: &Caller, tool: ToolRef<'_>) -> bool {
    let (None, ToolRef::Id(id)) = (&caller.user, tool) else { return false };
    let login = Section::authenticated();
    let requirement = match catalog.by_id(id) {
        Some(entry) => catalog.requirement(entry),
        None => Catalog::closed(),
    };
    requirement.needs().iter().any(|(section, _)| *section == login)
}
