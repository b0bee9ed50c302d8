//! Logins: all requests are sent with the cookie or token of a login, until the service refuses it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http::header::{COOKIE, HeaderMap, HeaderName, SET_COOKIE};
use serde_json::Value;
use thiserror::Error;
use tokio::time::Instant;

use crate::http_client::sensitive;
use crate::upstream::forward::auth::credential::CredentialParts;
use crate::upstream::forward::auth::credential_cache::{self, CredentialCache, PendingCredential};
use crate::upstream::forward::auth::redact::{Secrets, add_texts};
use crate::upstream::forward::known_errors::is_session_refused;
use crate::upstream::forward::options::first_conflict;
use crate::upstream::forward::reply::{ResponseProblem, UnexpectedResponse};
use crate::upstream::forward::service::{Post, Service};
use crate::upstream::forward::{
    Authentication, CredentialLocation, Failure, ForwardOptions, RequestId, ServiceResponse,
};
use crate::upstream::memory_budget::BudgetReservation;

/// Maximum delay after a failed login. The delay is long because services block accounts after several wrong passwords.
const MAX_BACKOFF: Duration = Duration::from_mins(5);

/// Maximum size of the response to a login, in bytes.
const MAX_RESPONSE: usize = 64 * 1024;

/// How to log in to a service. `Debug` shows no secrets.
///
/// If `method` or `path` is set, the login is a request. The cookie that the response sets, or the token in the result,
/// is sent with all other requests, except calls of the methods in `without_credential`. If neither `method` nor `path`
/// is set, no login is sent: the service responds to a request with HTTP 409, and sends the session in the header that
/// `location` names.
///
/// ```
/// use callgate::forward::{CredentialLocation, ForwardOptions, Login};
/// use serde_json::json;
///
/// // The result of the login is `{"session": {"id": "…"}}`. Other requests have the member `auth`.
/// let login = Login {
///     method: Some("session.open".to_owned()),
///     params: json!({"user": "callgate", "password": "s3cret"}),
///     token: "/session/id".to_owned(),
///     location: Some(CredentialLocation::Member("auth".to_owned())),
///     ..Login::default()
/// };
/// assert!(!format!("{login:?}").contains("s3cret"));
/// let mut options = ForwardOptions::new("http://localhost:9000/rpc".parse()?).login(login)?;
/// options.without_credential.push("server.version".to_owned());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Login {
    /// Method that logs in.
    pub method: Option<String>,
    /// Path of the login request, if it differs from the path of the service. If `method` is not set, the body of the
    /// request is `params`.
    pub path: Option<String>,
    /// Parameters of the method: a list or an object.
    pub params: Value,
    /// Part of each request that holds the token. If `None`, the login sets a cookie.
    pub location: Option<CredentialLocation>,
    /// Text before the token, such as `Bearer `.
    pub prefix: String,
    /// JSON Pointer to the token in the result of the login. If it is empty, the whole result is the token.
    pub token: String,
    /// Phrases in errors of this service which mean that the session has ended. Common phrases, such as
    /// `session expired`, are built in. Case does not matter, nor does a `.` or `!` at the end of a phrase.
    pub refusals: Vec<String>,
}

impl Login {
    fn is_request(&self) -> bool {
        self.method.is_some() || self.path.is_some()
    }

    /// Returns the header in which the session is sent.
    pub(crate) fn header(&self) -> Option<HeaderName> {
        match &self.location {
            Some(CredentialLocation::Header(name)) => Some(name.clone()),
            Some(_) => None,
            None => Some(COOKIE),
        }
    }

    /// Describes a conflict between the login and other options, if there is one.
    pub(crate) fn conflict(&self, options: &ForwardOptions) -> Option<&'static str> {
        let is_in_header = matches!(self.location, Some(CredentialLocation::Header(_)));
        first_conflict([
            (
                self.path.as_ref().is_some_and(|path| options.target.with_path(path).is_err()),
                "`path` of `login` must be a path such as `/login`",
            ),
            (
                self.header().is_some_and(|name| options.headers.contains_key(name)),
                "`login` sends a header that `headers` or `basic_user` also sets",
            ),
            (
                options.target.is_websocket(),
                "`login` cannot be used with WebSocket: an open connection cannot get a new session",
            ),
            (options.oauth.is_some(), "`login` and `oauth` cannot be combined"),
            (
                options.visibility.is_some(),
                "`visibility = \"upstream\"` needs a credential of each caller, but all callers share the session of `login`",
            ),
            (
                !is_in_header && !self.is_request(),
                "`login` needs `method`, `path`, or the `header` that the service sends",
            ),
        ])
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path, location, .. } = self;
        write!(f, "Login {{ method: {method:?}, path: {path:?}, location: {location:?}, .. }}")
    }
}

