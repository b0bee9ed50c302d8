//! What an import wrote last of a method: the values that people may change.

use std::collections::BTreeMap;

use callgate_registry::ImportRow;
use serde::{Deserialize, Serialize};

use super::Proposal;
use super::field::Field;
use super::needs::{Settled, kind};

/// The sections that a method needs, each with its mask as rows have it, or `closed`.
pub(crate) type Needs = BTreeMap<String, String>;

/// The values, as the source proposed them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    /// By column.
    fields: BTreeMap<String, String>,
    /// `None` where the source said nothing of sections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sections: Option<Needs>,
    /// The kind of source that said that; it need not be the one that wrote the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sections_by: Option<String>,
    #[serde(default)]
    pub(super) safety_is_guess: bool,
}

impl Written {
    /// What is written of a method as it is proposed, with what callers of it need.
    pub(super) fn new(proposal: &Proposal, settled: Settled) -> Self {
        let mut written = Self {
            fields: BTreeMap::new(),
            sections: settled.said,
            sections_by: settled.by,
            safety_is_guess: proposal.safety_is_guess,
        };
        for field in Field::all().filter(|field| field.is_kept()) {
            written.set(field, field.value(&proposal.row));
        }
        written
    }

    /// What a row remembers; nothing where it was written by hand and is wrong.
    pub(super) fn read(row: &ImportRow) -> Self {
        let mut written: Self = serde_json::from_str(&row.written).unwrap_or_default();
        if written.sections.is_some() {
            written.sections_by.get_or_insert_with(|| kind(&row.source).to_owned());
        }
        written
    }

    pub(super) fn get(&self, field: Field) -> Option<&str> {
        self.fields.get(field.name()).map(String::as_str)
    }

    pub(super) fn set(&mut self, field: Field, value: Option<String>) {
        match value {
            Some(value) => self.fields.insert(field.name().to_owned(), value),
            None => self.fields.remove(field.name()),
        };
    }

    /// The row that remembers it.
    pub(super) fn row(&self, upstream: &str, id: &str, source: &str) -> ImportRow {
        ImportRow {
            upstream: upstream.to_owned(),
            rpc_method: id.to_owned(),
            source: source.to_owned(),
            written: serde_json::to_string(self).unwrap_or_default(),
        }
    }
}
