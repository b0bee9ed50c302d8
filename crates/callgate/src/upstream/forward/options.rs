//! The options of a [`Forward`](super::Forward) upstream.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use rustls::pki_types::CertificateDer;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::http_client::tls::{self, CertificateError};
use crate::http_client::{is_transport_header, sensitive};
use crate::model::arguments::ParamStyle;
use crate::upstream::DEFAULT_CALL_TIMEOUT;
use crate::upstream::credentials::Credentials;
use crate::upstream::forward::auth::credential::UserCredentials;
use crate::upstream::forward::auth::oauth;
use crate::upstream::forward::{
    BreakerLimits, CredentialLocation, CredentialOptions, Login, MethodListSource, OAuthClient,
    Target, ToolPath, UpstreamVisibility, UserGrant,
};

const RESERVED_MEMBERS: [&str; 4] = ["jsonrpc", "method", "params", "id"];

/// How to call a service. `Debug` shows no secrets.
///
/// ```
/// use std::time::Duration;
/// use callgate::forward::{
///     BreakerLimits, CallerHeaders, ForwardLimits, ForwardOptions, IdFormat, MethodListSource,
///     OptionError, UpstreamVisibility, header_name,
/// };
///
/// let user_name = Some(header_name("X-User")?);
/// let limits = ForwardLimits {
///     timeout: Duration::from_secs(10),
///     breaker: BreakerLimits { failures: 3, pause: Duration::from_secs(2) },
///     ..ForwardLimits::default()
/// };
/// let mut options = ForwardOptions::new("http://localhost:9000/rpc".parse()?)
///     .header("X-Api-Key", "s3cret")?
///     .caller_headers(CallerHeaders { user_name, ..CallerHeaders::default() })?
///     .limits(limits);
/// options.id_format = IdFormat::Number;
/// let (source, max_age) = (MethodListSource::OpenRpc, Duration::from_mins(1));
/// options.visibility = Some(UpstreamVisibility { source, max_age });
/// assert!(!format!("{options:?}").contains("s3cret"));
///
/// let conflict = options.header("X-User", "ada").unwrap_err();
/// assert_eq!(conflict, OptionError::HeaderTaken("x-user".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub struct ForwardOptions {
    pub(crate) target: Target,
    pub(crate) style: Option<ParamStyle>,
    /// Values that are sent before the parameters of a call, as JSON separated by commas.
    pub(crate) first_params: SecretJson,
    /// Members that are added to each request, in the form `,"name":value`.
    pub(crate) members: SecretJson,
    member_names: Vec<String>,
    pub(crate) headers: HeaderMap,
    /// Format of request ids.
    pub id_format: IdFormat,
    pub(crate) caller_headers: CallerHeaders,
    pub(crate) credential: Option<UserCredentials>,
    pub(crate) oauth: Option<OAuthClient>,
    pub(crate) login: Option<Login>,
    /// Methods that are called without credentials. Such a request has no `Authorization` header, no `credential`, no
    /// `oauth` token, no `login` session, no additional members, no first parameters, and no token of the caller.
    pub without_credential: Vec<String>,
    /// If set, callers see only the methods that the service lists for them.
    pub visibility: Option<UpstreamVisibility>,
    /// Whether HTTP/2 is also used without TLS. With TLS, the version is negotiated.
    pub http2: bool,
    pub(crate) batch: bool,
    /// Whether results are trusted, that is, not checked against the output schemas of their methods.
    pub trust_results: bool,
    /// If set, each call is sent to the URL of its own tool.
    pub tool_path: Option<ToolPath>,
    /// Whether callers see the message of errors with the code -32603, and the text of responses that are not JSON-RPC
    /// replies. If not set, both are only logged, because they may be the text of an exception, which may contain
    /// secrets.
    pub trust_errors: bool,
    /// Whether an argument that is null is omitted if its parameter is optional and does not allow null.
    pub null_is_absent: bool,
    pub(crate) roots: Vec<CertificateDer<'static>>,
    /// Time and size limits.
    pub limits: ForwardLimits,
}

/// A fragment of JSON that may contain secrets. `Debug` does not show it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct SecretJson(pub(crate) String);

impl SecretJson {
    /// Returns `,"name":value`.
    pub(crate) fn member(name: &str, value: &Value) -> Self {
        Self(format!(",{}:{value}", Value::from(name)))
    }
}

impl fmt::Debug for SecretJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "…" })
    }
}

/// Format of request ids.
///
/// Value of [`ForwardOptions::id_format`]. [`ForwardOptions`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum IdFormat {
    /// The id of the call in the log, `mcp_…`.
    #[default]
    #[serde(rename = "text")]
    String,
    /// Consecutive numbers, beginning with 1. For services that do not accept strings.
    #[serde(rename = "integer")]
    Number,
}

