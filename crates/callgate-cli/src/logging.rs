//! Logs go to stderr, for people or as JSON lines.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Starts logging; `filter` is a level or a list such as `info,callgate=debug`.
pub(crate) fn start(filter: &str, format: LogFormat) -> anyhow::Result<()> {
    let filter =
        EnvFilter::try_new(filter).with_context(|| format!("`log` is not a filter: `{filter}`"))?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Nobody may read it any more, and to complain about that would be the end of the program.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    // Fails only where logging is on already.
    let _ = match format {
        LogFormat::Human => logs.with_target(false).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    };
    Ok(())
}
