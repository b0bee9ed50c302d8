//! `[registry_upstreams]`: the targets, environment variables and files that upstreams in the registry may use.
//!
//! People who may write to the registry need not be trusted with the files, the variables and the network of the
//! server. Upstreams in the configuration file are not limited.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Component, Path, PathBuf};

use callgate::forward::Target;
use callgate::http::IpNet;
use callgate::internal::matches_pattern;
use serde_json::json;

use crate::config::sources::Values;
use crate::error_hints::hinted;

const TARGETS: &str = "registry_upstreams.targets";
const VARIABLES: &str = "registry_upstreams.variables";
const DIRECTORY: &str = "registry_upstreams.directory";

#[derive(Debug, Default)]
pub(crate) struct RowLimits {
    /// Allowed targets. If empty, upstreams in the registry are refused.
    targets: Vec<TargetPattern>,
    /// Allowed environment variables: names, or prefixes such as `SHOP_*`.
    variables: Vec<String>,
    /// Directory of the files that upstreams may use; `None` if they may use no files.
    directory: Option<PathBuf>,
}

/// A resource outside of the registry to which a row refers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    Target(Target),
    Variable(&'a str),
    File(&'a Path),
}

impl RowLimits {
    pub(in crate::config) fn resolve(values: &Values) -> anyhow::Result<Self> {
        let directory = values.get(DIRECTORY).text;
        Ok(Self {
            targets: values.get(TARGETS).parse_items(
                "targets such as `localhost`, `10.0.0.0/8`, `*.example.com:443` or `unix:/run/app.sock`",
                TargetPattern::parse,
            )?,
            variables: values
                .get(VARIABLES)
                .parse_items("names of variables such as `SHOP_TOKEN` or `SHOP_*`", |text| {
                    is_variable_pattern(text).then(|| text.to_owned())
                })?,
            directory: (!directory.is_empty()).then(|| directory.into()),
        })
    }

    pub(super) fn allows_target(&self, target: &Target) -> bool {
        self.targets.iter().any(|pattern| pattern.matches(target))
    }

    /// Checks the resources to which a row refers. The hint contains the lines that are missing in the configuration.
    pub(super) fn check<'a>(
        &self,
        references: impl IntoIterator<Item = Reference<'a>>,
    ) -> anyhow::Result<()> {
        let mut refused = Vec::new();
        for reference in references {
            let is_allowed = match &reference {
                Reference::Target(target) => self.allows_target(target),
                Reference::Variable(name) => {
                    self.variables.iter().any(|pattern| matches_pattern(pattern, name))
                }
                Reference::File(file) => {
                    self.directory.as_deref().is_some_and(|directory| is_below(file, directory))
                }
            };
            if !is_allowed && !refused.contains(&reference) {
                refused.push(reference);
            }
        }
        if refused.is_empty() {
            return Ok(());
        }
        let descriptions: Vec<String> = refused.iter().map(ToString::to_string).collect();
        let problem = format!(
            "`registry_upstreams` in the configuration does not allow {}",
            descriptions.join(", ")
        );
        Err(hinted(problem, self.hint(&refused)))
    }

    /// Checks the target of a URL in a variable or file. The error does not show the target, which may be a secret.
    pub(super) fn check_external_target(
        &self,
        source: &Reference<'_>,
        target: &Target,
    ) -> anyhow::Result<()> {
        if self.allows_target(target) {
            return Ok(());
        }
        Err(hinted(
            format!(
                "`registry_upstreams` in the configuration does not allow the target in {source}"
            ),
            "add the target to `targets` of `[registry_upstreams]` in the callgate.toml of every server that \
             uses this registry",
        ))
    }

    fn hint(&self, refused: &[Reference<'_>]) -> String {
        let lines = self.required_table(refused);
        match (&self.directory, lines.is_empty()) {
            (Some(directory), true) => {
                format!("move the file into the directory `{}`", directory.display())
            }
            _ => format!(
                "set in the callgate.toml of every server that uses this registry:\n{lines}"
            ),
        }
    }

    /// Returns the table `[registry_upstreams]` that also allows the refused resources.
    pub(super) fn required_table(&self, refused: &[Reference<'_>]) -> String {
        let extended = |current: Vec<String>, add: &dyn Fn(&Reference<'_>) -> Option<String>| {
            let added: Vec<String> = refused.iter().filter_map(add).collect();
            (!added.is_empty()).then(|| json!([current, added].concat().join(", ")))
        };
        let current = self.targets.iter().map(|pattern| pattern.text.clone());
        let targets = extended(current.collect(), &|it| match it {
            Reference::Target(target) => Some(exact_pattern(target)),
            _ => None,
        });
        let variables = extended(self.variables.clone(), &|it| match it {
            Reference::Variable(name) => Some((*name).to_owned()),
            _ => None,
        });
        let file = refused.iter().find_map(|it| match it {
            Reference::File(file) => Some(*file),
            _ => None,
        });
        let parent = file.filter(|_| self.directory.is_none()).map(|file| {
            let parent = file.parent().filter(|parent| *parent != Path::new(""));
            json!(parent.unwrap_or(Path::new(".")))
        });
        let lines = [("targets", targets), ("variables", variables), ("directory", parent)];
        let lines =
            lines.into_iter().filter_map(|(key, value)| Some(format!("\n{key} = {}", value?)));
        let lines: String = lines.collect();
        if lines.is_empty() { lines } else { format!("[registry_upstreams]{lines}") }
    }
}

impl fmt::Display for Reference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(target) => write!(f, "the target `{}`", exact_pattern(target)),
            Self::Variable(name) => write!(f, "the variable `{name}`"),
            Self::File(file) => write!(f, "the file `{}`", file.display()),
        }
    }
}

