//! Output: data on stdout, messages on stderr.

use std::fmt::Display;
use std::io::{self, Write as _};

use callgate::internal::{escape_invisible, escape_invisible_json};
use callgate_import::{Line, Report};
use serde_json::{Map, Value};

use crate::error_hints;

pub(crate) use callgate_import::one_line;

/// Prints lines of data, with invisible characters escaped.
pub(crate) fn data(lines: impl Display) {
    exact(escape_invisible(&lines.to_string()));
}

/// Prints JSON, with invisible characters escaped.
pub(crate) fn json(json: impl Display) {
    exact(escape_invisible_json(&json.to_string()));
}

/// Prints lines of data for other programs, unchanged. A closed stdout is not an error.
pub(crate) fn exact(lines: impl Display) {
    let mut out = io::stdout();
    let _ = writeln!(out, "{lines}");
    let _ = out.flush();
}

/// Prints a message, with invisible characters escaped.
pub(crate) fn message(lines: impl Display) {
    let _ = writeln!(io::stderr(), "{}", escape_invisible(&lines.to_string()));
}

/// Prints the lines of an import's report.
pub(crate) fn report(report: &Report) {
    for line in &report.lines {
        match line {
            Line::Data(line) => data(line),
            Line::Note(line) => message(line),
        }
    }
}

/// Prints a list as JSON, one object per line, or as a table. JSON omits columns without a key. The table omits columns
/// without a heading.
pub(crate) fn list<const N: usize>(
    as_json: bool,
    columns: [(&str, &str); N],
    rows: impl IntoIterator<Item = [Value; N]>,
) {
    if as_json {
        for row in rows {
            let members = columns.iter().zip(row).filter(|((key, _), _)| !key.is_empty());
            let object: Map<_, _> =
                members.map(|((key, _), value)| ((*key).to_owned(), value)).collect();
            json(Value::Object(object));
        }
        return;
    }
    let is_shown = |(_, heading): &(&str, &str)| !heading.is_empty();
    let headings: Vec<&str> =
        columns.into_iter().filter(is_shown).map(|(_, heading)| heading).collect();
    let cells = |row: [Value; N]| {
        let values = columns.iter().zip(row).filter(|(column, _)| is_shown(column));
        values.map(|(_, value)| cell(value)).collect()
    };
    table(&headings, &rows.into_iter().map(cells).collect::<Vec<_>>());
}

pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let headings: Vec<String> = headings.iter().map(|cell| (*cell).to_owned()).collect();
    let mut widths: Vec<usize> = headings.iter().map(|cell| cell.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in std::iter::once(&headings).chain(&rows) {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        data(cells.join("  ").trim_end());
    }
}

/// Prints an error, with its hint.
pub(crate) fn error(error: &anyhow::Error) {
    message(format_args!("callgate: {error:#}"));
    if let Some(hint) = error_hints::hint(error) {
        message(format_args!("hint: {hint}"));
    }
}

fn cell(value: Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        Value::Array(items) => items.into_iter().map(cell).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    };
    if text.is_empty() { "-".to_owned() } else { text }
}
