//! A registry, and the tasks that keep a server up to date with it.
//!
//! Every write that servers must read increments counters in the database, even a write by another program. The
//! counters are read every 250 ms in one query ([`super::follower`]). After a change, access and settings are read
//! immediately, and the catalog is built in a task ([`super::catalog`]). Maintenance runs in another task
//! ([`super::maintenance`]). If the registry is unavailable, the last snapshots stay in use.

use std::sync::Arc;
use std::time::Duration;

use callgate::Callgate;
use callgate::access::Section;
use callgate::gateway::OpenMethods;
use callgate::mcp::Sessions;
use tokio::task::JoinSet;

use crate::auth::authenticator::{TokenAuthenticator, TokenOptions};
use crate::auth::signing_keys::session_keys;
use crate::auth::token_cache::TokenLookups;
use crate::catalog::assemble::Exposure;
use crate::db::pool::with_timeout;
use crate::follow::credentials::UserCredentials;
use crate::follow::replicas::unix_time;
use crate::follow::sessions::SessionWriter;
use crate::follow::upstreams::UpstreamFactory;
use crate::store::{Result, Store};

use super::follower::Follower;
use super::lease::Lease;
use super::log::error_chain;
use super::maintenance::Maintenance;

/// Default maximum age of the key that signs sessions.
const MAX_KEY_AGE: Duration = Duration::from_hours(24 * 30);
/// Time limit for writing when tokens were last used.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of tokens whose time of last use one SQL statement writes.
const FLUSH_BATCH: usize = 1_000;

/// A registry that servers can follow.
///
/// ```no_run
/// use std::sync::Arc;
/// use callgate::{Callgate, method, methods};
/// use callgate_registry::{DatabaseOptions, DatabaseUrl, Registry, SqlStore};
///
/// /// Looks up a user.
/// #[method(id = "user.get", section("users", read), read_only)]
/// fn get_user(id_user: i64) -> String {
///     format!("user {id_user}")
/// }
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let url: DatabaseUrl = "sqlite:registry.db".parse()?;
/// let (store, _) = SqlStore::migrate(&url, &DatabaseOptions::default(), None).await?;
/// let registry = Registry::new(Arc::new(store)).share_rate_limits();
/// let server = Callgate::builder()
///     .methods(methods![get_user])
///     .authenticate(registry.authenticator())
///     .sessions(registry.sessions().await?)
///     .build()?;
/// let following = registry.follow(&server).await?;
/// server.serve("127.0.0.1:8080").await?;
/// following.end().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Registry {
    authenticator: Arc<TokenAuthenticator>,
    pub(super) credentials: UserCredentials,
    pub(super) factory: Option<Arc<dyn UpstreamFactory>>,
    pub(super) exposure: Exposure,
    pub(super) open_methods: Option<OpenMethods>,
    max_key_age: Option<Duration>,
    shares_rate_limits: bool,
}

