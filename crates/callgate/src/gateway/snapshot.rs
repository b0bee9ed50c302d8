//! The data with which requests are served. It is replaced as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::access::ActiveLimits;
use crate::catalog::{Catalog, Entry};
use crate::gateway::settings::Settings;
use crate::gateway::visibility::Visibility;
use crate::upstream::Upstream;

pub(super) type UpstreamMap = BTreeMap<Arc<str>, Arc<dyn Upstream>>;

/// Catalog, settings and upstreams at one point in time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    pub(super) catalog: Arc<Catalog>,
    pub(super) settings: Arc<Settings>,
    /// Rate limits that apply, from the settings and the configuration.
    pub(super) limits: ActiveLimits,
    pub(super) upstreams: Arc<UpstreamMap>,
    /// Upstreams that restrict which methods callers see.
    pub(crate) visibility: Arc<Visibility>,
    /// Whether an upstream needs the tokens of callers.
    pub(super) wants_tokens: bool,
}

/// A tool that a caller may use, with the snapshot in which it was found.
#[derive(Debug)]
pub(crate) struct FoundTool {
    pub(super) snapshot: Arc<Snapshot>,
    pub(crate) entry: Arc<Entry>,
    /// The upstream of the tool, or `None` if it is not configured.
    pub(super) upstream: Option<Arc<dyn Upstream>>,
}

impl FoundTool {
    pub(super) fn new(snapshot: Arc<Snapshot>, entry: Arc<Entry>) -> Self {
        let upstream = snapshot.upstreams.get(entry.upstream()).cloned();
        Self { snapshot, entry, upstream }
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.snapshot.catalog
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.snapshot.settings
    }

    /// Returns `true` if the method may send notifications or questions to its client.
    pub(crate) fn uses_client(&self) -> bool {
        self.upstream.as_ref().is_some_and(|upstream| upstream.uses_client())
    }

    /// Returns `true` if the method neither waits nor uses its client.
    pub(crate) fn is_immediate(&self) -> bool {
        let method = self.entry.id().as_str();
        self.upstream.as_ref().is_some_and(|upstream| upstream.is_immediate(method))
    }

    /// Returns `true` if the method's results are not checked against its output schema.
    pub(crate) fn trusts_results(&self) -> bool {
        self.upstream.as_ref().is_some_and(|upstream| upstream.trusts_results())
    }
}