/// Headers that identify the caller to the service. A header that is `None` is not sent.
///
/// Argument of [`ForwardOptions::caller_headers`]. [`ForwardOptions`] has an example.
#[derive(Debug, Clone, Default)]
pub struct CallerHeaders {
    /// Header for the user's id.
    pub user_id: Option<HeaderName>,
    /// Header for the user's name.
    pub user_name: Option<HeaderName>,
    /// Header for the user's role.
    pub role: Option<HeaderName>,
    /// Header for the caller's token. In `Authorization`, the token is sent after `Bearer `. With the token, the
    /// service can act as the caller.
    pub token: Option<HeaderName>,
}

impl CallerHeaders {
    pub(crate) fn names(&self) -> impl Iterator<Item = &HeaderName> {
        [&self.user_id, &self.user_name, &self.role, &self.token].into_iter().flatten()
    }
}

/// Time and size limits.
///
/// Argument of [`ForwardOptions::limits`]. [`ForwardOptions`] has an example.
#[derive(Debug, Clone, Copy)]
pub struct ForwardLimits {
    /// Time limit of a call. If as many calls as `concurrent` allows are running, a call waits for at most half of
    /// this time.
    pub timeout: Duration,
    /// Time limit for opening a connection, including TLS. If it is longer than half of `timeout`, half of `timeout`
    /// applies.
    pub connect: Duration,
    /// Maximum size of a response, in bytes.
    pub result_bytes: usize,
    /// Maximum number of concurrent calls. Further calls wait.
    pub concurrent: usize,
    /// Settings of the circuit breaker.
    pub breaker: BreakerLimits,
}

impl Default for ForwardLimits {
    fn default() -> Self {
        Self {
            timeout: DEFAULT_CALL_TIMEOUT,
            connect: Duration::from_secs(5),
            result_bytes: 4 << 20,
            concurrent: 100,
            breaker: BreakerLimits::default(),
        }
    }
}

/// Error of an option. Does not show the option's value, which may be a secret.
///
/// Error of functions of [`ForwardOptions`] and of [`header_name`], and part of
/// [`ForwardError`](crate::upstream::forward::ForwardError). [`ForwardOptions`] has an example.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OptionError {
    /// The name is not a valid header name.
    #[error("`{0}` is not a valid header name")]
    HeaderName(String),
    /// The value has characters that are not allowed in a header.
    #[error("the value of `{0}` has characters that are not allowed in a header")]
    HeaderValue(String),
    /// The transport or another option already sets this header.
    #[error("the header `{0}` is already set")]
    HeaderTaken(String),
    /// The member is already set.
    #[error("every request already has a member `{0}`")]
    Member(String),
    /// The user name contains a colon.
    #[error("the user name contains `:`, which HTTP Basic does not allow")]
    BasicUser,
    /// The feature `websocket` is not enabled.
    #[error("this program was built without WebSocket (cargo feature `websocket`)")]
    NoWebSocket,
    /// Conflicting options.
    #[error("{0}")]
    Conflict(&'static str),
}

