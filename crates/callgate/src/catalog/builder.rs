//! Building of a [`Catalog`].

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::arena::ArenaBuilder;
use super::{Arena, Catalog, Entry};
use crate::access::Requirement;
use crate::catalog::listing::{listings, visible_listings};
use crate::model::finding::Finding;
use crate::model::method::{DefinitionError, InvalidMethod, Method};
use crate::model::schema::cache::CachedSchema;
use crate::model::tool;
use crate::model::tool::ToolFormat;
use crate::model::tool_name::{NameRequest, Prefix, ToolName, is_disambiguated, tool_names};
use crate::model::types::Types;

/// Number of the next catalog.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Length of a tool name above which a warning is reported. Some clients drop a tool if the server name and the tool
/// name together have more than about 60 characters.
const LONG_NAME: usize = 60;

/// Builds a catalog from methods.
///
/// ```
/// use std::sync::Arc;
/// use callgate::catalog::CatalogBuilder;
/// use callgate::model::{DefinitionError, Method, Prefix, Types};
///
/// let mut builder = CatalogBuilder::new(Prefix::default(), None);
/// builder.add(Method::new("user.get".parse()?), 17, &Types::default(), []);
/// let previous = Arc::new(builder.finish());
///
/// // Later, the definition of `user.get` has the same fingerprint. A second definition is invalid.
/// let mut builder = CatalogBuilder::new(previous.prefix().clone(), Some(previous));
/// assert!(builder.reuse("user.get", 17, None));
/// builder.quarantine("user.find", DefinitionError::value("`params`", "not JSON"));
/// let catalog = builder.finish();
/// assert!(catalog.by_id("user.get").is_some());
/// assert_eq!(catalog.quarantined()[0].to_string(), "method `user.find`: `params`: not JSON");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CatalogBuilder {
    prefix: Prefix,
    previous: Option<Arc<Catalog>>,
    /// Each entry with its tool in the REST format.
    entries: Vec<(Entry, Bytes)>,
    requirements: HashSet<Arc<Requirement>>,
    reserved: Vec<String>,
    quarantined: Vec<InvalidMethod>,
}

impl CatalogBuilder {
    /// Creates an empty builder. Unchanged methods can be reused from `previous`.
    pub fn new(prefix: Prefix, previous: Option<Arc<Catalog>>) -> Self {
        Self {
            prefix,
            previous,
            entries: Vec::new(),
            requirements: HashSet::new(),
            reserved: Vec::new(),
            quarantined: Vec::new(),
        }
    }

    /// Reserves a tool name, without the prefix, for a method that is not served at the moment.
    pub fn reserve_name(&mut self, name: &str) {
        self.reserved.push(name.to_owned());
    }

    /// Copies the method `id` from the previous catalog if it has the same fingerprint there. Returns `true` if the
    /// method was copied. `tool_name` may differ from the name in the previous catalog.
    pub fn reuse(&mut self, id: &str, fingerprint: u64, tool_name: Option<&str>) -> bool {
        let Some(previous) = &self.previous else { return false };
        let Some(entry) = previous.by_id(id).filter(|entry| entry.fingerprint == fingerprint)
        else {
            return false;
        };
        let (entry, tool) = (Entry::clone(entry), previous.tool(entry));
        let requirement = self.interned_requirement(Arc::clone(&entry.requirement));
        let preferred_name = tool_name.map(Into::into);
        self.entries.push((Entry { preferred_name, requirement, ..entry }, tool));
        true
    }

    /// Adds a method. `fingerprint` identifies the definition of the method. `findings` are reported together with the
    /// findings of the catalog itself.
    pub fn add(
        &mut self,
        method: Method,
        fingerprint: u64,
        types: &Types,
        findings: impl IntoIterator<Item = Finding>,
    ) {
        let written = match tool::write(&method, types) {
            Ok(written) => written,
            Err(reason) => return self.quarantine(method.id.to_string(), reason),
        };
        let requirement = self.interned_requirement(Arc::new(method.requirement));
        let entry = Entry {
            // The name is assigned in `finish`, because names depend on each other.
            name: ToolName::unassigned(),
            id: method.id,
            preferred_name: method.tool_name.map(Into::into),
            ordinal: 0,
            parts: written.parts,
            check_schema: written.check.map(Bytes::from),
            input: CachedSchema::default(),
            output_check: CachedSchema::default(),
            headers: written.headers,
            safety: written.safety,
            call_safety: written.call_safety,
            requirement,
            upstream: method.upstream,
            remote_name: method.remote_name,
            param_style: method.param_style,
            findings: findings.into_iter().chain(written.findings).collect(),
            fingerprint,
        };
        self.entries.push((entry, written.bytes));
    }

