//! `callgate grant`

use anyhow::Result;
use callgate_registry::Principal;

use crate::cli::Grant;
use crate::config::Config;
use crate::printer::Printer;
use crate::registry;

pub(super) async fn run(config: &Config, grant: &Grant, printer: &mut Printer) -> Result<()> {
    let store = registry::open(config).await?;
    let (holder, whose) = match (&grant.holder.user, &grant.holder.role) {
        (Some(user), _) => (Principal::User(store.user(user).await?.id), format!("user `{user}`")),
        (None, Some(role)) => {
            (Principal::Role(store.role(role).await?.id), format!("role `{role}`"))
        }
        (None, None) => anyhow::bail!("name a user or a role"),
    };
    store.grant(holder, &grant.section, grant.mask).await?;
    printer.talk(format_args!("{whose} has {} on `{}`", grant.mask, grant.section));
    Ok(())
}
