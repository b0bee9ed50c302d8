//! How a service wants to be called.

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

use super::breaker::BreakerLimits;
use super::credential::{CredentialPlace, Mapped, UserCredential};
use super::lists::{DescribedBy, UpstreamVisibility};
use super::oauth::{self, OAuthClient};
use super::target::Target;
use super::tool_path::ToolPath;
use crate::http_client::is_transport_header;
use crate::http_client::tls::{self, CertificateError};
use crate::model::arguments::ParamStyle;
use crate::upstream::DEFAULT_CALL_TIMEOUT;
use crate::upstream::credentials::Credentials;

/// Members that a request has by itself.
const OWN_MEMBERS: [&str; 4] = ["jsonrpc", "method", "params", "id"];

/// How a service wants to be called. Its secrets show in no `Debug` and in no log.
#[derive(Debug, Clone)]
#[must_use]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct ForwardOptions {
    pub(super) target: Target,
    pub(super) style: ParamStyle,
    /// JSON values with commas between.
    pub(super) first_params: Hidden,
    /// `,"name":value` of each.
    pub(super) members: Hidden,
    member_names: Vec<String>,
    pub(super) headers: HeaderMap,
    /// The ids of requests.
    pub ids: Ids,
    pub(super) pass_caller: PassCaller,
    pub(super) credential: Option<Mapped>,
    pub(super) oauth: Option<OAuthClient>,
    /// If set, callers see only the methods that the service lists for them.
    pub visibility: Option<UpstreamVisibility>,
    /// Speaks HTTP/2 also without TLS; with TLS it is negotiated.
    pub http2: bool,
    pub(super) batch: bool,
    /// Does not check results against the output schemas of their methods.
    pub trust_results: bool,
    /// If set, sends each call to the URL of its tool, in place of one URL for all.
    pub tool_path: Option<ToolPath>,
    /// Repeats to callers what the service says in errors with the code -32603. Otherwise that is only
    /// in the log: it is the text of an exception, which may hold secrets.
    pub trust_errors: bool,
    /// Takes null for an optional parameter that does not allow null as absent, and does not send it.
    pub null_is_absent: bool,
    pub(super) roots: Vec<CertificateDer<'static>>,
    /// Time and size limits.
    pub limits: ForwardLimits,
}

/// A text that is never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Hidden(pub(super) String);

impl Hidden {
    /// `,"name":value`
    pub(super) fn member(name: &str, value: &Value) -> Self {
        Self(format!(",{}:{value}", Value::from(name)))
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "…" })
    }
}

/// What ids of requests look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ids {
    /// The call's id, `mcp_…`, the same as in the log.
    #[default]
    Text,
    /// Whole numbers from 1 on, for services that take no others.
    #[serde(rename = "integer")]
    Number,
}

/// The headers that say who is asking; none unless named.
#[derive(Debug, Clone, Default)]
pub struct PassCaller {
    /// For the user's number.
    pub user_id: Option<HeaderName>,
    /// For the user's name.
    pub user_name: Option<HeaderName>,
    /// For their role.
    pub role: Option<HeaderName>,
    /// For the token that they came with: after `Bearer ` in `Authorization`, alone in any other. Whoever
    /// has it can do here all that the caller may.
    pub token: Option<HeaderName>,
}

impl PassCaller {
    pub(super) fn names(&self) -> impl Iterator<Item = &HeaderName> {
        [&self.user_id, &self.user_name, &self.role, &self.token].into_iter().flatten()
    }
}

