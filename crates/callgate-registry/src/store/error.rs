//! Errors of operations on a registry.

use std::fmt;

use thiserror::Error;

use crate::db::error::DatabaseError;
use crate::festi::error::FestiError;

/// Result of an operation on a registry.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Reason why an operation on a registry failed.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    /// The registry's database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The attached Festi database could not be read.
    #[error("failed to read the attached Festi database: {0}")]
    Festi(FestiError),
    /// A row does not exist.
    #[error("there is no {entity} `{name}`")]
    NotFound {
        /// Kind of the row.
        entity: Entity,
        /// Name of the row.
        name: String,
    },
    /// A row already exists.
    #[error("{entity} `{name}` already exists")]
    AlreadyExists {
        /// Kind of the row.
        entity: Entity,
        /// Name of the row.
        name: String,
    },
    /// Another method has the same actions, so its required sections would change too.
    #[error(
        "method `{other}` has the same plugin `{plugin}` and function `{method}`, so the required sections of `{other}` would change too"
    )]
    SharedActions {
        /// Id of the other method.
        other: String,
        /// Plugin of both, ignoring case.
        plugin: String,
        /// Function of both, ignoring case.
        method: String,
    },
    /// Another program changed the registry during the operation.
    #[error("the registry was changed by another program")]
    Conflict,
    /// The change concerns a row of the attached Festi database, which is read-only.
    #[error("{subject} in Festi's table `{table}`, which Callgate never changes")]
    FestiReadOnly {
        /// Beginning of the message: subject and verb.
        subject: String,
        /// Name of the table.
        table: String,
        /// Advice for the user, such as how to make the change in the Festi database.
        remedy: String,
    },
}

/// Kind of a row that is looked up by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Entity {
    Method,
    Role,
    Section,
    Token,
    Upstream,
    User,
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Method => "method",
            Self::Role => "role",
            Self::Section => "section",
            Self::Token => "token",
            Self::Upstream => "upstream",
            Self::User => "user",
        })
    }
}

impl Entity {
    /// Returns the error for a row of this kind that does not exist.
    pub fn not_found(self, name: impl Into<String>) -> StoreError {
        StoreError::NotFound { entity: self, name: name.into() }
    }

    /// Returns the error for a row of this kind that already exists.
    pub(crate) fn already_exists(self, name: &str) -> StoreError {
        StoreError::AlreadyExists { entity: self, name: name.to_owned() }
    }
}

impl From<FestiError> for StoreError {
    fn from(error: FestiError) -> Self {
        Self::Festi(error)
    }
}

impl StoreError {
    /// Returns the error of the registry's database or of the attached database, if that is the reason.
    pub fn database(&self) -> Option<&DatabaseError> {
        match self {
            Self::Database(error) => Some(error),
            Self::Festi(error) => error.database(),
            _ => None,
        }
    }
}

/// Reason why a Festi database could not be attached to a registry.
#[derive(Debug, Clone, Error)]
pub enum AttachError {
    /// The Festi database could not be read.
    #[error(transparent)]
    Festi(#[from] FestiError),
    /// The registry could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The registry already has users.
    #[error(
        "the registry already has users; their tokens and grants would apply to Festi's users with \
         the same ids"
    )]
    HasUsers,
}
