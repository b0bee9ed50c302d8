//! Which database, and how to reach it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use callgate::Secret;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use crate::pool::Pool;
use crate::sql::{Database, Dialect};
use crate::sqlite;
use crate::store::{Result, StoreError};

/// Where a database is. Shown, it has no password.
///
/// ```
/// use callgate_registry::DatabaseUrl;
///
/// let url: DatabaseUrl = "postgres://ada:secret@db.example/registry?sslmode=require".parse()?;
/// assert_eq!(url.to_string(), "postgres://ada@db.example/registry");
/// # Ok::<(), callgate_registry::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(Place);

#[derive(Clone, PartialEq, Eq)]
enum Place {
    File(PathBuf),
    Server(Dialect, Box<Url>),
}

impl DatabaseUrl {
    /// A SQLite database in a file.
    pub fn sqlite(path: impl Into<PathBuf>) -> Self {
        Self(Place::File(path.into()))
    }

    /// A text that may be a URL, without what may be secret in it: what stands before the last `@`, and
    /// parameters.
    pub fn shown(text: &str) -> String {
        let (before, host) = text.rsplit_once('@').unwrap_or(("", text));
        let host = host.split(['?', '#']).next().unwrap_or_default();
        match before.split_once("://") {
            // It may be a part of a password, or of a parameter.
            Some((scheme, user)) if user.contains(['/', '?', '#']) => format!("{scheme}://…"),
            Some((scheme, _)) => format!("{scheme}://…@{host}"),
            None => host.to_owned(),
        }
    }

    /// How it writes SQL.
    pub fn dialect(&self) -> Dialect {
        match &self.0 {
            Place::File(_) => Dialect::Sqlite,
            Place::Server(dialect, _) => *dialect,
        }
    }

    /// Whether the password is in it.
    pub fn has_password(&self) -> bool {
        matches!(&self.0, Place::Server(_, url) if url.password().is_some())
    }

    /// With a password, unless it has one; a file has none.
    #[must_use]
    pub fn with_password(mut self, password: &Secret) -> Self {
        if let Place::Server(_, url) = &mut self.0
            && url.password().is_none()
        {
            // The drivers decode all of it; by itself a URL would leave percent signs alone.
            let encoded = utf8_percent_encode(password.expose(), NON_ALPHANUMERIC).to_string();
            // It has a host, so it can have one.
            let _ = url.set_password(Some(&encoded));
        }
        self
    }

    /// The file, where it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Place::File(path) => Some(path),
            Place::Server(..) => None,
        }
    }
}

impl FromStr for DatabaseUrl {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            // What begins with a colon would be a database in memory, which nobody else sees.
            if path.is_empty() || path.starts_with(':') {
                return Err(StoreError::Url(text.to_owned()));
            }
            return Ok(Self::sqlite(path));
        }
        let wrong = || StoreError::Url(Self::shown(text));
        // What ends a password early would make a host, or a database, of a part of it.
        let user = text.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
        if user.is_some_and(|(user, _)| user.contains(['/', '?', '#'])) {
            return Err(StoreError::Unencoded(Self::shown(text)));
        }
        let url = Url::parse(text).map_err(|_| wrong())?;
        let dialect = match url.scheme() {
            "postgres" | "postgresql" => Dialect::Postgres,
            "mysql" | "mariadb" => Dialect::MySql,
            "mssql" | "sqlserver" => Dialect::SqlServer,
            _ => return Err(wrong()),
        };
        if !url.has_host() || url.path().len() < 2 || url.fragment().is_some() {
            return Err(wrong());
        }
        Ok(Self(Place::Server(dialect, Box::new(url))))
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::File(path) => write!(f, "sqlite:{}", path.display()),
            Place::Server(_, url) => {
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

/// How a database is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseOptions {
    /// So many connections at once.
    pub max_connections: u32,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long an ordinary statement may take; with SQLite, how long to wait for another program
    /// that writes.
    pub statement_timeout: Duration,
    /// How long each statement may take that reads everything, or makes or changes tables.
    pub load_timeout: Duration,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            max_connections: 8,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            load_timeout: Duration::from_mins(2),
        }
    }
}

/// What a database is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// It must be there.
    There,
    /// A file is made if it is not there; a server has its database.
    Made,
    /// It is somebody else's, and is only read.
    OnlyRead,
    /// So too, and not for long: what is written meanwhile need not be seen.
    ReadOnce,
}

impl Wanted {
    /// Whether nothing may be written there.
    pub(crate) fn is_only_to_read(self) -> bool {
        matches!(self, Self::OnlyRead | Self::ReadOnce)
    }
}

/// Connects with the driver of the URL.
pub(crate) async fn connect(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    wanted: Wanted,
) -> Result<Pool> {
    Ok(Pool::new(driver(url, options, wanted).await?, options))
}

async fn driver(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
    wanted: Wanted,
) -> Result<Box<dyn Database>> {
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    choose_cryptography();
    match &url.0 {
        Place::File(path) => sqlite::connect(path, options, wanted).await,
        // The drivers of servers stand here, each behind its feature.
        #[cfg(feature = "postgres")]
        Place::Server(Dialect::Postgres, url) => {
            crate::postgres::connect(url, options, wanted).await
        }
        #[cfg(feature = "mysql")]
        Place::Server(Dialect::MySql, url) => crate::mysql::connect(url, options, wanted).await,
        #[cfg(feature = "mssql")]
        Place::Server(Dialect::SqlServer, url) => crate::mssql::connect(url, options, wanted).await,
        Place::Server(dialect, _) => Err(not_built(*dialect)),
    }
}

/// Where a certificate is to be checked, but not the host, sqlx asks for what the whole process uses, and
/// panics if several are built in and none was chosen. What the program has chosen stays.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn choose_cryptography() {
    use rustls::crypto::{CryptoProvider, ring};
    if CryptoProvider::get_default().is_none() {
        // Another may have been faster.
        let _ = ring::default_provider().install_default();
    }
}

fn not_built(dialect: Dialect) -> StoreError {
    let (what, feature) = match dialect {
        Dialect::Sqlite => ("SQLite", "sqlite"),
        Dialect::Postgres => ("PostgreSQL", "postgres"),
        Dialect::MySql => ("MySQL", "mysql"),
        Dialect::SqlServer => ("SQL Server", "mssql"),
    };
    StoreError::NotBuilt { what, feature }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_each_kind_are_known() {
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
    fn a_password_given_apart_is_the_one_that_the_drivers_read() {
        let url: DatabaseUrl = "postgres://u@h/d".parse().unwrap();
        let given = "a%41b%ff:/@? #é";
        let Place::Server(_, url) = url.with_password(&Secret::new(given).unwrap()).0 else {
            panic!()
        };
        let read = percent_encoding::percent_decode_str(url.password().unwrap());
        assert_eq!(read.decode_utf8().unwrap(), given);
    }

    #[test]
    fn what_is_no_database_is_refused_without_its_password() {
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
        ];
        let errors = texts.map(|text| text.parse::<DatabaseUrl>().unwrap_err().to_string());
        assert!(errors.iter().all(|error| !error.contains("sec")));
        insta::assert_debug_snapshot!(errors);
    }
}
