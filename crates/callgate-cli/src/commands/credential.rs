//! `callgate credential set|list|remove`

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use callgate::Secret;
use callgate_registry::UpstreamRow;
use serde_json::json;

use super::{plain_name, timestamp};
use crate::cli::{Credential, List};
use crate::config::Config;
use crate::errors::hinted;
use crate::printer::Printer;
use crate::registry;

/// Longer than what any service gives out.
const MAX_BYTES: u64 = 64 * 1024;

pub(super) async fn run(config: &Config, given: Credential, printer: &mut Printer) -> Result<()> {
    let store = registry::open(config).await?;
    match given {
        Credential::Set { user, upstream, file } => {
            plain_name("upstream", &upstream)?;
            let user = store.user(&user).await?;
            let secret = read(file.as_deref(), printer)?;
            store.set_credential(user.id, &upstream, &secret).await?;
            printer.talk(format_args!("set the credential of `{}` for `{upstream}`", user.login));
            tell_notes(config, &store.upstreams().await?, &upstream, printer);
        }
        Credential::List(List { json }) => {
            let columns = [("user", "USER"), ("upstream", "UPSTREAM"), ("set_at", "SET")];
            let rows =
                store.credentials().await?.into_iter().map(|row| {
                    [json!(row.login), json!(row.upstream), json!(timestamp(row.set_at))]
                });
            printer.list(json, columns, rows);
        }
        Credential::Remove { user, upstream } => {
            let user = store.user(&user).await?;
            if !store.remove_credential(user.id, &upstream).await? {
                return Err(hinted(
                    format!("`{}` has no credential for `{upstream}`", user.login),
                    "`callgate credential list` shows them",
                ));
            }
            printer
                .talk(format_args!("removed the credential of `{}` for `{upstream}`", user.login));
        }
    }
    Ok(())
}

/// What keeps a credential from being sent, and who else could read it.
fn tell_notes(config: &Config, rows: &[UpstreamRow], upstream: &str, printer: &mut Printer) {
    let known = config.upstreams.listed(rows);
    match known.iter().find(|one| one.name == upstream) {
        Some(one) if one.sends_credentials => {}
        Some(_) => printer.talk(format_args!(
            "note: upstream `{upstream}` is sent no credentials of users; say how in its `credential`"
        )),
        None => printer.talk(format_args!("note: upstream `{upstream}` is not configured")),
    }
    if let Some(path) = registry::readable_by_others(config) {
        printer.talk(format_args!(
            "warning: others on this machine can read `{}`, and so the credentials in it; `chmod 600` \
             keeps them out",
            path.display()
        ));
    }
}

/// The secret, out of a file or standard input: what stands on a command line others can see.
fn read(file: Option<&Path>, printer: &mut Printer) -> Result<Secret> {
    let mut text = String::new();
    let place = match file {
        Some(path) => {
            let place = format!("`{}`", path.display());
            let file = std::fs::File::open(path).with_context(|| format!("cannot read {place}"))?;
            let read = file.take(MAX_BYTES).read_to_string(&mut text);
            read.with_context(|| format!("cannot read {place}"))?;
            place
        }
        None => {
            let input = std::io::stdin();
            let read = if input.is_terminal() {
                printer.talk("Paste the credential, and press Enter:");
                input.read_line(&mut text)
            } else {
                input.lock().take(MAX_BYTES).read_to_string(&mut text)
            };
            read.context("cannot read standard input")?;
            "standard input".to_owned()
        }
    };
    let secret = Secret::new(text.trim_start_matches('\u{feff}'));
    let secret = secret.with_context(|| format!("there is no credential in {place}"))?;
    if text.len() as u64 == MAX_BYTES || secret.expose().chars().any(char::is_control) {
        return Err(hinted(
            format!("what is in {place} is no credential"),
            "a credential is one line, without control characters, and shorter than 64 KiB",
        ));
    }
    Ok(secret)
}
