//! The values that the last import of a method wrote. They show which values people have changed since then.

use std::collections::{BTreeMap, BTreeSet};

use callgate_registry::ImportRow;
use serde::{Deserialize, Serialize};

use super::columns::{columns, normalized};
use super::required_sections::MergedSections;
use crate::required_sections::RequiredSections;
use crate::source::{Proposal, kind};

/// The values that the source proposed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    /// Values by column. If a column is missing, its value is unknown.
    fields: BTreeMap<String, Option<String>>,
    /// Sections; `None` if the source specified no sections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sections: Option<RequiredSections>,
    /// The kind of source that specified the sections. Another kind may have written the other values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sections_by: Option<String>,
    /// Value of `--params-by`, which applies to the whole source: how parameters are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source_params_by: Option<String>,
    /// Other sources of the same kind that have the method too.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) also_in: BTreeSet<String>,
    /// Whether the source no longer has the method.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_removed: bool,
}

impl Written {
    /// Returns the values of a proposal. Values that the source failed to describe are taken from `last`.
    pub(super) fn new(proposal: &Proposal, needs: MergedSections, last: Option<&Self>) -> Self {
        let mut written = Self {
            fields: BTreeMap::new(),
            sections: needs.written,
            sections_by: needs.written_by,
            source_params_by: None,
            also_in: last.map(|last| last.also_in.clone()).unwrap_or_default(),
            is_removed: false,
        };
        let row = normalized(&proposal.row);
        for column in columns() {
            let previous = last.filter(|_| proposal.unknown.contains(&column.name));
            let value = match previous {
                Some(last) => last.fields.get(column.name).cloned(),
                None => Some(column.get(&row).clone()),
            };
            written.fields.extend(value.map(|value| (column.name.to_owned(), value)));
        }
        written
    }

    /// Parses a row. An invalid row has no values.
    pub(super) fn parse(row: &ImportRow) -> Self {
        let mut written: Self = serde_json::from_str(&row.written).unwrap_or_default();
        if written.sections.is_some() {
            written.sections_by.get_or_insert_with(|| kind(&row.source).to_owned());
        }
        written
    }

    pub(super) fn get(&self, column: &str) -> Option<&str> {
        self.recorded(column).and_then(Option::as_deref)
    }

    /// Returns the value of a column, or `None` if it is unknown. Imports of earlier versions did not record parameters
    /// and results.
    pub(super) fn recorded(&self, column: &str) -> Option<&Option<String>> {
        self.fields.get(column)
    }

    pub(super) fn set_hidden(&mut self) {
        self.fields.insert("exposed".to_owned(), Some("0".to_owned()));
    }

    pub(super) fn is_hidden(&self) -> bool {
        self.get("exposed") == Some("0")
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
