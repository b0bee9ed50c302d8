//! `callgate setting list|show|set`

use anyhow::Result;
use callgate::gateway::{SETTING_KEYS, Settings};
use callgate_registry::{SqlStore, Store as _, assemble, settings};
use serde_json::json;

use crate::cli::{ListArgs, SettingCommand};
use crate::commands::assembly;
use crate::config::Config;
use crate::{printer, registry};

pub(crate) async fn run(config: &Config, command: SettingCommand) -> Result<()> {
    let store = registry::open(config).await?;
    let (name, json) = match command {
        SettingCommand::List(ListArgs { json }) => (None, json),
        SettingCommand::Show { name, json } => (Some(name), json),
        SettingCommand::Get { name } => (name, false),
        SettingCommand::Set { name, value } => {
            Settings::default().set(&name, &value)?;
            store.set_setting(&name, &value).await?;
            printer::message(format_args!("{name}={value}"));
            if name == "mcp_page_size" {
                warn_about_page_size(config, &store, &value).await?;
            }
            return Ok(());
        }
    };
    let (current, invalid) = settings(&store.settings().await?, &Settings::default());
    for error in invalid {
        printer::message(format_args!("warning: {error}; using the default"));
    }
    let names = SETTING_KEYS.into_iter().filter(|key| name.as_ref().is_none_or(|it| it == key));
    for key in names {
        let value = current.get(key)?;
        match (json, &name) {
            (true, _) => printer::json(json!({"name": key, "value": value})),
            (false, Some(_)) => printer::data(value),
            (false, None) => printer::data(format_args!("{key}={value}")),
        }
    }
    Ok(())
}

/// Warns if not all tools fit on a page. Many clients read only the first page.
async fn warn_about_page_size(config: &Config, store: &SqlStore, size: &str) -> Result<()> {
    let tools = assemble(&store.catalog_rows().await?, assembly(config)).catalog.len();
    if size.parse().is_ok_and(|size: usize| size < tools) {
        printer::message(format_args!(
            "warning: a page has at most {size} of the {tools} tools, and many clients read only the first page, so \
             they do not see the other tools"
        ));
    }
    Ok(())
}
