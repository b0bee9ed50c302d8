//! `callgate settings get|set`

use anyhow::Result;
use callgate::gateway::{SETTING_KEYS, Settings as Known};
use callgate_registry::settings;

use crate::cli::Settings;
use crate::config::Config;
use crate::printer::Printer;
use crate::registry;

pub(super) async fn run(config: &Config, command: Settings, printer: &mut Printer) -> Result<()> {
    let store = registry::open(config).await?;
    match command {
        Settings::Get { key } => {
            let (in_force, refused) = settings(&store.settings().await?, &Known::default());
            for error in refused {
                printer.talk(format_args!("warning: {error}; the default counts"));
            }
            match key {
                Some(key) => printer.data(in_force.get(&key)?),
                None => {
                    for key in SETTING_KEYS {
                        printer.data(format_args!("{key}={}", in_force.get(key)?));
                    }
                }
            }
        }
        Settings::Set { key, value } => {
            Known::default().set(&key, &value)?;
            store.set_setting(&key, &value).await?;
            printer.talk(format_args!("{key}={value}"));
        }
    }
    Ok(())
}
