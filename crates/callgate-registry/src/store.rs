//! What following a registry needs of it, and what is written to it.
//!
//! [`SqlStore`](crate::SqlStore) is the [`Store`] in each database; administration is methods of its own.

use std::time::Duration;

use async_trait::async_trait;
use callgate::{Mask, Secret};
use thiserror::Error;

use crate::rows::{
    AccessRows, CatalogRows, ImportRow, KeyRow, MessageRow, MethodRow, Revisions, RoleRow,
    SectionRow, SessionRow, TokenRow, TypeRow, UserRow,
};

/// Why the registry could not do something.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    /// The database said no. Not a cause in the chain: its words are all that there is to say.
    #[error("{0}")]
    Database(DatabaseError),
    /// A number is something else.
    #[error("`{0}` is not a number, and stands where one must be")]
    Unreadable(String),
    /// The file was replaced by another, or removed, while it was open.
    #[error("the file `{0}` was replaced or removed since it was opened")]
    Replaced(String),
    /// The database has a table of its own with a name that ours would have.
    #[error("the database has a table `{0}` of its own")]
    TableTaken(String),
    /// A URL of a database that is not one of ours.
    #[error(
        "`{0}` is not a database; expected `sqlite:PATH`, or `postgres://USER:PASSWORD@HOST/DATABASE`, \
         `mysql://…` or `mssql://…`"
    )]
    Url(String),
    /// A URL whose password seems to end too early, at a character that ends it.
    #[error(
        "`{0}` has `/`, `?` or `#` before its last `@`; in a password `@`, `/`, `?`, `#` and `%` are \
         written `%40`, `%2F`, `%3F`, `%23` and `%25`"
    )]
    Unencoded(String),
    /// A database that this program has no driver for.
    #[error("this program was built without {what} (cargo feature `{feature}`)")]
    NotBuilt {
        /// The database.
        what: &'static str,
        /// What brings it.
        feature: &'static str,
    },
    /// A parameter of a URL is none, or has a value that it cannot have. Not shown: it may be a secret.
    #[error("the parameter `{option}` of the database's URL is not right; expected {expected}")]
    UrlOption {
        /// Its name.
        option: String,
        /// What would do.
        expected: String,
    },
    /// There is no registry there yet.
    #[error("there is no registry at `{0}`")]
    Missing(String),
    /// A newer program has changed the tables.
    #[error("the registry has version {found}, this program knows up to {known}")]
    Newer {
        /// What the database says.
        found: i64,
        /// The last one that is known here.
        known: i64,
    },
    /// An older program made the tables, and nothing has brought them up to date.
    #[error("the registry has version {found}, this program needs {needed}")]
    Older {
        /// What the database says.
        found: i64,
        /// The one that is needed here.
        needed: i64,
    },
    /// A build from before the first release made the tables, in other steps than this program.
    #[error("the registry was made by a build from before the first release")]
    Unreleased,
    /// Somebody else wrote since the registry was read.
    #[error("the registry changed meanwhile")]
    Moved,
    /// The registry was made with other names for its tables.
    #[error("the registry was made with other table names than those of the configuration")]
    OtherTables,
    /// A database of somebody else's has more rows than are read.
    #[error("the table `{table}` has more than {most} rows")]
    TooMany {
        /// Its name.
        table: String,
        /// So many would do.
        most: usize,
    },
    /// An attached Festi database lacks what must be there for its methods to be served.
    #[error("the database has no {what}, or this user may not read it")]
    Lacking {
        /// What it is.
        what: String,
        /// What its tables seem to have before their names.
        prefix: Option<String>,
    },
    /// A table of a Festi database has something else where a number says who, or on what.
    #[error("`{value}` in `{column}` of the table `{table}` is not a number")]
    NotNumbered {
        /// Its name.
        table: String,
        /// The column.
        column: &'static str,
        /// What is there.
        value: String,
    },
    /// The registry beside a Festi database has users of its own.
    #[error(
        "the registry has users of its own, whose tokens and grants would pass to Festi's users of \
         the same numbers"
    )]
    OwnUsers,
    /// An attached Festi database has it, and is only read.
    #[error("{what} in Festi's table `{table}`, which is only read")]
    Festis {
        /// What is there.
        what: String,
        /// The table.
        table: String,
        /// What to do instead.
        instead: String,
    },
    /// The attached Festi database, and not the registry, could not do something.
    #[error("the attached Festi database: {0}")]
    Attached(Box<StoreError>),
    /// Something with that name is there already.
    #[error("{what} `{name}` is there already")]
    Exists {
        /// What it is.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Something is not there.
    #[error("there is no {what} `{name}`")]
    NotFound {
        /// What it would be.
        what: &'static str,
        /// Its name.
        name: String,
    },
}

