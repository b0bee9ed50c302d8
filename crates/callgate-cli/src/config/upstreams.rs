//! `[upstreams.NAME]`: the services that run methods.
//!
//! The tables are read with the rest of the configuration, and looked into for real only when they are
//! served from: other commands need no secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use callgate::forward::{
    Forward, ForwardLimits, ForwardOptions, Http2, Ids, PassCaller, Target, header_name,
};
use callgate::{LOCAL, ParamStyle};
use serde::Deserialize;

use super::{Key, Secret, unknown};
use crate::errors::hinted;

/// What a table may say.
pub(crate) const UPSTREAM_KEYS: &[Key] = &[
    Key {
        name: "url",
        default: "",
        meaning: "where the service is: `http://…`, `https://…`, `ws://…`, `wss://…`, `unix:/path` or `unix:/path:/rpc`",
    },
    Key {
        name: "params",
        default: "named",
        meaning: "how it takes parameters: `named` (an object) or `positional` (a list)",
    },
    Key {
        name: "first_params",
        default: "",
        meaning: "a list of parameters put before the caller's, with `params = \"positional\"`",
    },
    Key {
        name: "members",
        default: "",
        meaning: "a table of members of each request beside `params`",
    },
    Key { name: "headers", default: "", meaning: "a table of HTTP headers of each request" },
    Key { name: "basic_user", default: "", meaning: "the user of HTTP Basic" },
    Key { name: "basic_password", default: "", meaning: "their password" },
    Key { name: "ids", default: "text", meaning: "the ids of requests: `text` or `integer`" },
    Key {
        name: "pass_caller",
        default: "",
        meaning: "a table of what is passed on of the caller, and in which header: `user_id`, `user_name`, `role`",
    },
    Key {
        name: "timeout_seconds",
        default: "",
        meaning: "how long a call may take; by default as `call_timeout_seconds` says",
    },
    Key {
        name: "connect_timeout_seconds",
        default: "5",
        meaning: "how long a new connection may take, at most half of the whole time",
    },
    Key { name: "max_result_bytes", default: "4194304", meaning: "how large an answer may be" },
    Key {
        name: "max_concurrent",
        default: "100",
        meaning: "how many calls may be under way; more wait",
    },
    Key {
        name: "http2",
        default: "false",
        meaning: "speak HTTP/2 without TLS too; with TLS the two sides agree on it by themselves",
    },
    Key {
        name: "ca_file",
        default: "",
        meaning: "a file of certificates, in PEM, of authorities to trust beside those of the system",
    },
];

/// The tables as they were written.
#[derive(Debug, Default)]
pub(crate) struct Upstreams(BTreeMap<String, Table>);

/// One of them, and where it was said.
struct Table {
    described: Described,
    source: String,
}

