//! The service that an import reads from, and the configuration for calls to it.
//!
//! The credentials of an upstream are sent only to the URL of that upstream. Other credentials are read from variables
//! and files that the command line names, so that the command line itself contains no secret.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use callgate::forward::{ForwardLimits, ForwardOptions, Target};
use callgate::model::ParamStyle;
use callgate_import::{Service, UpstreamKeys};
use callgate_registry::UpstreamRow;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::config::{Config, Upstreams, secret_in_file, secret_in_variable};
use crate::error_hints::{hinted, nearest};

/// Options for requests to a service that is not configured.
#[derive(Debug, Default, Args)]
pub(crate) struct ServiceOptions {
    /// Header, and the environment variable that contains its value; may be repeated
    #[arg(long, value_name = "NAME=VARIABLE", value_parser = name_and_source)]
    header_env: Vec<(String, String)>,
    /// Header, and the file that contains its value; may be repeated
    #[arg(long, value_name = "NAME=FILE", value_parser = name_and_source)]
    header_file: Vec<(String, String)>,
    /// Environment variable with a value that is sent before all parameters, such as `token:…` for
    /// aria2; may be repeated. With this option, parameters are sent by position
    #[arg(long, value_name = "VARIABLE")]
    first_param_env: Vec<String>,
    #[command(flatten)]
    basic: BasicOptions,
    /// File with PEM certificates of authorities to trust, in addition to those of the system
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// User and password for HTTP Basic authentication.
#[derive(Debug, Default, Args)]
pub(crate) struct BasicOptions {
    /// User name for HTTP Basic authentication; needs `--password-env` or `--password-file`
    #[arg(long, value_name = "USER", requires = "basic_password")]
    basic: Option<String>,
    /// Environment variable with the password of `--basic`
    #[arg(long, value_name = "VARIABLE", requires = "basic", group = "basic_password")]
    password_env: Option<String>,
    /// File with the password of `--basic`
    #[arg(long, value_name = "FILE", requires = "basic", group = "basic_password")]
    password_file: Option<String>,
}

impl BasicOptions {
    fn add_to(&self, options: ForwardOptions) -> anyhow::Result<ForwardOptions> {
        let Some(user) = &self.basic else { return Ok(options) };
        let password = match (&self.password_env, &self.password_file) {
            (Some(variable), _) => secret_in_variable("--password-env", variable)?,
            (None, Some(file)) => secret_in_file("--password-file", file.as_ref())?,
            (None, None) => return Ok(options),
        };
        options.replace_basic(user, &password).context("`--basic`")
    }

    /// Returns these options as keys of an upstream.
    pub(super) fn keys(&self) -> Option<[(&'static str, Value); 2]> {
        let password = match (&self.password_env, &self.password_file) {
            (Some(variable), _) => json!({ "env": variable }),
            (None, file) => json!({ "file": file.as_ref()? }),
        };
        Some([("basic_user", json!(self.basic.as_ref()?)), ("basic_password", password)])
    }
}

/// Returns the absolute path, because the user may run the printed commands in another directory.
fn absolute_path(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::path::absolute(path).as_deref().unwrap_or(path).to_string_lossy().into_owned()
}

fn name_and_source(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, source)) if !name.is_empty() && !source.is_empty() => {
            Ok((name.to_owned(), source.to_owned()))
        }
        _ => Err("expected `NAME=VARIABLE` or `NAME=FILE`, such as `X-Key=SHOP_KEY`".to_owned()),
    }
}

