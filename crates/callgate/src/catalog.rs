//! The immutable, checked snapshot of every tool.
//!
//! A [`CatalogBuilder`] takes methods one by one, writes each as bytes at once and keeps no trees;
//! [`CatalogBuilder::finish`] sorts them, gives them their names and lays the bytes out in order,
//! with a comma behind each. A wrong definition is quarantined with its reason and the rest is
//! served. What did not change since the last catalog is copied from it, by fingerprint.

mod builder;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use crate::access::{Grants, Mask, Requirement, Section};
use crate::finding::Finding;
use crate::listing::{Listing, Listings};
use crate::method::{DefinitionError, MethodId, Safety};
use crate::tool_name::{Prefix, ToolName};

pub use builder::CatalogBuilder;

/// Every tool, sorted by method id, found by id and by tool name.
#[derive(Debug)]
pub struct Catalog {
    entries: Vec<Entry>,
    by_name: Vec<u32>,
    tools: Bytes,
    requirements: Vec<Requirement>,
    sections: Vec<Section>,
    quarantined: Vec<Quarantined>,
    prefix: Prefix,
    listings: Listings,
}

/// A method in the catalog.
#[derive(Debug, Clone)]
pub struct Entry {
    pub(crate) id: MethodId,
    pub(crate) name: ToolName,
    pub(crate) given_name: Option<Box<str>>,
    pub(crate) tool: Range<usize>,
    pub(crate) check: CheckSchema,
    pub(crate) safety: Safety,
    pub(crate) requirement: u32,
    pub(crate) upstream: Arc<str>,
    pub(crate) findings: Box<[Finding]>,
    pub(crate) fingerprint: u64,
}

/// Where the schema is that arguments are checked against.
#[derive(Debug, Clone)]
pub(crate) enum CheckSchema {
    /// The advertised one: this range of the tool's bytes.
    Advertised(Range<usize>),
    Own(Bytes),
}

/// A definition that is not served.
#[derive(Debug)]
pub struct Quarantined {
    /// Its id, or what is known of it.
    pub id: String,
    /// What is wrong with it.
    pub reason: DefinitionError,
}

impl Entry {
    /// The method's id.
    pub fn id(&self) -> &MethodId {
        &self.id
    }

    /// The tool's name over MCP.
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// Whether calls change anything.
    pub fn safety(&self) -> Safety {
        self.safety
    }

    /// The name of the upstream that runs it.
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    /// What is worth a look.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

impl Default for Catalog {
    fn default() -> Self {
        CatalogBuilder::new(Prefix::default(), None).finish()
    }
}

impl Catalog {
    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All tools, sorted by id.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What is not served, and why.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    /// Takes the quarantined definitions out.
    pub fn take_quarantined(&mut self) -> Vec<Quarantined> {
        std::mem::take(&mut self.quarantined)
    }

    /// What stands before every tool name.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// The bytes of all tools together.
    pub fn serialised_bytes(&self) -> usize {
        self.tools.len()
    }

    /// By method id.
    pub fn by_id(&self, id: &str) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| entry.id.as_str().cmp(id)).ok()?;
        self.entries.get(at)
    }

    /// By tool name.
    pub fn by_name(&self, name: &str) -> Option<&Entry> {
        let entry = |ordinal: &u32| self.entries.get(*ordinal as usize);
        let at = self
            .by_name
            .binary_search_by(|ordinal| entry(ordinal).map_or("", |e| e.name.as_str()).cmp(name))
            .ok()?;
        self.by_name.get(at).and_then(entry)
    }

    /// The tool as JSON.
    pub fn tool(&self, entry: &Entry) -> Bytes {
        self.slice(entry.tool.clone())
    }

    /// What callers need for a method.
    pub fn requirement(&self, entry: &Entry) -> &Requirement {
        // An entry of another catalog could name one that is not here.
        static CLOSED: LazyLock<Requirement> = LazyLock::new(Requirement::closed);
        self.requirements.get(entry.requirement as usize).unwrap_or(&CLOSED)
    }

    /// The schema that arguments are checked against.
    pub(crate) fn check_schema(&self, entry: &Entry) -> Bytes {
        match &entry.check {
            CheckSchema::Advertised(range) => self.slice(range.clone()),
            CheckSchema::Own(bytes) => bytes.clone(),
        }
    }

    pub(crate) fn slice(&self, range: Range<usize>) -> Bytes {
        if self.tools.get(range.clone()).is_some() { self.tools.slice(range) } else { Bytes::new() }
    }

    /// The tools that `grants` may use; made when first asked for and kept.
    pub fn listing(&self, grants: &Grants) -> Arc<Listing> {
        let key: Arc<[Mask]> = self.sections.iter().map(|section| grants.mask(section)).collect();
        self.listings.get_or_make(key, || self.make_listing(grants))
    }

    /// Decides once per distinct requirement, not once per tool.
    fn make_listing(&self, grants: &Grants) -> Listing {
        let allowed: Vec<bool> =
            self.requirements.iter().map(|requirement| requirement.allows(grants)).collect();
        let is_allowed =
            |entry: &Entry| allowed.get(entry.requirement as usize).copied().unwrap_or(false);
        let ordinals = (0_u32..).zip(&self.entries).filter(|(_, entry)| is_allowed(entry));
        Listing::new(ordinals.map(|(ordinal, _)| ordinal).collect())
    }
}
