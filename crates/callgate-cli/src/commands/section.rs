//! `callgate section add|list`

use anyhow::Result;
use serde_json::json;

use super::plain_name;
use crate::cli::{List, Section};
use crate::config::Config;
use crate::printer::Printer;
use crate::registry;

pub(super) async fn run(config: &Config, section: Section, printer: &mut Printer) -> Result<()> {
    let store = registry::open(config).await?;
    match section {
        Section::Add { ident, caption, mask } => {
            plain_name("section", &ident)?;
            store.add_section(&ident, caption.as_deref().unwrap_or(&ident), mask).await?;
            printer.talk(format_args!("added section `{ident}`"));
        }
        Section::List(List { json }) => {
            let columns = [("id", "ID"), ("ident", "IDENT"), ("caption", "CAPTION")];
            let sections = store.sections().await?.into_iter();
            let rows = sections.map(|row| [json!(row.id), json!(row.ident), json!(row.caption)]);
            printer.list(json, columns, rows);
        }
    }
    Ok(())
}
