//! `callgate serve`

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use callgate::gateway::Gateway;
use callgate::http::{self, AuthenticateError};
use callgate::local::Local;
use callgate::mcp::{Identify, IdentifyError};
use callgate::stdio::{self, StdioError, StdioOptions};
use callgate::upstream::BoxFuture;
use callgate::{Builder, Caller, Callgate, Secret};
use callgate_registry::{Registry, SqlStore, Token, TokenAuthenticator};
use serde_json::json;
use tokio::io::BufReader;
use tokio::net::TcpListener;

use super::import;
use crate::cli::Serve;
use crate::config::{Config, Maker, TOKEN_VARIABLE};
use crate::errors::hinted;
use crate::printer::Printer;
use crate::{demo, logging, registry};

pub(super) async fn run(config: &Arc<Config>, serve: &Serve, printer: &mut Printer) -> Result<()> {
    logging::start(&config.log, config.log_format)?;
    if serve.stdio {
        return run_stdio(config, serve).await;
    }
    check_address(config)?;
    // First of all: a second demo that finds its port taken must not revoke the tokens of the first.
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    let Prepared { registry, own, local } = prepare(config, serve).await?;
    let tokens = if serve.demo { demo::new_tokens(&own).await? } else { Vec::new() };
    let builder = builder(config, &registry, local).await?.server_limits(config.server);
    let builder = if config.allow_anonymous { builder.allow_anonymous() } else { builder };
    let gateway = builder.http_options(config.http.clone()).build()?;
    let following = registry.follow(&gateway).await.context("cannot read the registry")?;
    let imports = tokio::spawn(import::watch_all(Arc::clone(config), own));
    let stopping = http::shutdown_signal();
    announce(config, serve, &listener, gateway.gateway(), &tokens, printer)?;
    drop(tokens);
    let served = gateway.serve_on(listener, stopping).await;
    imports.abort();
    served?;
    following.end().await;
    Ok(())
}

/// What is served from.
struct Prepared {
    registry: Registry,
    /// The registry without what is attached to it.
    own: Arc<SqlStore>,
    /// The functions that this program has itself.
    local: Local,
}

async fn prepare(config: &Config, serve: &Serve) -> Result<Prepared> {
    let (own, applied) = registry::migrate(config).await?;
    if applied.contains(&"registry") {
        tracing::info!(database = %config.database, "made a new registry");
    }
    let local = if serve.demo { demo::application()? } else { Local::default() };
    if serve.demo {
        demo::prepare(&own, &local, &config.database.to_string()).await?;
    }
    let store = registry::attached(config, Arc::clone(&own)).await?;
    Ok(Prepared { registry: registry_of(config, store), own, local })
}

/// A registry to serve from, also with the upstreams that are its rows.
pub(super) fn registry_of(config: &Config, store: Arc<SqlStore>) -> Registry {
    let registry = Registry::new(store)
        .exposure(config.exposure)
        .tokens(config.tokens)
        .max_key_age(config.max_key_age);
    let maker = maker(config, &registry);
    registry.upstream_factory(Arc::new(maker))
}

/// What makes upstreams, of the file and of the registry.
fn maker(config: &Config, registry: &Registry) -> Maker {
    Maker { call_timeout: config.call_timeout, credentials: registry.credentials().clone() }
}

/// What both transports have.
pub(super) async fn builder(config: &Config, registry: &Registry, local: Local) -> Result<Builder> {
    let mut builder = Callgate::builder()
        .local(local)
        .sessions(registry.sessions().await?)
        .call_timeout(config.call_timeout)
        .max_in_flight_bytes(config.max_in_flight_bytes);
    builder = builder.authenticate(registry.authenticator());
    for (name, upstream) in config.upstreams.build(&maker(config, registry))? {
        builder = builder.upstream(name, upstream);
    }
    Ok(builder)
}

