//! A gateway that follows a registry: its snapshots are kept in step with the rows.
//!
//! Counters in the database say that something changed, whoever changed it; they are asked for every
//! 250 ms, all in one query (`follow/follower.rs`). Access and settings are small and read at once; a
//! catalog is made beside the loop (`follow/catalog.rs`), so that a large one holds up no grant, and what
//! is to be written once a minute too (`follow/chores.rs`). Where the registry cannot be read the last good
//! snapshots stay, and that is told (`follow/tell.rs`).

use std::sync::Arc;
use std::time::Duration;

use callgate::Callgate;
use callgate::access::Section;
use callgate::mcp::Sessions;
use tokio::task::JoinHandle;

use crate::auth::authenticator::{TokenAuthenticator, TokenOptions};
use crate::auth::keys::session_keys;
use crate::auth::token_cache::LookUps;
use crate::catalog::assemble::Exposure;
use crate::db::pool::within;
use crate::follow::credentials::UserCredentials;
use crate::follow::replicas::unix_time;
use crate::follow::session_store::Durable;
use crate::follow::upstreams::MakeUpstream;
use crate::store::Result;
use crate::store::Store;

use super::follower::Follower;
use super::log::described;
use super::maintenance::Chores;

/// How old the key becomes that sessions are signed with.
const MAX_KEY_AGE: Duration = Duration::from_hours(24 * 30);
/// How long it may take to write when tokens were last used.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);
/// So many are written at once.
const FLUSHED_AT_ONCE: usize = 1_000;

/// A registry to be followed: who callers are, what they may do, and what is said of methods.
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
/// let registry = Registry::new(Arc::new(store));
/// let gateway = Callgate::builder()
///     .methods(methods![get_user])
///     .authenticate(registry.authenticator())
///     .sessions(registry.sessions().await?)
///     .build()?;
/// let following = registry.follow(&gateway).await?;
/// gateway.serve("127.0.0.1:8080").await?;
/// following.end().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Registry {
    pub(super) store: Arc<dyn Store>,
    authenticator: Arc<TokenAuthenticator>,
    pub(super) credentials: UserCredentials,
    pub(super) maker: Option<Arc<dyn MakeUpstream>>,
    pub(super) exposure: Exposure,
    max_key_age: Option<Duration>,
}

impl Registry {
    /// The registry in a database.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let credentials = UserCredentials::kept_in(Arc::clone(&store));
        Self {
            store,
            authenticator: Arc::new(TokenAuthenticator::new(TokenOptions::default())),
            credentials,
            maker: None,
            exposure: Exposure::default(),
            max_key_age: Some(MAX_KEY_AGE),
        }
    }

    /// Says which methods are tools where a row does not.
    #[must_use]
    pub fn exposure(mut self, exposure: Exposure) -> Self {
        self.exposure = exposure;
        self
    }

    /// Says how tokens are treated; to be said before [`Self::authenticator`] is asked for.
    #[must_use]
    pub fn tokens(mut self, options: TokenOptions) -> Self {
        self.authenticator = Arc::new(TokenAuthenticator::new(options));
        self
    }

    /// Says who makes upstreams of rows; without one they are quarantined.
    #[must_use]
    pub fn upstreams_by(mut self, maker: Arc<dyn MakeUpstream>) -> Self {
        self.maker = Some(maker);
        self
    }

    /// Says how old the key that sessions are signed with becomes before another takes its place; 30
    /// days unless said. `None` is for ever.
    #[must_use]
    pub fn max_key_age(mut self, age: Option<Duration>) -> Self {
        self.max_key_age = age;
        self
    }

    /// The database.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Knows callers by their tokens, once the registry is followed.
    pub fn authenticator(&self) -> Arc<TokenAuthenticator> {
        Arc::clone(&self.authenticator)
    }

    /// What users are known by at services, once the registry is followed.
    pub fn credentials(&self) -> &UserCredentials {
        &self.credentials
    }

    /// Sessions that outlive the process, and are good on each gateway of this registry.
    pub async fn sessions(&self) -> Result<Sessions> {
        let keys = session_keys(&*self.store, unix_time()).await?;
        let contact = self.authenticator.contact();
        let durable = || Arc::new(Durable::new(&self.store, contact));
        Ok(Sessions::new(keys).with_store(durable()).with_relay(durable()))
    }

    /// Reads everything, puts it in force, and keeps it in step from then on. Where code and rows name
    /// the same method, code owns what it takes, and the row may change its texts, its safety, the masks
    /// that it needs and whether it is shown.
    pub async fn follow(&self, gateway: &Callgate) -> Result<Following> {
        self.ensure_sections(gateway.sections()).await?;
        let mut follower = Follower::new(self, gateway);
        follower.load().await?;
        let (store, authenticator) = (Arc::clone(&self.store), self.authenticator());
        let (tokens, contact) = (authenticator.tokens(), authenticator.contact());
        let look_ups = LookUps::new(Arc::clone(tokens), Arc::clone(&store), Arc::clone(contact));
        let chores = Chores {
            store: Arc::clone(&store),
            authenticator: Arc::clone(&authenticator),
            max_key_age: self.max_key_age,
        };
        let tasks = [
            tokio::spawn(follower.run()),
            tokio::spawn(look_ups.run()),
            tokio::spawn(chores.run()),
        ];
        Ok(Following { tasks, store, authenticator })
    }

    /// Sections that code names must be there before anybody can be granted something on them.
    async fn ensure_sections(&self, sections: &[Section]) -> Result<()> {
        let idents: Vec<String> = sections.iter().map(ToString::to_string).collect();
        if idents.is_empty() { Ok(()) } else { self.store.ensure_sections(&idents).await }
    }
}

/// A registry that is being followed, until this is dropped.
#[derive(Debug)]
#[must_use = "when this is dropped, nothing is followed any more"]
pub struct Following {
    tasks: [JoinHandle<()>; 3],
    store: Arc<dyn Store>,
    authenticator: Arc<TokenAuthenticator>,
}

impl Following {
    /// Ends it, and writes down what is not written yet: when tokens were last used.
    pub async fn end(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        if !self.authenticator.contact().is_away() {
            flush_uses(&*self.store, &self.authenticator).await;
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Writes when tokens were last used. What could not be written is noted still.
pub(super) async fn flush_uses(store: &dyn Store, authenticator: &TokenAuthenticator) {
    let uses = authenticator.uses();
    let written = async {
        for part in uses.chunks(FLUSHED_AT_ONCE) {
            store.touch_tokens(part).await?;
            authenticator.forget_uses(part);
        }
        Ok(())
    };
    if let Err(error) = within(FLUSH_LIMIT, written).await {
        tracing::warn!(error = described(error), "cannot note the use of tokens");
    }
}
