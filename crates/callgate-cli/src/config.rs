//! Configuration: defaults, then `callgate.toml`, then `CALLGATE_*`, then flags.
//!
//! `known_keys.rs` lists every key with its default and meaning. An unknown key is an error that suggests the most
//! similar known key. Upstreams are tables of the file or rows of the registry. Imports are tables of the file only.

mod known_keys;
mod sources;
mod database;
mod attach;
mod upstreams;
mod imports;
#[cfg(test)]
pub(crate) mod tests;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use callgate::Secret;
use callgate::access::RateLimits;
use callgate::gateway::OpenMethods;
use callgate::http::{ForwardedHeader, HttpOptions, ServerOptions};
use callgate_registry::{
    DatabaseOptions, DatabaseUrl, Exposure, TableNameError, TableNames, TokenOptions,
};

use crate::cli::{Cli, Command};

pub(crate) use attach::Attach;
pub(crate) use database::{exposed_password, password_in_file};
pub(crate) use imports::Imports;
use sources::{Value, Values};
pub(crate) use upstreams::{
    ForwardFactory, RowLimits, UpstreamSummary, Upstreams, has_secret, keys_of_row, redacted_row,
    secret_in_file, secret_in_variable,
};

/// Variable with the password of the registry's database.
const PASSWORD_VARIABLE: &str = "CALLGATE_DATABASE_PASSWORD";
/// Variable with the password of the attached database.
const ATTACH_PASSWORD_VARIABLE: &str = "CALLGATE_ATTACH_PASSWORD";

/// Environment variable with the token of the caller, for `serve --stdio`, `bridge` and `call`.
pub(crate) const TOKEN_VARIABLE: &str = "CALLGATE_TOKEN";

/// File of the demo's registry.
pub(crate) const DEMO_FILE: &str = "callgate-demo.db";

/// Defaults for a kind of application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preset {
    Festi,
    Drupal,
}

impl Preset {
    /// Returns the settings that the preset writes to a registry in which they are not set.
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

/// Returns the value of an environment variable, for commands that read no other configuration.
pub(crate) fn environment(variable: &str) -> Option<String> {
    std::env::var_os(variable).map(|text| text.to_string_lossy().into_owned())
}

/// Default log level of programs that clients start: only warnings and errors, because clients show stderr to people.
const STDIO_LOG: &str = "warn";

/// Returns the value of `CALLGATE_LOG`, or the default for stdio.
pub(crate) fn log_filter_from_environment() -> anyhow::Result<String> {
    let text = environment("CALLGATE_LOG").unwrap_or_else(|| STDIO_LOG.to_owned());
    Value { name: "log", text: &text, source: "in CALLGATE_LOG" }.log_filter()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Human,
    Json,
}

pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) operations_listen: Option<SocketAddr>,
    pub(crate) database: DatabaseUrl,
    pub(crate) database_options: DatabaseOptions,
    pub(crate) preset: Option<Preset>,
    pub(crate) http: HttpOptions,
    pub(crate) server: ServerOptions,
    pub(crate) allow_anonymous: bool,
    pub(crate) exposure: Exposure,
    /// Whether methods without a section may be called. A setting of the registry takes precedence. The defaults for
    /// the preset and for `require_auth` are already applied. `None` allows the calls with a warning.
    pub(crate) open_methods: Option<OpenMethods>,
    pub(crate) max_in_flight_bytes: usize,
    pub(crate) call_timeout: Duration,
    pub(crate) rate_limits: RateLimits,
    pub(crate) tokens: TokenOptions,
    /// Maximum age of the keys that sign sessions. If `None`, these keys are not rotated.
    pub(crate) max_key_age: Option<Duration>,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    pub(crate) token: Option<Secret>,
    /// Names of tables. If `None`, the names that an existing registry stores are used.
    pub(crate) tables: Option<TableNames>,
    pub(crate) attach: Option<Attach>,
    pub(crate) upstreams: Upstreams,
    pub(crate) imports: Imports,
}

