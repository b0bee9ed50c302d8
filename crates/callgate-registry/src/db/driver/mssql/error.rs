//! Classifies errors of the server.

use tiberius::error::{Error, TokenError};

use super::address::Address;
use crate::db::error::{DatabaseError, DatabaseErrorKind};

/// Converts a login error. A server error of kind `Other` becomes `Denied`.
pub(super) fn login_error(error: Error, address: &Address) -> DatabaseError {
    let (message, kind) = match error {
        Error::Server(error) => {
            let kind = match kind(&error) {
                DatabaseErrorKind::Other => DatabaseErrorKind::Denied,
                kind => kind,
            };
            (error.message().to_owned(), kind)
        }
        Error::Protocol(message) if message.contains("encryption level") => {
            let message = "the server does not support encryption, which the URL requires";
            (message.to_owned(), DatabaseErrorKind::Untrusted)
        }
        Error::Tls(message) => (certificate_message(&message), DatabaseErrorKind::Untrusted),
        Error::Io { message, .. } => (message, DatabaseErrorKind::Unavailable),
        Error::Routing { host, port } => {
            (format!("the server redirects to `{host}:{port}`"), DatabaseErrorKind::Other)
        }
        error => (error.to_string(), DatabaseErrorKind::Other),
    };
    DatabaseError::new(kind, format!("failed to log in to `{address}`: {message}"))
}

pub(super) fn statement_error(error: Error) -> DatabaseError {
    match error {
        Error::Server(error) => DatabaseError::new(kind(&error), error.message().to_owned()),
        Error::Io { message, .. } => {
            let message = format!("the connection to the database was lost: {message}");
            DatabaseError::new(DatabaseErrorKind::Unavailable, message)
        }
        error => DatabaseError::new(DatabaseErrorKind::Other, error.to_string()),
    }
}

/// Removes the driver's advice to programmers from the message.
fn certificate_message(message: &str) -> String {
    let message = message.split(" To connect anyway").next().unwrap_or(message);
    message.trim_end_matches('.').to_owned()
}

fn kind(error: &TokenError) -> DatabaseErrorKind {
    match error.code() {
        // Violation of a unique constraint or of a unique index.
        2627 | 2601 => DatabaseErrorKind::Duplicate,
        // Lock timeout, or another program created the table meanwhile.
        1222 | 2714 => DatabaseErrorKind::Busy,
        // Deadlock.
        1205 => DatabaseErrorKind::Deadlock,
        // Missing permission, wrong login or password, or no access to the database.
        229 | 230 | 262 | 297 | 300 | 916 | 4060 | 18452 | 18456 | 18470 | 18486..=18488 => {
            DatabaseErrorKind::Denied
        }
        3906 | 3908 => DatabaseErrorKind::ReadOnly,
        // Data files or log are full.
        1101 | 1105 | 9002 => DatabaseErrorKind::Full,
        // The server is starting, stopping or failing over.
        596 | 6005 | 17142 | 17188 | 18401 | 40197 | 40501 | 40613 => {
            DatabaseErrorKind::Unavailable
        }
        // The emulator that tests use has no error number for a duplicate key.
        50_000 if error.message().contains("Cannot insert duplicate key") => {
            DatabaseErrorKind::Duplicate
        }
        _ => DatabaseErrorKind::Other,
    }
}