impl ForwardOptions {
    /// Returns the default options: parameters by name, and no credentials.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            style: None,
            first_params: SecretJson::default(),
            members: SecretJson::default(),
            member_names: Vec::new(),
            headers: HeaderMap::new(),
            id_format: IdFormat::default(),
            caller_headers: CallerHeaders::default(),
            credential: None,
            oauth: None,
            login: None,
            without_credential: Vec::new(),
            visibility: None,
            http2: false,
            batch: false,
            trust_results: false,
            tool_path: None,
            trust_errors: false,
            null_is_absent: false,
            roots: Vec::new(),
            limits: ForwardLimits::default(),
        }
    }

    /// Returns the address of the service.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sets the style of parameters.
    pub fn params(mut self, style: ParamStyle) -> Self {
        self.style = Some(style);
        self
    }

    /// Adds a parameter, such as aria2's `token:…`, before the parameters of the call.
    pub fn first_param(mut self, value: &Value) -> Self {
        let SecretJson(first) = &mut self.first_params;
        if !first.is_empty() {
            first.push(',');
        }
        first.push_str(&value.to_string());
        self
    }

    /// Adds a member, such as `auth`, to each request, beside `params`.
    pub fn member(mut self, name: &str, value: &Value) -> Result<Self, OptionError> {
        self.reserve_member(name)?;
        self.members.0.push_str(&SecretJson::member(name, value).0);
        Ok(self)
    }

    /// Sends a user name and a password with HTTP Basic.
    pub fn basic(self, user: &str, password: &str) -> Result<Self, OptionError> {
        self.header(header::AUTHORIZATION.as_str(), &basic(user, password)?)
    }

    /// Sends a user name and a password with HTTP Basic. Replaces other options that set the header `Authorization`.
    pub fn replace_basic(self, user: &str, password: &str) -> Result<Self, OptionError> {
        self.replace_header(header::AUTHORIZATION.as_str(), &basic(user, password)?)
    }

    /// Adds a header to each request.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, OptionError> {
        let name = header_name(name)?;
        self.check_header(&name)?;
        let invalid = |_| OptionError::HeaderValue(name.to_string());
        let value = sensitive(value).map_err(invalid)?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Adds a header to each request. Replaces other options that set the same header, such as `oauth` or a user's
    /// credential.
    pub fn replace_header(mut self, name: &str, value: &str) -> Result<Self, OptionError> {
        let parsed = header_name(name)?;
        self.headers.remove(&parsed);
        if parsed == header::AUTHORIZATION {
            self.oauth = None;
        }
        if matches!(self.credential_location(), Some(CredentialLocation::Header(other)) if *other == parsed)
        {
            self.credential = None;
        }
        self.login.take_if(|login| login.header().is_some_and(|other| other == parsed));
        self.header(name, value)
    }

    /// Sends headers that identify the caller.
    pub fn caller_headers(mut self, caller_headers: CallerHeaders) -> Result<Self, OptionError> {
        self.caller_headers = CallerHeaders::default();
        for name in caller_headers.names() {
            self.check_header(name)?;
        }
        self.caller_headers = caller_headers;
        Ok(self)
    }

    /// Sends the credential of the calling user, which `credentials` looks up.
    pub fn credential(
        mut self,
        options: CredentialOptions,
        credentials: Arc<dyn Credentials>,
    ) -> Result<Self, OptionError> {
        match &options.location {
            CredentialLocation::Header(name) => {
                self.check_header(name)?;
                let prefix = HeaderValue::from_str(&options.prefix);
                prefix.map_err(|_| OptionError::HeaderValue(name.to_string()))?;
            }
            CredentialLocation::Member(name) => self.reserve_member(name)?,
            CredentialLocation::FirstParam => {}
        }
        self.credential = Some(UserCredentials { options, source: credentials });
        Ok(self)
    }

    /// Sends an access token in `Authorization`. If [`CredentialOptions::oauth`] is set, this is the token of the user.
    /// Otherwise, it is the token of the upstream.
    pub fn oauth(mut self, client: OAuthClient) -> Self {
        self.oauth = Some(client);
        self
    }

    /// Logs in before the first call, and again when the service refuses the session.
    pub fn login(mut self, login: Login) -> Result<Self, OptionError> {
        if let Some(CredentialLocation::Member(name)) = &login.location {
            self.reserve_member(name)?;
        }
        self.login = Some(login);
        Ok(self)
    }

    pub(crate) fn is_described_over_http(&self) -> bool {
        let source = self.visibility.map(|visibility| visibility.source);
        source == Some(MethodListSource::JsonRpcMcp)
    }

    pub(crate) fn user_grant(&self) -> Option<UserGrant> {
        self.credential.as_ref().and_then(|credentials| credentials.options.oauth)
    }

    pub(crate) fn credential_location(&self) -> Option<&CredentialLocation> {
        self.credential.as_ref().map(|credentials| &credentials.options.location)
    }

    pub(crate) fn check(&self) -> Result<(), OptionError> {
        let is_websocket = self.target.is_websocket();
        if is_websocket && !cfg!(feature = "websocket") {
            return Err(OptionError::NoWebSocket);
        }
        let has_first_params = !self.first_params.0.is_empty()
            || self.credential_location() == Some(&CredentialLocation::FirstParam)
            || self.login.as_ref().and_then(|login| login.location.as_ref())
                == Some(&CredentialLocation::FirstParam);
        let has_headers_of_callers = self.caller_headers.names().next().is_some()
            || matches!(self.credential_location(), Some(CredentialLocation::Header(_)));
        let conflicts = [
            (
                matches!(self.style, None | Some(ParamStyle::Named | ParamStyle::Either))
                    && has_first_params,
                "first parameters need `params = \"position\"` or `\"position-null\"`",
            ),
            (
                is_websocket && has_headers_of_callers,
                "`pass_caller`, and a credential in a header, cannot be used with WebSocket: all callers share one \
                 connection",
            ),
            (
                is_websocket && self.http2,
                "`http2` cannot be used with WebSocket, which begins with HTTP/1.1",
            ),
            (
                is_websocket && self.batch,
                "`batch` cannot be used with WebSocket, where calls do not wait for each other",
            ),
            (
                is_websocket && self.tool_path.is_some(),
                "`calls = \"per_tool\"` cannot be used with WebSocket, where all calls share one connection",
            ),
            (
                self.batch && self.tool_path.is_some(),
                "`batch` and `calls = \"per_tool\"` cannot be combined: a batch has one URL for all of \
                 its calls",
            ),
            (
                is_websocket && self.is_described_over_http(),
                "`described_by = \"jsonrpc_mcp\"` cannot be used with WebSocket: its lists are read over HTTP",
            ),
        ];
        let conflict = self.login.as_ref().and_then(|login| login.conflict(self));
        let conflict = conflict.or_else(|| first_conflict(conflicts));
        match conflict.or_else(|| oauth::conflict(self)) {
            Some(message) => Err(OptionError::Conflict(message)),
            None => Ok(()),
        }
    }

    /// Fails if the transport or another option sets the header.
    fn check_header(&self, name: &HeaderName) -> Result<(), OptionError> {
        if is_transport_header(name)
            || self.headers.contains_key(name)
            || self.caller_headers.names().any(|other| other == name)
            || matches!(self.credential_location(), Some(CredentialLocation::Header(other)) if other == name)
        {
            return Err(OptionError::HeaderTaken(name.to_string()));
        }
        Ok(())
    }

    /// Fails if the member is already set.
    fn reserve_member(&mut self, name: &str) -> Result<(), OptionError> {
        if RESERVED_MEMBERS.contains(&name) || self.member_names.iter().any(|known| known == name) {
            return Err(OptionError::Member(name.to_owned()));
        }
        self.member_names.push(name.to_owned());
        Ok(())
    }

    /// Sends concurrent calls as one JSON-RPC batch. The service must reply to each request with the id of the request.
    pub fn batch(mut self) -> Self {
        self.batch = true;
        self
    }

    /// Returns `true` if all requests contain a part that may be a credential.
    pub(crate) fn has_shared_credential(&self) -> bool {
        !self.headers.is_empty()
            || !self.members.0.is_empty()
            || !self.first_params.0.is_empty()
            || self.oauth.is_some()
            || self.login.is_some()
    }

    /// Adds trusted certificate authorities, in PEM format, to those of the system.
    pub fn ca_certificates(mut self, pem: &[u8]) -> Result<Self, CertificateError> {
        self.roots.extend(tls::certificates(pem)?);
        Ok(self)
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: ForwardLimits) -> Self {
        self.limits = limits;
        self
    }
}

