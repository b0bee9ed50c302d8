//! What `tools/list` costs where the service has a say in what callers see, and where it has none: 200
//! tools, 1,000 users, each with a list of their own. `cargo bench -p callgate --bench visibility`.
#![expect(missing_docs, reason = "criterion's macros make undocumented functions")]
#![expect(clippy::expect_used, reason = "a benchmark may stop")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use callgate::mcp::{Carrier, Exchange, Inbound, Mcp, Reply, SessionKey, Sessions, Verb};
use callgate::{
    BoxFuture, Call, Caller, CallerMethods, CatalogBuilder, Gateway, Grants, Identity, ListError,
    ListsMethods, Method, Param, Prefix, Returned, Safety, Types, Upstream, UpstreamError, User,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tokio::runtime::Runtime;

const TOOLS: usize = 200;
const USERS: usize = 1_000;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;

/// A service that lists all but two of its methods, other ones for each user.
#[derive(Debug)]
struct Site {
    has_a_say: bool,
}

fn id(number: usize) -> String {
    format!("module{}.action{number}", number % 7)
}

impl Upstream for Site {
    fn visibility(&self) -> Option<&dyn ListsMethods> {
        self.has_a_say.then_some(self)
    }

    fn call<'a>(&'a self, _: Call<'a>) -> BoxFuture<'a, Result<Returned, UpstreamError>> {
        Box::pin(std::future::ready(Err(UpstreamError::failed("not called here"))))
    }
}

impl ListsMethods for Site {
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

fn method(number: usize) -> Method {
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
        builder.add(method(number), number as u64, &types, []);
    }
    gateway.set_catalog(Arc::new(builder.finish()));
    let key = SessionKey::generate().expect("randomness");
    Arc::new(Mcp::new(gateway, Sessions::new([key])))
}

/// One `tools/list`, and how many bytes it has.
async fn list(mcp: &Arc<Mcp>, caller: &Caller) -> usize {
    let exchange = Exchange {
        inbound: Inbound { verb: Verb::Post, headers: None, body: LIST },
        carrier: Carrier::Http,
        caller,
        who: &|| Arc::new(Caller::anonymous()),
        hears: false,
    };
    let Ok(Reply::Message(message)) = mcp.handle(&exchange).await else { return 0 };
    message.into_slices().iter().map(bytes::Bytes::len).sum()
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
}

criterion_group!(benches, visibility);
criterion_main!(benches);
