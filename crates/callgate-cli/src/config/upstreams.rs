//! `[upstreams.NAME]`: the services that run methods.
//!
//! Tables are parsed together with the rest of the configuration. Their secrets are read only when an upstream is
//! created, so that commands that use no upstream do not need the secrets.

mod secrets;
mod limits;
mod oauth;
mod login;
mod table;
mod row;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use callgate::forward::{Forward, ForwardOptions, Target};
use callgate::model::ParamStyle;
use callgate::upstream::DEFAULT_CALL_TIMEOUT;
use callgate_registry::{UpstreamRow, UserCredentials};
use serde_json::{Map, Value};

use secrets::Secrets;
use table::UpstreamTable;

pub(crate) use limits::RowLimits;
pub(crate) use row::{has_secret, keys as keys_of_row, redacted as redacted_row};
pub(crate) use secrets::{secret_in_file, secret_in_variable};

#[derive(Default)]
pub(crate) struct Upstreams {
    tables: BTreeMap<String, UpstreamTable>,
    source: String,
    row_limits: Arc<RowLimits>,
}

impl Upstreams {
    pub(super) fn read(value: &toml::Value, source: &str) -> anyhow::Result<Self> {
        let expected = || format!("`upstreams` in {source} must have a table for each upstream");
        let mut upstreams = Self { source: source.to_owned(), ..Self::default() };
        for (name, value) in value.as_table().with_context(expected)? {
            let table = value.as_table().with_context(expected)?;
            let keys = table.clone().try_into().with_context(expected)?;
            UpstreamTable::check_keys(name, &keys, source)?;
            let table = UpstreamTable::parse(keys).with_context(|| upstreams.place(name))?;
            upstreams.tables.insert(name.clone(), table);
        }
        Ok(upstreams)
    }

    pub(super) fn with_row_limits(self, limits: RowLimits) -> Self {
        Self { row_limits: Arc::new(limits), ..self }
    }

    /// Returns `true` if upstreams in the registry may have this target.
    pub(crate) fn allows_row_target(&self, target: &Target) -> bool {
        self.row_limits.allows_target(target)
    }

    pub(crate) fn factory(
        &self,
        call_timeout: Duration,
        credentials: UserCredentials,
    ) -> ForwardFactory {
        ForwardFactory { call_timeout, credentials, row_limits: Arc::clone(&self.row_limits) }
    }

    /// Checks a row without reading its secrets.
    pub(crate) fn check_row(&self, row: &UpstreamRow) -> anyhow::Result<()> {
        let table = row::table(row, &self.row_limits)?;
        ForwardFactory::default().forward(&row.name, &table, Secrets::Placeholder).map(drop)
    }

    /// Returns the table `[registry_upstreams]` that allows a row with these keys.
    pub(crate) fn limits_for(keys: Map<String, Value>) -> anyhow::Result<String> {
        let table = UpstreamTable::parse(keys)?;
        Ok(RowLimits::default().required_table(&table.references().collect::<Vec<_>>()))
    }

