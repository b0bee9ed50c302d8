//! `callgate credential set|list|remove`

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use callgate::Secret;
use callgate_registry::UpstreamRow;
use serde_json::json;

use crate::cli::{CredentialCommand, ListArgs};
use crate::commands::{check_name, timestamp};
use crate::config::{Config, UpstreamSummary};
use crate::error_hints::hinted;
use crate::{printer, registry};

/// Length from which a secret is refused, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

pub(crate) async fn run(config: &Config, command: CredentialCommand) -> Result<()> {
    let store = registry::open(config).await?;
    match command {
        CredentialCommand::Set { user, upstream, secret_file } => {
            check_name("upstream", &upstream)?;
            let user = store.user(&user).await?;
            let secret = read_secret(secret_file.as_deref())?;
            store.set_credential(user.id, &upstream, &secret).await?;
            printer::message(format_args!(
                "set the credential of `{}` for `{upstream}`",
                user.login
            ));
            let upstreams = store.upstreams().await?;
            // While the registry is open, its database has additional files, which the notes would mention.
            drop(store);
            registry::wait_until_closed().await;
            print_notes(config, &upstreams, &upstream);
        }
        CredentialCommand::List(ListArgs { json }) => {
            let columns = [("user", "USER"), ("upstream", "UPSTREAM"), ("set_at", "SET")];
            let rows =
                store.credentials().await?.into_iter().map(|row| {
                    [json!(row.login), json!(row.upstream), json!(timestamp(row.set_at))]
                });
            printer::list(json, columns, rows);
        }
        CredentialCommand::Remove { user, upstream } => {
            let user = store.user(&user).await?;
            if !store.remove_credential(user.id, &upstream).await? {
                return Err(hinted(
                    format!("`{}` has no credential for `{upstream}`", user.login),
                    "`callgate credential list` shows the credentials",
                ));
            }
            printer::message(format_args!(
                "removed the credential of `{}` for `{upstream}`",
                user.login
            ));
        }
    }
    Ok(())
}

/// Prints a note if the credential is not sent, and a warning if other users of this machine can read the registry.
fn print_notes(config: &Config, rows: &[UpstreamRow], upstream: &str) {
    let summaries = config.upstreams.summaries(rows);
    match summaries.iter().find(|summary| summary.name == upstream) {
        Some(UpstreamSummary { problem: Some(problem), .. }) => {
            printer::message(format_args!("note: upstream `{upstream}` is quarantined: {problem}"));
        }
        Some(summary) if summary.sends_credentials => {}
        Some(_) => printer::message(format_args!(
            "note: upstream `{upstream}` does not send users' credentials; set its key `credential`"
        )),
        None => printer::message(format_args!("note: upstream `{upstream}` is not configured")),
    }
    if let Some(warning) = registry::file_warning(config) {
        printer::message(format_args!("warning: {warning}"));
    }
}

/// Reads the secret from a file or from standard input. It is not an argument, because other users could see it on the
/// command line.
fn read_secret(file: Option<&Path>) -> Result<Secret> {
    let mut text = String::new();
    let source = match file {
        Some(path) => {
            let source = format!("`{}`", path.display());
            let file =
                std::fs::File::open(path).with_context(|| format!("cannot read {source}"))?;
            let result = file.take(MAX_BYTES).read_to_string(&mut text);
            result.with_context(|| format!("cannot read {source}"))?;
            source
        }
        None => {
            let input = std::io::stdin();
            let result = if input.is_terminal() {
                printer::message("Paste the credential, and press Enter:");
                input.read_line(&mut text)
            } else {
                input.lock().take(MAX_BYTES).read_to_string(&mut text)
            };
            result.context("cannot read standard input")?;
            "standard input".to_owned()
        }
    };
    let secret = Secret::new(text.trim_start_matches('\u{feff}'));
    let secret = secret.with_context(|| format!("{source} is empty"))?;
    if text.len() as u64 == MAX_BYTES || secret.expose().chars().any(char::is_control) {
        return Err(hinted(
            format!("{source} does not contain a credential"),
            "expected one line without control characters, shorter than 64 KiB",
        ));
    }
    Ok(secret)
}
