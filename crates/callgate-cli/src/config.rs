//! Configuration: defaults, then `callgate.toml`, then `CALLGATE_*`, then flags.
//!
//! Every key is in [`KEYS`], with its default and its meaning; a key that is not there is an error
//! that names the nearest one that is. The tables of upstreams are in the file, or rows of the
//! registry; those of imports are in the file only.

mod attach;
mod database;
mod imports;
mod keys;
mod upstreams;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use callgate::Secret;
use callgate_registry::{DatabaseOptions, DatabaseUrl, Exposure, TableNames, TokenOptions};

use crate::cli::{Cli, Command};
use crate::errors::hinted;

pub(crate) use attach::Attach;
pub(crate) use database::{exposed_password, password_in_file};
pub(crate) use imports::{Imports, Policy};
use keys::{KEYS, Key};
pub(crate) use upstreams::{
    Maker, Upstreams, check_row, keys_of_row, row_shown, secret_in_file, secret_in_variable,
};

/// Variables that begin like ours and are no keys.
const OTHER_VARIABLES: [&str; 4] =
    ["CALLGATE_CONFIG", PASSWORD_VARIABLE, ATTACH_PASSWORD_VARIABLE, TOKEN_VARIABLE];

/// The password of the database's user.
const PASSWORD_VARIABLE: &str = "CALLGATE_DATABASE_PASSWORD";
/// The same for the attached one.
const ATTACH_PASSWORD_VARIABLE: &str = "CALLGATE_ATTACH_PASSWORD";

/// Who the client is, over stdio and for the bridge.
pub(crate) const TOKEN_VARIABLE: &str = "CALLGATE_TOKEN";

/// What Kubernetes sets in every container for a service that is named `callgate`.
const SERVICE_VARIABLES: [&str; 2] = ["CALLGATE_SERVICE_", "CALLGATE_PORT"];

/// Where the demo keeps its registry.
pub(crate) const DEMO_FILE: &str = "callgate-demo.db";

/// Defaults for a kind of application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preset {
    Festi,
    Drupal,
}

impl Preset {
    /// Settings that are written where they are absent.
    pub(crate) fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Festi => &[
                ("mcp_protocol_version", "2025-06-18"),
                ("mcp_server_name", "festi-mcp"),
                ("mcp_server_version", "1.0.0"),
                ("mcp_tools_prefix", "FESTI_MCP"),
            ],
            Self::Drupal => &[],
        }
    }
}

/// `CALLGATE_TOKEN`, for commands that need no other configuration.
pub(crate) fn token_of_environment() -> Option<Secret> {
    Secret::new(&std::env::var_os(TOKEN_VARIABLE)?.to_string_lossy())
}

/// Whether `CALLGATE_TOKEN` is there, with or without something in it.
pub(crate) fn has_token_variable() -> bool {
    std::env::var_os(TOKEN_VARIABLE).is_some()
}

/// `CALLGATE_LOG`, for commands that need no other configuration.
pub(crate) fn log_of_environment() -> String {
    let log = std::env::var_os("CALLGATE_LOG").map(|log| log.to_string_lossy().into_owned());
    log.unwrap_or_else(|| "info".to_owned())
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Human,
    Json,
}

/// The configuration, resolved.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key by itself")]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) database: DatabaseUrl,
    pub(crate) database_options: DatabaseOptions,
    pub(crate) preset: Option<Preset>,
    pub(crate) require_auth: bool,
    pub(crate) allow_anonymous: bool,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) raw_request: bool,
    pub(crate) exposure: Exposure,
    pub(crate) max_body_bytes: usize,
    pub(crate) max_in_flight_bytes: usize,
    pub(crate) max_connections: usize,
    pub(crate) call_timeout: Duration,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) tokens: TokenOptions,
    /// `None` is for ever.
    pub(crate) max_key_age: Option<Duration>,
    pub(crate) metrics: bool,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    /// `CALLGATE_TOKEN`
    pub(crate) token: Option<Secret>,
    /// `None` where nothing was said of them: then a registry that is there knows.
    pub(crate) tables: Option<TableNames>,
    /// A Festi database that is served as it is.
    pub(crate) attach: Option<Attach>,
    /// What runs methods elsewhere.
    pub(crate) upstreams: Upstreams,
    /// What is imported again and again.
    pub(crate) imports: Imports,
}

