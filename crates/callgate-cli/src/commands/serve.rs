//! `callgate serve`, `try` and `bridge`.

mod caller;
mod client_configuration;
mod stdio;
pub(super) mod try_service;
pub(super) mod bridge;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result};
use callgate::gateway::Gateway;
use callgate::http::{self, ServerOptions};
use callgate::local::Local;
use callgate::{Builder, Callgate};
use callgate_import::counted;
use callgate_registry::{Registry, SqlStore, Token};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::{self, Handle};

use super::methods::import;
use crate::cli::{GlobalArgs, ServeArgs};
use crate::config::{Config, ForwardFactory};
use crate::error_hints::hinted;
use crate::{demo, logging, printer, registry};
use client_configuration::client_configuration;

pub(super) use caller::TokenCaller;

pub(super) async fn run(config: &Arc<Config>, global: &GlobalArgs, args: &ServeArgs) -> Result<()> {
    logging::start(&config.log, config.log_format)?;
    if args.stdio {
        return stdio::run(config, args).await;
    }
    check_address(config)?;
    #[cfg(unix)]
    raise_open_files();
    // Listens before `prepare`: a second demo whose port is taken must not revoke the tokens of the first one.
    let listener = listen(config.listen).await?;
    let operations = match config.operations_listen {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let Prepared { registry, store, local } = prepare(config, args).await?;
    let registry = registry.share_rate_limits();
    let options = ServerOptions { runtimes: connection_runtimes()?, ..config.server.clone() };
    let builder = builder(config, &registry, local).await?.server_options(options);
    let builder = if config.allow_anonymous { builder.allow_anonymous() } else { builder };
    let gateway = builder.http_options(config.http.clone()).build()?;
    let tokens = async { if args.demo { demo::new_tokens(&store).await } else { Ok(Vec::new()) } };
    let following = async { registry.follow(&gateway).await.context("cannot read the registry") };
    let (tokens, following) = tokio::try_join!(tokens, following)?;
    let imports = tokio::spawn(import::watch_all(Arc::clone(config), global.clone()));
    let shutdown = http::shutdown_signal();
    let addresses = Addresses {
        public: listener.local_addr()?,
        operations: operations.as_ref().map(TcpListener::local_addr).transpose()?,
    };
    announce(config, args, &addresses, gateway.gateway(), &tokens)?;
    drop(tokens);
    let result = match operations {
        Some(operations) => gateway.serve_with_operations(listener, operations, shutdown).await,
        None => gateway.serve_on(listener, shutdown).await,
    };
    imports.abort();
    result?;
    following.end().await;
    Ok(())
}

/// Starts a thread with its own runtime for each core. The threads run until the process ends, because tasks of
/// connections can outlive the server: a request for an access token, for example.
fn connection_runtimes() -> Result<Vec<Handle>> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let start = |_| {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let thread = thread::Builder::new().name("connections".to_owned());
        thread.spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(handle)
    };
    (0..cores).map(start).collect::<io::Result<_>>().context("cannot start a thread")
}

/// Raises the limit of open files to the maximum that the system allows. Each connection needs an open file, and the
/// usual limit is 1,024.
#[cfg(unix)]
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "failed to raise the limit of open files");
    }
}

/// Refuses an address that other machines can reach, unless `require_auth` or `allow_anonymous` is set.
fn check_address(config: &Config) -> Result<()> {
    if config.listen.ip().is_loopback() || config.http.require_auth || config.allow_anonymous {
        return Ok(());
    }
    Err(hinted(
        format!("other machines can reach {}, and callers need no token", config.listen),
        "add `--require-auth`, or `--allow-anonymous` to accept callers without a token",
    ))
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => {
                "another program listens on this address, perhaps another `callgate serve`: stop it, or choose \
                 another port with `--listen`; port 0 selects a free port"
            }
            ErrorKind::PermissionDenied => {
                "choose a port of at least 1024 with `--listen`, or allow this user to open lower ports"
            }
            ErrorKind::AddrNotAvailable => {
                "this machine does not have the address; use 127.0.0.1 to serve only this machine, or 0.0.0.0 to serve all machines"
            }
            _ => return anyhow::Error::new(error).context(format!("cannot listen on {address}")),
        };
        hinted(format!("cannot listen on {address}: {error}"), hint)
    })
}

struct Addresses {
    public: SocketAddr,
    operations: Option<SocketAddr>,
}

