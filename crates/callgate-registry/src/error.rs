//! Why an operation of the registry failed.

use thiserror::Error;

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
