//! `callgate export`

use anyhow::Result;
use callgate::model::LOCAL;
use callgate_import::export;
use callgate_registry::{MethodRow, Store as _};

use crate::cli::{ExportArgs, ExportFormat};
use crate::config::Config;
use crate::printer::{self, one_line};
use crate::registry;

pub(crate) async fn run(config: &Config, options: &ExportArgs) -> Result<()> {
    let store = registry::open(config).await?;
    let rows = store.catalog_rows().await?;
    let is_selected = |row: &MethodRow| {
        options.upstream.as_deref().is_none_or(|name| name == row.upstream_name())
    };
    let exported = match options.format {
        ExportFormat::Manifest => export::manifest::write(&rows, is_selected)?,
        // The registry does not contain the parameters of methods that are defined in code.
        ExportFormat::Openrpc => {
            export::openrpc::write(&rows, |row| is_selected(row) && row.upstream_name() != LOCAL)?
        }
    };
    printer::exact(&exported.text);
    for (id, reason) in &exported.omitted {
        printer::message(format_args!("left out {}: {}", one_line(id), one_line(reason)));
    }
    Ok(())
}
