//! `callgate serve`

use std::sync::Arc;

use anyhow::Context as _;
use callgate::http::{self, HttpOptions, Readiness};
use callgate::{Gateway, LOCAL, Local, Upstream};
use callgate_registry::{Store, Token, TokenAuthenticator};
use serde_json::json;
use tokio::net::TcpListener;

use super::json_line;
use crate::cli::Serve;
use crate::config::Config;
use crate::errors::hinted;
use crate::printer::Printer;
use crate::reload::{self, CatalogSource, Reloader};
use crate::server::{self, Limits};
use crate::{demo, logging, registry};

pub(crate) async fn run(
    config: &Config,
    serve: &Serve,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    logging::start(&config.log, config.log_format)?;
    check_address(config)?;
    // First of all: a second demo that finds its port taken must not revoke the tokens of the first.
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    let (store, _) = registry::migrate(config).await?;
    let local = if serve.demo { demo::application()? } else { Local::default() };
    let tokens = if serve.demo {
        demo::prepare(&*store, &local, &config.database).await?
    } else {
        Vec::new()
    };
    ensure_sections(&*store, &local).await?;
    let code = local.methods().to_vec();
    let local: Arc<dyn Upstream> = Arc::new(local);
    let gateway = Gateway::new([(Arc::from(LOCAL), local)]).call_timeout(config.call_timeout);
    let gateway = Arc::new(gateway);
    let authenticator = Arc::new(TokenAuthenticator::default());
    let readiness = Readiness::default();
    let source = CatalogSource {
        store: Arc::clone(&store),
        gateway: Arc::clone(&gateway),
        code: code.into(),
        exposure: config.exposure,
    };
    let mut reloader = Reloader::new(source, Arc::clone(&authenticator), readiness.clone());
    reloader.load().await.context("cannot read the registry")?;
    let options = HttpOptions {
        require_auth: config.require_auth,
        max_body_bytes: config.max_body_bytes,
        ..HttpOptions::default()
    };
    let router =
        http::router(Arc::clone(&gateway), Arc::clone(&authenticator) as _, readiness, options);
    announce(config, serve, &listener, &gateway, &tokens, printer)?;
    drop(tokens);
    let watching = tokio::spawn(reloader.run());
    let limits = Limits {
        max_connections: config.max_connections,
        shutdown_timeout: config.shutdown_timeout,
    };
    server::serve(listener, router, limits, server::told_to_stop()).await;
    watching.abort();
    reload::flush_uses(&*store, &authenticator).await;
    Ok(())
}

/// Sections that code names must be there before anybody can be granted something on them.
async fn ensure_sections(store: &dyn Store, local: &Local) -> anyhow::Result<()> {
    let named = local.methods().iter().flat_map(|method| method.requirement().needs());
    let idents: Vec<String> = named.map(|(section, _)| section.to_string()).collect();
    if !idents.is_empty() {
        store.ensure_sections(&idents).await?;
    }
    Ok(())
}

/// Beyond this machine, callers need a token unless somebody says otherwise.
fn check_address(config: &Config) -> anyhow::Result<()> {
    if config.listen.ip().is_loopback() || config.require_auth || config.allow_anonymous {
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
) -> anyhow::Result<()> {
    let address = listener.local_addr().context("cannot tell the address")?;
    let url = format!("http://{address}");
    let catalog = gateway.catalog();
    if serve.json {
        let secrets: serde_json::Map<_, _> = tokens
            .iter()
            .map(|(user, token)| ((*user).to_owned(), json!(token.expose())))
            .collect();
        let line = json!({
            "address": address.to_string(),
            "url": url,
            "database": config.database,
            "require_auth": config.require_auth,
            "tools": catalog.len(),
            "quarantined": catalog.quarantined().len(),
            "tokens": secrets,
        });
        printer.data(json_line(&line)?);
        return Ok(());
    }
    printer.data(format_args!("Callgate {} listens on {url}", env!("CARGO_PKG_VERSION")));
    let plural = if catalog.len() == 1 { "" } else { "s" };
    printer.data(format_args!("{} tool{plural} from {}", catalog.len(), config.database));
    if let [(_, token), ..] = tokens {
        printer.data("\nTokens, new on each start:");
        for (user, token) in tokens {
            printer.data(format_args!("  {user:<8}{}", token.expose()));
        }
        printer.data("\nTry, in another terminal:");
        printer.data(format_args!("  TOKEN={}", token.expose()));
        printer
            .data(format_args!("  curl -H \"Authorization: Bearer $TOKEN\" {url}/mcp/tools/list"));
        printer.data(format_args!(
            "  curl -H \"Authorization: Bearer $TOKEN\" {url}/mcp/tools/invoke \\\n    \
             -d '{{\"name\":\"content.article.markdown\",\"arguments\":{{\"id\":1}}}}'"
        ));
    }
    Ok(())
}
