//! Operations on a registry.
//!
//! [`Store`] has the operations of a running server. [`SqlStore`](crate::SqlStore) implements it and also has methods
//! for administration.

mod error;
pub(crate) mod sql_store;
mod load;
mod methods;
mod edit;
mod import;
mod serve;
mod attach;
pub(crate) mod copy;

use std::time::Duration;

use async_trait::async_trait;
use callgate::{Mask, Secret};

use crate::rows::{
    AccessRows, CatalogRows, ChangeCounters, GrantHolder, ImportRow, KeyRow, MessageRow, MethodRow,
    RoleRow, SectionRow, SessionRow, TokenRow, TypeRow, UserRow,
};

/// A token to be stored.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Id of the user.
    pub id_user: i64,
    /// Name of the token.
    pub name: String,
    /// SHA-256 digest of the token in hexadecimal.
    pub digest: String,
    /// Unix time of expiry.
    pub expires_at: Option<i64>,
}

/// A key to be stored.
#[derive(Clone)]
pub struct NewKey {
    /// Purpose of the key.
    pub purpose: String,
    /// Secret in hexadecimal.
    pub secret: String,
    /// Number of seconds until the key begins to sign. The first key of a purpose signs immediately.
    pub active_in: i64,
    /// Minimum age of the newest key, in seconds, at which this key is stored. With `None`, this key is stored only if
    /// there is no key.
    pub min_age: Option<i64>,
}

/// Hides the secret.
impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKey").field("purpose", &self.purpose).finish_non_exhaustive()
    }
}

/// Function that changes the row of a session.
pub type UpdateSession<'a> = dyn Fn(&mut SessionRow) + Send + Sync + 'a;

/// Changes of an import.
#[derive(Debug, Clone, Default)]
pub struct Import {
    /// Change counter of the catalog on which the changes are based. If it has changed, nothing is written.
    pub change_counter: i64,
    /// Sections to create if they do not exist.
    pub sections: Vec<String>,
    /// Classes to write.
    pub types: Vec<TypeRow>,
    /// Changes of methods.
    pub changes: Vec<ImportChange>,
    /// Users, roles and grants to add.
    pub access: ImportAccess,
}

/// Users, roles, sections and grants to add.
#[derive(Debug, Clone, Default)]
pub struct ImportAccess {
    /// Change counter of access on which the changes are based. If it has changed, nothing is written.
    pub change_counter: Option<i64>,
    /// Sections with captions and masks. Their ids are ignored.
    pub sections: Vec<SectionRow>,
    /// Roles with their ids.
    pub roles: Vec<RoleRow>,
    /// Users with their ids.
    pub users: Vec<UserRow>,
    /// Grants.
    pub grants: Vec<ImportGrant>,
}

impl ImportAccess {
    /// Returns `true` if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
            && self.roles.is_empty()
            && self.users.is_empty()
            && self.grants.is_empty()
    }
}

/// A grant on a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportGrant {
    /// The user or role.
    pub holder: GrantHolder,
    /// Name of the section.
    pub section: String,
    /// Stored mask.
    pub value: i64,
}

/// Change of a method.
#[derive(Debug, Clone)]
pub enum ImportChange {
    /// Inserts a row if its id is 0, otherwise updates the row.
    Write {
        /// Row.
        row: Box<MethodRow>,
        /// Required sections. With `None`, the sections in the registry are kept.
        needs: Option<Vec<(String, Mask)>>,
        /// Values to store for the next import.
        note: ImportRow,
    },
    /// Only stores values for the next import.
    Note(ImportRow),
    /// Deletes a row, and its actions unless another method shares them.
    Remove(Box<MethodRow>),
}

/// Operations of a running server.
#[async_trait]
pub trait Store: std::fmt::Debug + Send + Sync {
    /// Reads the counters.
    async fn change_counters(&self) -> Result<ChangeCounters>;
    /// Reads the rows of a catalog.
    async fn catalog_rows(&self) -> Result<CatalogRows>;
    /// Reads the rows of the access snapshot.
    async fn access_rows(&self) -> Result<AccessRows>;
    /// Reads the tokens with these digests in lower-case hexadecimal.
    async fn tokens_by_digest(&self, digests: &[String]) -> Result<Vec<TokenRow>>;
    /// Reads the keys of a purpose, newest first.
    async fn keys(&self, purpose: &str) -> Result<Vec<KeyRow>>;
    /// Reads the messages whose numbers are greater than `number`, in order and up to a limit.
    async fn messages_after(&self, number: i64) -> Result<Vec<MessageRow>>;
    /// Reads the session changes whose numbers are greater than `number`, in order and up to a limit.
    async fn sessions_after(&self, number: i64) -> Result<Vec<SessionRow>>;
    /// Waits until the database notifies this program of a change. Never returns if the database sends no
    /// notifications.
    async fn changed(&self);
    /// Returns the number of statements so far.
    fn statements(&self) -> u64;
    /// Returns the age of the counters. It is zero unless the counters are polled in the background.
    fn age(&self) -> Duration;

    /// Adds missing sections.
    async fn ensure_sections(&self, idents: &[String]) -> Result<()>;
    /// Stores tool names by row id. Returns the catalog's change counter before and after the write, unless another
    /// program changed it in between.
    async fn store_tool_names(&self, names: &[(i64, String)]) -> Result<Option<(i64, i64)>>;
    /// Records the last uses of tokens, as id and Unix time. Increments no counter.
    async fn record_token_uses(&self, uses: &[(i64, i64)]) -> Result<()>;
    /// Replaces a user's credential if the stored one is still `old`. Returns `true` if the stored one is now `new`.
    async fn replace_credential(
        &self,
        id_user: i64,
        upstream: &str,
        old: &Secret,
        new: &Secret,
    ) -> Result<bool>;
    /// Adds a key if the newest key is old enough. Returns `true` if the key was added. If several servers do this at
    /// the same time, only one of them adds a key.
    async fn add_key(&self, key: &NewKey) -> Result<bool>;
    /// Deletes the keys of a purpose that are older than the one with this id.
    async fn remove_keys_before(&self, purpose: &str, id: i64) -> Result<()>;
    /// Stores a client's message for other servers. Increments only the counter of messages.
    async fn post_message(&self, session: &str, message: &str) -> Result<()>;
    /// Deletes messages that are older than this number of seconds, by the clock of the database.
    async fn delete_messages(&self, age: i64) -> Result<()>;
    /// Changes the state of a session and returns the new state. The state is empty at first. A session that has ended
    /// stays ended. Increments only the counter of sessions.
    async fn update_session(
        &self,
        nonce: &str,
        ends_at: i64,
        change: &UpdateSession<'_>,
    ) -> Result<SessionRow>;
    /// Renews the lease of a server for this number of seconds. Returns the number of servers with a lease.
    async fn renew_lease(&self, server: &str, seconds: i64) -> Result<u32>;
    /// Deletes expired leases, by the clock of the database.
    async fn delete_leases(&self) -> Result<()>;
    /// Deletes expired sessions. Then deletes the oldest sessions until at most `max` are left.
    async fn delete_sessions(&self, now: i64, max: i64) -> Result<()>;
}

pub use error::{AttachError, Entity, Result, StoreError};
pub(crate) use sql_store::SqlStore;
use sql_store::{MAX_CHANGED, in_list};
