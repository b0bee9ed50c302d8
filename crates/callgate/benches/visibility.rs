//! Measures the cost of `tools/list` with and without `visibility = "upstream"`, for 200 tools and 1,000 users with
//! different lists. Measures the message alone, and an HTTP request through the router. `cargo bench -p callgate
//! --bench visibility`.
#![expect(missing_docs, reason = "criterion's macros make undocumented functions")]
#![expect(clippy::expect_used, reason = "a benchmark may stop")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use callgate::catalog::CatalogBuilder;
use callgate::gateway::Gateway;
use callgate::http::{Authenticate, AuthenticateError, Parts, bearer_token};
use callgate::mcp::{Inbound, InboundKind, Mcp, McpResponse, SessionKey, Sessions};
use callgate::model::{Method, Param, Prefix, Safety, Types};
use callgate::upstream::{
    BoxFuture, Call, CallError, CallOutput, CallerMethods, Identity, ListError, MethodLister,
    Upstream,
};
use callgate::{Caller, Callgate, Grants, Mask, User};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http_body_util::BodyExt as _;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

const TOOLS: usize = 200;
const USERS: usize = 1_000;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;

/// A service that lists all of its methods except two, which are different for each user.
#[derive(Debug)]
struct Site {
    has_a_say: bool,
}

fn id(number: usize) -> String {
    format!("module{}.action{number}", number % 7)
}

impl Upstream for Site {
    fn method_lister(&self) -> Option<&dyn MethodLister> {
        self.has_a_say.then_some(self)
    }

    fn call<'a>(&'a self, _: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        Box::pin(std::future::ready(Err(CallError::failed("not called here"))))
    }
}

impl MethodLister for Site {
    fn max_age(&self) -> Duration {
        Duration::from_hours(1)
    }

    fn identity<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Identity>, ListError>> {
        let user = caller.user.as_ref().map(|user| user.id);
        let identity = user.map(|user| Identity::user(user, &["eyJhbGciOiJSUzI1NiJ9.of-a-user"]));
        Box::pin(std::future::ready(Ok(identity)))
    }

    fn methods<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<CallerMethods, ListError>> {
        let user = caller.user.as_ref().map_or(0, |user| user.id);
        let user = usize::try_from(user).unwrap_or_default();
        let hidden = [user % TOOLS, user / 5 % TOOLS];
        let ids = (0..TOOLS).filter(|number| !hidden.contains(number)).map(id).collect();
        Box::pin(std::future::ready(Ok(CallerMethods::Listed(ids))))
    }
}

/// Returns a method. If the service does not restrict callers, nobody may call two of the methods, so that lists have
/// the same number of tools and gaps.
fn method(number: usize, has_a_say: bool) -> Method {
    let is_closed = !has_a_say && [50, 120].contains(&number);
    let method = described(number);
    if is_closed { method.requires("closed", Mask::Read) } else { method }
}

fn described(number: usize) -> Method {
    let parse = |text: &str| text.parse().expect("a type");
    Method::new(id(number).parse().expect("an id"))
        .description(format!("Does action {number} on a resource, and returns what came of it."))
        .param(Param::new("id", parse("int")).description("The resource's number."))
        .returns(parse("array{items: array{id: int, name: string}[], total: int}"))
        .safety(Safety::ReadOnly)
        .upstream("site")
}

fn mcp(has_a_say: bool) -> Arc<Mcp> {
    let site: Arc<dyn Upstream> = Arc::new(Site { has_a_say });
    let gateway = Arc::new(Gateway::new([("site".into(), site)]));
    let (types, mut builder) = (Types::default(), CatalogBuilder::new(Prefix::default(), None));
    for number in 0..TOOLS {
        builder.add(method(number, has_a_say), number as u64, &types, []);
    }
    gateway.set_catalog(Arc::new(builder.finish()));
    let key = SessionKey::generate().expect("randomness");
    Arc::new(Mcp::new(gateway, Sessions::new([key])))
}

/// Sends one `tools/list`. Returns the number of bytes of the reply.
async fn list(mcp: &Arc<Mcp>, caller: &Caller) -> usize {
    let inbound = Inbound {
        kind: InboundKind::Message,
        headers: None,
        body: LIST,
        connection: None,
        caller,
        identify: &|| Arc::new(Caller::anonymous()),
        accepts_events: false,
    };
    let Ok(McpResponse::Message(message)) = mcp.handle(&inbound).await else { return 0 };
    message.into_slices().iter().map(bytes::Bytes::len).sum()
}

/// Authenticates callers. A token is the number of a user.
#[derive(Debug)]
struct ByNumber(Vec<Caller>);

impl Authenticate for ByNumber {
    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        Box::pin(async {
            let number = bearer_token(&request.headers)?.and_then(|token| token.parse().ok());
            let user = number.and_then(|number: usize| self.0.get(number));
            Ok(user.cloned().unwrap_or_else(Caller::anonymous))
        })
    }
}

/// Sends one `tools/list` over HTTP, without a network. Returns the number of bytes of the reply.
async fn post(router: &Router, user: usize) -> usize {
    let request = Request::post("/mcp")
        .header("host", "localhost")
        .header("authorization", format!("Bearer {user}"))
        .header("content-type", "application/json")
        .body(Body::from(LIST))
        .expect("a request");
    let response = router.clone().oneshot(request).await.expect("a response");
    response.into_body().collect().await.map_or(0, |body| body.to_bytes().len())
}

fn over_http(criterion: &mut Criterion, runtime: &Runtime, users: &[Caller]) {
    let mut group = criterion.benchmark_group("POST /mcp of 1,000 users");
    group.throughput(Throughput::Elements(USERS as u64));
    for (name, has_a_say) in [("registry", false), ("upstream", true)] {
        let gateway = Callgate::builder()
            .upstream("site", Site { has_a_say })
            .upstream_methods(
                (0..TOOLS).map(|number| method(number, has_a_say)).collect::<Vec<_>>(),
            )
            .authenticate(ByNumber(users.to_vec()))
            .build()
            .expect("a gateway");
        let router = gateway.router();
        let all = || async {
            let mut bytes = 0;
            for user in 0..USERS {
                bytes += post(&router, user).await;
            }
            bytes
        };
        assert!(runtime.block_on(all()) > USERS * 10_000, "tools are listed");
        group.bench_function(name, |bencher| bencher.iter(|| black_box(runtime.block_on(all()))));
    }
    group.finish();
}

fn visibility(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let user = |number: usize| {
        let id = i64::try_from(number).unwrap_or_default();
        Caller::user(User { id, name: format!("user{id}"), role: None }, Grants::default())
    };
    let users: Vec<Caller> = (0..USERS).map(user).collect();
    let mut group = criterion.benchmark_group("tools/list of 1,000 users");
    group.throughput(Throughput::Elements(USERS as u64));
    for (name, has_a_say) in [("registry", false), ("upstream", true)] {
        let mcp = mcp(has_a_say);
        let all = || async {
            let mut bytes = 0;
            for user in &users {
                bytes += list(&mcp, black_box(user)).await;
            }
            bytes
        };
        assert!(runtime.block_on(all()) > USERS * 10_000, "tools are listed");
        group.bench_function(name, |bencher| bencher.iter(|| black_box(runtime.block_on(all()))));
    }
    group.finish();
    over_http(criterion, &runtime, &users);
}

criterion_group!(benches, visibility);
criterion_main!(benches);