/// Reason why there is no session. Contains no secrets.
#[derive(Debug, Clone, Error)]
pub(crate) enum LoginError {
    #[error("the service refused the login{0}")]
    Refused(String),
    #[error(
        "the response to the login sets no cookie; if the result has a token, set `login.header`"
    )]
    NoCookie,
    #[error(
        "the login returned no usable token; `login.token` must be a JSON Pointer to a text or a number in the result of the login"
    )]
    NoToken,
    #[error("{0}")]
    Failed(String),
}

/// The parts of a request that identify the session.
pub(crate) type LoginSession = CredentialParts;

/// The session of all callers of a service.
#[derive(Debug)]
pub(crate) struct LoginSessions {
    service: Arc<Service>,
    login: Login,
    uri: Option<Uri>,
    /// Secrets of the login.
    secrets: Secrets,
    cache: Mutex<SessionCache>,
}

type SessionCache = CredentialCache<LoginSession, Failure>;

impl LoginSessions {
    /// Returns `None` if the service has no login.
    pub(crate) fn new(service: &Arc<Service>) -> Option<Arc<Self>> {
        let options = &service.options;
        let login = options.login.clone()?;
        let mut secrets = Vec::new();
        add_texts(&login.params, &mut secrets);
        let configured = Secrets::of(options, &options.headers, &Authentication::default());
        let target = login.path.as_ref().and_then(|path| options.target.with_path(path).ok());
        Some(Arc::new(Self {
            service: Arc::clone(service),
            uri: target.map(|target| target.uri().clone()),
            secrets: configured.with(secrets),
            cache: Mutex::default(),
            login,
        }))
    }

    fn cache(&self) -> MutexGuard<'_, SessionCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session. If there is none, logs in, unless the service sends sessions without a login.
    pub(crate) async fn session(self: &Arc<Self>) -> Result<Option<Arc<LoginSession>>, Failure> {
        let pending = {
            let mut cache = self.cache();
            if cache.value.is_some() || !self.login.is_request() {
                return Ok(cache.value.clone());
            }
            self.join_or_start(&mut cache, Instant::now())?
        };
        wait(pending).await.map(Some)
    }

