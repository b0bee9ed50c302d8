//! A service that is asked what it has, with the credentials that are its own.
//!
//! Where the upstream has the same URL, its credentials are used; they go to no other one. Others come
//! from variables and files that the command line names, so that no secret is on it.

use std::path::PathBuf;

use anyhow::Context as _;
use callgate::forward::{AskError, Forward, ForwardLimits, ForwardOptions, Target};
use callgate::model::ParamStyle;
use callgate_registry::UpstreamRow;
use clap::Args;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::MAX_FILE;
use crate::config::{Config, secret_in_file, secret_in_variable};
use crate::errors::hinted;
use crate::printer::shortened;

/// So much is shown of what a service says.
const MAX_SAID: usize = 200;

/// How to ask a service that the configuration does not know.
#[derive(Debug, Default, Args)]
pub(crate) struct ServiceOptions {
    /// A header for the service, and the variable of the environment that has its value; may repeat
    #[arg(long, value_name = "NAME=VARIABLE", value_parser = name_and_place)]
    header_env: Vec<(String, String)>,
    /// A header for the service, and the file that has its value; may repeat
    #[arg(long, value_name = "NAME=FILE", value_parser = name_and_place)]
    header_file: Vec<(String, String)>,
    /// A variable of the environment that has a parameter for the service, before all others, such as
    /// `token:…` of aria2; may repeat. Parameters go by position then
    #[arg(long, value_name = "VARIABLE")]
    first_param_env: Vec<String>,
    /// A file, in PEM, with certificates of authorities to trust beside those of the system
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

fn name_and_place(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, place)) if !name.is_empty() && !place.is_empty() => {
            Ok((name.to_owned(), place.to_owned()))
        }
        _ => Err("expected such as `Authorization=SHOP_TOKEN`".to_owned()),
    }
}

impl ServiceOptions {
    fn add_to(&self, mut options: ForwardOptions) -> anyhow::Result<ForwardOptions> {
        for (name, variable) in &self.header_env {
            let value = secret_in_variable("--header-env", variable)?;
            options = options.replace_header(name, &value).context("`--header-env`")?;
        }
        for (name, file) in &self.header_file {
            let value = secret_in_file("--header-file", file.as_ref())?;
            options = options.replace_header(name, &value).context("`--header-file`")?;
        }
        for variable in &self.first_param_env {
            let value = secret_in_variable("--first-param-env", variable)?;
            options = options.params(ParamStyle::Positional).first_param(&json!(value));
        }
        if let Some(path) = &self.ca_file {
            let shown = || format!("`--ca-file`: `{}`", path.display());
            let pem = std::fs::read(path).with_context(shown)?;
            options = options.ca_certificates(&pem).with_context(shown)?;
        }
        Ok(options)
    }

    /// Returns the same as arguments of a command, for a shell.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut add = |option: &str, value: &str| all.push(format!("{option} {}", quoted(value)));
        for (name, place) in &self.header_env {
            add("--header-env", &format!("{name}={place}"));
        }
        for (name, place) in &self.header_file {
            add("--header-file", &format!("{name}={place}"));
        }
        for variable in &self.first_param_env {
            add("--first-param-env", variable);
        }
        if let Some(path) = &self.ca_file {
            add("--ca-file", &path.to_string_lossy());
        }
        all
    }

    /// What a table of the configuration says of the same.
    fn table(&self) -> Vec<String> {
        let env = self.header_env.iter().map(|header| ("env", header));
        let file = self.header_file.iter().map(|header| ("file", header));
        let header = |(key, (name, place)): (_, &(String, String))| {
            format!("{} = {{ {key} = {} }}", json!(name), json!(place))
        };
        let headers: Vec<String> = env.chain(file).map(header).collect();
        let first = self.first_param_env.iter();
        let first: Vec<String> = first.map(|it| format!("{{ env = {} }}", json!(it))).collect();
        let mut table = Vec::new();
        if !headers.is_empty() {
            table.push(format!("headers = {{ {} }}", headers.join(", ")));
        }
        if !first.is_empty() {
            table.push(r#"params = "positional""#.to_owned());
            table.push(format!("first_params = [{}]", first.join(", ")));
        }
        table.extend(self.ca_file.iter().map(|path| format!("ca_file = {}", json!(path))));
        table
    }
}

/// Returns a word for a shell, in quotes where it needs them.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-=./:@%+,".contains(c);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Where upstreams are known from: the file, and the rows of the registry.
#[derive(Clone, Copy)]
pub(crate) struct Configured<'a> {
    pub(crate) config: &'a Config,
    pub(crate) rows: &'a [UpstreamRow],
}

/// A service that is asked what it has.
#[derive(Debug)]
pub(crate) struct Service {
    forward: Forward,
    options: ForwardOptions,
    configured: ConfiguredAs,
}

/// Where calls to a service are configured.
#[derive(Debug)]
enum ConfiguredAs {
    /// Nowhere: the table that the configuration needs, and the command that does the same.
    Nowhere { table: Vec<String>, command: Option<String> },
    /// In the file.
    File(String),
    /// In a row of the registry.
    Row(String),
    /// Elsewhere: the upstream of this name is at another URL, or there is no configuration.
    Other(Option<String>),
}