impl Config {
    /// Reads everything that applies to this command line.
    pub(crate) fn load(cli: &Cli) -> anyhow::Result<Self> {
        let environment: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with("CALLGATE_"))
            .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
            .collect();
        let named = environment.iter().find(|(name, _)| name == "CALLGATE_CONFIG");
        let mut values = Values::default();
        match cli.global.config.as_deref().or(named.map(|(_, path)| Path::new(path))) {
            // It is to work in any directory.
            _ if matches!(cli.command, Command::Try(_)) => {}
            Some(path) => values.read_file(path)?,
            None if Path::new("callgate.toml").exists() => {
                values.read_file(Path::new("callgate.toml"))?;
            }
            None => {}
        }
        values.read_environment(&environment)?;
        values.read_flags(cli);
        let demo = matches!(&cli.command, Command::Serve(serve) if serve.demo);
        let secret = |variable| {
            let found = environment.iter().find(|(name, _)| name == variable);
            found.and_then(|(_, secret)| Secret::new(secret))
        };
        let token = secret(TOKEN_VARIABLE);
        values.password = secret(PASSWORD_VARIABLE);
        values.attach_password = secret(ATTACH_PASSWORD_VARIABLE);
        let config = Self::resolve(&values, demo)?;
        Ok(Self { token, upstreams: values.upstreams, imports: values.imports, ..config })
    }

    fn resolve(values: &Values, demo: bool) -> anyhow::Result<Self> {
        let preset = match values.get("preset").text {
            "" => None,
            "festi" => Some(Preset::Festi),
            "drupal" => Some(Preset::Drupal),
            _ => return Err(values.get("preset").wrong("`festi` or `drupal`")),
        };
        let tables = tables(values, preset)?;
        let attach = Attach::resolve(values, preset, tables.as_ref())?;
        Ok(Self {
            listen: values.get("listen").address()?,
            database: database::url(values, demo)?,
            database_options: database::options(values)?,
            require_auth: values.get("require_auth").flag()? || preset == Some(Preset::Festi),
            allow_anonymous: values.get("allow_anonymous").flag()?,
            allowed_hosts: values.get("allowed_hosts").list(),
            allowed_origins: values.get("allowed_origins").list(),
            raw_request: match values.get("raw_request") {
                Value { text: "", .. } => preset == Some(Preset::Festi),
                value => value.flag()?,
            },
            exposure: match values.get("exposure").text {
                "" if preset == Some(Preset::Drupal) => Exposure::Marked,
                "" | "all" => Exposure::All,
                "marked" => Exposure::Marked,
                _ => return Err(values.get("exposure").wrong("`all` or `marked`")),
            },
            max_body_bytes: values.get("max_body_bytes").number(1..=1 << 30)?,
            max_in_flight_bytes: values.get("max_in_flight_bytes").number(1..=1 << 40)?,
            max_connections: values.get("max_connections").number(1..=1 << 20)?,
            call_timeout: values.get("call_timeout_seconds").seconds()?,
            shutdown_timeout: values.get("shutdown_timeout_seconds").seconds()?,
            tokens: TokenOptions {
                grace: values.get("token_grace_seconds").seconds()?,
                max_kept: values.get("max_kept_tokens").number(1..=1 << 30)? as u64,
            },
            max_key_age: match values.get("key_rotation_days").number(0..=36_500)? {
                0 => None,
                days => Some(Duration::from_hours(24 * days as u64)),
            },
            metrics: values.get("metrics").flag()?,
            log: values.get("log").text.to_owned(),
            log_format: match values.get("log_format").text {
                "human" => LogFormat::Human,
                "json" => LogFormat::Json,
                _ => return Err(values.get("log_format").wrong("`human` or `json`")),
            },
            token: None,
            tables: if attach.is_some() { Some(attach::own_tables()?) } else { tables },
            attach,
            upstreams: Upstreams::default(),
            imports: Imports::default(),
            preset,
        })
    }
}

fn tables(values: &Values, preset: Option<Preset>) -> anyhow::Result<Option<TableNames>> {
    let is_given = |key: &&Key| key.name.starts_with("tables.") && values.is_given(key.name);
    if preset != Some(Preset::Festi) && !KEYS.iter().any(|key| is_given(&key)) {
        return Ok(None);
    }
    let prefix = match preset {
        Some(Preset::Festi) if !values.is_given("tables.prefix") => "festi_",
        _ => values.get("tables.prefix").text,
    };
    let names = TableNames::with_prefix(prefix)?
        .rpc_methods(values.get("tables.rpc_methods").text)?
        .users(values.get("tables.users").text)?
        .users_types(values.get("tables.users_types").text)?;
    Ok(Some(names))
}

