//! `callgate import … --watch`: the source is read again and again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use callgate::http;
use callgate_registry::Store;

use super::drift::Look;
use crate::cli::Import;
use crate::config::Config;
use crate::printer::Printer;

/// Follows a source until the program is told to stop. What was `seen` is not told again.
pub(super) async fn run(
    config: &Config,
    store: &Arc<dyn Store>,
    import: &Import,
    seconds: u32,
    mut seen: Option<String>,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let mut stopping = pin!(http::told_to_stop());
    let mut failed = None;
    printer.talk(format_args!("looking again every {seconds} s; Ctrl-C ends it"));
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(seconds.into())) => {}
            () = &mut stopping => return Ok(()),
        }
        match look(config, store, import, &mut seen).await {
            Ok(text) => {
                if failed.take().is_some() {
                    printer.talk("the source can be read again");
                }
                if let Some(text) = text {
                    printer.data(text);
                }
            }
            Err(error) => {
                let words = format!("{error:#}");
                if failed.as_ref() != Some(&words) {
                    printer.error(&error);
                    printer.talk("methods stay as they are");
                }
                failed = Some(words);
            }
        }
    }
}

/// What has changed since the last time, for people.
async fn look(
    config: &Config,
    store: &Arc<dyn Store>,
    import: &Import,
    seen: &mut Option<String>,
) -> anyhow::Result<Option<String>> {
    let mut look = Look::again(config, store, import).await?;
    let change = look.change(false).await?;
    if let Some(change) = change.as_ref().filter(|_| !import.options().dry_run) {
        look.apply(change).await?;
    }
    let digest = change.as_ref().map(|change| change.digest.clone());
    let is_new = digest != *seen;
    *seen = digest;
    Ok(change.filter(|_| is_new).map(|change| change.text))
}
