//! The registry's database: URL, password and options.

use std::path::Path;

use anyhow::Context as _;
use callgate::Secret;
use callgate_registry::{DatabaseOptions, DatabaseUrl};

use super::sources::{Value, Values};
use super::{DEMO_FILE, PASSWORD_VARIABLE, secret_in_file};
use crate::cli::{Cli, Command, Import, ImportCommand, RegistryCommand};

pub(super) fn url(values: &Values, demo: bool) -> anyhow::Result<DatabaseUrl> {
    let url: DatabaseUrl = match values.get("database") {
        Value { text: "", .. } if demo => DatabaseUrl::sqlite(DEMO_FILE),
        Value { text: "", .. } => DatabaseUrl::sqlite("callgate.db"),
        value => value.text.parse().with_context(|| value.place())?,
    };
    with_password(url, values.secret(PASSWORD_VARIABLE), values.get("database.password_file"))
}

/// Adds a password to a URL that has none: `password`, or else the content of `file`.
pub(super) fn with_password(
    url: DatabaseUrl,
    password: Option<Secret>,
    file: Value<'_>,
) -> anyhow::Result<DatabaseUrl> {
    if url.path().is_some() || url.has_password() {
        return Ok(url);
    }
    if let Some(password) = password {
        return Ok(url.with_password(&password));
    }
    match file.text {
        "" => Ok(url),
        path => password_in_file(url, file.name, Path::new(path)),
    }
}

pub(crate) fn password_in_file(
    url: DatabaseUrl,
    key: &str,
    file: &Path,
) -> anyhow::Result<DatabaseUrl> {
    let password = Secret::new(&secret_in_file(key, file)?);
    Ok(password.map_or(url.clone(), |password| url.with_password(&password)))
}

pub(super) fn options(values: &Values) -> anyhow::Result<DatabaseOptions> {
    let seconds = |name| values.get(name).seconds(1..=86_400);
    let connections = values.get("database.max_connections").number(1..=1_000)?;
    Ok(DatabaseOptions {
        max_connections: u32::try_from(connections)?,
        connect_timeout: seconds("database.connect_timeout_seconds")?,
        statement_timeout: seconds("database.statement_timeout_seconds")?,
        load_timeout: seconds("database.load_timeout_seconds")?,
    })
}

/// Returns a warning if a URL on the command line contains a password.
pub(crate) fn exposed_password(cli: &Cli) -> Option<String> {
    let mut urls = Vec::new();
    if let Some(url) = &cli.global.database {
        let alternative = "set `CALLGATE_DATABASE_PASSWORD` or `database.password_file`";
        urls.push((url.as_str(), "`--database`", alternative));
    }
    if let Some(url) = &cli.global.attach {
        let alternative = "set `CALLGATE_ATTACH_PASSWORD` or `attach.password_file`";
        urls.push((url, "`--attach`", alternative));
    }
    match &cli.command {
        Command::Registry(RegistryCommand::Copy(copy)) => {
            urls.push((&copy.from, "the URL of the source", "give `--from-password-file`"));
            urls.push((&copy.to, "the URL of the target", "give `--to-password-file`"));
        }
        Command::Import(ImportCommand::From(import)) => {
            if let Import::Festi { database_url, .. } = &**import {
                urls.push((database_url, "the URL of the source", "give `--password-file`"));
            }
        }
        _ => {}
    }
    let has_password = |text: &str| text.parse().is_ok_and(|url: DatabaseUrl| url.has_password());
    let (_, option, alternative) = urls.into_iter().find(|(text, _, _)| has_password(text))?;
    Some(format!(
        "warning: other users of this machine can see the password in {option}; {alternative} instead"
    ))
}
