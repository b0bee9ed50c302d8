//! Output: data goes to stdout, talk to stderr.

use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};

use crate::errors;

/// Where output goes.
#[derive(Debug)]
pub(crate) enum Printer {
    /// To whoever started the program.
    Stdio(io::Stdout, io::Stderr),
    /// Data are collected, talk is not.
    Memory(String),
}

impl Printer {
    pub(crate) fn stdio() -> Self {
        Self::Stdio(io::stdout(), io::stderr())
    }

    pub(crate) fn memory() -> Self {
        Self::Memory(String::new())
    }

    /// The data so far, where they are collected.
    pub(crate) fn collected(&self) -> &str {
        match self {
            Self::Stdio(..) => "",
            Self::Memory(text) => text,
        }
    }

    /// A line of data. A reader that has gone away is no error.
    pub(crate) fn data(&mut self, line: impl Display) {
        match self {
            Self::Stdio(out, _) => {
                let _ = writeln!(out, "{line}");
                let _ = out.flush();
            }
            Self::Memory(text) => {
                let _ = writeln!(text, "{line}");
            }
        }
    }

    /// A line of talk.
    pub(crate) fn talk(&mut self, line: impl Display) {
        if let Self::Stdio(_, talk) = self {
            let _ = writeln!(talk, "{line}");
        }
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

/// Returns a text in one line, and no more of it than `most` characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let line = one_line(text);
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}
