//! `callgate section add|list`

use serde_json::json;

use super::{json_line, or_dash, plain_name};
use crate::cli::Section;
use crate::config::Config;
use crate::printer::Printer;
use crate::registry;

pub(crate) async fn run(
    config: &Config,
    section: Section,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let store = registry::open(config).await?;
    match section {
        Section::Add { ident, caption, mask } => {
            plain_name("section", &ident)?;
            store.add_section(&ident, caption.as_deref().unwrap_or(&ident), mask).await?;
            printer.talk(format_args!("added section `{ident}`"));
        }
        Section::List { json } => {
            let sections = store.sections().await?;
            if json {
                for section in sections {
                    let line = json!({
                        "id": section.id, "ident": section.ident, "caption": section.caption,
                    });
                    printer.data(json_line(&line)?);
                }
                return Ok(());
            }
            let rows: Vec<_> = sections
                .iter()
                .map(|section| {
                    let caption = or_dash(Some(&section.caption));
                    vec![section.id.to_string(), section.ident.clone(), caption]
                })
                .collect();
            printer.table(&["ID", "IDENT", "CAPTION"], &rows);
        }
    }
    Ok(())
}
