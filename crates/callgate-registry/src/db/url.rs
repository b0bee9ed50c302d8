//! URL of a database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use callgate::Secret;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use crate::db::dialect::Dialect;
use crate::db::error::UrlError;

/// URL of a database. `Display` and `Debug` omit the password.
///
/// ```
/// use callgate_registry::DatabaseUrl;
///
/// let url: DatabaseUrl = "postgres://ada:secret@db.example/registry?sslmode=require".parse()?;
/// assert_eq!(url.to_string(), "postgres://ada@db.example/registry");
/// # Ok::<(), callgate_registry::UrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(pub(super) Location);

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Location {
    File(PathBuf),
    Server(Dialect, Box<Url>),
}

impl DatabaseUrl {
    /// Returns the URL of a SQLite file.
    pub fn sqlite(path: impl Into<PathBuf>) -> Self {
        Self(Location::File(path.into()))
    }

    /// Removes user, password and parameters from a text that may be a database URL.
    pub fn redact(text: &str) -> String {
        let (before, host) = text.rsplit_once('@').unwrap_or(("", text));
        let host = host.split(['?', '#']).next().unwrap_or_default();
        match before.split_once("://") {
            // This part may belong to a password or a parameter.
            Some((scheme, user)) if user.contains(['/', '?', '#']) => format!("{scheme}://…"),
            Some((scheme, _)) => format!("{scheme}://…@{host}"),
            // Without a host, the text may consist of a user and a password.
            None => match host.split_once("://") {
                Some((scheme, user))
                    if user.split('/').next().is_some_and(|login| login.contains(':')) =>
                {
                    format!("{scheme}://…")
                }
                _ => host.to_owned(),
            },
        }
    }

    /// Returns the SQL dialect.
    pub fn dialect(&self) -> Dialect {
        match &self.0 {
            Location::File(_) => Dialect::Sqlite,
            Location::Server(dialect, _) => *dialect,
        }
    }

    /// Returns `true` if the URL contains a password.
    pub fn has_password(&self) -> bool {
        matches!(&self.0, Location::Server(_, url) if url.password().is_some())
    }

    /// Sets the password for a server, unless the URL has one.
    #[must_use]
    pub fn with_password(mut self, password: &Secret) -> Self {
        if let Location::Server(_, url) = &mut self.0
            && url.password().is_none()
        {
            // Drivers percent-decode the password, but `set_password` does not encode percent signs.
            let encoded = utf8_percent_encode(password.expose(), NON_ALPHANUMERIC).to_string();
            // This cannot fail, because the URL has a host.
            let _ = url.set_password(Some(&encoded));
        }
        self
    }

    /// Returns the path of a SQLite file.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Location::File(path) => Some(path),
            Location::Server(..) => None,
        }
    }
}

impl FromStr for DatabaseUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            // With a leading colon, SQLite would open an in-memory database.
            if path.is_empty() || path.starts_with(':') {
                return Err(UrlError::Invalid(text.to_owned()));
            }
            return Ok(Self::sqlite(path));
        }
        let invalid = || UrlError::Invalid(Self::redact(text));
        // With `/`, `?` or `#` in the password, a part of the password would be parsed as the host or the database.
        let user = text.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
        if user.is_some_and(|(user, _)| user.contains(['/', '?', '#'])) {
            return Err(UrlError::Unencoded(Self::redact(text)));
        }
        let url = Url::parse(text).map_err(|_| invalid())?;
        let dialect = match url.scheme() {
            "postgres" | "postgresql" => Dialect::Postgres,
            "mysql" | "mariadb" => Dialect::MySql,
            "mssql" | "sqlserver" => Dialect::SqlServer,
            _ => return Err(invalid()),
        };
        if !url.has_host() || url.path().len() < 2 || url.fragment().is_some() {
            return Err(invalid());
        }
        Ok(Self(Location::Server(dialect, Box::new(url))))
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Location::File(path) => write!(f, "sqlite:{}", path.display()),
            Location::Server(_, url) => {
                write!(f, "{}://", url.scheme())?;
                if !url.username().is_empty() {
                    write!(f, "{}@", url.username())?;
                }
                write!(f, "{}", url.host_str().unwrap_or_default())?;
                if let Some(port) = url.port() {
                    write!(f, ":{port}")?;
                }
                f.write_str(url.path())
            }
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_each_database_are_parsed_and_displayed_without_the_password() {
        for (text, dialect, shown) in [
            ("sqlite:a.db", Dialect::Sqlite, "sqlite:a.db"),
            ("sqlite:///var/a.db", Dialect::Sqlite, "sqlite:/var/a.db"),
            ("postgres://u:p@h/d", Dialect::Postgres, "postgres://u@h/d"),
            ("postgresql://h:5/d", Dialect::Postgres, "postgresql://h:5/d"),
            ("mysql://u:p%40@h:1/d?ssl-mode=x", Dialect::MySql, "mysql://u@h:1/d"),
            ("mariadb://u@h/d", Dialect::MySql, "mariadb://u@h/d"),
            ("mssql://sa:Test@12345@h/d", Dialect::SqlServer, "mssql://sa@h/d"),
            ("sqlserver://sa:p@[::1]/d", Dialect::SqlServer, "sqlserver://sa@[::1]/d"),
        ] {
            let url: DatabaseUrl = text.parse().unwrap();
            assert_eq!((url.dialect(), url.to_string().as_str()), (dialect, shown));
            assert_eq!(format!("{url:?}"), format!("DatabaseUrl({shown})"));
        }
    }

    #[test]
    fn a_separate_password_is_percent_encoded_in_the_url() {
        let url: DatabaseUrl = "postgres://u@h/d".parse().unwrap();
        let password = "a%41b%ff:/@? #é";
        let Location::Server(_, url) = url.with_password(&Secret::new(password).unwrap()).0 else {
            panic!()
        };
        let decoded = percent_encoding::percent_decode_str(url.password().unwrap());
        assert_eq!(decoded.decode_utf8().unwrap(), password);
    }

    #[test]
    fn invalid_urls_are_refused_with_errors_that_omit_the_password() {
        let texts = [
            "registry.db",
            "sqlite:",
            "sqlite::memory:",
            "oracle://ada:secret@h/d",
            "postgres://ada:secret@h",
            "mysql://ada:secret@/d",
            "mssql://h:port/d?password=secret",
            "mssql://sa:sec?ret@h/d",
            "postgres://u:p@sec?ret@h/d",
            "postgres://u:123/sec@h/d",
            "postgres://u:1/2?sec@h/d",
            "postgres://u:1/2#sec@h/d",
            "mysql://u:sec/ret@h/d",
            "mssql://h/d?password=p@sec",
            "postgres://ada:secret",
            "mysql://ada:sec/ret",
        ];
        let errors = texts.map(|text| text.parse::<DatabaseUrl>().unwrap_err().to_string());
        assert!(errors.iter().all(|error| !error.contains("sec")));
        insta::assert_debug_snapshot!(errors);
    }
}