/// Returns a pattern that matches only this target.
fn exact_pattern(target: &Target) -> String {
    match target.socket() {
        Some(socket) => format!("unix:{}", socket.display()),
        None => format!("{}:{}", target.host(), target.port()),
    }
}

/// Returns `true` if a file is in a directory or below it. Links are followed. If the file does not exist, its path is
/// compared, so that a row can also be checked on another machine.
fn is_below(file: &Path, directory: &Path) -> bool {
    if file.components().any(|component| component == Component::ParentDir) {
        return false;
    }
    let resolve = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    match (resolve(file), resolve(directory)) {
        (Ok(file), Ok(directory)) => file != directory && file.starts_with(directory),
        _ => false,
    }
}

/// Targets to which an upstream in the registry may connect.
#[derive(Debug)]
struct TargetPattern {
    host: HostPattern,
    /// Allowed port; `None` allows every port.
    port: Option<u16>,
    text: String,
}

#[derive(Debug)]
enum HostPattern {
    Name(String),
    /// The part after the `*` in `*.example.com`.
    Subdomains(String),
    Network(IpNet),
    Socket(PathBuf),
}

impl TargetPattern {
    fn matches(&self, target: &Target) -> bool {
        if let Some(socket) = target.socket() {
            return matches!(&self.host, HostPattern::Socket(path) if path == socket);
        }
        let host = target.host().trim_matches(['[', ']']);
        let is_host = match (&self.host, host.parse()) {
            (HostPattern::Network(network), Ok(address)) => {
                network.contains(&IpAddr::to_canonical(&address))
            }
            (HostPattern::Name(name), Err(_)) => name.eq_ignore_ascii_case(host),
            (HostPattern::Subdomains(suffix), Err(_)) => {
                let host = host.to_ascii_lowercase();
                host.strip_suffix(suffix).is_some_and(|name| !name.is_empty())
            }
            _ => false,
        };
        is_host && self.port.is_none_or(|port| port == target.port())
    }

    /// Parses a host, an address, a network or a socket.
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = if let Some(path) = text.strip_prefix("unix:") {
            let path = Some(path).filter(|path| path.starts_with('/'))?;
            (HostPattern::Socket(path.into()), None)
        } else if let Ok(network) = text.parse() {
            (HostPattern::Network(network), None)
        } else if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
            (HostPattern::Network(address.to_canonical().into()), None)
        } else if let Ok(address) = text.parse::<SocketAddr>() {
            (HostPattern::Network(address.ip().to_canonical().into()), Some(address.port()))
        } else {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port.parse().ok()?)),
                None => (text, None),
            };
            (HostPattern::from_name(&host.to_ascii_lowercase())?, port)
        };
        Some(Self { host, port, text: text.to_owned() })
    }
}

impl HostPattern {
    fn from_name(name: &str) -> Option<Self> {
        let plain = name.strip_prefix("*.").unwrap_or(name);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if plain.is_empty() || !plain.chars().all(is_plain) {
            return None;
        }
        Some(match name.strip_prefix('*') {
            Some(suffix) => Self::Subdomains(suffix.to_owned()),
            None => Self::Name(name.to_owned()),
        })
    }
}

