//! Routes a message to the method that answers it.

mod legacy;
mod rate_limited;

use std::sync::Arc;

use crate::mcp::calls::negotiated;
use crate::mcp::features::{completion, handshake, prompts, resources, tasks, tools};
use crate::mcp::parse::classify::Route;
use crate::mcp::parse::method::McpMethod;
use crate::mcp::{
    Inbound, Mcp, McpError, McpRequest, McpResponse, Negotiated, NotificationStream, RequestContext,
};
use crate::wire::jsonrpc::INVALID_REQUEST;

impl Mcp {
    pub(super) async fn route(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        route: Route<'_>,
    ) -> Result<McpResponse, McpError> {
        match route {
            Route::Modern(request) => {
                self.modern(inbound, &request).await.map_err(|error| error.with_id(request.id))
            }
            Route::Legacy { claimed, message } => {
                let negotiated = self.negotiated_for(inbound, claimed, &message)?;
                self.legacy(inbound, negotiated, message).await
            }
            Route::Batch { claimed, messages } => {
                Box::pin(self.batch(inbound, claimed, messages)).await
            }
            Route::OpenStream { claimed } => self.legacy_stream(inbound, claimed),
            Route::EndSession => Box::pin(self.end(inbound)).await,
        }
    }

    /// Answers a modern request. Its `_meta` contains the revision and the capabilities.
    async fn modern(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        request: &McpRequest<'_>,
    ) -> Result<McpResponse, McpError> {
        let log_level = negotiated::log_level(request);
        let negotiated = Negotiated {
            log_level: log_level.as_ref().ok().copied().flatten(),
            ..Negotiated::modern(inbound, request)?
        };
        if negotiated.read_only && request.method.needs_post() {
            let method = &request.method_name;
            let problem = format!("`{method}` is not available with `rawRequest`; use POST");
            return Err(McpError::new(405, INVALID_REQUEST, problem));
        }
        let reply = RequestContext { mcp: self, inbound, request, negotiated }.reply().await?;
        // Checked here so that an unknown method is reported before an invalid log level. Nothing has run yet.
        log_level?;
        Ok(reply)
    }
}

impl RequestContext<'_> {
    async fn reply(&self) -> Result<McpResponse, McpError> {
        let is_modern = self.negotiated.revision.is_modern();
        if self.inbound.caller.is_batch_full() {
            return Err(McpError::batch_full());
        }
        match self.request.method {
            McpMethod::ToolsCall => tools::call(self).await,
            McpMethod::ToolsList => tools::list(self),
            McpMethod::ResourcesList => resources::list(self),
            McpMethod::ResourceTemplatesList => resources::list_templates(self),
            McpMethod::ResourcesRead => resources::read(self),
            McpMethod::PromptsList => prompts::list(self),
            McpMethod::PromptsGet => prompts::get(self),
            McpMethod::Complete => completion::complete(self),
            McpMethod::Discover if is_modern => Ok(handshake::discover(self)),
            McpMethod::Listen if is_modern => {
                Ok(McpResponse::Notifications(Box::new(NotificationStream::modern(self)?)))
            }
            McpMethod::TasksGet | McpMethod::TasksUpdate | McpMethod::TasksCancel
                if is_modern && self.mcp.tasks.is_some() =>
            {
                tasks::handle(self)
            }
            McpMethod::Initialize if !is_modern => handshake::initialize(self),
            McpMethod::Ping if !is_modern => Ok(self.empty_result()),
            McpMethod::SetLogLevel if !is_modern => Box::pin(self.set_log_level()).await,
            McpMethod::ResourcesSubscribe | McpMethod::ResourcesUnsubscribe
                if !is_modern && self.mcp.can_subscribe() =>
            {
                Box::pin(self.subscribe()).await
            }
            _ => Err(McpError::method_not_found(&self.request.method_name, is_modern)),
        }
    }
}
