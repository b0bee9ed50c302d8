//! Callgate as a library, with functions in this process or with a forwarded service.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use callgate::access::{RateLimit, RateLimits, TokenDigest};
use callgate::catalog::CatalogBuilder;
use callgate::forward::{Forward, ForwardOptions};
use callgate::gateway::Gateway;
use callgate::http::{
    self, Authenticate, AuthenticateError, HttpOptions, HttpService, Parts, Readiness, bearer_token,
};
use callgate::local::Error;
use callgate::local::Local;
use callgate::mcp::{Mcp, SessionKey, Sessions};
use callgate::model::{LOCAL, Method, Param, ParamStyle, Prefix, Safety, Types};
use callgate::upstream::{BoxFuture, Upstream};
use callgate::{Caller, Grants, Mask, User};
use callgate_bench::model::{self, Tool};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Serialize, Deserialize)]
struct Echo {
    text: String,
}

/// Callers by digest of the token.
#[derive(Debug)]
struct Tokens(HashMap<TokenDigest, Caller>);

impl Authenticate for Tokens {
    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        Box::pin(async move {
            let Some(token) = bearer_token(&request.headers)? else {
                return Ok(Caller::anonymous());
            };
            let known = self.0.get(&TokenDigest::of(token));
            known.cloned().ok_or(AuthenticateError::InvalidToken)
        })
    }
}

/// Returns Callgate's service. Like the other servers, it requires a token.
pub(crate) fn service(tools: &[Tool]) -> anyhow::Result<HttpService> {
    let local = local(tools)?;
    let methods = local.methods().to_vec();
    Ok(over(LOCAL, local, methods))
}

/// Returns Callgate's service with forwarded methods.
pub(crate) fn forwarding(
    tools: &[Tool],
    upstream: SocketAddr,
    batch: bool,
) -> anyhow::Result<HttpService> {
    const UPSTREAM: &str = "service";
    let options = ForwardOptions::new(format!("http://{upstream}/").parse()?);
    let options = if batch { options.batch() } else { options };
    let methods = tools.iter().map(|tool| Ok(method(tool)?.upstream(UPSTREAM)));
    let mut methods = methods.collect::<anyhow::Result<Vec<Method>>>()?;
    let chain = Method::new(model::CHAIN.parse()?).param_style(ParamStyle::Positional);
    methods.push(chain.safety(Safety::ReadOnly).upstream(UPSTREAM));
    Ok(over(UPSTREAM, Forward::new(UPSTREAM, options)?, methods))
}

fn over(name: &str, upstream: impl Upstream + 'static, methods: Vec<Method>) -> HttpService {
    let mut catalog = CatalogBuilder::new(Prefix::default(), None);
    for method in methods {
        catalog.add(method, 0, &Types::default(), []);
    }
    // No limit, because one client sends as much as it can.
    let unlimited = RateLimits { per_caller: Some(RateLimit::Unlimited), ..RateLimits::default() };
    let gateway = Gateway::new([(Arc::from(name), Arc::new(upstream) as Arc<dyn Upstream>)])
        .rate_limits(unlimited);
    gateway.set_catalog(Arc::new(catalog.finish()));
    let readiness = Readiness::default();
    readiness.set_ready();
    let options = HttpOptions { require_auth: true, ..HttpOptions::default() };
    let sessions = Sessions::new([SessionKey::new(&[0; 32])]);
    let mcp = Arc::new(Mcp::new(Arc::new(gateway), sessions));
    http::service(mcp, Arc::new(tokens()), readiness, options)
}

fn local(tools: &[Tool]) -> anyhow::Result<Local> {
    let mut local = Local::default();
    for tool in tools {
        let method = method(tool)?;
        if tool.name == model::ECHO {
            local.method(method, async |_, arguments: Echo| Ok::<_, Error>(arguments));
        } else {
            local.method(method, async |_, arguments: Value| Ok::<_, Error>(arguments));
        }
    }
    Ok(local)
}

fn method(tool: &Tool) -> anyhow::Result<Method> {
    let mut method = Method::new(tool.name.parse()?)
        .description(tool.description.as_str())
        .safety(Safety::ReadOnly);
    for param in tool.params {
        let ty = param.notation.parse()?;
        method = method.param(Param::new(param.name, ty).description(param.description));
    }
    if let Some(section) = tool.section {
        method = method.requires(model::section_name(section), Mask::Read);
    }
    Ok(method)
}

fn tokens() -> Tokens {
    let caller = |number: usize| {
        let user = User {
            id: i64::try_from(number).unwrap_or_default(),
            name: format!("user{number}"),
            role: None,
        };
        let granted = model::grant_set(model::grant_set_of_token(number));
        let sections = (0..model::SECTIONS).filter(|section| granted >> section & 1 == 1);
        let grants = sections.map(|section| (model::section_name(section), Mask::Read));
        Caller::user(user, grants.collect::<Grants>())
    };
    let tokens = 0..model::TOKENS;
    Tokens(tokens.map(|number| (TokenDigest::of(&model::token(number)), caller(number))).collect())
}
