//! `callgate migrate`

use crate::config::Config;
use crate::printer::Printer;
use crate::registry;

pub(crate) async fn run(config: &Config, printer: &mut Printer) -> anyhow::Result<()> {
    let (_, applied) = registry::migrate(config).await?;
    if applied.is_empty() {
        printer.talk(format_args!("{} is up to date", config.database));
    }
    for name in applied {
        printer.talk(format_args!("{}: applied `{name}`", config.database));
    }
    Ok(())
}
