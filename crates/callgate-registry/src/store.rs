//! What following a registry needs of it, and what is written to it.
//!
//! [`SqlStore`](crate::SqlStore) is the [`Store`] in each database; administration is methods of its own.

mod error;
pub(crate) mod sql_store;
mod transaction;
mod contents;
mod read;
mod load;
mod methods;
mod grants;
mod edit;
mod import;
mod serve;
mod attach;
pub(crate) mod copy;

use std::time::Duration;

use async_trait::async_trait;
use callgate::{Mask, Secret};

use crate::rows::{
    AccessRows, CatalogRows, Holder, ImportRow, KeyRow, MessageRow, MethodRow, Revisions, RoleRow,
    SectionRow, SessionRow, TokenRow, TypeRow, UserRow,
};

/// A token to be stored: of the secret, only the digest.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Whose it is.
    pub id_user: i64,
    /// What it is called.
    pub name: String,
    /// The SHA-256 in hexadecimal.
    pub digest: String,
    /// When it ends, in seconds since 1970.
    pub expires_at: Option<i64>,
}

/// A secret to be stored, that signs.
#[derive(Clone)]
pub struct NewKey {
    /// What it is for.
    pub purpose: String,
    /// It, in hexadecimal.
    pub secret: String,
    /// In so many seconds it signs. The first one of a purpose signs at once.
    pub signs_in: i64,
    /// It is added if the newest one of its purpose is so many seconds old, or there is none; without
    /// this only if there is none.
    pub min_age: Option<i64>,
}

/// It is a secret.
impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKey").field("purpose", &self.purpose).finish_non_exhaustive()
    }
}

/// What changes the row of a session.
pub type ChangeSession<'a> = dyn Fn(&mut SessionRow) + Send + Sync + 'a;

/// All that an import writes.
#[derive(Debug, Clone, Default)]
pub struct Import {
    /// The catalog's revision that it was made from; at another one nothing is written.
    pub revision: i64,
    /// Sections that must be there; made if they are not.
    pub sections: Vec<String>,
    /// Classes, in place of those of the same name.
    pub types: Vec<TypeRow>,
    /// What becomes of methods.
    pub changes: Vec<ImportChange>,
    /// Who may do what.
    pub access: ImportAccess,
}

/// What an import says of who may do what. It is written where nothing is there yet.
#[derive(Debug, Clone, Default)]
pub struct ImportAccess {
    /// The revision of the access that it was made from; at another one nothing is written.
    pub revision: Option<i64>,
    /// Sections with their captions and masks; their numbers do not count.
    pub sections: Vec<SectionRow>,
    /// Roles, under these numbers.
    pub roles: Vec<RoleRow>,
    /// Users, under these numbers.
    pub users: Vec<UserRow>,
    /// What they have.
    pub grants: Vec<ImportGrant>,
}

impl ImportAccess {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
            && self.roles.is_empty()
            && self.users.is_empty()
            && self.grants.is_empty()
    }
}

/// What somebody has on a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportGrant {
    /// Who.
    pub holder: Holder,
    /// The section's name for code.
    pub section: String,
    /// The mask as it is stored.
    pub value: i64,
}

/// What becomes of one method.
#[derive(Debug, Clone)]
pub enum ImportChange {
    /// A row is added, if its number is 0, or written back.
    Write {
        /// The row.
        row: Box<MethodRow>,
        /// What it needs, in place of what it needed; `None` leaves that.
        needs: Option<Vec<(String, Mask)>>,
        /// What to remember.
        note: ImportRow,
    },
    /// Only what is remembered changes.
    Note(ImportRow),
    /// A row is removed, and its actions unless another method has them too.
    Remove(Box<MethodRow>),
}

/// What a running gateway asks of the registry: reads that it follows, and the rows that it writes itself.
#[async_trait]
pub trait Store: std::fmt::Debug + Send + Sync {
    /// The six counters.
    async fn revisions(&self) -> Result<Revisions>;
    /// All that a catalog is made from, as of one moment.
    async fn catalog_rows(&self) -> Result<CatalogRows>;
    /// All that access is made from, as of one moment.
    async fn access_rows(&self) -> Result<AccessRows>;
    /// Of these digests, in hexadecimal with small letters, the tokens that are there.
    async fn tokens_with(&self, digests: &[String]) -> Result<Vec<TokenRow>>;
    /// The secrets for a purpose, newest first.
    async fn keys(&self, purpose: &str) -> Result<Vec<KeyRow>>;
    /// What was posted after the message with this number, in order; some of it, where there is much.
    async fn messages_after(&self, number: i64) -> Result<Vec<MessageRow>>;
    /// The sessions that changed after the change with this number, in order; some of them, where
    /// there are many.
    async fn sessions_after(&self, number: i64) -> Result<Vec<SessionRow>>;
    /// Waits until the database says that something changed; for ever, where it does not say.
    async fn changed(&self) {
        std::future::pending::<()>().await;
    }
    /// Number of statements that the database was sent so far; 0 where nobody counts.
    fn statements(&self) -> u64 {
        0
    }
    /// How much older than the question the counters are: none, where they are asked for then.
    fn age(&self) -> Duration {
        Duration::ZERO
    }

    /// Adds the sections that are not there yet.
    async fn ensure_sections(&self, idents: &[String]) -> Result<()>;
    /// Stores the tool names that were given, by row number. Returns the catalog's revision before and after,
    /// if nobody else changed it in between.
    async fn remember_tool_names(&self, names: &[(i64, String)]) -> Result<Option<(i64, i64)>>;
    /// Notes when tokens were last used: number, seconds since 1970. Raises no revision.
    async fn touch_tokens(&self, uses: &[(i64, i64)]) -> Result<()>;
    /// Replaces what a user is known by at a service if it is still `old`. Returns whether it is `new`
    /// now.
    async fn replace_credential(
        &self,
        id_user: i64,
        upstream: &str,
        old: &Secret,
        new: &Secret,
    ) -> Result<bool>;
    /// Adds a secret that signs, if the newest one is old enough. Returns whether it was. Of several
    /// gateways that find it old, one adds one.
    async fn add_key(&self, key: &NewKey) -> Result<bool>;
    /// Removes the secrets of a purpose that are older than the one with this number.
    async fn remove_keys_before(&self, purpose: &str, id: i64) -> Result<()>;
    /// Leaves what a client of a session sent to whichever gateway it concerns, with the next number.
    /// Raises no revision that a snapshot is made from.
    async fn post_message(&self, session: &str, message: &str) -> Result<()>;
    /// Removes the messages that were posted before a second.
    async fn forget_messages(&self, before: i64) -> Result<()>;
    /// Changes the state of a session, with the next number; one that there is no row of begins with
    /// an empty one, and one that has ended stays so. Returns the state after it. Raises no
    /// revision that a snapshot is made from.
    async fn change_session(
        &self,
        nonce: &str,
        ends_at: i64,
        change: &ChangeSession<'_>,
    ) -> Result<SessionRow>;
    /// Removes the sessions that are over, and the oldest of more than `most`.
    async fn forget_sessions(&self, now: i64, most: i64) -> Result<()>;
}

pub use error::{AttachError, Entity, Result, StoreError};
pub(crate) use sql_store::SqlStore;
use sql_store::{MAX_CHANGED, listed};
use transaction::Work;
