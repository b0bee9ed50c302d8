//! The registry's database: where it is, its password, and how it is used.

use std::path::Path;

use callgate::Secret;
use callgate_registry::{DatabaseOptions, DatabaseUrl};

use super::{DEMO_FILE, PASSWORD_VARIABLE, Value, Values, secret_in_file};
use crate::cli::Cli;

/// Where it is. A password in the URL counts first, then the variable, then the file.
pub(super) fn url(values: &Values, demo: bool) -> anyhow::Result<DatabaseUrl> {
    let url: DatabaseUrl = match values.get("database").text {
        "" if demo => DatabaseUrl::sqlite(DEMO_FILE),
        "" => DatabaseUrl::sqlite("callgate.db"),
        url => url.parse()?,
    };
    with_password(url, values.secret(PASSWORD_VARIABLE), values.get("database.password_file"))
}

/// A URL with the password that the variable or the file has, unless it has one itself.
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

/// A URL with the password that a file has.
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

/// A warning, where a password stands in the command line.
pub(crate) fn exposed_password(cli: &Cli) -> Option<String> {
    let has_password = |text: &str| text.parse().is_ok_and(|url: DatabaseUrl| url.has_password());
    let urls = cli.urls();
    let (_, option, instead) = urls.into_iter().find(|(text, _, _)| has_password(text))?;
    Some(format!(
        "warning: everybody on this machine can see the password in {option}; {instead} instead"
    ))
}
