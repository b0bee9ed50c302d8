//! Errors of databases.

use thiserror::Error;

/// Result of an operation on a database.
pub(crate) type Result<T, E = DatabaseError> = std::result::Result<T, E>;

/// A failure that a database or its driver reported.
///
/// Errors that contain a `DatabaseError` have the same message. Therefore they do not return the `DatabaseError` as
/// their source.
#[derive(Debug, Clone, Error)]
#[error("{message}")]
pub struct DatabaseError {
    /// Message of the database.
    pub message: String,
    /// Cause of the failure.
    pub kind: DatabaseErrorKind,
}

/// Cause of a [`DatabaseError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseErrorKind {
    /// Another program holds a lock.
    Busy,
    /// The transaction was rolled back to end a deadlock. It can be repeated.
    Deadlock,
    /// A unique value already exists.
    Duplicate,
    /// The database cannot be reached, does not respond in time, or the connection was lost.
    Unavailable,
    /// The user may not log in, or lacks a permission.
    Denied,
    /// The connection is not encrypted, or the server's certificate is not trusted.
    Untrusted,
    /// The server has no database of this name.
    NoDatabase,
    /// The file or the database is read-only.
    ReadOnly,
    /// The file cannot be opened.
    CannotOpen,
    /// The file is corrupt.
    Corrupt,
    /// The file is not a database.
    NotADatabase,
    /// The file was replaced or removed while it was open.
    Replaced,
    /// The disk is full.
    Full,
    /// Any other cause.
    Other,
}

impl DatabaseError {
    pub(crate) fn new(kind: DatabaseErrorKind, message: impl Into<String>) -> Self {
        Self { message: message.into(), kind }
    }

    /// Returns the error for a column type that no query of this crate selects.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn unsupported_type(name: &str) -> Self {
        Self::new(DatabaseErrorKind::Other, format!("unsupported column type `{name}`"))
    }

    /// Returns `true` if another program holds a lock, or if the transaction was rolled back to end a deadlock.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.kind, DatabaseErrorKind::Busy | DatabaseErrorKind::Deadlock)
    }

    /// Returns `true` if the operation was rolled back to end a deadlock. It can be repeated.
    pub(crate) fn is_deadlock(&self) -> bool {
        self.kind == DatabaseErrorKind::Deadlock
    }

    /// Returns a remedy, or `None` if none is known.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self.kind {
            DatabaseErrorKind::Busy | DatabaseErrorKind::Deadlock => {
                "another program is writing to the database; try again when it has finished"
            }
            DatabaseErrorKind::ReadOnly => {
                "the registry must be writable: check the permissions of the file, its directory or the user"
            }
            DatabaseErrorKind::Corrupt => "restore the file from a backup",
            DatabaseErrorKind::Full => "free some disk space",
            DatabaseErrorKind::CannotOpen => "check that the directory exists and is writable",
            DatabaseErrorKind::NotADatabase => "name another file with `--database sqlite:PATH`",
            DatabaseErrorKind::Replaced => "restart the server to read the new file",
            DatabaseErrorKind::Unavailable => {
                "check that the database is running and can be reached from this machine"
            }
            DatabaseErrorKind::NoDatabase => "create the database first, or name another one",
            DatabaseErrorKind::Denied => "check the user, the password and the user's permissions",
            DatabaseErrorKind::Untrusted => {
                "name the authority of the certificate in the URL, with `sslrootcert=FILE` (MySQL: `ssl-ca`, \
                 SQL Server: `ca`), or turn the check off with `sslmode=require` (MySQL: `ssl-mode=REQUIRED`, \
                 SQL Server: `trust_certificate=true`); docs/operate/databases.md has more"
            }
            DatabaseErrorKind::Duplicate | DatabaseErrorKind::Other => return None,
        })
    }
}

/// Reason why a database URL cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlError {
    /// The text is not the URL of a supported database.
    #[error(
        "`{0}` is not a database URL; expected `sqlite:PATH`, or `postgres://USER:PASSWORD@HOST/DATABASE`, \
         `mysql://…` or `mssql://…`"
    )]
    Invalid(String),
    /// The user or the password has a character that must be percent-encoded.
    #[error(
        "`{0}` has `/`, `?` or `#` before its last `@`; in a password `@`, `/`, `?`, `#` and `%` are \
         written `%40`, `%2F`, `%3F`, `%23` and `%25`"
    )]
    Unencoded(String),
    /// A parameter is unknown or has an invalid value. The value is not shown, because it may be secret.
    #[error("the parameter `{name}` of the database URL is invalid; expected {expected}")]
    Parameter {
        /// Name of the parameter.
        name: String,
        /// Valid names or values.
        expected: String,
    },
    /// The program was built without the driver.
    #[error("this program was built without {database} (cargo feature `{feature}`)")]
    NotBuilt {
        /// Name of the database.
        database: &'static str,
        /// Cargo feature that includes the driver.
        feature: &'static str,
    },
}

/// Reason why a registry could not be opened, created or migrated.
#[derive(Debug, Clone, Error)]
pub enum OpenError {
    /// The URL cannot be used.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// There is no registry.
    #[error("there is no registry at `{0}`")]
    Missing(String),
    /// The database has an unrelated table with the name of one of the registry's tables.
    #[error("the database has a table `{0}` that does not belong to a registry")]
    TableExists(String),
    /// A newer program migrated the registry.
    #[error("the registry has version {found}, this program supports up to {supported}")]
    Newer {
        /// Version of the registry.
        found: i64,
        /// Newest version that this program supports.
        supported: i64,
    },
    /// The registry needs a migration.
    #[error("the registry has version {found}, this program needs {needed}")]
    Older {
        /// Version of the registry.
        found: i64,
        /// Version that this program needs.
        needed: i64,
    },
    /// The registry was created by a build from before the first release.
    #[error("the registry was created by a build from before the first release")]
    Unreleased,
    /// The registry was created with table names that differ from the configuration.
    #[error("the registry was created with other table names than those of the configuration")]
    OtherTables,
}

impl OpenError {
    /// Returns the error of the database, if that is the reason.
    pub fn database(&self) -> Option<&DatabaseError> {
        match self {
            Self::Database(error) => Some(error),
            _ => None,
        }
    }
}