impl Service {
    /// The service behind an upstream, or at a place that may be an upstream's.
    pub(crate) fn new(
        Configured { config, rows }: Configured<'_>,
        upstream: &str,
        target: Option<Target>,
        given: &ServiceOptions,
    ) -> anyhow::Result<Self> {
        let known = config.upstreams.target(upstream, rows)?;
        let is_its = target.is_none() || target == known;
        let configured = match &known {
            Some(_) if is_its => config.upstreams.options(upstream, rows, config.call_timeout)?,
            _ => None,
        };
        let options = match (configured, target) {
            (Some(options), _) => options,
            (None, Some(target)) => elsewhere(config, target),
            (None, None) => {
                return Err(hinted(
                    format!("there is no URL, and upstream `{upstream}` is not configured"),
                    "name the URL of the service, or its upstream with `--upstream`",
                ));
            }
        };
        let configured = match known {
            None => suggestion(upstream, options.target(), given),
            Some(known) if !is_its => ConfiguredAs::Other(Some(format!(
                "note: upstream `{upstream}` is at {known}, so nothing of it is used here"
            ))),
            Some(_) if config.upstreams.names().any(|name| name == upstream) => {
                ConfiguredAs::File(upstream.to_owned())
            }
            Some(_) => ConfiguredAs::Row(upstream.to_owned()),
        };
        Self::with(options, given, configured)
    }

    /// A service of which nothing is configured.
    pub(crate) fn unknown(
        config: &Config,
        target: Target,
        given: &ServiceOptions,
    ) -> anyhow::Result<Self> {
        Self::with(elsewhere(config, target), given, ConfiguredAs::Other(None))
    }

    fn with(
        options: ForwardOptions,
        given: &ServiceOptions,
        configured: ConfiguredAs,
    ) -> anyhow::Result<Self> {
        let options = given.add_to(options)?;
        Ok(Self { forward: asking(options.clone())?, options, configured })
    }

    pub(crate) fn target(&self) -> &Target {
        self.options.target()
    }

    /// How it is called.
    pub(crate) fn options(&self) -> &ForwardOptions {
        &self.options
    }

    /// Sets how it is called.
    pub(crate) fn set_options(&mut self, options: ForwardOptions) {
        self.options = options;
    }

    /// Returns what is to be configured for calls to reach it, with keys that the source suggests.
    pub(crate) fn notes(&self, keys: &[(&'static str, Value)]) -> Vec<String> {
        let lines = keys.iter().map(|(key, value)| format!("{key} = {value}"));
        match &self.configured {
            ConfiguredAs::Nowhere { table, command } => {
                let values = keys.iter().map(|(key, value)| match value {
                    Value::String(text) => format!(" {key}={text}"),
                    other => format!(" {key}={other}"),
                });
                let values: Vec<String> = values.collect();
                let command = command.iter().map(|command| format!("{command}{}", values.concat()));
                table.iter().cloned().chain(lines).chain(command).collect()
            }
            ConfiguredAs::File(name) if !keys.is_empty() => {
                let note =
                    format!("note: [upstreams.{name}] in the configuration should also have");
                [note].into_iter().chain(lines).collect()
            }
            ConfiguredAs::Other(note) => note.iter().cloned().collect(),
            ConfiguredAs::File(_) | ConfiguredAs::Row(_) => Vec::new(),
        }
    }

    /// Returns the name of the upstream, if it is a row of the registry.
    pub(crate) fn row_name(&self) -> Option<&str> {
        match &self.configured {
            ConfiguredAs::Row(name) => Some(name),
            _ => None,
        }
    }

    /// Calls a method.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: &[Value],
    ) -> Result<Box<RawValue>, AskError> {
        let none = || RawValue::NULL.to_owned();
        let params = to_raw_value(params).unwrap_or_else(|_| none());
        self.forward.ask(method, &params).await
    }

    /// Returns what is at its URL, or at another URL of the same server.
    pub(crate) async fn get(&self, other: Option<&Target>) -> Result<String, AskError> {
        match other {
            None => self.forward.get().await,
            Some(other) => self.forward.get_at(other).await,
        }
    }
}

/// Keys that an import sets in the row of an upstream, where the row does not have them.
#[derive(Debug)]
pub(crate) struct UpstreamKeys {
    pub(crate) name: String,
    pub(crate) keys: Vec<(&'static str, Value)>,
}

fn elsewhere(config: &Config, target: Target) -> ForwardOptions {
    let limits = ForwardLimits { timeout: config.call_timeout, ..ForwardLimits::default() };
    ForwardOptions::new(target).limits(limits)
}

/// A description may be as large as a file of it.
fn asking(mut options: ForwardOptions) -> anyhow::Result<Forward> {
    options.limits.result_bytes = usize::try_from(MAX_FILE).unwrap_or(usize::MAX);
    Ok(Forward::new("import", options)?)
}

/// The table that is to come into the configuration.
fn suggestion(upstream: &str, target: &Target, given: &ServiceOptions) -> ConfiguredAs {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let name = match upstream {
        bare if bare.chars().all(is_bare) => bare.to_owned(),
        other => json!(other).to_string(),
    };
    let head = "note: for calls to reach the service, callgate.toml needs".to_owned();
    // Where some put a key, which is not shown.
    let query = if target.has_query() { "  # and what follows `?`" } else { "" };
    let url = format!("url = {}{query}", json!(target.to_string()));
    let table = [head, format!("[upstreams.{name}]"), url];
    let more = given.table();
    let is_all = more.is_empty() && !target.has_query() && name == upstream;
    let command = is_all.then(|| format!("or: callgate upstream set {name} url={target}"));
    ConfiguredAs::Nowhere { table: table.into_iter().chain(more).collect(), command }
}

/// What a service says, in one line.
pub(super) fn cut(text: &str) -> String {
    shortened(text, MAX_SAID)
}
