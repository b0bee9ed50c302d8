//! `callgate serve --stdio`: serves one client on standard input and output. Nothing else is printed to standard
//! output.

use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use callgate::http;
use callgate::mcp::{Identify as _, IdentifyError};
use callgate::stdio::{self, StdioError, StdioOptions};
use tokio::io::BufReader;

use super::caller::TokenCaller;
use super::{Prepared, builder, prepare};
use crate::cli::ServeArgs;
use crate::config::Config;

pub(super) async fn run(config: &Config, args: &ServeArgs) -> Result<()> {
    let Prepared { registry, local, .. } = prepare(config, args).await?;
    let gateway = builder(config, &registry, local).await?.build()?;
    let following = registry.follow(&gateway).await.context("cannot read the registry")?;
    let hint = format!("create one with `callgate token add USER {}`", database_flags(config));
    let caller = TokenCaller::new(config, &registry, &gateway, hint);
    // Clients show the reply to their first request, but not the reason why a program has ended.
    if matches!(caller.identify().await, Err(IdentifyError::Refused)) {
        tracing::error!("{}", caller.refusal());
    }
    let options = StdioOptions {
        max_line_bytes: config.http.max_body_bytes,
        end_timeout: config.server.shutdown_timeout,
    };
    let shutdown = http::shutdown_signal();
    let input = BufReader::new(tokio::io::stdin());
    let mcp = Arc::clone(gateway.mcp());
    let mut served =
        pin!(stdio::serve(Arc::clone(&mcp), Arc::new(caller), input, tokio::io::stdout(), options));
    let result = tokio::select! {
        result = &mut served => result,
        () = shutdown => {
            mcp.close();
            served.await
        }
    };
    following.end().await;
    match result {
        // The client closed the connection. This is the normal end of a session.
        Err(StdioError::Io(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Returns the flags with which another command uses the same databases, without passwords.
fn database_flags(config: &Config) -> String {
    let flags = format!("--database {}", config.database);
    match &config.attach {
        Some(attach) => format!("{flags} --preset festi --attach {}", attach.database),
        None => flags,
    }
}