    /// Records a definition as invalid.
    pub fn quarantine(&mut self, id: impl Into<String>, reason: DefinitionError) {
        self.quarantined.push(InvalidMethod { id: id.into(), reason });
    }

    /// Returns the equal requirement of an earlier tool, if there is one, so that both tools share it. Otherwise
    /// returns `requirement`.
    fn interned_requirement(&mut self, requirement: Arc<Requirement>) -> Arc<Requirement> {
        if let Some(existing) = self.requirements.get(&requirement) {
            return Arc::clone(existing);
        }
        self.requirements.insert(Arc::clone(&requirement));
        requirement
    }

    /// Sorts the tools, assigns names and returns the catalog.
    pub fn finish(mut self) -> Catalog {
        // The sort is stable: if two methods have the same id, the first one added is kept.
        self.entries.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
        self.quarantine_duplicates();
        self.assign_names();
        let arenas = self.build_arenas();
        let needs = self.requirements.iter().flat_map(|requirement| requirement.sections());
        let sections: BTreeSet<_> = needs.map(|(section, _)| section).collect();
        let entries: Vec<Arc<Entry>> =
            self.entries.into_iter().map(|(entry, _)| Arc::new(entry)).collect();
        let mut by_name: Vec<(u32, &Arc<Entry>)> = (0..).zip(&entries).collect();
        by_name.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        Catalog {
            by_name: by_name.into_iter().map(|(ordinal, _)| ordinal).collect(),
            sections: sections.into_iter().cloned().collect(),
            entries,
            arenas,
            quarantined: self.quarantined,
            prefix: self.prefix,
            listings: listings(),
            visible_listings: visible_listings(),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn quarantine_duplicates(&mut self) {
        let quarantined = &mut self.quarantined;
        self.entries.dedup_by(|(later, _), (first, _)| {
            let is_duplicate = later.id == first.id;
            if is_duplicate {
                let id = first.id.to_string();
                let reason = DefinitionError::DuplicateId(id.clone());
                quarantined.push(InvalidMethod { id, reason });
            }
            is_duplicate
        });
    }

    fn assign_names(&mut self) {
        let requests: Vec<NameRequest<'_>> = self
            .entries
            .iter()
            .map(|(entry, _)| NameRequest {
                id: entry.id.as_str(),
                preferred: entry.preferred_name.as_deref(),
            })
            .collect();
        let reserved = self.reserved.iter().map(String::as_str);
        let names = tool_names(&self.prefix, &requests, reserved);
        let mut named_entries = Vec::with_capacity(self.entries.len());
        for ((mut entry, tool), name) in std::mem::take(&mut self.entries).into_iter().zip(names) {
            match name {
                Ok(name) => {
                    entry.findings =
                        with_name_findings(&self.prefix, entry.id.as_str(), &name, &entry.findings);
                    entry.name = name;
                    named_entries.push((entry, tool));
                }
                Err(reason) => self.quarantine(entry.id.to_string(), reason),
            }
        }
        self.entries = named_entries;
    }

    /// Returns the bytes of all tools in each format.
    fn build_arenas(&mut self) -> [Arena; ToolFormat::ALL.len()] {
        let total: usize = self.entries.iter().map(|(_, tool)| tool.len() + 1).sum();
        let mut built: Vec<Arena> = Vec::new();
        let arenas = ToolFormat::ALL.map(|format| {
            let mut arena = ArenaBuilder::new(self.entries.len(), total);
            for (entry, tool) in &self.entries {
                arena.add(|out| entry.parts.write(format, entry.name.as_str(), tool, out));
            }
            let arena = arena.finish(built.last());
            built.push(arena.clone());
            arena
        });
        for (ordinal, (entry, _)) in (0..).zip(&mut self.entries) {
            entry.ordinal = ordinal;
        }
        arenas
    }
}

/// Replaces the findings about the tool name, because the name may differ from the one in the previous catalog.
fn with_name_findings(
    prefix: &Prefix,
    id: &str,
    name: &ToolName,
    findings: &[Finding],
) -> Box<[Finding]> {
    let is_about_name =
        |it: &&Finding| matches!(it, Finding::LongToolName(_) | Finding::NameCollision);
    let other_findings = findings.iter().filter(|finding| !is_about_name(finding)).cloned();
    let length = name.as_str().len();
    let long_name = (length > LONG_NAME).then_some(Finding::LongToolName(length));
    let collision = is_disambiguated(prefix, id, name).then_some(Finding::NameCollision);
    other_findings.chain(long_name).chain(collision).collect()
}
