//! Classifies errors of sqlx.

use sqlx::sqlite::SqliteError;

use crate::db::error::{DatabaseError, DatabaseErrorKind};

impl From<sqlx::Error> for DatabaseError {
    fn from(error: sqlx::Error) -> Self {
        let (message, kind) = match &error {
            sqlx::Error::Database(error) if error.is_unique_violation() => {
                (error.message().to_owned(), DatabaseErrorKind::Duplicate)
            }
            sqlx::Error::Database(error) => (error.message().to_owned(), kind(&**error)),
            // sqlx reports an untrusted certificate as this kind.
            sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::InvalidData => {
                (error.to_string(), DatabaseErrorKind::Untrusted)
            }
            sqlx::Error::PoolTimedOut | sqlx::Error::Io(_) => {
                (error.to_string(), DatabaseErrorKind::Unavailable)
            }
            sqlx::Error::Tls(_) => (error.to_string(), DatabaseErrorKind::Untrusted),
            _ => (error.to_string(), DatabaseErrorKind::Other),
        };
        Self { message, kind }
    }
}

fn kind(error: &dyn sqlx::error::DatabaseError) -> DatabaseErrorKind {
    if error.try_downcast_ref::<SqliteError>().is_some() {
        return sqlite_kind(error);
    }
    #[cfg(feature = "postgres")]
    if let Some(error) = error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
        return postgres_kind(error.code());
    }
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return mysql_kind(error.number());
    }
    DatabaseErrorKind::Other
}

/// Classifies an error by its SQLSTATE.
#[cfg(feature = "postgres")]
fn postgres_kind(code: &str) -> DatabaseErrorKind {
    match code {
        // Serialization failure, deadlock.
        "40001" | "40P01" => DatabaseErrorKind::Deadlock,
        // Lock timeout.
        "55P03" => DatabaseErrorKind::Busy,
        // Too many connections, shutdown or startup, statement timeout, or idle timeout.
        "53300" | "57P01" | "57P02" | "57P03" | "57P05" | "57014" | "25P03" => {
            DatabaseErrorKind::Unavailable
        }
        "28000" | "28P01" | "42501" => DatabaseErrorKind::Denied,
        "3D000" => DatabaseErrorKind::NoDatabase,
        "25006" => DatabaseErrorKind::ReadOnly,
        "53100" => DatabaseErrorKind::Full,
        "XX001" | "XX002" => DatabaseErrorKind::Corrupt,
        // Connection errors.
        code if code.starts_with("08") => DatabaseErrorKind::Unavailable,
        _ => DatabaseErrorKind::Other,
    }
}

/// Classifies an error by its number.
#[cfg(feature = "mysql")]
fn mysql_kind(number: u16) -> DatabaseErrorKind {
    match number {
        // A row was changed meanwhile, or lock timeout.
        1020 | 1205 => DatabaseErrorKind::Busy,
        // Deadlock.
        1213 => DatabaseErrorKind::Deadlock,
        // Too many connections, shutdown, killed connection, network error, statement timeout, or idle timeout.
        1040
        | 1053
        | 1077
        | 1079
        | 1152
        | 1158..=1161
        | 1184
        | 1203
        | 1317
        | 1927
        | 1969
        | 3024
        | 4031 => DatabaseErrorKind::Unavailable,
        // Login and permissions, including the permissions for triggers with binary logging.
        1044 | 1045 | 1130 | 1142 | 1143 | 1227 | 1370 | 1410 | 1419 | 1698 => {
            DatabaseErrorKind::Denied
        }
        1049 => DatabaseErrorKind::NoDatabase,
        1290 | 1792 | 1836 => DatabaseErrorKind::ReadOnly,
        1021 | 1114 => DatabaseErrorKind::Full,
        1194 | 1034 | 126 | 127 => DatabaseErrorKind::Corrupt,
        _ => DatabaseErrorKind::Other,
    }
}

/// Classifies an error by SQLite's primary result code, which is the low byte of the extended result code.
fn sqlite_kind(error: &dyn sqlx::error::DatabaseError) -> DatabaseErrorKind {
    let code = error.code().and_then(|code| code.parse::<i32>().ok()).map(|code| code & 0xff);
    match code {
        Some(5 | 6) => DatabaseErrorKind::Busy,
        Some(8) => DatabaseErrorKind::ReadOnly,
        Some(11) => DatabaseErrorKind::Corrupt,
        Some(13) => DatabaseErrorKind::Full,
        Some(14) => DatabaseErrorKind::CannotOpen,
        Some(26) => DatabaseErrorKind::NotADatabase,
        _ => DatabaseErrorKind::Other,
    }
}
