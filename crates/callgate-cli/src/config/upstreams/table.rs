//! The keys of an upstream, in a table of the file or in a row of the registry.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use callgate::forward::{
    CallerHeaders, CredentialLocation, CredentialOptions, ForwardLimits, ForwardOptions, IdFormat,
    MethodListSource, MissingCredential, Target, ToolPath, UpstreamVisibility, UserGrant,
    header_name,
};
use callgate::model::{LOCAL, ParamStyle};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::limits::{Reference, RowLimits};
use super::login::LoginTable;
use super::oauth::OAuthTable;
use super::secrets::{ExternalValue, Secrets, Sourced, Text};
use crate::config::known_keys::{Keys, UPSTREAM_KEYS};
use crate::error_hints::hinted;

/// Maximum of `max_result_bytes` for upstreams in the registry.
///
/// While a message over WebSocket is read, only `max_result_bytes` limits its memory. The message counts against
/// the memory budget of all results only after it has been read.
const MAX_ROW_RESULT_BYTES: u32 = 64 << 20;

/// Default value of `visibility_seconds`.
const DEFAULT_MAX_AGE: Duration = Duration::from_mins(1);

#[derive(Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key")]
pub(super) struct UpstreamTable {
    url: Text,
    pub(super) params: Option<ParamStyle>,
    #[serde(default)]
    first_params: Vec<Sourced<Value>>,
    #[serde(default)]
    members: BTreeMap<String, Sourced<Value>>,
    #[serde(default)]
    headers: BTreeMap<String, Text>,
    basic_user: Option<Text>,
    basic_password: Option<Text>,
    #[serde(default)]
    ids: IdFormat,
    #[serde(default)]
    pass_caller: PassCallerTable,
    pub(super) credential: Option<CredentialTable>,
    oauth: Option<OAuthTable>,
    login: Option<LoginTable>,
    #[serde(default)]
    without_credential: Vec<String>,
    #[serde(default)]
    visibility: Visibility,
    #[serde(default, rename = "described_by")]
    description: MethodListSource,
    visibility_seconds: Option<u32>,
    timeout_seconds: Option<u32>,
    connect_timeout_seconds: Option<u32>,
    max_result_bytes: Option<u32>,
    max_concurrent: Option<u16>,
    #[serde(default)]
    http2: bool,
    #[serde(default)]
    batch: bool,
    #[serde(default)]
    trust_results: bool,
    #[serde(default)]
    calls: Calls,
    tool_path: Option<String>,
    #[serde(default)]
    null_is_absent: bool,
    #[serde(default)]
    trust_errors: bool,
    ca_file: Option<PathBuf>,
    /// Limits on what an upstream in the registry may use. `None` means no limits.
    #[serde(skip)]
    limits: Option<Arc<RowLimits>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Calls {
    #[default]
    Single,
    PerTool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Visibility {
    #[default]
    Registry,
    Upstream,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PassCallerTable {
    user_id: Option<String>,
    user_name: Option<String>,
    role: Option<String>,
    token: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CredentialTable {
    header: Option<String>,
    #[serde(default)]
    first_param: bool,
    member: Option<String>,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    missing: MissingCredential,
    oauth: Option<UserGrant>,
}

impl UpstreamTable {
    /// Checks the names of an upstream and of its keys.
    pub(super) fn check_keys(
        name: &str,
        keys: &Map<String, Value>,
        source: &str,
    ) -> anyhow::Result<()> {
        if name == LOCAL {
            let problem = format!(
                "`upstreams.{LOCAL}` in {source} is reserved for functions of this program"
            );
            return Err(hinted(problem, "choose another name"));
        }
        UPSTREAM_KEYS.check(&format!("upstreams.{name}"), keys.keys(), source)
    }

    pub(super) fn parse(keys: Map<String, Value>) -> anyhow::Result<Self> {
        Keys::read(keys, ("url", "http://localhost/".into()))
    }

    /// Returns the values that are in variables and files.
    pub(super) fn external(&self) -> impl Iterator<Item = &ExternalValue> {
        let texts = self.headers.values().chain([&self.url]);
        let texts = texts.chain(&self.basic_user).chain(&self.basic_password);
        let texts = texts.chain(self.oauth.iter().flat_map(OAuthTable::texts));
        let values = self.first_params.iter().chain(self.members.values());
        let login = self.login.iter().flat_map(LoginTable::external);
        texts.filter_map(Sourced::external).chain(values.filter_map(Sourced::external)).chain(login)
    }

    /// Limits what the upstream may use. URLs in variables and files are checked when they are read.
    pub(super) fn with_limits(self, limits: &Arc<RowLimits>) -> anyhow::Result<Self> {
        self.check_row_keys()?;
        limits.check(self.references())?;
        Ok(Self { limits: Some(Arc::clone(limits)), ..self })
    }

    /// Returns the resources outside of the registry that the upstream uses.
    pub(super) fn references(&self) -> impl Iterator<Item = Reference<'_>> {
        let urls = self.urls().map(|(_, url)| url);
        let targets = urls.filter_map(|url| url.inline()?.parse().ok()).map(Reference::Target);
        let external = self.external().map(ExternalValue::reference);
        let ca_file = self.ca_file.iter().map(|file| Reference::File(file));
        targets.chain(external).chain(ca_file)
    }

    fn urls(&self) -> impl Iterator<Item = (&'static str, &Text)> {
        let token_url = self.oauth.iter().map(|oauth| ("token_url", &oauth.token_url));
        [("url", &self.url)].into_iter().chain(token_url)
    }

    /// Refuses keys that are allowed only for upstreams in the configuration file.
    fn check_row_keys(&self) -> anyhow::Result<()> {
        let hint = "configure the upstream in callgate.toml";
        if self.pass_caller.token.is_some() {
            let problem = "`pass_caller.token` is not available in the registry: anyone who can write to \
                           the registry would get the tokens of callers";
            return Err(hinted(problem, hint));
        }
        if self.max_result_bytes.is_some_and(|bytes| bytes > MAX_ROW_RESULT_BYTES) {
            let problem =
                format!("`max_result_bytes` can be at most {MAX_ROW_RESULT_BYTES} in the registry");
            return Err(hinted(problem, hint));
        }
        // The log shows hosts and paths, so a secret may only be in the query.
        let is_logged = |url: &Text| {
            let prefix = url.external().map_or("", ExternalValue::prefix);
            !prefix.is_empty() && !prefix.contains('?')
        };
        match self.urls().find(|(_, url)| is_logged(url)) {
            Some((key, _)) => Err(hinted(
                format!("in the registry, `prefix` of `{key}` must contain a `?`"),
                "store the whole URL in the variable or file, or only a part of the query",
            )),
            None => Ok(()),
        }
    }

    /// Returns the URL without its query, or the place from which the URL is read.
    pub(super) fn display_url(&self) -> String {
        match &self.url {
            Text::External(external) => external.source(),
            Text::Inline(url) => without_query(url),
        }
    }

    pub(super) fn credential(&self) -> anyhow::Result<Option<CredentialOptions>> {
        self.credential.as_ref().map(CredentialTable::resolve).transpose().context("`credential`")
    }

    pub(super) fn target(&self, secrets: Secrets) -> anyhow::Result<Target> {
        self.checked_url("url", &self.url, secrets)?.parse().context("`url`")
    }

    fn checked_url(&self, key: &str, url: &Text, secrets: Secrets) -> anyhow::Result<String> {
        let text = url.read(key, secrets)?;
        match (url.external(), &self.limits) {
            (Some(_), _) if secrets == Secrets::Placeholder => Ok("http://localhost/".to_owned()),
            (Some(external), Some(limits)) => {
                let target = text.parse().with_context(|| format!("`{key}`"))?;
                limits.check_external_target(&external.reference(), &target)?;
                Ok(text)
            }
            _ => Ok(text),
        }
    }

    pub(super) fn options(
        &self,
        call_timeout: Duration,
        secrets: Secrets,
    ) -> anyhow::Result<ForwardOptions> {
        let mut options = ForwardOptions::new(self.target(secrets)?)
            .caller_headers(self.pass_caller.resolve()?)
            .context("`pass_caller`")?
            .limits(self.limits(call_timeout)?);
        if let Some(style) = self.params {
            options = options.params(style);
        }
        if self.batch {
            options = options.batch();
        }
        options.id_format = self.ids;
        options.http2 = self.http2;
        options.trust_results = self.trust_results;
        options.null_is_absent = self.null_is_absent;
        options.trust_errors = self.trust_errors;
        options.without_credential.clone_from(&self.without_credential);
        options.tool_path = self.tool_path(options.target())?;
        options.visibility = self.visibility()?;
        for value in &self.first_params {
            options = options.first_param(&value.read("first_params", secrets)?);
        }
        for (name, value) in &self.members {
            let value = value.read("members", secrets)?;
            options = options.member(name, &value).context("`members`")?;
        }
        for (name, value) in &self.headers {
            let value = value.read("headers", secrets)?;
            options = options.header(name, &value).context("`headers`")?;
        }
        if let Some(path) = self.ca_file.as_ref().filter(|_| secrets == Secrets::Read) {
            let context = || format!("`ca_file`: `{}`", path.display());
            let pem = std::fs::read(path).with_context(context)?;
            options = options.ca_certificates(&pem).with_context(context)?;
        }
        if let Some(oauth) = &self.oauth {
            let url = self.checked_url("token_url", &oauth.token_url, secrets);
            let client = url.and_then(|url| oauth.client(&url, secrets, self.limits.is_some()));
            options = options.oauth(client.context("`oauth`")?);
        }
        if let Some(login) = &self.login {
            options = options.login(login.login(secrets)?).context("`login`")?;
        }
        self.with_basic(options, secrets)
    }

    fn tool_path(&self, target: &Target) -> anyhow::Result<Option<ToolPath>> {
        match (&self.calls, &self.tool_path) {
            (Calls::Single, None) => Ok(None),
            (Calls::Single, Some(_)) => anyhow::bail!("`tool_path` needs `calls = \"per_tool\"`"),
            (Calls::PerTool, None) => Ok(Some(ToolPath::beside(target))),
            (Calls::PerTool, Some(path)) => Ok(Some(path.parse().context("`tool_path`")?)),
        }
    }

    pub(super) fn limits_callers(&self) -> bool {
        matches!(self.visibility, Visibility::Upstream)
    }

    fn visibility(&self) -> anyhow::Result<Option<UpstreamVisibility>> {
        let max_age = self
            .visibility_seconds
            .map_or(DEFAULT_MAX_AGE, |seconds| Duration::from_secs(seconds.into()));
        if max_age.is_zero() {
            anyhow::bail!("`visibility_seconds` must not be 0");
        }
        let visibility = UpstreamVisibility { source: self.description, max_age };
        Ok(self.limits_callers().then_some(visibility))
    }

    fn with_basic(
        &self,
        options: ForwardOptions,
        secrets: Secrets,
    ) -> anyhow::Result<ForwardOptions> {
        match (&self.basic_user, &self.basic_password) {
            (None, None) => Ok(options),
            (Some(user), Some(password)) => {
                let user = user.read("basic_user", secrets)?;
                let password = password.read("basic_password", secrets)?;
                options.basic(&user, &password).context("`basic_user`")
            }
            _ => anyhow::bail!("`basic_user` and `basic_password` must be set together"),
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

/// Removes the query of a URL. The query may contain a secret.
pub(super) fn without_query(url: &str) -> String {
    url.parse().map_or_else(|_| "…".to_owned(), |target: Target| target.to_string())
}

impl PassCallerTable {
    fn resolve(&self) -> anyhow::Result<CallerHeaders> {
        let header = |name: &Option<String>| {
            name.as_deref().map(header_name).transpose().context("`pass_caller`")
        };
        Ok(CallerHeaders {
            user_id: header(&self.user_id)?,
            user_name: header(&self.user_name)?,
            role: header(&self.role)?,
            token: header(&self.token)?,
        })
    }
}

/// Returns the part of requests that is selected by `header`, `first_param` or `member`.
pub(super) fn credential_location(
    keys: (Option<&str>, bool, Option<&String>),
) -> anyhow::Result<CredentialLocation> {
    match keys {
        (Some(name), false, None) => Ok(CredentialLocation::Header(header_name(name)?)),
        (None, true, None) => Ok(CredentialLocation::FirstParam),
        (None, false, Some(name)) => Ok(CredentialLocation::Member(name.clone())),
        _ => anyhow::bail!("expected one of `header`, `first_param = true` and `member`"),
    }
}

impl CredentialTable {
    fn resolve(&self) -> anyhow::Result<CredentialOptions> {
        let location =
            credential_location((self.header.as_deref(), self.first_param, self.member.as_ref()))?;
        let Self { missing, oauth, .. } = *self;
        Ok(CredentialOptions { location, prefix: self.prefix.clone(), missing, oauth })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(key: &str, value: &Value) -> anyhow::Result<UpstreamTable> {
        let keys = Map::from_iter([(key.to_owned(), value.clone())]);
        let url = json!("http://localhost/");
        let with_url = keys.into_iter().chain([("url".to_owned(), url.clone())]);
        Keys::read(with_url.collect(), ("url", url))
    }

    #[test]
    fn the_default_of_each_key_is_a_valid_value() {
        for key in UPSTREAM_KEYS.iter().filter(|key| !key.default.is_empty()) {
            let default = serde_json::from_str(key.default).unwrap_or_else(|_| json!(key.default));
            assert!(
                read(key.name, &default).is_ok(),
                "`{}` is not valid for {}",
                default,
                key.name
            );
        }
    }

    #[test]
    fn each_choice_that_the_reference_names_is_valid() {
        for (key, choices) in [
            ("params", &["name", "position", "either", "position-null"][..]),
            ("ids", &["text", "integer"]),
            ("visibility", &["registry", "upstream"]),
            ("described_by", &["openrpc", "jsonrpc_mcp"]),
            ("calls", &["single", "per_tool"]),
        ] {
            let meaning = UPSTREAM_KEYS.get(key).unwrap().meaning;
            for choice in choices {
                assert!(meaning.contains(&format!("`{choice}`")), "{key}: {meaning}");
                assert!(read(key, &json!(choice)).is_ok(), "`{choice}` is not valid for {key}");
            }
        }
    }
}
