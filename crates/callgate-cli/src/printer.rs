//! Output: data goes to stdout, talk to stderr.

use std::fmt::Display;
use std::io::{self, Write};

use crate::errors;

/// Where output goes.
#[derive(Debug)]
pub(crate) struct Printer {
    out: io::Stdout,
    talk: io::Stderr,
}

impl Printer {
    pub(crate) fn stdio() -> Self {
        Self { out: io::stdout(), talk: io::stderr() }
    }

    /// A line of data. A reader that has gone away is no error.
    pub(crate) fn data(&mut self, line: impl Display) {
        let _ = writeln!(self.out, "{line}");
        let _ = self.out.flush();
    }

    /// A line of talk.
    pub(crate) fn talk(&mut self, line: impl Display) {
        let _ = writeln!(self.talk, "{line}");
    }

    /// Columns, as wide as they need to be.
    pub(crate) fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
        let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
        let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in std::iter::once(&head).chain(&rows) {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            self.data(cells.join("  ").trim_end());
        }
    }

    /// Why the command failed, with what to do about it where that is known.
    pub(crate) fn error(&mut self, error: &anyhow::Error) {
        self.talk(format_args!("callgate: {error:#}"));
        if let Some(hint) = errors::hint(error) {
            self.talk(format_args!("hint: {hint}"));
        }
    }
}

/// A cell must not break its line, or the terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_debug().collect() } else { vec![c] })
        .collect()
}
