//! What it means when a database that sqlx speaks to says no.

use sqlx::sqlite::SqliteError;

use crate::store::{DatabaseError, DatabaseErrorKind, StoreError};

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let (message, kind) = match &error {
            sqlx::Error::Database(said) if said.is_unique_violation() => {
                (said.message().to_owned(), DatabaseErrorKind::Taken)
            }
            sqlx::Error::Database(said) => (said.message().to_owned(), kind(&**said)),
            sqlx::Error::PoolTimedOut | sqlx::Error::Io(_) => {
                (error.to_string(), DatabaseErrorKind::Away)
            }
            _ => (error.to_string(), DatabaseErrorKind::Other),
        };
        Self::Database(DatabaseError { message, kind })
    }
}

fn kind(said: &dyn sqlx::error::DatabaseError) -> DatabaseErrorKind {
    if said.try_downcast_ref::<SqliteError>().is_some() {
        return sqlite_kind(said);
    }
    DatabaseErrorKind::Other
}

/// By SQLite's primary code, which is the low byte.
fn sqlite_kind(said: &dyn sqlx::error::DatabaseError) -> DatabaseErrorKind {
    let code = said.code().and_then(|code| code.parse::<i32>().ok()).map(|code| code & 0xff);
    match code {
        Some(5 | 6) => DatabaseErrorKind::Busy,
        Some(8) => DatabaseErrorKind::ReadOnly,
        Some(11) => DatabaseErrorKind::Damaged,
        Some(13) => DatabaseErrorKind::Full,
        Some(14) => DatabaseErrorKind::CannotOpen,
        Some(26) => DatabaseErrorKind::Foreign,
        _ => DatabaseErrorKind::Other,
    }
}
