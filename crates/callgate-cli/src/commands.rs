//! Commands, in the groups of the help.

mod serve;
mod methods;
mod people;
mod operate;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use callgate::Caller;
use callgate::forward::wait_for_token_requests;
use callgate::model::LOCAL;
use callgate_registry::{AccessRows, Assembly, Entity, StoreError, access};

use crate::cli::{Cli, Command, GlobalArgs, ImportCommand, RegistryCommand};
use crate::config::{Config, exposed_password};
use crate::error_hints::hinted;
use crate::{printer, registry};

pub(crate) use methods::{BasicOptions, ServiceOptions, parse_url};

/// Maximum time for which the program waits, before it exits, for pending requests for OAuth access
/// tokens.
const TOKEN_REQUESTS_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a command. The configuration is read only for commands that need it.
pub(crate) fn run(cli: Cli) -> anyhow::Result<()> {
    match &cli.command {
        Command::Bridge(args) => return serve::bridge::run(args),
        Command::Completions(args) => return operate::completions_and_man::completions(args),
        Command::Man(args) => return operate::completions_and_man::man(args),
        Command::Import(ImportCommand::Process) => return methods::import::process::run(),
        _ => {}
    }
    let config = Arc::new(Config::load(&cli)?);
    if let Some(warning) = exposed_password(&cli) {
        printer::message(warning);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let result = run_configured(&config, &cli.global, cli.command).await;
        wait_for_token_requests(TOKEN_REQUESTS_TIMEOUT).await;
        registry::wait_until_closed().await;
        result
    });
    // Does not wait for a pending read of standard input, which may never end.
    runtime.shutdown_background();
    result.map_err(|error| match error.downcast_ref() {
        // The error of a database does not contain the URL, so the URL is added.
        Some(StoreError::Database(_)) => error.context(format!("registry `{}`", config.database)),
        _ => error,
    })
}

async fn run_configured(
    config: &Arc<Config>,
    global: &GlobalArgs,
    command: Command,
) -> anyhow::Result<()> {
    match command {
        Command::Serve(args) => serve::run(config, global, &args).await,
        Command::Try(args) => Box::pin(serve::try_service::run(config, &args)).await,
        Command::Method(args) => methods::method::run(config, args).await,
        Command::Import(args) => methods::import::run(config, args).await,
        Command::Export(args) => methods::export::run(config, &args).await,
        Command::Call(args) => methods::call::run(config, &args).await,
        Command::Lint(args) => methods::lint::run(config, &args).await,
        Command::Upstream(args) => methods::upstream::run(config, args).await,
        Command::User(args) => people::user::run(config, args).await,
        Command::Token(args) => people::token::run(config, args).await,
        Command::Credential(args) => people::credential::run(config, args).await,
        Command::Section(args) => people::section::run(config, args).await,
        Command::Grant(args) => people::grant::run(config, args).await,
        Command::Setting(args) => operate::setting::run(config, args).await,
        Command::Key(args) => operate::key::run(config, args).await,
        Command::Migrate(args) => operate::migrate::run(config, &args).await,
        Command::Registry(RegistryCommand::Copy(args)) => operate::copy::run(config, &args).await,
        // `run` has already handled these commands.
        Command::Bridge(_) | Command::Completions(_) | Command::Man(_) => Ok(()),
    }
}

/// Formats seconds since 1970 as RFC 3339.
fn timestamp(seconds: i64) -> String {
    /// Last second of the year 9999.
    const MAX: u64 = 253_402_300_799;
    let since = Duration::from_secs(u64::try_from(seconds).unwrap_or(0).min(MAX));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}

/// Checks the name of a new user, role, token, section or upstream.
fn check_name(kind: &str, name: &str) -> anyhow::Result<()> {
    let is_valid = (1..=128).contains(&name.chars().count())
        && name.trim() == name
        && !name.chars().any(char::is_control);
    if is_valid {
        return Ok(());
    }
    Err(hinted(
        format!("`{}` is not a valid name for a {kind}", name.escape_debug()),
        "use 1 to 128 characters, without control characters and without spaces at either end",
    ))
}

fn caller_named(rows: &AccessRows, name: &str) -> Result<Caller, StoreError> {
    let not_found = || Entity::User.not_found(name);
    access(rows).caller_named(name).cloned().ok_or_else(not_found)
}

/// Returns the options for converting rows to tools, without the settings of the registry.
fn assembly(config: &Config) -> Assembly<'_> {
    Assembly {
        exposure: config.exposure,
        open_methods: config.open_methods,
        upstreams: config.upstreams.names().chain([LOCAL]).collect(),
        ..Assembly::default()
    }
}
