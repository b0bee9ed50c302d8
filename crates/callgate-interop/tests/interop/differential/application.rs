//! A small application with Callgate and with rmcp.

use std::sync::Arc;

use axum::Router;
use callgate::access::{RateLimit, RateLimits};
use callgate::catalog::CatalogBuilder;
use callgate::gateway::Gateway;
use callgate::http::{Anonymous, HttpOptions, router};
use callgate::local::Error;
use callgate::local::Local;
use callgate::mcp::{Mcp, SessionKey, Sessions};
use callgate::model::{LOCAL, Method, Param, Prefix, Safety, Types};
use callgate::upstream::Upstream;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, SubscriptionFilter,
    Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

/// Runs a tool.
fn run(name: &str, arguments: &Value) -> Result<Value, String> {
    Ok(match name {
        "echo" => arguments["text"].clone(),
        "add" => json!(arguments["a"].as_i64().unwrap() + arguments["b"].as_i64().unwrap()),
        "fail" => return Err(format!("there is no {}", arguments["what"].as_str().unwrap())),
        "place" => json!({"placed": arguments["where"]["x"], "label": arguments["label"]}),
        "now" => json!({"year": 2026, "leap": false}),
        "list" => json!([{"id": 1, "label": "one"}, {"id": 2, "label": "two"}]),
        "words" => json!("two\nlines, with \"quotes\" and é"),
        "nothing" => Value::Null,
        other => panic!("no such tool: {other}"),
    })
}

/// Returns Callgate with public tools.
pub(crate) fn callgate() -> Router {
    let mut local = Local::default();
    let mut builder = CatalogBuilder::new(Prefix::default(), None);
    for method in methods() {
        let id = method.id().to_string();
        builder.add(method.clone().upstream(LOCAL), 0, &Types::default(), []);
        local.method(method, move |_, arguments: Value| {
            let outcome = run(&id, &arguments).map_err(Error::tool);
            async { outcome }
        });
    }
    let unlimited = RateLimits { per_caller: Some(RateLimit::Unlimited), ..RateLimits::default() };
    let gateway = Gateway::new([(Arc::from(LOCAL), Arc::new(local) as Arc<dyn Upstream>)])
        .rate_limits(unlimited);
    gateway.set_catalog(Arc::new(builder.finish()));
    let sessions = Sessions::new([SessionKey::new(&[7; 32])]);
    let mcp = Arc::new(Mcp::new(Arc::new(gateway), sessions));
    router(mcp, Arc::new(Anonymous), HttpOptions::default())
}

fn methods() -> [Method; 8] {
    [
        method("echo").param(param("text", "string")),
        method("add").param(param("a", "int")).param(param("b", "int")),
        method("fail").param(param("what", "string")),
        method("place")
            .param(param("where", "array{x: int, y: int}"))
            .param(param("label", "string").default(json!("none"))),
        method("now"),
        method("list").returns("array{id: int, label: string}[]".parse().unwrap()),
        method("words"),
        method("nothing"),
    ]
}

fn method(id: &str) -> Method {
    Method::new(id.parse().unwrap()).description(format!("Does {id}.")).safety(Safety::ReadOnly)
}

fn param(name: &str, ty: &str) -> Param {
    Param::new(name, ty.parse().unwrap())
}

/// Returns rmcp without sessions, with JSON replies and default settings. Its tools are those of Callgate's list.
pub(crate) fn rmcp(tools: Vec<Value>) -> Router {
    let tools = tools.into_iter().map(|tool| serde_json::from_value(tool).unwrap()).collect();
    let server = RmcpServer { tools: Arc::new(tools) };
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true);
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Router::new().route_service("/mcp", service)
}

/// The application as an rmcp server.
#[derive(Clone)]
struct RmcpServer {
    tools: Arc<Vec<Tool>>,
}

impl ServerHandler for RmcpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_prompts()
            .build();
        ServerConfig::new(capabilities)
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.get_tool(&request.name) else {
            let message = format!("Tool '{}' not found or access denied", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        Ok(call_result(&tool, Value::Object(request.arguments.unwrap_or_default())).into())
    }
}

fn call_result(tool: &Tool, mut arguments: Value) -> CallToolResult {
    let schema = Value::Object((*tool.input_schema).clone());
    if !jsonschema::is_valid(&schema, &arguments) {
        return CallToolResult::error(vec![ContentBlock::text("the arguments are wrong")]);
    }
    if tool.name == "place" && arguments.get("label").is_none() {
        arguments["label"] = json!("none");
    }
    match run(&tool.name, &arguments) {
        Err(message) => CallToolResult::error(vec![ContentBlock::text(message)]),
        Ok(result) if tool.output_schema.is_some() => CallToolResult::structured(result),
        Ok(Value::String(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Ok(result) => CallToolResult::success(vec![ContentBlock::text(result.to_string())]),
    }
}