/// How much, and how long.
#[derive(Debug, Clone, Copy)]
pub struct ForwardLimits {
    /// How long a call may take; up to half of it may be spent waiting for a place among others.
    pub timeout: Duration,
    /// How long a new connection may take, TLS included; at most half of the whole time.
    pub connect: Duration,
    /// How long an answer may be.
    pub result_bytes: usize,
    /// How many calls may be under way; more wait.
    pub concurrent: usize,
    /// When the service is left alone.
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

/// What is wrong with an option. Its value is not repeated: it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OptionError {
    /// Not the name of a header.
    #[error("`{0}` is no name of a header")]
    HeaderName(String),
    /// Characters that no header has.
    #[error("the value of `{0}` has characters that no header can have")]
    HeaderValue(String),
    /// Set by the transport, by Basic authentication, or by what is passed on of the caller.
    #[error("the header `{0}` is set already")]
    HeaderTaken(String),
    /// A member that every request has.
    #[error("every request has a member `{0}` already")]
    Member(String),
    /// A user's name with a colon, where the password would begin.
    #[error("a user's name cannot have a `:` in HTTP Basic")]
    BasicUser,
    /// A WebSocket without the feature `websocket`.
    #[error("this program was built without WebSocket (cargo feature `websocket`)")]
    NoWebSocket,
    /// Options that do not go together.
    #[error("{0}")]
    Conflict(&'static str),
}

impl ForwardOptions {
    /// A service that takes named parameters, with nothing else said.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            style: ParamStyle::Named,
            first_params: Hidden::default(),
            members: Hidden::default(),
            member_names: Vec::new(),
            headers: HeaderMap::new(),
            ids: Ids::default(),
            pass_caller: PassCaller::default(),
            credential: None,
            oauth: None,
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

    /// Where the service is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// How parameters are sent.
    pub fn params(mut self, style: ParamStyle) -> Self {
        self.style = style;
        self
    }

    /// A parameter before the caller's, such as aria2's `token:…`; after those that were said before.
    pub fn first_param(mut self, value: &Value) -> Self {
        let Hidden(first) = &mut self.first_params;
        if !first.is_empty() {
            first.push(',');
        }
        first.push_str(&value.to_string());
        self
    }

    /// A member of each request beside `params`, such as `auth`.
    pub fn member(mut self, name: &str, value: &Value) -> Result<Self, OptionError> {
        self.take_member(name)?;
        self.members.0.push_str(&Hidden::member(name, value).0);
        Ok(self)
    }

    /// A user and a password in HTTP Basic.
    pub fn basic(self, user: &str, password: &str) -> Result<Self, OptionError> {
        if user.contains(':') {
            return Err(OptionError::BasicUser);
        }
        let pair = STANDARD.encode(format!("{user}:{password}"));
        self.header(header::AUTHORIZATION.as_str(), &format!("Basic {pair}"))
    }

    /// A header of each request.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, OptionError> {
        let name = header_name(name)?;
        self.check_header(&name)?;
        let bad = |_| OptionError::HeaderValue(name.to_string());
        let mut value: HeaderValue = value.parse().map_err(bad)?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// A header of each request, in place of whatever else sets it: another header, or the credential of the
    /// user who asks.
    pub fn replace_header(mut self, name: &str, value: &str) -> Result<Self, OptionError> {
        let parsed = header_name(name)?;
        self.headers.remove(&parsed);
        if parsed == header::AUTHORIZATION {
            self.oauth = None;
        }
        if matches!(self.place(), Some(CredentialPlace::Header(own)) if *own == parsed) {
            self.credential = None;
        }
        self.header(name, value)
    }

    /// What is passed on of the caller.
    pub fn pass_caller(mut self, pass_caller: PassCaller) -> Result<Self, OptionError> {
        self.pass_caller = PassCaller::default();
        for name in pass_caller.names() {
            self.check_header(name)?;
        }
        self.pass_caller = pass_caller;
        Ok(self)
    }

    /// Sends the credential of the user who asks, as they are known here.
    pub fn credential(
        mut self,
        how: UserCredential,
        known: Arc<dyn Credentials>,
    ) -> Result<Self, OptionError> {
        match &how.place {
            CredentialPlace::Header(name) => {
                self.check_header(name)?;
                let prefix = HeaderValue::from_str(&how.prefix);
                prefix.map_err(|_| OptionError::HeaderValue(name.to_string()))?;
            }
            CredentialPlace::Member(name) => self.take_member(name)?,
            CredentialPlace::FirstParam => {}
        }
        self.credential = Some(Mapped { how, known });
        Ok(self)
    }

    /// Sends an access token with each request, in `Authorization`. Where users have credentials for
    /// OAuth, it is theirs.
    pub fn oauth(mut self, client: OAuthClient) -> Self {
        self.oauth = Some(client);
        self
    }

    /// Returns `true` if the methods that the service lists are read from another URL.
    pub(super) fn is_described_over_http(&self) -> bool {
        let described_by = self.visibility.map(|visibility| visibility.described_by);
        described_by == Some(DescribedBy::JsonRpcMcp)
    }

