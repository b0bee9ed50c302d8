//! `callgate import`: from a source, or what is held back.

use clap::{Parser, Subcommand};

use super::Import;
use crate::errors::hinted;

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    #[command(flatten)]
    From(Box<Import>),
    /// Show the changes that repeated imports hold back
    ///
    /// These are the imports of `[imports.NAME]` in the configuration with `policy = "hold"`.
    Pending {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the changes that a repeated import holds back
    ///
    /// Only what `pending` shows: if the source has changed since, that is shown and nothing is written.
    Approve {
        /// The import's name in the configuration
        name: String,
    },
}

/// An import without the program's name before it.
#[derive(Debug, Parser)]
#[command(name = "import", no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(subcommand)]
    import: Import,
}

impl Import {
    /// What stands behind `callgate import`, as the configuration has it.
    pub(crate) fn read(arguments: &[String]) -> anyhow::Result<Self> {
        let line = Line::try_parse_from(arguments).map_err(|error| {
            let words = error.to_string();
            let words = words.lines().next().unwrap_or_default().trim_start_matches("error: ");
            hinted(
                format!("`arguments`: {words}"),
                "they are those of `callgate import`, such as `[\"openrpc\", \"openrpc.json\"]`",
            )
        })?;
        Ok(line.import)
    }
}
