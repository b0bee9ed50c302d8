//! rmcp behind a token check in axum. rmcp has its cheapest options: no sessions, and JSON replies.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use callgate_bench::model::{self, Tool};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest as _, Sha256};

/// Grants by digest of the token.
type Tokens = HashMap<[u8; 32], TokenGrants>;

/// Grants of a token: the number of the set, and its sections as bits.
#[derive(Debug, Clone, Copy)]
struct TokenGrants {
    set: usize,
    sections: u32,
}

/// The tools, and the visible tools of each set of grants.
#[derive(Debug)]
struct Handler {
    tools: HashMap<String, Tool>,
    visible: Vec<Vec<rmcp::model::Tool>>,
}

/// Returns the router: the token check, then rmcp.
pub(crate) fn router(tools: &[Tool]) -> anyhow::Result<Router> {
    let handler = Arc::new(Handler::new(tools)?);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true);
    let service = StreamableHttpService::new(
        move || Ok(Arc::clone(&handler)),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Ok(Router::new()
        .route_service("/mcp", service)
        .layer(from_fn_with_state(Arc::new(tokens()), check_token)))
}

fn tokens() -> Tokens {
    let digest = |number| Sha256::digest(model::token(number).as_bytes()).into();
    let grants = |set| TokenGrants { set, sections: model::grant_set(set) };
    (0..model::TOKENS).map(|number| (digest(number), grants(number % model::GRANT_SETS))).collect()
}

async fn check_token(
    State(tokens): State<Arc<Tokens>>,
    mut request: Request,
    next: Next,
) -> Response {
    let token = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let digest = token.map(|token| <[u8; 32]>::from(Sha256::digest(token.as_bytes())));
    let Some(grants) = digest.and_then(|digest| tokens.get(&digest)).copied() else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    request.extensions_mut().insert(grants);
    next.run(request).await
}

impl Handler {
    fn new(tools: &[Tool]) -> anyhow::Result<Self> {
        let all = tools.iter().map(|tool| Ok((tool, rmcp_tool(tool)?)));
        let all: Vec<(&Tool, rmcp::model::Tool)> = all.collect::<anyhow::Result<_>>()?;
        let visible = |set| {
            let grants = model::grant_set(set);
            let visible = all.iter().filter(|(tool, _)| tool.is_allowed_by(grants));
            visible.map(|(_, tool)| tool.clone()).collect()
        };
        Ok(Self {
            visible: (0..model::GRANT_SETS).map(visible).collect(),
            tools: tools.iter().map(|tool| (tool.name.clone(), tool.clone())).collect(),
        })
    }
}

/// Leaks the strings, because rmcp copies the list for each reply and borrowed strings are cheaper to copy.
fn rmcp_tool(tool: &Tool) -> anyhow::Result<rmcp::model::Tool> {
    let mut tool: rmcp::model::Tool = serde_json::from_value(tool.to_json())?;
    tool.name = Cow::Borrowed(tool.name.into_owned().leak());
    tool.description = tool
        .description
        .map(|text| -> Cow<'static, str> { Cow::Borrowed(text.into_owned().leak()) });
    Ok(tool)
}

fn token_grants(context: &RequestContext<RoleServer>) -> Result<TokenGrants, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    let grants = parts.and_then(|parts| parts.extensions.get::<TokenGrants>()).copied();
    grants.ok_or_else(|| ErrorData::internal_error("the request has no grants", None))
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let visible = self.visible.get(token_grants(&context)?.set).cloned().unwrap_or_default();
        Ok(ListToolsResult::with_all_items(visible))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let grants = token_grants(&context)?.sections;
        self.tools
            .get(request.name.as_ref())
            .filter(|tool| tool.is_allowed_by(grants))
            .ok_or_else(|| ErrorData::invalid_params("no such tool", None))?;
        let mut result = CallToolResult::structured(model::user());
        // `isError` is omitted, because the other servers omit it too.
        result.is_error = None;
        Ok(result.into())
    }
}