    fn place(&self) -> Option<&CredentialPlace> {
        self.credential.as_ref().map(|mapped| &mapped.how.place)
    }

    /// Checks that the options go together.
    pub(super) fn check(&self) -> Result<(), OptionError> {
        let is_websocket = self.target.is_websocket();
        if is_websocket && !cfg!(feature = "websocket") {
            return Err(OptionError::NoWebSocket);
        }
        let has_first_params =
            !self.first_params.0.is_empty() || self.place() == Some(&CredentialPlace::FirstParam);
        let has_headers_of_callers = self.pass_caller.names().next().is_some()
            || matches!(self.place(), Some(CredentialPlace::Header(_)));
        let conflicts = [
            (
                self.style == ParamStyle::Named && has_first_params,
                "first parameters need positional parameters",
            ),
            (
                is_websocket && has_headers_of_callers,
                "`pass_caller`, and a credential in a header, are not for WebSocket: all callers share \
                 one connection, which says nothing of any of them",
            ),
            (
                is_websocket && self.http2,
                "`http2` is not for WebSocket, which begins with HTTP/1.1",
            ),
            (
                is_websocket && self.batch,
                "`batch` is not for WebSocket, where calls do not wait for each other",
            ),
            (
                is_websocket && self.tool_path.is_some(),
                "`calls = \"per_tool\"` is not for WebSocket, where all calls share one connection",
            ),
            (
                self.batch && self.tool_path.is_some(),
                "`batch` and `calls = \"per_tool\"` do not go together: a batch has one URL for all of \
                 its calls",
            ),
            (
                is_websocket && self.is_described_over_http(),
                "`described_by = \"jsonrpc_mcp\"` is not for WebSocket: its lists are read over HTTP",
            ),
        ];
        let conflict =
            conflicts.into_iter().find_map(|(is_there, words)| is_there.then_some(words));
        match conflict.or_else(|| oauth::conflict(self)) {
            Some(words) => Err(OptionError::Conflict(words)),
            None => Ok(()),
        }
    }

    /// Nothing else sets the header.
    fn check_header(&self, name: &HeaderName) -> Result<(), OptionError> {
        if is_transport_header(name)
            || self.headers.contains_key(name)
            || self.pass_caller.names().any(|own| own == name)
            || matches!(self.place(), Some(CredentialPlace::Header(own)) if own == name)
        {
            return Err(OptionError::HeaderTaken(name.to_string()));
        }
        Ok(())
    }

    /// A member that nothing else is.
    fn take_member(&mut self, name: &str) -> Result<(), OptionError> {
        if OWN_MEMBERS.contains(&name) || self.member_names.iter().any(|known| known == name) {
            return Err(OptionError::Member(name.to_owned()));
        }
        self.member_names.push(name.to_owned());
        Ok(())
    }

    /// Calls that arrive together go out as one JSON-RPC batch. For services that take batches and
    /// answer each of its requests by its id.
    pub fn batch(mut self) -> Self {
        self.batch = true;
        self
    }

    /// Whether all requests carry something that may be a credential.
    pub(super) fn has_shared_credential(&self) -> bool {
        !self.headers.is_empty()
            || !self.members.0.is_empty()
            || !self.first_params.0.is_empty()
            || self.oauth.is_some()
    }

    /// Certificates, in PEM, of authorities that are trusted beside those of the system.
    pub fn ca_certificates(mut self, pem: &[u8]) -> Result<Self, CertificateError> {
        self.roots.extend(tls::certificates(pem)?);
        Ok(self)
    }

    /// With other limits.
    pub fn limits(mut self, limits: ForwardLimits) -> Self {
        self.limits = limits;
        self
    }
}

/// The name of a header that may be set.
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
    fn secrets_do_not_show() {
        let options = options()
            .params(ParamStyle::Positional)
            .first_param(&json!("token:s3cret"))
            .member("auth", &json!("s3cret"))
            .unwrap()
            .basic("ada", "s3cret")
            .unwrap()
            .header("X-Key", "s3cret")
            .unwrap();
        let shown = format!("{options:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(!shown.contains(&STANDARD.encode("ada:s3cret")), "{shown}");
    }

    #[test]
    fn what_is_wrong_with_an_option_does_not_show_its_value() {
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