    /// Returns `true` if the service refused a request because of the session. A refused request has not run.
    pub(crate) fn is_refused(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Error(error) | Failure::Denied(error) if self.login.is_request() => {
                is_session_refused(error, &self.login.refusals)
            }
            Failure::Unexpected(UnexpectedResponse {
                problem: ResponseProblem::Session(header),
                ..
            }) => {
                !self.login.is_request()
                    && self.login.location == Some(CredentialLocation::Header(header.0.clone()))
            }
            _ => false,
        }
    }

    /// Returns a new session after the service refused the old one, or `None` if the session was renewed recently.
    pub(crate) async fn renewed(
        self: &Arc<Self>,
        refused: Option<&Arc<LoginSession>>,
        failure: &Failure,
    ) -> Result<Option<Arc<LoginSession>>, Failure> {
        if !self.login.is_request() {
            return Ok(self.sent_session(failure));
        }
        let pending = {
            let (mut cache, now) = (self.cache(), Instant::now());
            let is_refused = |session: &&Arc<LoginSession>| {
                refused.is_some_and(|refused_session| Arc::ptr_eq(refused_session, session))
            };
            let other = cache.value.as_ref().filter(|session| !is_refused(session)).cloned();
            if other.is_some() || !cache.refused(now) {
                return Ok(other);
            }
            self.join_or_start(&mut cache, now)?
        };
        wait(pending).await.map(Some)
    }

    /// Stores the session that the service sent in its refusal.
    fn sent_session(&self, refusal: &Failure) -> Option<Arc<LoginSession>> {
        let Failure::Unexpected(UnexpectedResponse {
            problem: ResponseProblem::Session(sent), ..
        }) = refusal
        else {
            return None;
        };
        let headers = HeaderMap::from_iter([(**sent).clone()]);
        let session = Arc::new(LoginSession { headers, ..LoginSession::default() });
        self.cache().value = Some(Arc::clone(&session));
        Some(session)
    }

    /// Joins the login in flight. If there is none, starts a login, unless the last login failed recently.
    fn join_or_start(
        self: &Arc<Self>,
        cache: &mut SessionCache,
        now: Instant,
    ) -> Result<PendingCredential<LoginSession, Failure>, Failure> {
        cache.join_or_start(now, |sender| {
            let sessions = Arc::clone(self);
            // Runs in a separate task, so that a dropped call does not abort the login that other calls wait for.
            tokio::spawn(async move { sender.send(Some(sessions.log_in().await)) });
        })
    }

    /// Logs in within the time limit. Stores the session or the failure.
    async fn log_in(&self) -> Result<Arc<LoginSession>, Failure> {
        let Service { name, options, .. } = &*self.service;
        let limit = options.limits.timeout;
        let session = tokio::time::timeout(limit, self.request()).await;
        let session = session.unwrap_or(Err(Failure::NoTokenInTime(limit))).map(Arc::new);
        match &session {
            Ok(_) => tracing::debug!(upstream = name, "logged in"),
            Err(failure) => {
                tracing::warn!(upstream = name, error = %failure, "failed to log in");
            }
        }
        self.cache().finish(&session, MAX_BACKOFF, Instant::now());
        session
    }

    async fn request(&self) -> Result<LoginSession, Failure> {
        let (id, reservation) = (RequestId::Number(1), BudgetReservation::default());
        let (uri, body) = (self.uri.as_ref(), &self.body());
        let (limit, reservation) = (MAX_RESPONSE, &reservation);
        let sending = self.service.post(Post { uri, headers: None, body, limit, reservation });
        let response = sending.await.map_err(|failure| self.login_failure(failure))?;
        let result = match self.login.method {
            Some(_) => response.read(&id).map(|result| result.get().to_owned()),
            None => response.clone().into_text(),
        };
        let result = result.map_err(|failure| self.login_failure(failure))?;
        let result = serde_json::from_str(&result).unwrap_or_default();
        self.session_of(&response, &result).map_err(Failure::NoSession)
    }

    fn body(&self) -> Bytes {
        let params = &self.login.params;
        let params = if params.is_null() { "[]".to_owned() } else { params.to_string() };
        match &self.login.method {
            Some(method) => {
                let method = Value::from(method.as_str());
                format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{params},"id":1}}"#).into()
            }
            None => params.into(),
        }
    }

    /// Converts the failure of a login. Connection errors and timeouts are returned
    /// unchanged, because they apply to the service itself.
    fn login_failure(&self, failure: Failure) -> Failure {
        let failure = failure.redacted(|| self.secrets.clone());
        Failure::NoSession(match failure {
            failure @ (Failure::Send(_) | Failure::TimedOut(_)) => return failure,
            Failure::Error(error) | Failure::Denied(error) => {
                let data = error.data.as_ref().and_then(Value::as_str);
                let text = data.map_or_else(String::new, |data| format!(" {data}"));
                let text = self.secrets.redact(&format!(": {}{text}", error.message));
                LoginError::Refused(crate::wire::shortened(text))
            }
            failure => LoginError::Failed(failure.to_string()),
        })
    }

    fn session_of(
        &self,
        response: &ServiceResponse,
        result: &Value,
    ) -> Result<LoginSession, LoginError> {
        let mut session = LoginSession::default();
        let cookies = cookies(&response.headers.map());
        if !cookies.is_empty()
            && let Ok(value) = sensitive(&cookies)
        {
            session.headers.insert(COOKIE, value);
        }
        let Some(location) = &self.login.location else {
            return match result {
                Value::Bool(false) => Err(LoginError::Refused(String::new())),
                _ if session.headers.is_empty() => Err(LoginError::NoCookie),
                _ => Ok(session),
            };
        };
        let token = match result.pointer(&self.login.token) {
            Some(Value::String(token)) if !token.is_empty() => token.clone(),
            Some(Value::Number(token)) => token.to_string(),
            _ => return Err(LoginError::NoToken),
        };
        let added = session.add(location, format!("{}{token}", self.login.prefix));
        added.map_err(|_| LoginError::NoToken)?;
        Ok(session)
    }
}

async fn wait(
    pending: PendingCredential<LoginSession, Failure>,
) -> Result<Arc<LoginSession>, Failure> {
    let aborted = || Err(Failure::NoSession(LoginError::Failed("aborted".to_owned())));
    credential_cache::wait(pending).await.unwrap_or_else(aborted)
}

/// Returns the cookies that a response sets, without their attributes.
fn cookies(headers: &HeaderMap) -> String {
    let pairs = headers.get_all(SET_COOKIE).iter().filter_map(|cookie| {
        let pair = cookie.to_str().ok()?.split(';').next()?.trim();
        pair.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty())?;
        Some(pair)
    });
    pairs.collect::<Vec<_>>().join("; ")
}