/// Returns `true` for the name of a variable, and for a prefix with `*` at its end.
fn is_variable_pattern(text: &str) -> bool {
    let name = text.strip_suffix('*').unwrap_or(text);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(pattern: &str, url: &str) -> bool {
        let pattern = TargetPattern::parse(pattern).unwrap();
        pattern.matches(&url.parse().unwrap())
    }

    #[test]
    fn a_target_is_matched_by_host_port_network_and_socket() {
        for (pattern, allowed, refused) in [
            ("localhost", "http://LOCALHOST:1/a?b", "http://localhost.example.com/"),
            ("LocalHost", "ws://localhost/", "http://127.0.0.1/"),
            ("a.example.com:443", "https://a.example.com/", "http://a.example.com/"),
            ("a.example.com:80", "http://a.example.com/", "http://a.example.com:443/"),
            ("*.example.com", "https://a.b.example.com:1/", "https://example.com/"),
            ("*.example.com:443", "wss://A.EXAMPLE.COM/", "https://a.example.com:444/"),
            ("*.example.com", "https://a.example.com/", "https://badexample.com/"),
            ("127.0.0.1", "http://127.0.0.1:9/", "http://127.0.0.2/"),
            ("127.0.0.1", "http://[::ffff:127.0.0.1]:9/", "http://2130706433/"),
            ("127.0.0.1:9", "http://127.0.0.1:9/", "http://127.0.0.1:8/"),
            ("10.0.0.0/8", "http://10.1.2.3/", "http://11.1.2.3/"),
            ("::1", "http://[::1]:7/", "http://[::2]:7/"),
            ("[::1]:7", "http://[::1]:7/", "http://[::1]:8/"),
            ("[::1]", "http://[::1]:7/", "http://127.0.0.1/"),
            ("*.0.0.1", "http://a.0.0.1/", "http://127.0.0.1/"),
            ("unix:/run/a.sock", "unix:/run/a.sock:/rpc", "unix:/run/b.sock"),
            ("unix:/run/a.sock", "unix:/run/a.sock", "unix:/run/../run/a.sock"),
            ("localhost", "http://localhost/", "unix:/run/a.sock"),
        ] {
            assert!(allows(pattern, allowed), "{pattern} {allowed}");
            assert!(!allows(pattern, refused), "{pattern} {refused}");
        }
        for invalid in ["*", "*.", "http://localhost", "a:b", "a*b", "unix:a.sock", "a/24", ":80"] {
            assert!(TargetPattern::parse(invalid).is_none(), "{invalid}");
        }
    }

    #[test]
    fn a_variable_is_matched_by_name_or_prefix() {
        for (pattern, name, is_allowed) in [
            ("SHOP_TOKEN", "SHOP_TOKEN", true),
            ("SHOP_TOKEN", "SHOP_TOKEN_2", false),
            ("SHOP_*", "SHOP_TOKEN", true),
            ("SHOP_*", "shop_token", false),
            ("SHOP_*", "MY_SHOP_TOKEN", false),
        ] {
            assert!(is_variable_pattern(pattern), "{pattern}");
            assert_eq!(matches_pattern(pattern, name), is_allowed, "{pattern} {name}");
        }
        for invalid in ["*", "*_TOKEN", "A*B*"] {
            assert!(!is_variable_pattern(invalid), "{invalid}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_allowed_only_below_the_directory_after_links_are_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let (secrets, outside) = (dir.path().join("secrets"), dir.path().join("outside"));
        std::fs::create_dir_all(secrets.join("shop")).unwrap();
        for file in [secrets.join("shop/key"), outside.clone()] {
            std::fs::write(file, "s3cret").unwrap();
        }
        std::os::unix::fs::symlink(&outside, secrets.join("link")).unwrap();
        std::os::unix::fs::symlink(secrets.join("shop/key"), secrets.join("inner")).unwrap();
        std::os::unix::fs::symlink(dir.path(), secrets.join("up")).unwrap();
        std::os::unix::fs::symlink(&secrets, dir.path().join("alias")).unwrap();
        for (file, is_allowed) in [
            ("secrets/shop/key", true),
            ("secrets/inner", true),
            ("alias/shop/key", true),
            ("secrets/not-there", true),
            ("secrets/link", false),
            ("secrets/up/outside", false),
            ("secrets/../outside", false),
            ("secrets/shop/../../outside", false),
            ("secrets", false),
            ("secrets-2/key", false),
            ("outside", false),
        ] {
            assert_eq!(is_below(&dir.path().join(file), &secrets), is_allowed, "{file}");
        }
    }
}
