//! The values of keys from the file, the environment and the flags.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use callgate::Secret;
use callgate::access::LimitError;
use callgate::http::IpNet;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::known_keys::KEYS;
use super::{ATTACH_PASSWORD_VARIABLE, Imports, PASSWORD_VARIABLE, TOKEN_VARIABLE, Upstreams};
use crate::cli::{Cli, Command, TryArgs, address};
use crate::error_hints::{hinted, nearest};

/// Variables with the prefix `CALLGATE_` that are not keys.
const OTHER_VARIABLES: [&str; 4] =
    ["CALLGATE_CONFIG", PASSWORD_VARIABLE, ATTACH_PASSWORD_VARIABLE, TOKEN_VARIABLE];

/// Prefixes of variables that Kubernetes sets in every container if there is a service named `callgate`.
const SERVICE_VARIABLES: [&str; 2] = ["CALLGATE_SERVICE_", "CALLGATE_PORT"];

#[derive(Default)]
pub(super) struct Values {
    /// Each value, and the place where it was set.
    by_key: BTreeMap<&'static str, (String, String)>,
    /// Variables with the prefix `CALLGATE_`.
    environment: BTreeMap<String, String>,
    pub(super) upstreams: Upstreams,
    pub(super) imports: Imports,
}

impl Values {
    pub(super) fn read(cli: &Cli) -> anyhow::Result<Self> {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with("CALLGATE_"))
            .map(|(name, value)| (name, value.to_string_lossy().into_owned()));
        let mut values = Self { environment: environment.collect(), ..Self::default() };
        let from_environment = values.environment.get("CALLGATE_CONFIG").map(PathBuf::from);
        let default = Some(PathBuf::from("callgate.toml")).filter(|path| path.exists());
        let file = cli.global.config.clone().or(from_environment).or(default);
        // `callgate try` reads no configuration file.
        if let Some(file) = file.filter(|_| !matches!(cli.command, Command::Try(_))) {
            values.read_file(&file)?;
        }
        values.read_environment()?;
        values.read_flags(cli);
        Ok(values)
    }

    fn read_file(&mut self, path: &Path) -> anyhow::Result<()> {
        let source = path.display().to_string();
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read `{source}`"))?;
        let table: toml::Table =
            text.parse().with_context(|| format!("`{source}` is not valid TOML"))?;
        self.read_table("", &table, &source)
    }

    fn read_table(
        &mut self,
        prefix: &str,
        table: &toml::Table,
        source: &str,
    ) -> anyhow::Result<()> {
        for (name, value) in table {
            let name = match format!("{prefix}{name}") {
                name if name == "database.url" => "database".to_owned(),
                name => name,
            };
            let text = match value {
                value if name == "upstreams" => {
                    self.upstreams = Upstreams::read(value, source)?;
                    continue;
                }
                value if name == "imports" => {
                    self.imports = Imports::read(value, source)?;
                    continue;
                }
                toml::Value::Table(table) if is_table(&name) => {
                    self.read_table(&format!("{name}."), table, source)?;
                    continue;
                }
                toml::Value::String(text) => Some(text.clone()),
                toml::Value::Integer(number) => Some(number.to_string()),
                toml::Value::Boolean(flag) => Some(flag.to_string()),
                _ => None,
            };
            let Some(key) = KEYS.get(&name) else {
                let is_root_table = prefix.is_empty() && value.is_table();
                return Err(if is_root_table {
                    unknown_table(&name, source)
                } else {
                    KEYS.unknown_key(&name, source, str::to_owned)
                });
            };
            let text = text.ok_or_else(|| {
                // A string is accepted for keys of all types.
                let place = if value.is_table() { " above the first `[table]`" } else { "" };
                hinted(
                    format!("`{name}` in {source} must be a string, an integer or a boolean"),
                    format!("write `{name} = {:?}`{place}", key.default),
                )
            })?;
            self.by_key.insert(key.name, (text, format!("in {source}")));
        }
        Ok(())
    }

    fn read_environment(&mut self) -> anyhow::Result<()> {
        for (variable, value) in &self.environment {
            let is_service = |prefix: &&str| variable.starts_with(*prefix);
            if OTHER_VARIABLES.contains(&variable.as_str())
                || SERVICE_VARIABLES.iter().any(is_service)
                || self.upstreams.has_variable(variable)
            {
                continue;
            }
            let key = KEYS.iter().find(|key| variable_name(key.name) == *variable);
            let key =
                key.ok_or_else(|| KEYS.unknown_key(variable, "the environment", variable_name))?;
            self.by_key.insert(key.name, (value.clone(), format!("in {variable}")));
        }
        Ok(())
    }

    fn read_flags(&mut self, cli: &Cli) {
        let mut flag = |name: &'static str, option: &str, value: Option<String>| {
            if let Some(value) = value {
                self.by_key.insert(name, (value, format!("in --{option}")));
            }
        };
        let global = &cli.global;
        flag("database", "database", global.database.clone());
        flag("preset", "preset", global.preset.clone());
        flag("attach.database", "attach", global.attach.clone());
        let overlay = global.overlay.as_ref().map(|path| path.display().to_string());
        flag("attach.overlay", "overlay", overlay);
        let flag_value = |is_set: bool| is_set.then(|| "true".to_owned());
        match &cli.command {
            Command::Try(TryArgs { listen, .. }) => {
                let free_port = || "127.0.0.1:0".to_owned();
                flag("listen", "listen", Some(listen.map_or_else(free_port, |it| it.to_string())));
            }
            Command::Serve(serve) => {
                flag("listen", "listen", serve.listen.map(|it| it.to_string()));
                let operations = serve.operations_listen.map(|it| it.to_string());
                flag("operations_listen", "operations-listen", operations);
                flag("require_auth", "require-auth", flag_value(serve.require_auth));
                flag("allow_anonymous", "allow-anonymous", flag_value(serve.allow_anonymous));
                let grace = serve.token_grace_seconds.map(|it| it.to_string());
                flag("token_grace_seconds", "token-grace-seconds", grace);
            }
            _ => {}
        }
    }

    pub(super) fn get(&self, name: &'static str) -> Value<'_> {
        match self.by_key.get(name) {
            Some((text, source)) => Value { name, text, source },
            None => {
                let text = KEYS.get(name).map_or("", |key| key.default);
                Value { name, text, source: "by default" }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn set(&mut self, name: &'static str, text: &str) {
        self.by_key.insert(name, (text.to_owned(), format!("in {}", variable_name(name))));
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.by_key.contains_key(name)
    }

    /// Returns the secret in an environment variable. The file has no keys for these secrets.
    pub(super) fn secret(&self, variable: &str) -> Option<Secret> {
        self.environment.get(variable).and_then(|secret| Secret::new(secret))
    }
}

/// A value, and the place where it was set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) name: &'static str,
    pub(super) text: &'a str,
    pub(super) source: &'a str,
}

impl Value<'_> {
    /// Returns the key, and the place where it was set.
    pub(super) fn place(self) -> String {
        format!("`{}` {}", self.name, self.source)
    }

    pub(super) fn invalid(self, expected: impl fmt::Display) -> anyhow::Error {
        let Self { name, text, source } = self;
        anyhow::anyhow!("`{name}` {source} is `{text}`; expected {expected}")
    }

    pub(super) fn choice<T: Copy>(self, [first, second]: [(&str, T); 2]) -> anyhow::Result<T> {
        let selected = [first, second].into_iter().find(|(name, _)| *name == self.text);
        let expected = || self.invalid(format_args!("`{}` or `{}`", first.0, second.0));
        selected.map(|(_, choice)| choice).ok_or_else(expected)
    }

    pub(super) fn flag(self) -> anyhow::Result<bool> {
        self.choice([("true", true), ("false", false)])
    }

    pub(super) fn list(self) -> Vec<String> {
        let items = self.text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(ToOwned::to_owned).collect()
    }

    /// Parses each item of a list.
    pub(super) fn parse_items<T>(
        self,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> anyhow::Result<Vec<T>> {
        let items = self.list().into_iter();
        items.map(|item| parse(&item).ok_or_else(|| self.invalid(expected))).collect()
    }

    pub(super) fn origins(self) -> anyhow::Result<Vec<String>> {
        self.parse_items("`*`, or origins such as `https://app.example.com`", |text| {
            let is_origin = |(scheme, host): (&str, &str)| {
                !scheme.is_empty() && !host.is_empty() && !host.contains('/')
            };
            let is_valid = text == "*" || text.split_once("://").is_some_and(is_origin);
            is_valid.then(|| text.to_owned())
        })
    }

    pub(super) fn networks(self) -> anyhow::Result<Vec<IpNet>> {
        self.parse_items("addresses such as `127.0.0.1` or `10.0.0.0/8`", |text| {
            text.parse().ok().or_else(|| Some(text.parse::<IpAddr>().ok()?.into()))
        })
    }

    pub(super) fn rate<T: FromStr<Err = LimitError>>(self) -> anyhow::Result<T> {
        self.text.parse().with_context(|| self.place())
    }

    pub(super) fn number(self, range: RangeInclusive<usize>) -> anyhow::Result<usize> {
        let number = self.text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            self.invalid(format_args!("a number from {} to {}", range.start(), range.end()))
        })
    }

    pub(super) fn seconds(self, range: RangeInclusive<usize>) -> anyhow::Result<Duration> {
        Ok(Duration::from_secs(self.number(range)? as u64))
    }

    /// Checks a log filter. `EnvFilter` would take a misspelled level for the name of a module.
    pub(super) fn log_filter(self) -> anyhow::Result<String> {
        let is_level = |item: &&str| item.chars().all(|c| c.is_alphanumeric() || "_-:".contains(c));
        let mut levels = self.text.split(',').map(str::trim).filter(is_level);
        if levels.all(|level| LevelFilter::from_str(level).is_ok())
            && EnvFilter::try_new(self.text).is_ok()
        {
            return Ok(self.text.to_owned());
        }
        Err(self.invalid(
            "`off`, `error`, `warn`, `info`, `debug` or `trace`, or a list such as `info,callgate=debug`",
        ))
    }

    pub(super) fn address(self) -> anyhow::Result<SocketAddr> {
        address(self.text).map_err(|_| self.invalid("an address such as `127.0.0.1:8080`"))
    }
}

/// Tables of the file that have keys in [`KEYS`].
fn tables() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter_map(|key| Some(key.name.split_once('.')?.0))
}

fn is_table(name: &str) -> bool {
    tables().any(|table| table == name)
}

/// Returns the error for an unknown table. The error suggests the most similar known table.
fn unknown_table(name: &str, source: &str) -> anyhow::Error {
    let known: BTreeSet<&str> = tables().chain(["upstreams", "imports"]).collect();
    let hint = match nearest(name, known.iter().copied()) {
        Some(table) => format!("did you mean `[{table}]`?"),
        None => format!("the tables are {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    };
    hinted(format!("unknown table `[{name}]` in {source}"), hint)
}

pub(super) fn variable_name(key: &str) -> String {
    format!("CALLGATE_{}", key.replace('.', "_").to_uppercase())
}
