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
use std::time::Duration;

use anyhow::Context as _;
use callgate::forward::{Forward, ForwardOptions, Target};
use callgate::upstream::DEFAULT_CALL_TIMEOUT;
use callgate_registry::{UpstreamRow, UserCredentials};

use described::Described;
use secrets::Reading;

pub(crate) use row::{check as check_row, has_secret, keys as keys_of_row, shown as row_shown};
pub(crate) use secrets::{secret_in_file, secret_in_variable};

/// The tables as they were written, by name.
#[derive(Default)]
pub(crate) struct Upstreams {
    tables: BTreeMap<String, Described>,
    /// The file that has them.
    source: String,
}

impl Upstreams {
    /// Reads `[upstreams]`.
    pub(super) fn read(value: &toml::Value, source: &str) -> anyhow::Result<Self> {
        let expected = || format!("`upstreams` in {source} must have a table for each upstream");
        let mut all = Self { tables: BTreeMap::new(), source: source.to_owned() };
        for (name, value) in value.as_table().with_context(expected)? {
            let table = value.as_table().with_context(expected)?;
            let keys = table.clone().try_into().with_context(expected)?;
            Described::check_keys(name, &keys, source)?;
            let described = Described::of(keys).with_context(|| all.place(name))?;
            all.tables.insert(name.clone(), described);
        }
        Ok(all)
    }

    /// Where the file says something of one of them.
    fn place(&self, name: &str) -> String {
        format!("`upstreams.{name}` in {}", self.source)
    }

    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// All that there are, with those that are rows, by name.
    pub(crate) fn listed(&self, rows: &[UpstreamRow]) -> Vec<Listed> {
        let of_file = self
            .tables
            .iter()
            .map(|(name, described)| Listed::new(name, &self.source, Ok(described)));
        let of_rows = rows.iter().map(|row| {
            let described = row::described(row);
            let mut listed = Listed::new(&row.name, row::SOURCE, described.as_ref());
            if self.tables.contains_key(&row.name) {
                let problem = "the file has one of this name, which counts";
                listed.problem = Some(problem.to_owned());
            }
            listed
        });
        let mut all: Vec<Listed> = of_file.chain(of_rows).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// The variables that have secrets of theirs.
    pub(super) fn has_variable(&self, name: &str) -> bool {
        self.tables
            .values()
            .flat_map(Described::elsewhere)
            .any(|secret| secret.variable() == Some(name))
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
        if let Some(described) = self.tables.get(name) {
            return read(described).map(Some).with_context(|| self.place(name));
        }
        let Some(row) = rows.iter().find(|row| row.name == name) else { return Ok(None) };
        let read = row::described(row).and_then(|described| read(&described));
        read.map(Some).with_context(|| format!("upstream `{name}` in {}", row::SOURCE))
    }

    /// Makes them, with their secrets.
    pub(crate) fn build(&self, maker: &Maker) -> anyhow::Result<Vec<(String, Forward)>> {
        let built = self.names().filter_map(|name| {
            let forward = self.forward(name, &[], maker).transpose()?;
            Some(forward.map(|forward| (name.to_owned(), forward)))
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
    fn new(name: &str, source: &str, described: Result<&Described, &anyhow::Error>) -> Self {
        let problem = match described {
            Ok(described) => {
                let made = Maker::default().forward(name, described, Reading::Assumed);
                made.err().map(|problem| format!("{problem:#}"))
            }
            Err(problem) => Some(format!("{problem:#}")),
        };
        Self {
            name: name.to_owned(),
            source: source.to_owned(),
            place: described.map_or_else(|_| "…".to_owned(), Described::place),
            sends_credentials: described.is_ok_and(Described::sends_credentials),
            problem,
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
