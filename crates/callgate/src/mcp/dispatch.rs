//! Routes a message to the function of its method.

mod legacy;

use std::sync::Arc;

use crate::access::RateLimited;
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
        admitted: Result<(), RateLimited>,
    ) -> Result<McpResponse, McpError> {
        match route {
            Route::Modern(request) => {
                let response = self.modern(inbound, &request, admitted).await;
                response.map_err(|error| error.with_id(request.id))
            }
            Route::Legacy { header_revision, message } => {
                let negotiated = self.negotiated_for(inbound, header_revision, &message)?;
                self.legacy(inbound, negotiated, message, admitted).await
            }
            Route::Batch { header_revision, messages } => {
                admitted?;
                Box::pin(self.batch(inbound, header_revision, messages)).await
            }
            Route::OpenStream { header_revision } => {
                admitted?;
                self.legacy_stream(inbound, header_revision)
            }
            Route::EndSession => {
                admitted?;
                Box::pin(self.end_session(inbound)).await
            }
        }
    }

    /// Handles a modern request. Its `_meta` contains the revision and the capabilities.
    async fn modern(
        self: &Arc<Self>,
        inbound: &Inbound<'_>,
        request: &McpRequest<'_>,
        admitted: Result<(), RateLimited>,
    ) -> Result<McpResponse, McpError> {
        let log_level = negotiated::log_level(request);
        let negotiated = Negotiated {
            log_level: log_level.as_ref().ok().copied().flatten(),
            ..Negotiated::modern(inbound, request)?
        };
        let context = RequestContext { mcp: self, inbound, request, negotiated };
        if let Err(limited) = admitted {
            return context.refuse(limited);
        }
        if inbound.is_read_only() && request.method.needs_post() {
            let method = &request.method_name;
            let problem = format!("`{method}` is not available with `rawRequest`; use POST");
            return Err(McpError::new(405, INVALID_REQUEST, problem));
        }
        let response = context.dispatch().await?;
        // Checked here so that an unknown method is reported before an invalid log level. No tool has run yet, because
        // a call with a log level starts only when its `RunningCall` is polled.
        log_level?;
        Ok(response)
    }
}

impl RequestContext<'_> {
    /// Refuses a request that exceeds a rate limit. A tool call gets a result that says how long to wait, because
    /// agents read results of tools.
    fn refuse(&self, limited: RateLimited) -> Result<McpResponse, McpError> {
        if self.request.method == McpMethod::ToolsCall {
            return Ok(McpResponse::Message(tools::error_result(self, &limited.to_string())));
        }
        Err(limited.into())
    }

    /// Calls the function of the method.
    async fn dispatch(&self) -> Result<McpResponse, McpError> {
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
