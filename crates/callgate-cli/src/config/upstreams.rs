//! `[upstreams.NAME]`: the services that run methods.
//!
//! The tables are read with the rest of the configuration, and looked into for real only when they are
//! served from, or asked what they have: other commands need no secrets. `described.rs` has what a table
//! says, `oauth.rs` its part about OAuth, `secrets.rs` what it leaves elsewhere, `row.rs` the same for rows of the registry.

mod described;
mod oauth;
mod row;
mod secrets;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use callgate::DEFAULT_CALL_TIMEOUT;
use callgate::forward::{Forward, ForwardOptions, Target};
use callgate_registry::{UpstreamRow, UserCredentials};

use super::Key;
use described::Described;
use secrets::Reading;

pub(crate) use row::{check as check_row, keys as keys_of_row, shown as row_shown};
pub(crate) use secrets::{secret_in_file, secret_in_variable};

/// What a table may say.
pub(crate) const UPSTREAM_KEYS: &[Key] = &[
    Key {
        name: "url",
        default: "",
        meaning: "where the service is: `http://…`, `https://…`, `ws://…`, `wss://…`, `unix:/path` or `unix:/path:/rpc`",
    },
    Key {
        name: "params",
        default: "named",
        meaning: "how it takes parameters: `named` (an object) or `positional` (a list)",
    },
    Key {
        name: "first_params",
        default: "",
        meaning: "a list of parameters put before the caller's, with `params = \"positional\"`",
    },
    Key {
        name: "members",
        default: "",
        meaning: "a table of members of each request beside `params`",
    },
    Key { name: "headers", default: "", meaning: "a table of HTTP headers of each request" },
    Key { name: "basic_user", default: "", meaning: "the user of HTTP Basic" },
    Key { name: "basic_password", default: "", meaning: "their password" },
    Key { name: "ids", default: "text", meaning: "the ids of requests: `text` or `integer`" },
    Key {
        name: "pass_caller",
        default: "",
        meaning: "a table of what is passed on of the caller, and in which header: `user_id`, `user_name`, `role`, and `token`, which is the caller's own",
    },
    Key {
        name: "credential",
        default: "",
        meaning: "a table of how the credential of the user who asks is sent: `header`, `member` or `first_param = true`, with `prefix`; `missing` is `refuse` or `anonymous`; with `oauth` as `refresh_token` or `client_credentials`, an access token that was requested with it is sent",
    },
    Key {
        name: "oauth",
        default: "",
        meaning: "a table of the OAuth 2.0 client that requests access tokens: `token_url`, `client_id`, `client_secret`, `scope`, `refresh_token`, and `client_auth` as `basic` or `post`",
    },
    Key {
        name: "visibility",
        default: "registry",
        meaning: "what callers see: `registry` (what their grants allow) or `upstream` (of that, what the service lists for them)",
    },
    Key {
        name: "described_by",
        default: "openrpc",
        meaning: "what lists the methods, with `visibility = \"upstream\"`: `openrpc` (the method `rpc.discover`) or `jsonrpc_mcp` (Drupal's `/mcp/tools/list`)",
    },
    Key {
        name: "visibility_seconds",
        default: "60",
        meaning: "how long what the service lists for a caller counts",
    },
    Key {
        name: "timeout_seconds",
        default: "",
        meaning: "how long a call may take; by default as `call_timeout_seconds` says",
    },
    Key {
        name: "connect_timeout_seconds",
        default: "5",
        meaning: "how long a new connection may take, at most half of the whole time",
    },
    Key { name: "max_result_bytes", default: "4194304", meaning: "how large an answer may be" },
    Key {
        name: "max_concurrent",
        default: "100",
        meaning: "how many calls may be under way; more wait",
    },
    Key {
        name: "http2",
        default: "false",
        meaning: "speak HTTP/2 without TLS too; with TLS the two sides agree on it by themselves",
    },
    Key {
        name: "batch",
        default: "false",
        meaning: "send calls that arrive together as one JSON-RPC batch; not over WebSocket",
    },
    Key {
        name: "trust_results",
        default: "false",
        meaning: "do not check results against the output schemas of their methods",
    },
    Key {
        name: "calls",
        default: "single",
        meaning: "where calls go: `single` (all to `url`) or `per_tool` (each to the URL of its tool, as Drupal's `jsonrpc_mcp` has them); not over WebSocket, and not with `batch`",
    },
    Key {
        name: "tool_path",
        default: "",
        meaning: "with `calls = \"per_tool\"`, the path of a tool; by default that of `url` without `/jsonrpc` at its end, plus `/mcp/tools/{id}`",
    },
    Key {
        name: "null_is_absent",
        default: "false",
        meaning: "take null for an optional parameter that does not allow null as absent, and do not send it; it is refused otherwise",
    },
    Key {
        name: "trust_errors",
        default: "false",
        meaning: "tell callers the text of errors with the code -32603, which is only in the log otherwise",
    },
    Key {
        name: "ca_file",
        default: "",
        meaning: "a file of certificates, in PEM, of authorities to trust beside those of the system",
    },
];

/// The tables as they were written.
#[derive(Debug, Default)]
pub(crate) struct Upstreams(BTreeMap<String, Table>);

/// One of them, and where it was said.
struct Table {
    described: Described,
    source: String,
}

