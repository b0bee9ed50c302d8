//! The HTTP endpoints, through the router and without sockets.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test may stop, and reads better so"
)]

mod authentication;
mod connections;
mod describe;
mod discarded_bodies;
mod invoke;
mod jsonrpc;
mod limits;
mod list;
mod mcp;
mod operations;
mod per_tool;
mod rate_limits;
mod tool_limits;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use callgate::catalog::{Catalog, CatalogBuilder};
use callgate::gateway::Gateway;
use callgate::http::{
    Authenticate, AuthenticateError, HttpOptions, HttpService, Parts, Readiness, bearer_token,
    service,
};
use callgate::jsonrpc::RpcError;
use callgate::local::Error;
use callgate::local::Local;
use callgate::mcp::{Mcp, Services, SessionKey, Sessions};
use callgate::model::{LOCAL, Method, Param, Prefix, Safety, Types};
use callgate::upstream::{BoxFuture, Upstream};
use callgate::{Caller, Grants, Mask, User};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Tokens are user names: `Bearer admin`, `Bearer reader`.
#[derive(Debug)]
struct ByName {
    callers: HashMap<&'static str, Caller>,
    /// Whether the token `guest` is valid.
    guest: Arc<AtomicBool>,
}

impl Authenticate for ByName {
    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        Box::pin(async move {
            match bearer_token(&request.headers)? {
                None => Ok(Caller::anonymous()),
                Some("guest") if self.guest.load(Ordering::SeqCst) => {
                    Ok(self.callers["reader"].clone())
                }
                Some(token) => {
                    self.callers.get(token).cloned().ok_or(AuthenticateError::InvalidToken)
                }
            }
        })
    }
}

struct App {
    service: HttpService,
    readiness: Readiness,
    gateway: Arc<Gateway>,
    mcp: Arc<Mcp>,
    guest: Arc<AtomicBool>,
}

/// A complete reply.
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns status and body, for comparisons.
    fn parts(&self) -> (u16, Value) {
        (self.status.as_u16(), self.json())
    }

    fn error_code(&self) -> (u16, String) {
        (self.status.as_u16(), self.json()["error"]["code"].as_str().unwrap().to_owned())
    }
}

impl App {
    fn new() -> Self {
        Self::with(application(), HttpOptions::default())
    }

    fn with(local: Local, options: HttpOptions) -> Self {
        Self::with_services(local, options, Services::default())
    }

    /// Creates an application with features other than tools.
    fn with_services(local: Local, options: HttpOptions, services: Services) -> Self {
        Self::with_sessions(local, options, Sessions::new([SessionKey::new(&[7; 32])]), services)
    }

    fn with_sessions(
        local: Local,
        options: HttpOptions,
        sessions: Sessions,
        services: Services,
    ) -> Self {
        let user = |id, name: &str, grants: &[(&str, Mask)]| {
            let user = User { id, name: name.to_owned(), role: None };
            Caller::user(user, grants.iter().copied().collect::<Grants>())
        };
        let callers = HashMap::from([
            ("admin", user(1, "admin", &[("content", Mask::Execute), ("system", Mask::Execute)])),
            ("reader", user(2, "reader", &[("content", Mask::Read)])),
        ]);
        let catalog = catalog_of(local.methods());
        let gateway = Gateway::new([(Arc::from(LOCAL), Arc::new(local) as Arc<dyn Upstream>)]);
        gateway.set_catalog(Arc::new(catalog));
        let gateway = Arc::new(gateway);
        let readiness = Readiness::default();
        let guest = Arc::new(AtomicBool::new(true));
        let authenticate = Arc::new(ByName { callers, guest: Arc::clone(&guest) });
        let mcp = Arc::new(Mcp::with_services(Arc::clone(&gateway), sessions, services));
        let service = service(Arc::clone(&mcp), authenticate, readiness.clone(), options);
        Self { service, readiness, gateway, mcp, guest }
    }