impl Config {
    pub(crate) fn load(cli: &Cli) -> anyhow::Result<Self> {
        let (demo, is_stdio) = match &cli.command {
            Command::Serve(serve) => (serve.demo, serve.stdio),
            _ => (false, false),
        };
        let values = Values::read(cli)?;
        let is_quiet = is_stdio && !values.has("log");
        let mut config = Self::resolve(values, demo)?;
        if is_quiet {
            STDIO_LOG.clone_into(&mut config.log);
        }
        Ok(config)
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
        let row_limits = RowLimits::resolve(&values)?;
        let max_connections = get("max_connections").number(1..=1 << 20)?;
        let http = http_options(&values, is_festi, max_connections)?;
        Ok(Self {
            listen: get("listen").address()?,
            operations_listen: match get("operations_listen") {
                Value { text: "", .. } => None,
                value => Some(value.address()?),
            },
            database: database::url(&values, demo)?,
            database_options: database::options(&values)?,
            server: ServerOptions {
                max_connections,
                shutdown_timeout: get("shutdown_timeout_seconds").seconds(0..=86_400)?,
                ..ServerOptions::default()
            },
            allow_anonymous: get("allow_anonymous").flag()?,
            exposure: match get("exposure") {
                Value { text: "", .. } if preset == Some(Preset::Drupal) => Exposure::Marked,
                Value { text: "", .. } => Exposure::All,
                value => value.choice([("all", Exposure::All), ("marked", Exposure::Marked)])?,
            },
            open_methods: open_methods(&values, http.require_auth, is_festi)?,
            http,
            max_in_flight_bytes: get("max_in_flight_bytes").number(1..=1 << 40)?,
            call_timeout: get("call_timeout_seconds").seconds(0..=86_400)?,
            rate_limits: rate_limits(&values)?,
            tokens: TokenOptions {
                grace: get("token_grace_seconds").seconds(0..=86_400)?,
                cache_size: get("max_kept_tokens").number(1..=1 << 30)? as u64,
                accepts_festi_header: attach.is_some(),
            },
            max_key_age: match get("key_rotation_days").number(0..=36_500)? {
                0 => None,
                days => Some(Duration::from_hours(24 * days as u64)),
            },
            log: get("log").log_filter()?,
            log_format: get("log_format")
                .choice([("human", LogFormat::Human), ("json", LogFormat::Json)])?,
            token: values.secret(TOKEN_VARIABLE),
            tables: if attach.is_some() { Some(attach::registry_tables()?) } else { tables },
            attach,
            preset,
            upstreams: values.upstreams.with_row_limits(row_limits),
            imports: values.imports,
        })
    }
}

fn rate_limits(values: &Values) -> anyhow::Result<RateLimits> {
    let per_caller = match values.get("limits.requests_per_caller") {
        Value { text: "", .. } => None,
        value => Some(value.rate()?),
    };
    let total = Some(values.get("limits.requests").rate()?);
    Ok(RateLimits { per_caller, total, tools: Some(values.get("limits.tools").rate()?) })
}

/// Returns whether methods without a section may be called. By default, calls of these methods are
/// refused if callers need a token. With the preset `festi`, the calls are allowed, because in
/// Festi a method without an action is open to every user.
fn open_methods(
    values: &Values,
    require_auth: bool,
    is_festi: bool,
) -> anyhow::Result<Option<OpenMethods>> {
    match values.get("open_methods") {
        Value { text: "", .. } if is_festi => Ok(Some(OpenMethods::Allow)),
        Value { text: "", .. } => Ok(require_auth.then_some(OpenMethods::Refuse)),
        value => {
            let choices = [("allow", OpenMethods::Allow), ("refuse", OpenMethods::Refuse)];
            value.choice(choices).map(Some)
        }
    }
}

fn http_options(
    values: &Values,
    is_festi: bool,
    max_connections: usize,
) -> anyhow::Result<HttpOptions> {
    let get = |name| values.get(name);
    Ok(HttpOptions {
        require_auth: get("require_auth").flag()? || is_festi,
        max_body_bytes: get("max_body_bytes").number(1..=1 << 30)?,
        trusted_proxies: get("trusted_proxies").networks()?,
        forwarded_header: get("forwarded_header").choice([
            ("x-forwarded-for", ForwardedHeader::XForwardedFor),
            ("forwarded", ForwardedHeader::Forwarded),
        ])?,
        allowed_hosts: get("allowed_hosts").list(),
        allowed_origins: get("allowed_origins").origins()?,
        raw_request: match get("raw_request") {
            Value { text: "", .. } => is_festi,
            value => value.flag()?,
        },
        mcp_at_root: true,
        metrics: get("metrics").flag()?,
        max_requests: max_connections,
        // Half of the connections remain for requests.
        max_streams: (max_connections / 2).max(1),
        ..HttpOptions::default()
    })
}

type SetTable = fn(TableNames, &str) -> Result<TableNames, TableNameError>;

const TABLE_KEYS: [(&str, SetTable); 3] = [
    ("tables.rpc_methods", TableNames::rpc_methods),
    ("tables.users", TableNames::users),
    ("tables.users_types", TableNames::users_types),
];

fn tables(values: &Values, is_festi: bool) -> anyhow::Result<Option<TableNames>> {
    let has_names = TABLE_KEYS.iter().any(|(name, _)| values.has(name));
    if !is_festi && !has_names && !values.has("tables.prefix") {
        return Ok(None);
    }
    let prefix = match values.get("tables.prefix") {
        value if is_festi && !values.has("tables.prefix") => Value { text: "festi_", ..value },
        value => value,
    };
    let mut names = TableNames::with_prefix(prefix.text).with_context(|| prefix.place())?;
    for (name, set) in TABLE_KEYS {
        let value = values.get(name);
        names = set(names, value.text).with_context(|| value.place())?;
    }
    Ok(Some(names))
}