impl StoreError {
    pub(crate) fn database(kind: DatabaseErrorKind, message: impl Into<String>) -> Self {
        Self::Database(DatabaseError { message: message.into(), kind })
    }

    /// A value that nothing here asks for.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn unread_type(name: &str) -> Self {
        let message = format!("the database gave a value of the type `{name}`");
        Self::database(DatabaseErrorKind::Other, message)
    }

    fn kind(&self) -> Option<DatabaseErrorKind> {
        match self {
            Self::Database(error) => Some(error.kind),
            Self::Attached(error) => error.kind(),
            _ => None,
        }
    }

    /// Whether another program is in the way just now.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.kind(), Some(DatabaseErrorKind::Busy | DatabaseErrorKind::GaveWay))
    }

    /// Whether all of it was undone so that another could go on; tried again, it may well be done.
    pub(crate) fn gave_way(&self) -> bool {
        self.kind() == Some(DatabaseErrorKind::GaveWay)
    }

    /// Whether something must be there once only, and is there already.
    pub(crate) fn is_taken(&self) -> bool {
        self.kind() == Some(DatabaseErrorKind::Taken)
    }

    /// What to do about it, where the database's own words do not say.
    pub fn advice(&self) -> Option<&'static str> {
        self.kind()?.advice()
    }
}

/// What the database said when it said no.
#[derive(Debug, Clone, Error)]
#[error("{message}")]
pub struct DatabaseError {
    /// Its words.
    pub message: String,
    /// What that means here.
    pub kind: DatabaseErrorKind,
}

/// What it means that a database said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseErrorKind {
    /// Another program is in the way just now.
    Busy,
    /// Another program and this one waited for each other, and this one was ended.
    GaveWay,
    /// A value must be there once only, and is there already.
    Taken,
    /// The database cannot be reached, does not answer in time, or the connection to it was lost.
    Away,
    /// The database does not let this user in, or not do this.
    Refused,
    /// The connection would not be safe: nothing encrypts it, or nobody vouches for who is there.
    Untrusted,
    /// The server has no such database.
    Absent,
    /// The file, or the database, can only be read.
    ReadOnly,
    /// The file cannot be opened.
    CannotOpen,
    /// The file is damaged.
    Damaged,
    /// The file is something else.
    Foreign,
    /// The disk is full.
    Full,
    /// Anything else: its words have to do.
    Other,
}

impl DatabaseErrorKind {
    fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::Busy | Self::GaveWay => {
                "another program is writing to it; try again when it is done"
            }
            Self::ReadOnly => {
                "the file, its directory or the database may only be read; the registry needs to write"
            }
            Self::Damaged => "the file is damaged; restore a backup",
            Self::Full => "the disk is full",
            Self::CannotOpen => "look whether the directory is there and may be written to",
            Self::Foreign => {
                "the file is something else; name another with `--database sqlite:PATH`"
            }
            Self::Away => "look whether it runs and can be reached from here",
            Self::Absent => {
                "make the database first, or name another; docs/operate/databases.md says how"
            }
            Self::Refused => "look at the user, the password and what that user may do there",
            Self::Untrusted => {
                "say in the URL how the connection is encrypted and whom to trust; see docs/operate/databases.md"
            }
            Self::Taken | Self::Other => return None,
        })
    }
}

/// A result of the registry.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Whose grant it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// A user, by number.
    User(i64),
    /// A role, by number.
    Role(i64),
}

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