/// What was said, by key, and where.
#[derive(Debug, Default)]
struct Values {
    by_key: BTreeMap<&'static str, (String, String)>,
    upstreams: Upstreams,
    imports: Imports,
    /// `CALLGATE_DATABASE_PASSWORD`
    password: Option<Secret>,
    /// `CALLGATE_ATTACH_PASSWORD`
    attach_password: Option<Secret>,
}

impl Values {
    fn read_file(&mut self, path: &Path) -> anyhow::Result<()> {
        let source = path.display().to_string();
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read `{source}`"))?;
        let table: toml::Table =
            text.parse().with_context(|| format!("`{source}` is not valid TOML"))?;
        self.read_table("", &table, &source)
    }

    fn read_table(&mut self, above: &str, table: &toml::Table, source: &str) -> anyhow::Result<()> {
        for (name, value) in table {
            let name = match format!("{above}{name}") {
                name if name == "database.url" => "database".to_owned(),
                name => name,
            };
            if name == "upstreams" {
                self.upstreams = Upstreams::read(value, source)?;
                continue;
            }
            if name == "imports" {
                self.imports = Imports::read(value, source)?;
                continue;
            }
            let text = match value {
                toml::Value::Table(table) if is_table(&name) => {
                    self.read_table(&format!("{name}."), table, source)?;
                    continue;
                }
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                _ => String::new(),
            };
            let key = known(&name).ok_or_else(|| unknown(&name, source, KEYS, str::to_owned))?;
            if text.is_empty() && !matches!(value, toml::Value::String(_)) {
                bail!("`{name}` in {source} must be a text, a whole number, true or false");
            }
            self.by_key.insert(key, (text, format!("in {source}")));
        }
        Ok(())
    }

    fn read_environment(&mut self, environment: &[(String, String)]) -> anyhow::Result<()> {
        for (variable, value) in environment {
            let is_service = |prefix: &&str| variable.starts_with(*prefix);
            if OTHER_VARIABLES.contains(&variable.as_str())
                || SERVICE_VARIABLES.iter().any(is_service)
                || self.upstreams.has_variable(variable)
            {
                continue;
            }
            let key = KEYS.iter().find(|key| variable_of(key.name) == *variable);
            let key = key.ok_or_else(|| unknown(variable, "the environment", KEYS, variable_of))?;
            self.by_key.insert(key.name, (value.clone(), format!("in {variable}")));
        }
        Ok(())
    }

    fn read_flags(&mut self, cli: &Cli) {
        let mut flag = |name: &'static str, value: Option<String>| {
            if let Some(value) = value {
                let shown = match name {
                    "attach.database" => "attach".to_owned(),
                    "attach.overlay" => "overlay".to_owned(),
                    name => name.replace('_', "-"),
                };
                self.by_key.insert(name, (value, format!("in --{shown}")));
            }
        };
        flag("database", cli.global.database.clone());
        flag("preset", cli.global.preset.clone());
        flag("attach.database", cli.global.attach.clone());
        let overlay = cli.global.overlay.as_ref().map(|path| path.display().to_string());
        flag("attach.overlay", overlay);
        if let Command::Try(given) = &cli.command {
            // Any port that is free.
            flag("listen", Some(given.listen.clone().unwrap_or("127.0.0.1:0".to_owned())));
        }
        if let Command::Serve(serve) = &cli.command {
            flag("listen", serve.listen.clone());
            flag("require_auth", serve.require_auth.then(|| "true".to_owned()));
            flag("allow_anonymous", serve.allow_anonymous.then(|| "true".to_owned()));
            flag("token_grace_seconds", serve.token_grace_seconds.clone());
        }
    }

    fn is_given(&self, name: &str) -> bool {
        self.by_key.contains_key(name)
    }

    fn get(&self, name: &'static str) -> Value<'_> {
        match self.by_key.get(name) {
            Some((text, source)) => Value { name, text, source },
            None => {
                let key = KEYS.iter().find(|key| key.name == name);
                Value { name, text: key.map_or("", |key| key.default), source: "by default" }
            }
        }
    }
}

/// A value and where it was said.
#[derive(Debug, Clone, Copy)]
struct Value<'a> {
    name: &'static str,
    text: &'a str,
    source: &'a str,
}