/// It may hold secrets.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Upstreams {
    /// Reads `[upstreams]`.
    pub(super) fn read(value: &toml::Value, source: &str) -> anyhow::Result<Self> {
        let expected = || format!("`upstreams` in {source} must have a table for each upstream");
        let tables = value.as_table().with_context(expected)?;
        let mut all = BTreeMap::new();
        for (name, value) in tables {
            let table = value.as_table().with_context(expected)?;
            let keys = table.clone().try_into().with_context(expected)?;
            Described::check_keys(name, &keys, source)?;
            let described = Described::of(keys);
            let described = described.with_context(|| format!("`upstreams.{name}` in {source}"))?;
            all.insert(name.clone(), Table { described, source: source.to_owned() });
        }
        Ok(Self(all))
    }

    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// All that there are, with those that are rows, by name.
    pub(crate) fn listed(&self, rows: &[UpstreamRow]) -> Vec<Listed> {
        let maker = Maker::default();
        let of_file = self.0.iter().map(|(name, table)| {
            let problem = maker.forward(name, &table.described, Reading::Assumed).err();
            Listed::new(name, &table.source, Ok(&table.described), problem.as_ref())
        });
        let of_rows = rows.iter().map(|row| {
            let described = row::described(row);
            let problem = match &described {
                _ if self.0.contains_key(&row.name) => {
                    Some(anyhow::anyhow!("the file has one of this name, which counts"))
                }
                Ok(described) => maker.forward(&row.name, described, Reading::Assumed).err(),
                Err(_) => None,
            };
            Listed::new(&row.name, "the registry", described.as_ref(), problem.as_ref())
        });
        let mut all: Vec<Listed> = of_file.chain(of_rows).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// The variables that have secrets of theirs.
    pub(super) fn has_variable(&self, name: &str) -> bool {
        let mut all = self.0.values().flat_map(|table| table.described.elsewhere());
        all.any(|secret| secret.variable() == Some(name))
    }

    /// Where one of them is; one of the file, or else one of the rows.
    pub(crate) fn target(
        &self,
        name: &str,
        rows: &[UpstreamRow],
    ) -> anyhow::Result<Option<Target>> {
        self.read_one(name, rows, |described| described.target(Reading::Real))
    }

    /// How one of them wants to be called, with its secrets.
    pub(crate) fn options(
        &self,
        name: &str,
        rows: &[UpstreamRow],
        call_timeout: Duration,
    ) -> anyhow::Result<Option<ForwardOptions>> {
        self.read_one(name, rows, |described| described.options(call_timeout, Reading::Real))
    }

    /// One of them as it is called, with its secrets and those of users; one of the file, or else one
    /// of the rows.
    pub(crate) fn forward(
        &self,
        name: &str,
        rows: &[UpstreamRow],
        maker: &Maker,
    ) -> anyhow::Result<Option<Forward>> {
        self.read_one(name, rows, |described| maker.forward(name, described, Reading::Real))
    }

    /// Whether callers of one of them see only what the service lists for them.
    pub(crate) fn limits_callers(&self, name: &str, rows: &[UpstreamRow]) -> anyhow::Result<bool> {
        let limits = self.read_one(name, rows, |described| Ok(described.limits_callers()))?;
        Ok(limits.unwrap_or(false))
    }

    fn read_one<T>(
        &self,
        name: &str,
        rows: &[UpstreamRow],
        read: impl FnOnce(&Described) -> anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        if let Some(Table { described, source }) = self.0.get(name) {
            return read(described)
                .map(Some)
                .with_context(|| format!("`upstreams.{name}` in {source}"));
        }
        let Some(row) = rows.iter().find(|row| row.name == name) else { return Ok(None) };
        let read = row::described(row).and_then(|described| read(&described));
        read.map(Some).with_context(|| format!("upstream `{name}` in the registry"))
    }

    /// Makes them, with their secrets.
    pub(crate) fn build(&self, maker: &Maker) -> anyhow::Result<Vec<(String, Forward)>> {
        let built = self.0.iter().map(|(name, Table { described, source })| {
            let forward = maker.forward(name, described, Reading::Real);
            let forward = forward.with_context(|| format!("`upstreams.{name}` in {source}"))?;
            Ok((name.clone(), forward))
        });
        built.collect()
    }
}

/// An upstream that there is, as far as can be told without its secrets.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    /// Where it is said.
    pub(crate) source: String,
    /// Where the service is.
    pub(crate) place: String,
    /// Whether the credential of who asks goes with each request.
    pub(crate) sends_credentials: bool,
    /// Why it does not count.
    pub(crate) problem: Option<String>,
}

impl Listed {
    fn new(
        name: &str,
        source: &str,
        described: Result<&Described, &anyhow::Error>,
        problem: Option<&anyhow::Error>,
    ) -> Self {
        let problem = problem.or(described.err());
        Self {
            name: name.to_owned(),
            source: source.to_owned(),
            place: described.map_or_else(|_| "…".to_owned(), Described::place),
            sends_credentials: described.is_ok_and(Described::sends_credentials),
            problem: problem.map(|problem| format!("{problem:#}")),
        }
    }
}

/// Makes upstreams of what describes them.
#[derive(Debug, Clone)]
pub(crate) struct Maker {
    /// For those that do not say how long a call may take.
    pub(crate) call_timeout: Duration,
    /// What users are known by at each of them.
    pub(crate) credentials: UserCredentials,
}

/// For those who only look at what is described.
impl Default for Maker {
    fn default() -> Self {
        Self { call_timeout: DEFAULT_CALL_TIMEOUT, credentials: UserCredentials::default() }
    }
}

impl Maker {
    fn forward(
        &self,
        name: &str,
        described: &Described,
        reading: Reading,
    ) -> anyhow::Result<Forward> {
        let mut options = described.options(self.call_timeout, reading)?;
        if let Some(how) = described.credential()? {
            let known = self.credentials.for_upstream(name);
            options = options.credential(how, known).context("`credential`")?;
        }
        Ok(Forward::new(name, options)?)
    }
}
