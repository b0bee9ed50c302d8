//! Columns that people have changed since the last import.

use std::fmt;
use std::sync::Arc;

use callgate::Mask;
use callgate_registry::{MethodRow, SqlStore};
use serde::Serialize;

use super::columns::{columns, group, keeps_names, normalized};
use super::merge::is_overridden;
use super::required_sections::{display, masks, section_names};
use super::written::Written;
use crate::hinted::hinted;
use crate::required_sections::RequiredSections;
use crate::text::shortened;

/// Maximum number of characters of a value that `Display` prints.
const MAX_SHOWN: usize = 160;

/// A column that a person changed. Later imports keep it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Override {
    /// Name of the column.
    pub column: &'static str,
    /// The current value.
    pub value: Option<String>,
    /// The value that the last import proposed.
    pub source: Option<String>,
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [value, source] = [&self.value, &self.source].map(|value| match value {
            Some(value) => format!("`{}`", shortened(value, MAX_SHOWN)),
            None => "nothing".to_owned(),
        });
        write!(f, "{} is {value}; the source has {source}", self.column)
    }
}

/// The values that the last import of a method proposed.
#[derive(Debug)]
pub struct ImportedMethod {
    source: String,
    written: Written,
}

impl ImportedMethod {
    /// Reads the values that the last import of a method proposed. Returns `None` if no import wrote the method.
    pub async fn read(store: &Arc<SqlStore>, row: &MethodRow) -> anyhow::Result<Option<Self>> {
        let notes = store.imports_of(&row.rpc_method).await?;
        let note = notes.into_iter().find(|note| note.upstream == row.upstream_name());
        Ok(note.map(|note| Self { written: Written::parse(&note), source: note.source }))
    }

    /// Returns the overrides of a row with these required sections.
    pub fn overrides(&self, row: &MethodRow, needs: &RequiredSections) -> Vec<Override> {
        let row = normalized(row);
        let mut overrides = Vec::new();
        for column in columns() {
            let Some(source) = self.written.recorded(column.name) else { continue };
            let value = column.get(&row);
            let is_name = source.is_none() && keeps_names(column);
            if !is_name && value != source && is_overridden(column.name, &row, Some(&self.written))
            {
                let (value, source) = (value.clone(), source.clone());
                overrides.push(Override { column: column.name, value, source });
            }
        }
        if let Some(written) = self.written.sections.as_ref().filter(|written| *written != needs) {
            let (value, source) = (display(needs), display(written));
            overrides.push(Override { column: "sections", value, source });
        }
        overrides
    }

    /// Undoes an override of a row. If the column is `sections`, also returns the requirement of
    /// the method, which the caller must write to the registry.
    pub fn reset(
        &self,
        row: &mut MethodRow,
        column: &str,
    ) -> anyhow::Result<Option<Vec<(String, Mask)>>> {
        if column == "sections" {
            let written = self.written.sections.as_ref().ok_or_else(|| self.unknown(column))?;
            row.sections = section_names(written);
            return Ok(Some(masks(written)));
        }
        let single = [column];
        let group = group(column);
        for name in if group.is_empty() { &single } else { group } {
            let value = self.written.recorded(name).ok_or_else(|| self.unknown(name))?;
            for column in columns().filter(|column| column.name == *name) {
                column.get_mut(row).clone_from(value);
            }
        }
        Ok(None)
    }

    fn unknown(&self, column: &str) -> anyhow::Error {
        hinted(
            format!("cannot reset `{column}`: the import from {} recorded no value", self.source),
            "import the source again, or set the value with `callgate method set`",
        )
    }
}