struct Prepared {
    registry: Registry,
    /// The registry without the attached Festi database.
    store: Arc<SqlStore>,
    /// Functions of this program.
    local: Local,
}

async fn prepare(config: &Config, args: &ServeArgs) -> Result<Prepared> {
    let (store, applied) = registry::migrate(config).await?;
    if !applied.is_empty() {
        let migrations = applied.join(", ");
        tracing::info!(database = %config.database, migrations, "migrated the registry");
    }
    if let Some(warning) = registry::file_warning(config) {
        tracing::warn!("{warning}");
    }
    let local = if args.demo { demo::application()? } else { Local::default() };
    if args.demo {
        demo::prepare(&store, &local, &config.database.to_string()).await?;
    }
    let attached = registry::attach_festi(config, Arc::clone(&store)).await?;
    Ok(Prepared { registry: build_registry(config, attached), store, local })
}

/// Returns a registry to serve from, with the upstreams of its rows.
pub(super) fn build_registry(config: &Config, store: Arc<SqlStore>) -> Registry {
    let registry = Registry::new(store)
        .exposure(config.exposure)
        .open_methods(config.open_methods)
        .tokens(config.tokens)
        .max_key_age(config.max_key_age);
    let factory = upstream_factory(config, &registry);
    registry.upstream_factory(Arc::new(factory))
}

fn upstream_factory(config: &Config, registry: &Registry) -> ForwardFactory {
    config.upstreams.factory(config.call_timeout, registry.credentials().clone())
}

/// Returns a builder with the options that HTTP and stdio share.
pub(super) async fn builder(config: &Config, registry: &Registry, local: Local) -> Result<Builder> {
    let mut builder = Callgate::builder()
        .local(local)
        .sessions(registry.sessions().await?)
        .authenticate(registry.authenticator())
        .call_timeout(config.call_timeout)
        .max_in_flight_bytes(config.max_in_flight_bytes)
        .rate_limits(config.rate_limits.clone());
    for (name, upstream) in config.upstreams.build(&upstream_factory(config, registry))? {
        builder = builder.upstream(name, upstream);
    }
    Ok(builder)
}

fn announce(
    config: &Config,
    args: &ServeArgs,
    addresses: &Addresses,
    gateway: &Gateway,
    tokens: &[(&'static str, Token)],
) -> Result<()> {
    let Addresses { public: address, operations } = addresses;
    let url = format!("http://{address}");
    let catalog = gateway.catalog();
    if args.json {
        let tokens = tokens.iter().map(|(user, token)| (*user, token.expose()));
        printer::json(json!({
            "address": address.to_string(),
            "url": url,
            "mcp": format!("{url}/mcp"),
            "operations": operations.map(|address| address.to_string()),
            "database": config.database.to_string(),
            "attached": config.attach.as_ref().map(|attach| attach.database.to_string()),
            "require_auth": config.http.require_auth,
            "tools": catalog.len(),
            "quarantined": catalog.quarantined().len(),
            "tokens": tokens.collect::<BTreeMap<_, _>>(),
        }));
        return Ok(());
    }
    printer::data(format_args!("Callgate {} listens on {url}", env!("CARGO_PKG_VERSION")));
    let attached = match &config.attach {
        Some(attach) => format!(" and Festi's {}, which is only read", attach.database),
        None => String::new(),
    };
    let tools = counted(catalog.len(), "tool");
    printer::data(format_args!("{tools} from {}{attached}", config.database));
    printer::data(format_args!("MCP is at {url}/mcp"));
    if let Some(address) = operations {
        printer::data(format_args!("Health and metrics are at http://{address}"));
    }
    let Some((_, token)) = tokens.first() else { return Ok(()) };
    printer::data("\nTokens, new on each start:");
    for (user, token) in tokens {
        printer::data(format_args!("  {user:<8}{}", token.expose()));
    }
    let token = token.expose();
    printer::data(format_args!(
        "\nTry, in another terminal:\n  TOKEN={token}\n  \
         curl -H \"Authorization: Bearer $TOKEN\" {url}/mcp/tools/list\n  \
         curl -H \"Authorization: Bearer $TOKEN\" {url}/mcp/tools/invoke \\\n    \
         -d '{{\"name\":\"content.article.markdown\",\"arguments\":{{\"id\":1}}}}'\n\n\
         Or paste into Claude Desktop's configuration (the token is valid until the next start):"
    ));
    printer::data(client_configuration("callgate-demo", &url, Some(token))?);
    Ok(())
}
