//! Logs on stderr, as text or as JSON lines.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Starts logging. The filter is a level, or a list such as `info,callgate=debug`.
pub(crate) fn start(filter: &str, format: LogFormat) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter)?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // If stderr is closed, reporting this error would panic.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    // Fails only if logging was already started.
    let _ = match format {
        LogFormat::Human => logs.with_target(false).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    };
    Ok(())
}
