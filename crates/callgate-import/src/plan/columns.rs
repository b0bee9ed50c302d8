//! The columns of a method that imports compare and write.

use callgate_registry::{MethodColumn, MethodRow};
use serde_json::Value;

/// Returns the columns in the order of the report. Sections are compared with their masks, and an upstream
/// never changes.
pub(crate) fn columns() -> impl Iterator<Item = &'static MethodColumn> {
    MethodRow::COLUMNS.iter().filter(|column| !matches!(column.name, "sections" | "upstream"))
}

/// Returns `true` if a value that a person has changed is kept. Parameters and results are the source's.
pub(super) fn keeps_edits(column: &MethodColumn) -> bool {
    matches!(column.name, "title" | "description" | "safety" | "annotations" | "exposed")
        || keeps_names(column)
}

/// Returns `true` for names, which stay if the source has none.
pub(super) fn keeps_names(column: &MethodColumn) -> bool {
    matches!(column.name, "tool_name" | "remote_name" | "plugin" | "method")
}

/// Returns a row whose columns have one form: `None` for white space, JSON without white space.
pub(crate) fn normalized(row: &MethodRow) -> MethodRow {
    let mut row = row.clone();
    for column in columns() {
        let value = column.get_mut(&mut row);
        *value = value.take().and_then(|text| normalized_value(column, &text));
    }
    row
}

fn normalized_value(column: &MethodColumn, text: &str) -> Option<String> {
    let text = Some(text.trim()).filter(|text| !text.is_empty())?;
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Null) if column.is_json() => None,
        Ok(json) if column.is_json() => Some(json.to_string()),
        _ => Some(text.to_owned()),
    }
}