    async fn respond(&self, request: Request<Body>) -> axum::response::Response {
        self.service.clone().oneshot(request).await.unwrap()
    }

    async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.respond(request).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        // Every reply has this header.
        assert_eq!(parts.headers.get("cache-control").unwrap(), "no-store");
        Reply { status: parts.status, headers: parts.headers, text }
    }

    async fn get(&self, caller: &str, path: &str) -> Reply {
        self.send(request("GET", caller, path).body(Body::empty()).unwrap()).await
    }

    async fn post(&self, caller: &str, path: &str, body: impl Into<Body>) -> Reply {
        self.send(request("POST", caller, path).body(body.into()).unwrap()).await
    }

    async fn invoke(&self, caller: &str, name: &str, arguments: Value) -> Reply {
        let body = json!({"name": name, "arguments": arguments}).to_string();
        self.post(caller, "/mcp/tools/invoke", body).await
    }
}

fn catalog_of(methods: &[Method]) -> Catalog {
    let mut builder = CatalogBuilder::new(Prefix::default(), None);
    for method in methods {
        builder.add(method.clone(), 0, &Types::default(), []);
    }
    builder.finish()
}

fn request(method: &str, caller: &str, path: &str) -> http::request::Builder {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    if caller.is_empty() {
        request
    } else {
        request.header("authorization", format!("Bearer {caller}"))
    }
}

fn method(id: &str) -> Method {
    Method::new(id.parse().unwrap()).description(format!("Does {id}.")).safety(Safety::ReadOnly)
}

fn param(name: &str, ty: &str) -> Param {
    Param::new(name, ty.parse().unwrap())
}

/// An application with a method for each kind of outcome.
fn application() -> Local {
    let mut local = Local::default();
    local.method(method("open.echo").param(param("value", "mixed")), async |_, value: Value| {
        Ok::<_, Error>(value)
    });
    local.method(
        method("content.article.delete")
            .title("Delete article")
            .param(param("id", "int").description("The article."))
            .returns("bool".parse().unwrap())
            .safety(Safety::Destructive)
            .requires("content", Mask::Execute),
        async |_, _: Value| Ok::<_, Error>(true),
    );
    local.method(
        method("content.article.read").param(param("id", "int")).requires("content", Mask::Read),
        async |_, arguments: Value| Ok::<_, Error>(json!({"id": arguments["id"], "body": "é"})),
    );
    local.method(method("outcome.null"), async |_, _: Value| Ok::<_, Error>(()));
    local.method(method("outcome.error_like"), async |_, _: Value| {
        Ok::<_, Error>(json!({"error": {"code": "execution_error", "message": "only data"}}))
    });
    local.method(method("outcome.rpc_error"), async |_, _: Value| -> Result<(), Error> {
        let data = Some(json!({"field": "title"}));
        Err(Error::rpc(RpcError { data, ..RpcError::new(4711, "the title is taken") }))
    });
    local.method(method("outcome.rpc_error_without_words"), async |_, _: Value| {
        Err::<(), _>(Error::rpc(RpcError::new(4711, "")))
    });
    local.method(method("outcome.failure"), async |_, _: Value| -> Result<(), Error> {
        Err(std::io::Error::other("password=hunter2"))?
    });
    local.method(method("outcome.panic"), async |_, _: Value| -> Result<(), Error> {
        panic!("password=hunter2")
    });
    local
}

/// Returns this number of open methods, and the same number of methods that only the administrator sees.
fn many(count: usize) -> Local {
    let mut local = Local::default();
    for number in 0..count {
        local.method(method(&format!("m{number:04}")), async |_, _: Value| Ok::<_, Error>(1));
    }
    local
}

fn options(change: impl FnOnce(&mut HttpOptions)) -> HttpOptions {
    let mut options =
        HttpOptions { body_timeout: Duration::from_secs(5), ..HttpOptions::default() };
    change(&mut options);
    options
}
