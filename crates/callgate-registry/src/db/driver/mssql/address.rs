//! Server address and login in a database URL.

use tiberius::{AuthMethod, Config, EncryptionLevel};
use url::{Host, Url};

use crate::db::error::UrlError;

const DEFAULT_PORT: u16 = 1433;

/// Address of a server and the login for it.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) config: Config,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Address {
    /// Parses `mssql://USER:PASSWORD@HOST:PORT/DATABASE?encrypt=…&trust_certificate=…&ca=FILE`.
    pub(super) fn of(url: &Url) -> Result<Self, UrlError> {
        let host = match url.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            _ => percent_decode(url.host_str().unwrap_or_default()),
        };
        let port = url.port().unwrap_or(DEFAULT_PORT);
        let mut config = config(url)?;
        config.host(&host);
        config.port(port);
        Ok(Self { host, port, config })
    }
}

fn config(url: &Url) -> Result<Config, UrlError> {
    let mut config = Config::new();
    config.database(percent_decode(url.path().trim_start_matches('/')));
    let password = percent_decode(url.password().unwrap_or_default());
    config.authentication(AuthMethod::sql_server(percent_decode(url.username()), password));
    config.encryption(EncryptionLevel::Required);
    let (mut trusts_any, mut ca) = (false, None);
    for (name, value) in url.query_pairs() {
        match (&*name, &*value) {
            ("encrypt", "required") => config.encryption(EncryptionLevel::Required),
            ("encrypt", "strict") => config.encryption(EncryptionLevel::Strict),
            ("encrypt", "off") => config.encryption(EncryptionLevel::NotSupported),
            ("encrypt", _) => {
                return Err(invalid_parameter(&name, "`required`, `strict` or `off`"));
            }
            ("trust_certificate", "true") => trusts_any = true,
            ("trust_certificate", "false") => trusts_any = false,
            ("trust_certificate", _) => return Err(invalid_parameter(&name, "`true` or `false`")),
            ("ca", "") => return Err(invalid_parameter(&name, "a file with certificates")),
            ("ca", file) => ca = Some(file.to_owned()),
            _ => return Err(invalid_parameter(&name, "`encrypt`, `trust_certificate` or `ca`")),
        }
    }
    if trusts_any && ca.is_some() {
        return Err(invalid_parameter(
            "trust_certificate",
            "either this parameter or `ca`, not both",
        ));
    }
    if let Some(file) = ca {
        config.trust_cert_ca(file);
    } else if trusts_any {
        config.trust_cert();
    }
    Ok(config)
}

/// Returns the error for a parameter. Does not show the value, which may be a misplaced password.
fn invalid_parameter(name: &str, expected: &str) -> UrlError {
    UrlError::Parameter { name: name.to_owned(), expected: expected.to_owned() }
}

fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, UrlError> {
        Address::of(&Url::parse(url).unwrap())
    }

    #[test]
    fn addresses_are_parsed_and_their_debug_output_has_no_password() {
        for (url, address) in [
            ("mssql://sa:s3cret@db.example/registry", "db.example:1433"),
            ("mssql://sa:s3cret%2F@[::1]:14/r?encrypt=strict", "::1:14"),
            ("sqlserver://s%40:s3cret@127.0.0.1:14/r?encrypt=off&ca=/a.pem", "127.0.0.1:14"),
        ] {
            let parsed = parse(url).unwrap();
            assert_eq!(parsed.to_string(), address);
            assert!(!format!("{parsed:?}").contains("s3cret"));
        }
    }

    #[test]
    fn errors_of_parameters_do_not_contain_their_values() {
        let errors = [
            "encrypt=s3cret",
            "trust_certificate=s3cret",
            "ca=",
            "password=s3cret",
            "trust_certificate=true&ca=s3cret",
        ]
        .map(|options| parse(&format!("mssql://u:p@h/d?{options}")).unwrap_err().to_string());
        assert!(errors.iter().all(|error| !error.contains("s3cret")));
        insta::assert_debug_snapshot!(errors);
    }
}