impl ServiceOptions {
    /// Returns a service that is not configured.
    pub(crate) fn service(&self, config: &Config, target: Target) -> anyhow::Result<Service> {
        Service::new(self.add_to(unconfigured(config, target))?)
    }

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
        options = self.basic.add_to(options)?;
        if let Some(path) = &self.ca_file {
            let context = || format!("`--ca-file`: `{}`", path.display());
            let pem = std::fs::read(path).with_context(context)?;
            options = options.ca_certificates(&pem).with_context(context)?;
        }
        Ok(options)
    }

    /// Returns the options as keys of an upstream. Paths are absolute.
    fn keys(&self, url: &str) -> Map<String, Value> {
        let env = self.header_env.iter().map(|(name, source)| (name, json!({"env": source})));
        let file = self
            .header_file
            .iter()
            .map(|(name, source)| (name, json!({"file": absolute_path(source)})));
        let headers: Map<String, Value> =
            env.chain(file).map(|(name, source)| (name.clone(), source)).collect();
        let first: Vec<Value> =
            self.first_param_env.iter().map(|variable| json!({"env": variable})).collect();
        let mut keys = Map::from_iter([("url".to_owned(), json!(url))]);
        if !headers.is_empty() {
            keys.insert("headers".to_owned(), headers.into());
        }
        if !first.is_empty() {
            keys.insert("params".to_owned(), "position".into());
            keys.insert("first_params".to_owned(), first.into());
        }
        let basic = self.basic.keys().into_iter().flatten();
        keys.extend(basic.map(|(key, mut value)| {
            if let Some(Value::String(file)) = value.get_mut("file") {
                *file = absolute_path(&*file);
            }
            (key.to_owned(), value)
        }));
        keys.extend(
            self.ca_file.iter().map(|path| ("ca_file".to_owned(), absolute_path(path).into())),
        );
        keys
    }

    /// Returns shell commands that add an upstream to a new registry in an empty directory.
    pub(crate) fn setup_commands(&self, upstream: &str, url: &str) -> anyhow::Result<Vec<String>> {
        let keys = self.keys(url);
        let lines = Upstreams::limits_for(keys.clone())?;
        let lines: Vec<String> = lines.lines().map(shell_quoted).collect();
        let values = keys.iter().map(|(key, value)| match value {
            Value::String(text) => shell_quoted(&format!("{key}={text}")),
            other => shell_quoted(&format!("{key}={other}")),
        });
        let values: Vec<String> = values.collect();
        Ok(vec![
            "callgate migrate".to_owned(),
            format!("printf '%s\\n' {} > callgate.toml", lines.join(" ")),
            format!("callgate upstream set {upstream} {}", values.join(" ")),
        ])
    }
}

/// Parses the URL of a service. If the text is a file, or a URL without a scheme, the hint says what to write instead.
pub(crate) fn parse_url(text: &str) -> anyhow::Result<Target> {
    let error = match text.parse::<Target>() {
        Ok(target) => return Ok(target),
        Err(error) => error,
    };
    let is_document = [".json", ".yaml", ".yml"].iter().any(|end| text.ends_with(end));
    if !text.contains("://") && (is_document || Path::new(text).is_file()) {
        return Err(hinted(
            format!("`{text}` is a file, and not the URL of a running service"),
            format!("`callgate import openrpc {text}` imports the methods of a document"),
        ));
    }
    if let (false, Ok(target)) = (text.contains("://"), format!("http://{text}").parse::<Target>())
    {
        let problem = "the URL does not begin with `http://` or another scheme";
        return Err(hinted(problem, format!("write `{target}`")));
    }
    Err(anyhow::Error::new(error).context("invalid URL"))
}

/// Quotes a word for a shell, if necessary.
fn shell_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-=./:@%+,".contains(c);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Place where calls to a service are configured.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServiceConfiguration {
    /// The service is not configured. Contains the table that the file needs, and a command that has the same effect.
    Missing {
        table: Vec<String>,
        command: Option<String>,
    },
    File,
    Registry,
    /// The upstream has another URL.
    OtherUrl(String),
}

/// Returns the names of the upstreams that are configured.
pub(super) fn upstream_names<'a>(
    (config, rows): (&'a Config, &'a [UpstreamRow]),
) -> impl Iterator<Item = &'a str> {
    config.upstreams.names().chain(rows.iter().map(|row| row.name.as_str()))
}

