//! The program `callgate`: parse, configure, run one command, say how it went.

mod cli;
mod commands;
mod config;
mod demo;
mod errors;
mod logging;
mod printer;
mod registry;
mod standard_streams;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use callgate::forward::wait_for_token_requests;
use callgate_registry::StoreError;

use crate::cli::{Cli, Command};
use crate::config::Config;
use crate::printer::Printer;

/// Maximum time to wait at the end for token requests that are under way.
const TOKEN_REQUESTS: Duration = Duration::from_secs(10);

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::read();
    let mut printer = Printer::stdio();
    match run(cli, &mut printer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            printer.error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli, printer: &mut Printer) -> anyhow::Result<()> {
    // It needs no configuration, no registry, and one thread.
    if let Command::Bridge(bridge) = &cli.command {
        return commands::run_bridge(bridge, printer);
    }
    let config = Arc::new(Config::load(&cli)?);
    if let Some(warning) = config::exposed_password(&cli) {
        printer.talk(warning);
    }
    let database = config.database.to_string();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ran = runtime
        .block_on(async {
            let ran = commands::run(&config, cli.command, printer).await;
            wait_for_token_requests(TOKEN_REQUESTS).await;
            ran
        })
        .map_err(|error| match error.downcast_ref::<StoreError>() {
            // The message of a database does not name it.
            Some(StoreError::Database(_)) => error.context(format!("registry `{database}`")),
            _ => error,
        });
    // Without waiting for a read of standard input that may never end.
    runtime.shutdown_background();
    ran
}
