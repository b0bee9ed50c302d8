//! Configuration: defaults, then `callgate.toml`, then `CALLGATE_*`, then flags.
//!
//! Every key is in [`KEYS`], with its default and its meaning; a key that is not there is an error
//! that names the nearest one that is. The tables of upstreams are in the file, or rows of the
//! registry; those of imports are in the file only.

mod attach;
mod database;
mod imports;
mod keys;
#[cfg(test)]
pub(crate) mod tests;
mod upstreams;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{
    IpAddr, {SocketAddr, ToSocketAddrs as _},
};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use callgate::Secret;
use callgate::http::{HttpOptions, IpNet, ServerLimits};
use callgate_registry::{DatabaseOptions, DatabaseUrl, Exposure, TableNames, TokenOptions};

use crate::cli::{Cli, Command, Try};

pub(crate) use attach::Attach;
pub(crate) use database::{exposed_password, password_in_file};
pub(crate) use imports::Imports;
use keys::KEYS;
pub(crate) use upstreams::{
    Maker, Upstreams, check_row, has_secret, keys_of_row, row_shown, secret_in_file,
    secret_in_variable,
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
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) database: DatabaseUrl,
    pub(crate) database_options: DatabaseOptions,
    pub(crate) preset: Option<Preset>,
    pub(crate) http: HttpOptions,
    pub(crate) server: ServerLimits,
    pub(crate) allow_anonymous: bool,
    pub(crate) exposure: Exposure,
    pub(crate) max_in_flight_bytes: usize,
    pub(crate) call_timeout: Duration,
    pub(crate) tokens: TokenOptions,
    /// `None` is for ever.
    pub(crate) max_key_age: Option<Duration>,
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
        let demo = matches!(&cli.command, Command::Serve(serve) if serve.demo);
        Self::resolve(Values::read(cli)?, demo)
    }

    fn resolve(values: Values, demo: bool) -> anyhow::Result<Self> {
        let get = |name| values.get(name);
        let preset = match get("preset") {
            Value { text: "", .. } => None,
            value => Some(value.choice([("festi", Preset::Festi), ("drupal", Preset::Drupal)])?),
        };
        let is_festi = preset == Some(Preset::Festi);
        let tables = tables(&values, is_festi)?;
        let attach = Attach::resolve(&values, is_festi, tables.as_ref())?;
        let max_connections = get("max_connections").number(1..=1 << 20)?;
        Ok(Self {
            listen: get("listen").address()?,
            database: database::url(&values, demo)?,
            database_options: database::options(&values)?,
            http: HttpOptions {
                require_auth: get("require_auth").flag()? || is_festi,
                max_body_bytes: get("max_body_bytes").number(1..=1 << 30)?,
                trusted_proxies: get("trusted_proxies").networks()?,
                allowed_hosts: get("allowed_hosts").list(),
                allowed_origins: get("allowed_origins").list(),
                raw_request: match get("raw_request") {
                    Value { text: "", .. } => is_festi,
                    value => value.flag()?,
                },
                mcp_at_root: true,
                metrics: get("metrics").flag()?,
                // Those who only listen leave half of the connections to the others.
                max_streams: (max_connections / 2).max(1),
                ..HttpOptions::default()
            },
            server: ServerLimits {
                max_connections,
                shutdown_timeout: get("shutdown_timeout_seconds").seconds(0..=86_400)?,
            },
            allow_anonymous: get("allow_anonymous").flag()?,
            exposure: match get("exposure") {
                Value { text: "", .. } if preset == Some(Preset::Drupal) => Exposure::Marked,
                Value { text: "", .. } => Exposure::All,
                value => value.choice([("all", Exposure::All), ("marked", Exposure::Marked)])?,
            },
            max_in_flight_bytes: get("max_in_flight_bytes").number(1..=1 << 40)?,
            call_timeout: get("call_timeout_seconds").seconds(0..=86_400)?,
            tokens: TokenOptions {
                grace: get("token_grace_seconds").seconds(0..=86_400)?,
                cache_size: get("max_kept_tokens").number(1..=1 << 30)? as u64,
                accepts_festi_header: attach.is_some(),
            },
            max_key_age: match get("key_rotation_days").number(0..=36_500)? {
                0 => None,
                days => Some(Duration::from_hours(24 * days as u64)),
            },
            log: get("log").text.to_owned(),
            log_format: get("log_format")
                .choice([("human", LogFormat::Human), ("json", LogFormat::Json)])?,
            token: values.secret(TOKEN_VARIABLE),
            tables: if attach.is_some() { Some(attach::own_tables()?) } else { tables },
            attach,
            preset,
            upstreams: values.upstreams,
            imports: values.imports,
        })
    }
}

