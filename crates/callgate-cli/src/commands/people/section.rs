//! `callgate section add|list`

use anyhow::Result;
use serde_json::json;

use crate::cli::{ListArgs, SectionCommand};
use crate::commands::check_name;
use crate::config::Config;
use crate::{printer, registry};

pub(crate) async fn run(config: &Config, section: SectionCommand) -> Result<()> {
    let store = registry::open(config).await?;
    match section {
        SectionCommand::Add { ident, caption, mask } => {
            check_name("section", &ident)?;
            store.add_section(&ident, caption.as_deref().unwrap_or(&ident), mask).await?;
            printer::message(format_args!("added section `{ident}`"));
        }
        SectionCommand::List(ListArgs { json }) => {
            let columns = [("id", "ID"), ("ident", "IDENT"), ("caption", "CAPTION")];
            let sections = store.sections().await?.into_iter();
            let rows = sections.map(|row| [json!(row.id), json!(row.ident), json!(row.caption)]);
            printer::list(json, columns, rows);
        }
    }
    Ok(())
}