/// Returns the service at a URL, or at the URL of the upstream.
pub(super) fn service(
    (config, rows): (&Config, &[UpstreamRow]),
    upstream: &str,
    target: Option<Target>,
    args: &ServiceOptions,
) -> anyhow::Result<(Service, ServiceConfiguration)> {
    let configured_target = config.upstreams.target(upstream, rows)?;
    let is_configured_target = target.is_none() || target == configured_target;
    let configured_options = match &configured_target {
        Some(_) if is_configured_target => {
            config.upstreams.options(upstream, rows, config.call_timeout)?
        }
        _ => None,
    };
    let options = match (configured_options, target) {
        (Some(options), _) => options,
        (None, Some(target)) => unconfigured(config, target),
        (None, None) => {
            let problem = format!("there is no URL, and upstream `{upstream}` is not configured");
            return Err(match nearest(upstream, upstream_names((config, rows))) {
                Some(nearest) => hinted(problem, format!("did you mean `--upstream {nearest}`?")),
                None => hinted(
                    problem,
                    "give the URL of the service, or its upstream with `--upstream`",
                ),
            });
        }
    };
    let configuration = match configured_target {
        None => suggestion(config, upstream, options.target(), args),
        Some(configured_target) if !is_configured_target => {
            ServiceConfiguration::OtherUrl(format!(
                "note: upstream `{upstream}` has the URL {configured_target}, so its credentials are not sent to another URL"
            ))
        }
        Some(_) if config.upstreams.is_in_file(upstream) => ServiceConfiguration::File,
        Some(_) => ServiceConfiguration::Registry,
    };
    Ok((Service::new(args.add_to(options)?)?, configuration))
}

fn unconfigured(config: &Config, target: Target) -> ForwardOptions {
    let limits = ForwardLimits { timeout: config.call_timeout, ..ForwardLimits::default() };
    ForwardOptions::new(target).limits(limits)
}

fn suggestion(
    config: &Config,
    upstream: &str,
    target: &Target,
    args: &ServiceOptions,
) -> ServiceConfiguration {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let name = match upstream {
        bare if bare.chars().all(is_bare) => bare.to_owned(),
        name => json!(name).to_string(),
    };
    let heading = "note: to call the service, callgate.toml needs".to_owned();
    // The query is not shown, because it may contain a secret.
    let query = if target.has_query() { "  # plus the query" } else { "" };
    let keys = args.keys(&target.to_string());
    let line = |(key, value): (&String, &Value)| {
        let inline = toml::Value::try_from(value).map(|value| value.to_string());
        let inline = inline.unwrap_or_else(|_| value.to_string());
        format!("{key} = {inline}{}", if key == "url" { query } else { "" })
    };
    let table = [heading, format!("[upstreams.{name}]")].into_iter().chain(keys.iter().map(line));
    let is_complete = keys.len() == 1 && !target.has_query() && name == upstream;
    let is_allowed = config.upstreams.allows_row_target(target);
    let command = (is_complete && is_allowed)
        .then(|| format!("or: callgate upstream set {name} url={target}"));
    ServiceConfiguration::Missing { table: table.collect(), command }
}

impl ServiceConfiguration {
    /// Returns notes about what to configure, with the keys that the source suggests.
    pub(super) fn notes(&self, upstream: &str, keys: &UpstreamKeys) -> Vec<String> {
        let lines = keys.iter().map(|(key, value)| format!("{key} = {value}"));
        match self {
            Self::Missing { table, command } => {
                let values = keys.iter().map(|(key, value)| match value {
                    Value::String(text) => format!(" {key}={text}"),
                    other => format!(" {key}={other}"),
                });
                let values: Vec<String> = values.collect();
                let command = command.iter().map(|command| format!("{command}{}", values.concat()));
                table.iter().cloned().chain(lines).chain(command).collect()
            }
            Self::File if !keys.is_empty() => {
                let note =
                    format!("note: [upstreams.{upstream}] in the configuration should also have");
                [note].into_iter().chain(lines).collect()
            }
            Self::OtherUrl(note) => vec![note.clone()],
            Self::File | Self::Registry => Vec::new(),
        }
    }
}