/// Returns the message of the first conflict that is present.
pub(crate) fn first_conflict(
    conflicts: impl IntoIterator<Item = (bool, &'static str)>,
) -> Option<&'static str> {
    conflicts.into_iter().find_map(|(is_present, message)| is_present.then_some(message))
}

fn basic(user: &str, password: &str) -> Result<String, OptionError> {
    if user.contains(':') {
        return Err(OptionError::BasicUser);
    }
    Ok(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}

/// Parses the name of a header. Fails for headers that the transport sets.
///
/// Creates values for [`CallerHeaders`] and [`CredentialLocation::Header`]. [`ForwardOptions`] has an example.
pub fn header_name(name: &str) -> Result<HeaderName, OptionError> {
    let parsed: HeaderName =
        name.trim().parse().map_err(|_| OptionError::HeaderName(name.to_owned()))?;
    if is_transport_header(&parsed) {
        return Err(OptionError::HeaderTaken(parsed.to_string()));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn options() -> ForwardOptions {
        ForwardOptions::new("http://localhost:1/rpc?key=s3cret".parse().unwrap())
    }

    #[test]
    fn debug_output_of_options_shows_no_secrets() {
        let options = options()
            .params(ParamStyle::Positional)
            .first_param(&json!("token:s3cret"))
            .member("auth", &json!("s3cret"))
            .unwrap()
            .basic("ada", "s3cret")
            .unwrap()
            .header("X-Key", "s3cret")
            .unwrap();
        let output = format!("{options:?}");
        assert!(!output.contains("s3cret"), "{output}");
        assert!(!output.contains(&STANDARD.encode("ada:s3cret")), "{output}");
    }

    #[test]
    fn errors_of_options_do_not_show_values() {
        let problems = [
            options().header("two words", "s3cret").unwrap_err(),
            options().header("X-Key", "s3cret\u{7}").unwrap_err(),
            options().header("Content-Type", "s3cret").unwrap_err(),
            options().basic("a", "b").unwrap().header("authorization", "s3cret").unwrap_err(),
            options().basic("a:b", "s3cret").unwrap_err(),
            options().member("id", &json!("s3cret")).unwrap_err(),
            options().member("a", &json!(1)).unwrap().member("a", &json!("s3cret")).unwrap_err(),
        ];
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        insta::assert_debug_snapshot!(problems);
    }
}