impl Registry {
    /// Creates a registry with the rows of a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let credentials = UserCredentials::stored_in(Arc::clone(&store));
        Self {
            authenticator: Arc::new(TokenAuthenticator::new(store, TokenOptions::default())),
            credentials,
            factory: None,
            exposure: Exposure::default(),
            open_methods: None,
            max_key_age: Some(MAX_KEY_AGE),
            shares_rate_limits: false,
        }
    }

    /// Sets which methods are tools, except for methods whose row specifies it.
    #[must_use]
    pub fn exposure(mut self, exposure: Exposure) -> Self {
        self.exposure = exposure;
        self
    }

    /// Sets whether methods of the registry that name no section may be called. The default is `None`: if all callers
    /// need a token, such methods are refused; otherwise every caller may call them, and a warning is logged.
    #[must_use]
    pub fn open_methods(mut self, open_methods: Option<OpenMethods>) -> Self {
        self.open_methods = open_methods;
        self
    }

    /// Sets options for tokens. Must be called before [`Self::authenticator`].
    #[must_use]
    pub fn tokens(mut self, options: TokenOptions) -> Self {
        let store = Arc::clone(self.store());
        self.authenticator = Arc::new(TokenAuthenticator::new(store, options));
        self
    }

    /// Sets the factory that creates upstreams from rows. Without a factory, such upstreams are quarantined.
    #[must_use]
    pub fn upstream_factory(mut self, factory: Arc<dyn UpstreamFactory>) -> Self {
        self.factory = Some(factory);
        self
    }

    /// Sets the maximum age of the key that signs sessions. The default is 30 days. `None` means no limit.
    #[must_use]
    pub fn max_key_age(mut self, age: Option<Duration>) -> Self {
        self.max_key_age = age;
        self
    }

    /// Divides the rate limits by the number of servers that follow this registry with the same option.
    #[must_use]
    pub fn share_rate_limits(mut self) -> Self {
        self.shares_rate_limits = true;
        self
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.authenticator.store().inner
    }

    /// Returns the authenticator. It works only while the registry is followed.
    pub fn authenticator(&self) -> Arc<TokenAuthenticator> {
        Arc::clone(&self.authenticator)
    }

    /// Returns users' credentials. They are loaded when the registry is followed.
    pub fn credentials(&self) -> &UserCredentials {
        &self.credentials
    }

    /// Returns sessions that outlive the process and are valid on all servers of the registry.
    pub async fn sessions(&self) -> Result<Sessions> {
        let keys = session_keys(&**self.store(), unix_time()).await?;
        let writer = Arc::new(SessionWriter { store: Arc::clone(self.authenticator.store()) });
        Ok(Sessions::new(keys).with_store(Arc::clone(&writer) as _).with_relay(writer))
    }

    /// Loads the registry into a server and keeps the server up to date. If both code and a row define a method, the
    /// row may change the texts, safety, masks and exposure of the method.
    pub async fn follow(&self, server: &Callgate) -> Result<Following> {
        self.ensure_sections(server.sections()).await?;
        let mut follower = Follower::new(self, server);
        let authenticator = self.authenticator();
        let (tokens, store) = (authenticator.tokens(), authenticator.store());
        // The first write after a start waits for the disk, so it runs beside the reads.
        let lease = Lease::acquire(store, server.gateway(), self.shares_rate_limits);
        let (loaded, lease) = tokio::join!(follower.load(), lease);
        if let Err(error) = loaded {
            lease.end().await;
            return Err(error);
        }
        let lookups = TokenLookups::new(Arc::clone(tokens), Arc::clone(store));
        let maintenance = Maintenance {
            authenticator: Arc::clone(&authenticator),
            max_key_age: self.max_key_age,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(follower.run());
        tasks.spawn(lookups.run());
        tasks.spawn(maintenance.run());
        tasks.spawn(lease.clone().run());
        Ok(Following { tasks, authenticator, lease })
    }

    /// Creates the sections that methods in code require, so that masks on them can be granted.
    async fn ensure_sections(&self, sections: &[Section]) -> Result<()> {
        let idents: Vec<String> = sections.iter().map(ToString::to_string).collect();
        if idents.is_empty() { Ok(()) } else { self.store().ensure_sections(&idents).await }
    }
}

/// Tasks that follow a registry. They end when this value is dropped.
#[derive(Debug)]
#[must_use = "the registry is followed only until this is dropped"]
pub struct Following {
    tasks: JoinSet<()>,
    authenticator: Arc<TokenAuthenticator>,
    lease: Lease,
}

impl Following {
    /// Stops following the registry, writes when tokens were last used, and ends the lease.
    pub async fn end(mut self) {
        self.tasks.abort_all();
        if !self.authenticator.store().is_unavailable() {
            flush_uses(&self.authenticator).await;
            self.lease.end().await;
        }
    }
}

/// Writes when tokens were last used. Times that could not be written are kept for the next call.
pub(super) async fn flush_uses(authenticator: &TokenAuthenticator) {
    let store = authenticator.store();
    let uses = authenticator.uses();
    let write = async {
        for part in uses.chunks(FLUSH_BATCH) {
            store.inner.record_token_uses(part).await?;
            authenticator.remove_uses(part);
        }
        Ok(())
    };
    let result = with_timeout(FLUSH_TIMEOUT, write).await;
    store.record_write_failure(&result);
    if let Err(error) = result {
        tracing::warn!(error = error_chain(error), "failed to record the last use of tokens");
    }
}