/// It may hold secrets.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("source", &self.source).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Described {
    url: Text,
    #[serde(default)]
    params: Params,
    #[serde(default)]
    first_params: Vec<Json>,
    #[serde(default)]
    members: BTreeMap<String, Json>,
    #[serde(default)]
    headers: BTreeMap<String, Text>,
    basic_user: Option<Text>,
    basic_password: Option<Text>,
    #[serde(default)]
    ids: IdForm,
    #[serde(default)]
    pass_caller: Passed,
    timeout_seconds: Option<u32>,
    connect_timeout_seconds: Option<u32>,
    max_result_bytes: Option<u32>,
    max_concurrent: Option<u16>,
    #[serde(default)]
    http2: bool,
    ca_file: Option<PathBuf>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Params {
    #[default]
    Named,
    Positional,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum IdForm {
    #[default]
    Text,
    Integer,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Passed {
    user_id: Option<String>,
    user_name: Option<String>,
    role: Option<String>,
}

/// A text, here or elsewhere.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text, `{ env = \"NAME\" }` or `{ file = \"PATH\" }`")]
enum Text {
    Here(String),
    Elsewhere(Elsewhere),
}

/// Any value, or a text that is elsewhere.
#[derive(Deserialize)]
#[serde(untagged)]
enum Json {
    Elsewhere(Elsewhere),
    Here(serde_json::Value),
}

/// A secret that is not in this file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Elsewhere {
    Variable(Variable),
    File(File),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variable {
    env: String,
    #[serde(default)]
    prefix: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    file: PathBuf,
    #[serde(default)]
    prefix: String,
}

impl Upstreams {
    /// Reads `[upstreams]`: keys that there are not, and values of other kinds, are errors.
    pub(super) fn read(value: &toml::Value, source: &str) -> anyhow::Result<Self> {
        let expected = || format!("`upstreams` in {source} must have a table for each upstream");
        let tables = value.as_table().with_context(expected)?;
        let mut all = BTreeMap::new();
        for (name, value) in tables {
            let table = value.as_table().with_context(expected)?;
            if name == LOCAL {
                let problem =
                    format!("`upstreams.{LOCAL}` in {source} is the name of this program");
                return Err(hinted(problem, "choose another"));
            }
            let is_known = |key: &&String| UPSTREAM_KEYS.iter().any(|known| known.name == *key);
            if let Some(key) = table.keys().find(|key| !is_known(key)) {
                let place = format!("upstreams.{name}.");
                return Err(unknown(&format!("{place}{key}"), source, UPSTREAM_KEYS, |known| {
                    format!("{place}{known}")
                }));
            }
            let described = table.clone().try_into::<Described>();
            // What the message says of the place is that of a table alone, which misleads.
            let problem = |error: toml::de::Error| {
                anyhow::anyhow!("`upstreams.{name}` in {source}: {}", error.message())
            };
            let described = described.map_err(problem)?;
            all.insert(name.clone(), Table { described, source: source.to_owned() });
        }
        Ok(Self(all))
    }

    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The variables that have secrets of theirs.
    pub(super) fn has_variable(&self, name: &str) -> bool {
        let mut all = self.0.values().flat_map(|table| table.described.elsewhere());
        all.any(|secret| matches!(secret, Elsewhere::Variable(variable) if variable.env == name))
    }

    /// Where one of them is.
    pub(crate) fn target(&self, name: &str) -> anyhow::Result<Option<Target>> {
        let Some(Table { described, source }) = self.0.get(name) else { return Ok(None) };
        let target = described.target();
        target.map(Some).with_context(|| format!("`upstreams.{name}` in {source}"))
    }

    /// How one of them wants to be called, with its secrets.
    pub(crate) fn options(
        &self,
        name: &str,
        call_timeout: Duration,
    ) -> anyhow::Result<Option<ForwardOptions>> {
        let Some(Table { described, source }) = self.0.get(name) else { return Ok(None) };
        let options = described.options(call_timeout);
        options.map(Some).with_context(|| format!("`upstreams.{name}` in {source}"))
    }

    /// Makes them, with their secrets.
    pub(crate) fn build(&self, call_timeout: Duration) -> anyhow::Result<Vec<(String, Forward)>> {
        let built = self.0.iter().map(|(name, Table { described, source })| {
            let forward = described
                .options(call_timeout)
                .and_then(|options| Ok(Forward::new(name, options)?))
                .with_context(|| format!("`upstreams.{name}` in {source}"))?;
            Ok((name.clone(), forward))
        });
        built.collect()
    }
}

impl Described {
    fn elsewhere(&self) -> impl Iterator<Item = &Elsewhere> {
        let texts = self.headers.values().chain([&self.url]);
        let texts = texts.chain(&self.basic_user).chain(&self.basic_password);
        let texts = texts.filter_map(|text| match text {
            Text::Elsewhere(secret) => Some(secret),
            Text::Here(_) => None,
        });
        let values = self.first_params.iter().chain(self.members.values());
        texts.chain(values.filter_map(|value| match value {
            Json::Elsewhere(secret) => Some(secret),
            Json::Here(_) => None,
        }))
    }

    fn target(&self) -> anyhow::Result<Target> {
        self.url.read("url")?.parse().context("`url`")
    }

    fn options(&self, call_timeout: Duration) -> anyhow::Result<ForwardOptions> {
        let mut options = ForwardOptions::new(self.target()?)
            .params(match self.params {
                Params::Named => ParamStyle::Named,
                Params::Positional => ParamStyle::Positional,
            })
            .ids(match self.ids {
                IdForm::Text => Ids::Text,
                IdForm::Integer => Ids::Number,
            })
            .http2(if self.http2 { Http2::Always } else { Http2::Agreed })
            .pass_caller(self.pass_caller.named()?)
            .context("`pass_caller`")?
            .limits(self.limits(call_timeout)?);
        for value in &self.first_params {
            options = options.first_param(&value.read("first_params")?);
        }
        for (name, value) in &self.members {
            options = options.member(name, &value.read("members")?).context("`members`")?;
        }
        for (name, value) in &self.headers {
            options = options.header(name, &value.read("headers")?).context("`headers`")?;
        }
        if let Some(path) = &self.ca_file {
            let shown = || format!("`ca_file`: `{}`", path.display());
            let pem = std::fs::read(path).with_context(shown)?;
            options = options.ca_certificates(&pem).with_context(shown)?;
        }
        self.with_basic(options)
    }

    fn with_basic(&self, options: ForwardOptions) -> anyhow::Result<ForwardOptions> {
        match (&self.basic_user, &self.basic_password) {
            (None, None) => Ok(options),
            (Some(user), Some(password)) => {
                let (user, password) = (user.read("basic_user")?, password.read("basic_password")?);
                options.basic(&user, &password).context("`basic_user`")
            }
            _ => anyhow::bail!("`basic_user` and `basic_password` go together"),
        }
    }

    fn limits(&self, call_timeout: Duration) -> anyhow::Result<ForwardLimits> {
        let seconds = |number: u32| Duration::from_secs(number.into());
        let default = ForwardLimits { timeout: call_timeout, ..ForwardLimits::default() };
        let limits = ForwardLimits {
            timeout: self.timeout_seconds.map_or(default.timeout, seconds),
            connect: self.connect_timeout_seconds.map_or(default.connect, seconds),
            result_bytes: self.max_result_bytes.map_or(default.result_bytes, |n| n as usize),
            concurrent: self.max_concurrent.map_or(default.concurrent, usize::from),
            ..default
        };
        let zero = [
            ("timeout_seconds", limits.timeout.is_zero()),
            ("connect_timeout_seconds", limits.connect.is_zero()),
            ("max_result_bytes", limits.result_bytes == 0),
            ("max_concurrent", limits.concurrent == 0),
        ];
        match zero.iter().find(|(_, is_zero)| *is_zero) {
            Some((key, _)) => anyhow::bail!("`{key}` must not be 0"),
            None => Ok(limits),
        }
    }
}

impl Passed {
    fn named(&self) -> anyhow::Result<PassCaller> {
        let header = |name: &Option<String>| {
            name.as_deref().map(header_name).transpose().context("`pass_caller`")
        };
        Ok(PassCaller {
            user_id: header(&self.user_id)?,
            user_name: header(&self.user_name)?,
            role: header(&self.role)?,
        })
    }
}

impl Text {
    fn read(&self, key: &str) -> anyhow::Result<String> {
        match self {
            Self::Here(text) => Ok(text.clone()),
            Self::Elsewhere(elsewhere) => elsewhere.read(key),
        }
    }
}

impl Json {
    fn read(&self, key: &str) -> anyhow::Result<serde_json::Value> {
        match self {
            Self::Here(value) => Ok(value.clone()),
            Self::Elsewhere(elsewhere) => elsewhere.read(key).map(Into::into),
        }
    }
}

/// What a variable of the environment has, for `key`.
pub(crate) fn secret_in_variable(key: &str, name: &str) -> anyhow::Result<String> {
    let (env, prefix) = (name.to_owned(), String::new());
    Elsewhere::Variable(Variable { env, prefix }).read(key)
}

/// What a file has, for `key`.
pub(crate) fn secret_in_file(key: &str, file: &Path) -> anyhow::Result<String> {
    let (file, prefix) = (file.to_owned(), String::new());
    Elsewhere::File(File { file, prefix }).read(key)
}

impl Elsewhere {
    fn read(&self, key: &str) -> anyhow::Result<String> {
        let (prefix, text, place) = match self {
            Self::Variable(Variable { env, prefix }) => {
                let text = std::env::var_os(env).map(|text| text.to_string_lossy().into_owned());
                let text = text.with_context(|| format!("`{key}`: `{env}` is not set"))?;
                (prefix, text, format!("`{env}`"))
            }
            Self::File(File { file, prefix }) => {
                let place = format!("`{}`", file.display());
                let text = std::fs::read_to_string(file);
                let text = text.with_context(|| format!("`{key}`: cannot read {place}"))?;
                (prefix, text, place)
            }
        };
        let secret = Secret::new(text.trim_start_matches('\u{feff}'));
        let secret = secret.with_context(|| format!("`{key}`: {place} is empty"))?;
        Ok(format!("{prefix}{}", secret.expose()))
    }
}
