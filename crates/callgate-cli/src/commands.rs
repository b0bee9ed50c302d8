//! One file and one function for each command.

mod bridge;
mod call;
mod copy;
mod credential;
mod export;
mod grant;
mod import;
mod keys;
mod lint;
mod method;
mod migrate;
mod section;
mod serve;
mod service;
mod settings;
mod token;
mod try_service;
mod upstream;
mod user;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use callgate::Caller;
use callgate::model::{LOCAL, Prefix};
use callgate_registry::{AccessRows, Assembly, Entity, StoreError, access};

use crate::cli::{Command, RegistryCommand};
use crate::config::Config;
use crate::errors::hinted;
use crate::printer::Printer;

pub(crate) use bridge::run as run_bridge;
pub(crate) use service::ServiceOptions;

/// Runs a command.
pub(crate) async fn run(
    config: &Arc<Config>,
    command: Command,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    match command {
        Command::Serve(given) => serve::run(config, &given, printer).await,
        Command::Try(given) => try_service::run(config, &given, printer).await,
        Command::Bridge(given) => bridge::run(&given, printer),
        Command::Method(given) => method::run(config, given, printer).await,
        Command::Import(given) => import::run(config, given, printer).await,
        Command::Export(given) => export::run(config, &given, printer).await,
        Command::Call(given) => call::run(config, &given, printer).await,
        Command::Lint(given) => lint::run(config, &given, printer).await,
        Command::Upstream(given) => upstream::run(config, given, printer).await,
        Command::User(given) => user::run(config, given, printer).await,
        Command::Token(given) => token::run(config, given, printer).await,
        Command::Keys(given) => keys::run(config, given, printer).await,
        Command::Credential(given) => credential::run(config, given, printer).await,
        Command::Section(given) => section::run(config, given, printer).await,
        Command::Grant(given) => grant::run(config, &given, printer).await,
        Command::Settings(given) => settings::run(config, given, printer).await,
        Command::Migrate(given) => migrate::run(config, &given, printer).await,
        Command::Registry(RegistryCommand::Copy(given)) => copy::run(config, &given, printer).await,
    }
}

/// Seconds since 1970 as people and programs read them.
fn timestamp(seconds: i64) -> String {
    /// The last second that can be written with four digits for the year.
    const LAST: u64 = 253_402_300_799;
    let since = Duration::from_secs(u64::try_from(seconds).unwrap_or(0).min(LAST));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}

/// A name that a person gives to something.
fn plain_name(what: &str, name: &str) -> anyhow::Result<()> {
    let fits = (1..=128).contains(&name.chars().count())
        && name.trim() == name
        && !name.chars().any(char::is_control);
    if fits {
        return Ok(());
    }
    Err(hinted(
        format!("`{}` is not a name for a {what}", name.escape_debug()),
        "use 1 to 128 characters, without space around them",
    ))
}

/// A user as a caller.
fn caller_named(rows: &AccessRows, name: &str) -> Result<Caller, StoreError> {
    let missing = || Entity::User.not_found(name);
    access(rows).caller_named(name).cloned().ok_or_else(missing)
}

/// How rows become tools, without the settings.
fn assembly(config: &Config) -> Assembly<'_> {
    Assembly {
        code: &[],
        exposure: config.exposure,
        prefix: Prefix::default(),
        upstreams: config.upstreams.names().chain([LOCAL]).collect(),
        previous: None,
    }
}