fn tables(values: &Values, is_festi: bool) -> anyhow::Result<Option<TableNames>> {
    if !is_festi && !values.by_key.keys().any(|name| name.starts_with("tables.")) {
        return Ok(None);
    }
    let prefix = match values.get("tables.prefix").text {
        "" if is_festi && !values.by_key.contains_key("tables.prefix") => "festi_",
        prefix => prefix,
    };
    let names = TableNames::with_prefix(prefix)?
        .rpc_methods(values.get("tables.rpc_methods").text)?
        .users(values.get("tables.users").text)?
        .users_types(values.get("tables.users_types").text)?;
    Ok(Some(names))
}

/// What was said, by key, and where.
#[derive(Default)]
struct Values {
    by_key: BTreeMap<&'static str, (String, String)>,
    /// The variables that begin like ours.
    environment: BTreeMap<String, String>,
    upstreams: Upstreams,
    imports: Imports,
}

impl Values {
    fn read(cli: &Cli) -> anyhow::Result<Self> {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with("CALLGATE_"))
            .map(|(name, value)| (name, value.to_string_lossy().into_owned()));
        let mut values = Self { environment: environment.collect(), ..Self::default() };
        let named = values.environment.get("CALLGATE_CONFIG").map(PathBuf::from);
        let default = Some(PathBuf::from("callgate.toml")).filter(|path| path.exists());
        let file = cli.global.config.clone().or(named).or(default);
        // `try` is to work in any directory.
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

    fn read_table(&mut self, above: &str, table: &toml::Table, source: &str) -> anyhow::Result<()> {
        for (name, value) in table {
            let name = match format!("{above}{name}") {
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
            let key = KEYS.get(&name).ok_or_else(|| KEYS.unknown(&name, source, str::to_owned))?;
            let text = text.with_context(|| {
                format!("`{name}` in {source} must be a text, a whole number, true or false")
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
            let key = KEYS.iter().find(|key| variable_of(key.name) == *variable);
            let key = key.ok_or_else(|| KEYS.unknown(variable, "the environment", variable_of))?;
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
        let given = |is_given: bool| is_given.then(|| "true".to_owned());
        match &cli.command {
            // Any port that is free.
            Command::Try(Try { listen, .. }) => {
                flag("listen", "listen", listen.clone().or(Some("127.0.0.1:0".to_owned())));
            }
            Command::Serve(serve) => {
                flag("listen", "listen", serve.listen.clone());
                flag("require_auth", "require-auth", given(serve.require_auth));
                flag("allow_anonymous", "allow-anonymous", given(serve.allow_anonymous));
                let grace = serve.token_grace_seconds.clone();
                flag("token_grace_seconds", "token-grace-seconds", grace);
            }
            _ => {}
        }
    }

    fn get(&self, name: &'static str) -> Value<'_> {
        match self.by_key.get(name) {
            Some((text, source)) => Value { name, text, source },
            None => {
                let text = KEYS.get(name).map_or("", |key| key.default);
                Value { name, text, source: "by default" }
            }
        }
    }

    /// A secret that is only in the environment.
    fn secret(&self, variable: &str) -> Option<Secret> {
        self.environment.get(variable).and_then(|secret| Secret::new(secret))
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

    fn choice<T: Copy>(self, [one, other]: [(&str, T); 2]) -> anyhow::Result<T> {
        let found = [one, other].into_iter().find(|(word, _)| *word == self.text);
        let expected = || self.wrong(format_args!("`{}` or `{}`", one.0, other.0));
        found.map(|(_, choice)| choice).ok_or_else(expected)
    }

    fn flag(self) -> anyhow::Result<bool> {
        self.choice([("true", true), ("false", false)])
    }

    fn list(self) -> Vec<String> {
        let items = self.text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(ToOwned::to_owned).collect()
    }

    fn networks(self) -> anyhow::Result<Vec<IpNet>> {
        let network = |text: String| {
            let network = text.parse().or_else(|_| text.parse().map(|one: IpAddr| one.into()));
            network.map_err(|_| self.wrong("addresses such as `127.0.0.1` or `10.0.0.0/8`"))
        };
        self.list().into_iter().map(network).collect()
    }

    fn number(self, range: RangeInclusive<usize>) -> anyhow::Result<usize> {
        let number = self.text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            self.wrong(format_args!("a number from {} to {}", range.start(), range.end()))
        })
    }

    fn seconds(self, range: RangeInclusive<usize>) -> anyhow::Result<Duration> {
        Ok(Duration::from_secs(self.number(range)? as u64))
    }

    fn address(self) -> anyhow::Result<SocketAddr> {
        // A name such as `localhost` is looked up; the first address counts.
        let found = self.text.to_socket_addrs().ok().and_then(|mut found| found.next());
        found.ok_or_else(|| self.wrong("an address such as `127.0.0.1:8080`"))
    }
}

fn is_table(name: &str) -> bool {
    KEYS.iter().any(|key| key.name.split_once('.').is_some_and(|(table, _)| table == name))
}

fn variable_of(key: &str) -> String {
    format!("CALLGATE_{}", key.replace('.', "_").to_uppercase())
}
