//! `callgate import pending|approve`: changes that a repeated import holds back.

use callgate_import::Detail;
use callgate_import::watch::Pending;
use serde_json::json;

use super::watched;
use crate::commands::timestamp;
use crate::config::Config;
use crate::errors::hinted;
use crate::printer::Printer;
use crate::registry;

/// Shows what waits.
pub(super) async fn pending(
    config: &Config,
    json: bool,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let store = registry::open_own(config).await?;
    let mut is_idle = true;
    for (name, _) in config.imports.iter() {
        let Some(change) = Pending(&store).get(name).await? else { continue };
        is_idle = false;
        let since = timestamp(change.since);
        if json {
            let line = json!({"import": name, "since": since, "changes": change.text});
            printer.json(line);
        } else {
            printer.data(format_args!("{name}, since {since}\n{}", change.text));
        }
    }
    if is_idle {
        printer.message("no changes are pending");
    }
    Ok(())
}

/// Writes the pending changes, exactly as they were shown.
pub(super) async fn approve(
    config: &Config,
    name: &str,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let repeated = config.imports.get(name)?;
    let store = registry::open_own(config).await?;
    let pending = Pending(&store);
    let Some(shown) = pending.get(name).await? else {
        return Err(hinted(
            format!("import `{name}` has no pending changes"),
            "with `policy = \"hold\"`, `callgate serve` holds changes back; `callgate import` imports at \
             once",
        ));
    };
    let watched = watched(name, config, &repeated.import, repeated.policy);
    let (source, change) = watched.read(&store, Detail::Full).await?;
    match change {
        Some(change) if change.digest == shown.digest => {
            watched.apply(&store, &source, &change).await?;
            pending.set(name, None).await?;
            printer.data(change.text);
            Ok(())
        }
        None => {
            pending.set(name, None).await?;
            printer.message("no changes are pending any more: the source and the registry agree");
            Ok(())
        }
        Some(change) => {
            pending.set(name, Some(&change)).await?;
            printer.data(&change.text);
            Err(hinted(
                "the source or the registry has changed since this change was prepared; nothing was written",
                format!("approve the change above with `callgate import approve {name}`"),
            ))
        }
    }
}
