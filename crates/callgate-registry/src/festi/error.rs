//! Errors of reading a Festi database.

use thiserror::Error;

use crate::db::error::{DatabaseError, OpenError};

/// Result of reading a Festi database.
pub(crate) type Result<T, E = FestiError> = std::result::Result<T, E>;

/// Reason why a Festi database could not be read.
#[derive(Debug, Clone, Error)]
pub enum FestiError {
    /// The database could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The file does not exist.
    #[error("there is no file `{0}`")]
    NoFile(String),
    /// A table or a column is missing, or the user may not read it.
    #[error("the database has no {object}, or this user may not read it")]
    Missing {
        /// Name of the table or column.
        object: String,
        /// Prefix of the table names, if it can be guessed.
        prefix: Option<String>,
    },
    /// A table has too many rows.
    #[error("the table `{table}` has more than {max} rows")]
    TooManyRows {
        /// Name of the table.
        table: String,
        /// Maximum number of rows.
        max: usize,
    },
    /// A column that identifies a user, a role or a section has a value that is not a number.
    #[error("`{value}` in `{column}` of the table `{table}` is not a number")]
    NotANumber {
        /// Name of the table.
        table: String,
        /// Name of the column.
        column: &'static str,
        /// Value of the column.
        value: String,
    },
}

impl FestiError {
    pub(crate) fn database(&self) -> Option<&DatabaseError> {
        match self {
            Self::Database(error) | Self::Open(OpenError::Database(error)) => Some(error),
            _ => None,
        }
    }
}
