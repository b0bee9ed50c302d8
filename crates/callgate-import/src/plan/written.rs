//! The values that the last import of a method wrote, to recognise what people changed since.

use std::collections::BTreeMap;

use callgate_registry::ImportRow;
use serde::{Deserialize, Serialize};

use super::columns::{columns, keeps_edits, normalized};
use super::needs::{MergedNeeds, kind};
use crate::needs::Needs;
use crate::source::Proposal;

/// The values as the source proposed them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    /// By column.
    fields: BTreeMap<String, String>,
    /// `None` if the source did not state sections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sections: Option<Needs>,
    /// The kind of source that stated them; another one may have written the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sections_by: Option<String>,
    #[serde(default)]
    pub(super) safety_is_guess: bool,
}

impl Written {
    pub(super) fn new(proposal: &Proposal, needs: MergedNeeds) -> Self {
        let mut written = Self {
            fields: BTreeMap::new(),
            sections: needs.written,
            sections_by: needs.written_by,
            safety_is_guess: proposal.safety_is_guess,
        };
        let row = normalized(&proposal.row);
        for column in columns().filter(|column| keeps_edits(column)) {
            if let Some(value) = column.get(&row) {
                written.fields.insert(column.name.to_owned(), value.clone());
            }
        }
        written
    }

    /// Parses a row; an invalid one has no values.
    pub(super) fn parse(row: &ImportRow) -> Self {
        let mut written: Self = serde_json::from_str(&row.written).unwrap_or_default();
        if written.sections.is_some() {
            written.sections_by.get_or_insert_with(|| kind(&row.source).to_owned());
        }
        written
    }

    pub(super) fn get(&self, column: &str) -> Option<&str> {
        self.fields.get(column).map(String::as_str)
    }

    pub(super) fn set_hidden(&mut self) {
        self.fields.insert("exposed".to_owned(), "0".to_owned());
    }

    pub(super) fn to_row(&self, upstream: &str, id: &str, source: &str) -> ImportRow {
        ImportRow {
            upstream: upstream.to_owned(),
            rpc_method: id.to_owned(),
            source: source.to_owned(),
            written: serde_json::to_string(self).unwrap_or_default(),
        }
    }
}