    fn place(&self, name: &str) -> String {
        format!("`upstreams.{name}` in {}", self.source)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// Returns `true` if the file has an upstream with this name.
    pub(crate) fn is_in_file(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }

    /// Returns the upstreams of the file and of the registry, sorted by name.
    pub(crate) fn summaries(&self, rows: &[UpstreamRow]) -> Vec<UpstreamSummary> {
        let from_file = self
            .tables
            .iter()
            .map(|(name, table)| UpstreamSummary::new(name, &self.source, Ok(table)));
        let from_rows = rows.iter().map(|row| {
            let table = row::table(row, &self.row_limits);
            let mut summary = UpstreamSummary::new(&row.name, row::SOURCE, table.as_ref());
            if self.is_in_file(&row.name) {
                let problem = "overridden by the upstream of the configuration file";
                summary.problem = Some(problem.to_owned());
            }
            summary
        });
        let mut summaries: Vec<UpstreamSummary> = from_file.chain(from_rows).collect();
        summaries.sort_by(|a, b| a.name.cmp(&b.name));
        summaries
    }

    /// Returns `true` if a secret is read from this variable.
    pub(super) fn has_variable(&self, name: &str) -> bool {
        self.tables
            .values()
            .flat_map(UpstreamTable::external)
            .any(|secret| secret.variable() == Some(name))
    }

    pub(crate) fn target(
        &self,
        name: &str,
        rows: &[UpstreamRow],
    ) -> anyhow::Result<Option<Target>> {
        self.read_upstream(name, rows, |table| table.target(Secrets::Read))
    }

    pub(crate) fn options(
        &self,
        name: &str,
        rows: &[UpstreamRow],
        call_timeout: Duration,
    ) -> anyhow::Result<Option<ForwardOptions>> {
        self.read_upstream(name, rows, |table| table.options(call_timeout, Secrets::Read))
    }

    pub(crate) fn forward(
        &self,
        name: &str,
        rows: &[UpstreamRow],
        factory: &ForwardFactory,
    ) -> anyhow::Result<Option<Forward>> {
        self.read_upstream(name, rows, |table| factory.forward(name, table, Secrets::Read))
    }

    /// Returns `true` if callers see only the methods that the service lists for them.
    pub(crate) fn limits_callers(&self, name: &str, rows: &[UpstreamRow]) -> anyhow::Result<bool> {
        let limits = self.read_upstream(name, rows, |table| Ok(table.limits_callers()))?;
        Ok(limits.unwrap_or(false))
    }

    /// Returns the configured styles of parameters by upstream.
    pub(crate) fn param_styles(&self, rows: &[UpstreamRow]) -> HashMap<String, ParamStyle> {
        let names = self.names().chain(rows.iter().map(|row| row.name.as_str()));
        names
            .filter_map(|name| {
                let style = self.read_upstream(name, rows, |table| Ok(table.params)).ok()??;
                Some((name.to_owned(), style?))
            })
            .collect()
    }

    /// Reads the upstream from the file, or else from the rows.
    fn read_upstream<T>(
        &self,
        name: &str,
        rows: &[UpstreamRow],
        read: impl FnOnce(&UpstreamTable) -> anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        if let Some(table) = self.tables.get(name) {
            return read(table).map(Some).with_context(|| self.place(name));
        }
        let Some(row) = rows.iter().find(|row| row.name == name) else { return Ok(None) };
        let read = row::table(row, &self.row_limits).and_then(|table| read(&table));
        read.map(Some).with_context(|| format!("upstream `{name}` in {}", row::SOURCE))
    }

    pub(crate) fn build(&self, factory: &ForwardFactory) -> anyhow::Result<Vec<(String, Forward)>> {
        let build = |(name, table): (&String, &UpstreamTable)| {
            let forward = factory.forward(name, table, Secrets::Read);
            Ok((name.clone(), forward.with_context(|| self.place(name))?))
        };
        self.tables.iter().map(build).collect()
    }
}

/// Properties of an upstream that do not need its secrets.
#[derive(Debug)]
pub(crate) struct UpstreamSummary {
    pub(crate) name: String,
    /// Where the upstream is defined: the file or the registry.
    pub(crate) source: String,
    pub(crate) url: String,
    /// Whether the credential of the calling user is sent with each request.
    pub(crate) sends_credentials: bool,
    /// Reason why the upstream is not used.
    pub(crate) problem: Option<String>,
}

impl UpstreamSummary {
    fn new(name: &str, source: &str, table: Result<&UpstreamTable, &anyhow::Error>) -> Self {
        let problem = match table {
            Ok(table) => {
                let forward = ForwardFactory::default().forward(name, table, Secrets::Placeholder);
                forward.err().map(|problem| format!("{problem:#}"))
            }
            Err(problem) => Some(format!("{problem:#}")),
        };
        Self {
            name: name.to_owned(),
            source: source.to_owned(),
            url: table.map_or_else(|_| "…".to_owned(), UpstreamTable::display_url),
            sends_credentials: table.is_ok_and(|table| table.credential.is_some()),
            problem,
        }
    }
}

/// Creates upstreams from tables and rows.
#[derive(Debug, Clone)]
pub(crate) struct ForwardFactory {
    /// Timeout of upstreams without `timeout_seconds`.
    call_timeout: Duration,
    credentials: UserCredentials,
    row_limits: Arc<RowLimits>,
}

/// Creates a factory for checks, without credentials.
impl Default for ForwardFactory {
    fn default() -> Self {
        Self {
            call_timeout: DEFAULT_CALL_TIMEOUT,
            credentials: UserCredentials::default(),
            row_limits: Arc::default(),
        }
    }
}

impl ForwardFactory {
    fn forward(
        &self,
        name: &str,
        table: &UpstreamTable,
        secrets: Secrets,
    ) -> anyhow::Result<Forward> {
        let mut options = table.options(self.call_timeout, secrets)?;
        if let Some(credential) = table.credential()? {
            let credentials = self.credentials.for_upstream(name);
            options = options.credential(credential, credentials).context("`credential`")?;
        }
        Ok(Forward::new(name, options)?)
    }
}
