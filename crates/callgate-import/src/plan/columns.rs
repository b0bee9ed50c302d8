//! The columns of a method that imports compare and write.

use callgate_registry::{MethodColumn, MethodRow};
use serde_json::Value;

/// Returns the columns in the order of the report. Sections are not included, because sections and their masks are
/// compared separately. The upstream is not included, because it never changes.
pub(crate) fn columns() -> impl Iterator<Item = &'static MethodColumn> {
    MethodRow::COLUMNS.iter().filter(|column| !matches!(column.name, "sections" | "upstream"))
}

/// Returns the group of a column, or an empty list for a column without a group.
///
/// The columns of a group describe the same thing: for example, `params` and `input_schema` both describe the
/// parameters. So a change of one column counts as a change of its whole group.
pub(super) fn group(column: &str) -> &'static [&'static str] {
    const GROUPS: [&[&str]; 3] = [
        &["params", "params_types", "defaults", "input_schema"],
        &["return_type", "output_schema"],
        &["params_by"],
    ];
    GROUPS.into_iter().find(|group| group.contains(&column)).unwrap_or_default()
}

/// Returns `true` for columns that contain names. If the source gives no name, the existing name is kept.
pub(super) fn keeps_names(column: &MethodColumn) -> bool {
    matches!(column.name, "tool_name" | "remote_name" | "plugin" | "method")
}

/// Returns a row with normalized columns: blank values become `None`, and JSON contains no white space.
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