impl Value<'_> {
    fn wrong(self, expected: impl fmt::Display) -> anyhow::Error {
        let Self { name, text, source } = self;
        anyhow::anyhow!("`{name}` {source} is `{text}`; expected {expected}")
    }

    fn flag(self) -> anyhow::Result<bool> {
        self.text.parse().map_err(|_| self.wrong("`true` or `false`"))
    }

    fn list(self) -> Vec<String> {
        let items = self.text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(ToOwned::to_owned).collect()
    }

    fn number(self, range: std::ops::RangeInclusive<usize>) -> anyhow::Result<usize> {
        let number = self.text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            self.wrong(format_args!("a number from {} to {}", range.start(), range.end()))
        })
    }

    fn seconds(self) -> anyhow::Result<Duration> {
        Ok(Duration::from_secs(self.number(0..=86_400)? as u64))
    }

    fn address(self) -> anyhow::Result<SocketAddr> {
        // A name such as `localhost` is looked up; the first address counts.
        let found = self.text.to_socket_addrs().ok().and_then(|mut found| found.next());
        found.ok_or_else(|| self.wrong("an address such as `127.0.0.1:8080`"))
    }
}

fn known(name: &str) -> Option<&'static str> {
    KEYS.iter().map(|key| key.name).find(|known| *known == name)
}

fn is_table(name: &str) -> bool {
    KEYS.iter().any(|key| key.name.split_once('.').is_some_and(|(table, _)| table == name))
}

fn variable_of(key: &str) -> String {
    format!("CALLGATE_{}", key.replace('.', "_").to_uppercase())
}

fn unknown(
    name: &str,
    source: &str,
    keys: &'static [Key],
    spell: impl Fn(&'static str) -> String,
) -> anyhow::Error {
    let likeness = |key: &&Key| strsim::jaro_winkler(&spell(key.name), name);
    let nearest = keys.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    hinted(
        format!("unknown key `{name}` in {source}"),
        nearest.map_or_else(String::new, |key| {
            format!("did you mean `{}` ({})?", spell(key.name), key.meaning)
        }),
    )
}

#[cfg(test)]
pub(crate) mod reference {
    //! The reference pages are made from the code, and compared with what is committed.

    use std::fmt::Write as _;

    use super::imports::IMPORT_KEYS;
    use super::upstreams::UPSTREAM_KEYS;
    use super::{KEYS, Key, variable_of};

    /// Compares a page with the committed one, or writes it where snapshots are being updated.
    pub(crate) fn check_reference(name: &str, text: &str) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/reference")
            .join(name);
        if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
            std::fs::write(&path, text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "docs/reference/{name} is old; run the test with INSTA_UPDATE=always"
        );
    }

    #[test]
    fn the_reference_of_the_configuration_is_up_to_date() {
        let mut text = String::from(
            "# Configuration\n\nMade from the program; do not edit. A value is taken from the first of \
             these that has it: a flag, the environment, `callgate.toml` (or the file that `--config` \
             or `CALLGATE_CONFIG` names), the default. A key that is not here is an error.\n\n\
             | key | variable | default | meaning |\n| --- | --- | --- | --- |\n",
        );
        for key in KEYS {
            let default = match key.default {
                "" => String::new(),
                default => format!("`{default}`"),
            };
            let (name, variable) = (key.name, variable_of(key.name));
            let meaning = key.meaning;
            writeln!(text, "| `{name}` | `{variable}` | {default} | {meaning} |").unwrap();
        }
        text.push_str(
            "\n## `[upstreams.NAME]`\n\nA table of the file for each service that runs methods, or a row of \
             the registry with the same keys; [upstreams.md](../upstreams.md) explains them. `url`, `basic_user`, `basic_password`, and \
             what is in `headers`, `members` and `first_params` may be `{ env = \"NAME\" }` or \
             `{ file = \"PATH\" }`, with `prefix = \"…\"` for what stands before it.\n\n\
             | key | default | meaning |\n| --- | --- | --- |\n",
        );
        describe(UPSTREAM_KEYS, &mut text);
        text.push_str(
            "\n## `[imports.NAME]`\n\nIn the file only, a table for each import that `callgate serve` \
             repeats; [import.md](../import.md#sources-that-change) explains them.\n\n\
             | key | default | meaning |\n| --- | --- | --- |\n",
        );
        describe(IMPORT_KEYS, &mut text);
        check_reference("configuration.md", &text);
    }

    fn describe(keys: &[Key], text: &mut String) {
        for Key { name, default, meaning } in keys {
            let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
            writeln!(text, "| `{name}` | {default} | {meaning} |").unwrap();
        }
    }
}