/// `callgate serve --stdio`: one client, on standard input and output. Nothing else is printed there.
async fn run_stdio(config: &Config, serve: &Serve) -> Result<()> {
    let Prepared { registry, local, .. } = prepare(config, serve).await?;
    let gateway = builder(config, &registry, local).await?.build()?;
    let following = registry.follow(&gateway).await.context("cannot read the registry")?;
    let who = StdioCaller {
        gateway: Arc::clone(gateway.gateway()),
        authenticator: registry.authenticator(),
        token: config.token.clone(),
        require_auth: config.http.require_auth,
    };
    if let Err(error) = who.identify().await {
        let problem = match (error, &who.token) {
            (IdentifyError::Unavailable, _) => return Err(error.into()),
            (_, Some(_)) => "the token in `CALLGATE_TOKEN` is unknown, revoked or expired",
            (_, None) => "callers need a token here, and `CALLGATE_TOKEN` is not set",
        };
        let hint = format!("make one with `callgate token create USER {}`", places(config));
        return Err(hinted(problem.to_owned(), hint));
    }
    let options = StdioOptions {
        max_line_bytes: config.http.max_body_bytes,
        end_timeout: config.server.shutdown_timeout,
    };
    let stopping = http::shutdown_signal();
    let input = BufReader::new(tokio::io::stdin());
    let mcp = Arc::clone(gateway.mcp());
    let mut served =
        pin!(stdio::serve(Arc::clone(&mcp), Arc::new(who), input, tokio::io::stdout(), options));
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = stopping => {
            mcp.close();
            served.await
        }
    };
    following.end().await;
    match ended {
        // The client is gone, which is how this ends.
        Err(StdioError::Io(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        ended => Ok(ended?),
    }
}

/// The options that name the same databases to another command, without passwords.
fn places(config: &Config) -> String {
    let own = format!("--database {}", config.database);
    match &config.attach {
        Some(attach) => format!("{own} --preset festi --attach {}", attach.database),
        None => own,
    }
}

/// The user of `CALLGATE_TOKEN`.
struct StdioCaller {
    gateway: Arc<Gateway>,
    authenticator: Arc<TokenAuthenticator>,
    token: Option<Secret>,
    require_auth: bool,
}

impl Identify for StdioCaller {
    fn identify(&self) -> BoxFuture<'_, Result<Caller, IdentifyError>> {
        Box::pin(async {
            let token = self.token.as_ref().map(Secret::expose);
            let caller =
                self.authenticator.caller_of(token).await.map_err(|error| match error {
                    AuthenticateError::Unavailable(_) => IdentifyError::Unavailable,
                    _ => IdentifyError::Refused,
                })?;
            let caller = self.gateway.with_token(caller, token);
            let is_welcome = caller.user.is_some() || !self.require_auth;
            is_welcome.then_some(caller).ok_or(IdentifyError::Refused)
        })
    }
}

/// Beyond this machine, callers need a token unless somebody says otherwise.
fn check_address(config: &Config) -> Result<()> {
    if config.listen.ip().is_loopback() || config.http.require_auth || config.allow_anonymous {
        return Ok(());
    }
    Err(hinted(
        format!("{} can be reached from other machines", config.listen),
        "add `--require-auth`, or `--allow-anonymous` if callers without a token are welcome",
    ))
}

fn announce(
    config: &Config,
    serve: &Serve,
    listener: &TcpListener,
    gateway: &Gateway,
    tokens: &[(&'static str, Token)],
    printer: &mut Printer,
) -> Result<()> {
    let address = listener.local_addr().context("cannot tell the address")?;
    let url = format!("http://{address}");
    let catalog = gateway.catalog();
    if serve.json {
        let tokens = tokens.iter().map(|(user, token)| (*user, token.expose()));
        printer.data(json!({
            "address": address.to_string(),
            "url": url,
            "mcp": format!("{url}/mcp"),
            "database": config.database.to_string(),
            "attached": config.attach.as_ref().map(|attach| attach.database.to_string()),
            "require_auth": config.http.require_auth,
            "tools": catalog.len(),
            "quarantined": catalog.quarantined().len(),
            "tokens": tokens.collect::<BTreeMap<_, _>>(),
        }));
        return Ok(());
    }
    printer.data(format_args!("Callgate {} listens on {url}", env!("CARGO_PKG_VERSION")));
    let plural = if catalog.len() == 1 { "" } else { "s" };
    let attached = match &config.attach {
        Some(attach) => format!(" and Festi's {}, which is only read", attach.database),
        None => String::new(),
    };
    printer.data(format_args!("{} tool{plural} from {}{attached}", catalog.len(), config.database));
    printer.data(format_args!("MCP is at {url}/mcp"));
    let Some((_, token)) = tokens.first() else { return Ok(()) };
    printer.data("\nTokens, new on each start:");
    for (user, token) in tokens {
        printer.data(format_args!("  {user:<8}{}", token.expose()));
    }
    let token = token.expose();
    printer.data(format_args!(
        "\nTry, in another terminal:\n  TOKEN={token}\n  \
         curl -H \"Authorization: Bearer $TOKEN\" {url}/mcp/tools/list\n  \
         curl -H \"Authorization: Bearer $TOKEN\" {url}/mcp/tools/invoke \\\n    \
         -d '{{\"name\":\"content.article.markdown\",\"arguments\":{{\"id\":1}}}}'\n\n\
         Or paste into Claude Desktop's configuration, until the next start:"
    ));
    printer.data(pasted("callgate-demo", &url, Some(token))?);
    Ok(())
}

/// What Claude Desktop, and others that start programs, have in their configuration.
pub(super) fn pasted(name: &str, url: &str, token: Option<&str>) -> Result<String> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let arguments = ["bridge", "--url", &format!("{url}/mcp")];
    let server = match token {
        Some(token) => {
            json!({"command": program, "args": arguments, "env": {TOKEN_VARIABLE: token}})
        }
        None => json!({"command": program, "args": arguments}),
    };
    Ok(serde_json::to_string_pretty(&json!({"mcpServers": {name: server}}))?)
}
