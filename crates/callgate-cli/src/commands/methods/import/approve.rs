//! `callgate import pending|approve`: changes of repeated imports that wait for approval.

use callgate_import::Importer;
use callgate_import::watch::Pending;
use serde_json::json;

use super::read_source;
use crate::commands::timestamp;
use crate::config::Config;
use crate::error_hints::hinted;
use crate::{printer, registry};

/// Shows the changes that wait for approval.
pub(super) async fn pending(config: &Config, json: bool) -> anyhow::Result<()> {
    let store = registry::open_without_festi(config).await?;
    let mut is_empty = true;
    for (name, _) in config.imports.iter() {
        let Some(change) = Pending(&store).get(name).await? else { continue };
        is_empty = false;
        let since = timestamp(change.since);
        if json {
            let (digest, text) = (&change.digest, &change.text);
            let line = json!({"import": name, "since": since, "digest": digest, "changes": text});
            printer::json(line);
        } else {
            printer::data(format_args!("{name}, since {since}\n{}", change.text));
            printer::data(format_args!("approve with `{}`", change.approval_command(name)));
        }
    }
    if is_empty {
        printer::message("no changes are pending");
    }
    Ok(())
}

/// Writes the changes with this digest. Compares the digest, because the stored changes may not be
/// those that a person has seen: a server replaces the stored changes whenever the source changes.
pub(super) async fn approve(config: &Config, name: &str, digest: &str) -> anyhow::Result<()> {
    let import = config.imports.get(name)?;
    let store = registry::open_without_festi(config).await?;
    let pending = Pending(&store);
    if pending.get(name).await?.is_none() {
        return Err(hinted(
            format!("import `{name}` has no pending changes"),
            "changes are pending only if `callgate serve` runs the import with `policy = \"hold\"`; \
             `callgate import` writes changes at once",
        ));
    }
    let (source, options) = &read_source(config, &import.import).await?;
    let importer = Importer { source, store: &store, options };
    match importer.change().await? {
        Some(change) if change.digest == digest => {
            importer.write(Some(digest)).await?;
            pending.set(name, None).await?;
            printer::data(change.text);
            Ok(())
        }
        None => {
            pending.set(name, None).await?;
            printer::message("no changes are pending any more: the source and the registry agree");
            Ok(())
        }
        Some(change) => {
            pending.set(name, Some(&change)).await?;
            printer::data(&change.text);
            Err(hinted(
                "the given digest does not match the pending changes: the source or the registry has changed, or the \
                 given digest is incomplete; nothing was written",
                format!("approve the changes above with `{}`", change.approval_command(name)),
            ))
        }
    }
}
