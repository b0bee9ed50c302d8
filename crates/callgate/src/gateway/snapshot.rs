//! What the gateway serves from: the catalog, the upstreams and the settings, changed together.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::{Catalog, Entry};
use crate::gateway::settings::Settings;
use crate::gateway::visibility::Visibility;
use crate::upstream::Upstream;

/// What runs methods, by name.
pub(super) type UpstreamMap = BTreeMap<Arc<str>, Arc<dyn Upstream>>;

/// Everything that a request is served from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    pub(super) catalog: Arc<Catalog>,
    pub(super) settings: Arc<Settings>,
    pub(super) upstreams: Arc<UpstreamMap>,
    /// The upstreams that have a say in what callers see.
    pub(crate) visibility: Arc<Visibility>,
    /// Whether an upstream is to be told the tokens of callers.
    pub(super) wants_tokens: bool,
}

/// A tool that a caller may use, in the snapshot that it was found in.
#[derive(Debug, Clone)]
pub(crate) struct FoundTool {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) ordinal: u32,
}

impl FoundTool {
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.snapshot.catalog
    }

    /// There, since it was found.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        self.catalog().entries().get(self.ordinal as usize)
    }

    pub(super) fn upstream(&self, entry: &Entry) -> Option<&dyn Upstream> {
        self.snapshot.upstreams.get(entry.upstream()).map(AsRef::as_ref)
    }

    /// Returns `true` if the method may notify or ask its client.
    pub(crate) fn uses_client(&self) -> bool {
        let upstream = self.entry().and_then(|entry| self.upstream(entry));
        upstream.is_some_and(Upstream::uses_client)
    }

    /// Returns `true` if results of the method are not checked against its output schema.
    pub(crate) fn trusts_results(&self) -> bool {
        let upstream = self.entry().and_then(|entry| self.upstream(entry));
        upstream.is_some_and(Upstream::trusts_results)
    }
}
