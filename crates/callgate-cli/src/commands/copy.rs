//! `callgate registry copy`

use anyhow::Result;
use std::path::Path;

use callgate_registry::{Copy, CopyReport, DatabaseUrl, copy};

use crate::cli::CopyRegistry;
use crate::config::{Config, password_in_file};
use crate::errors::hinted;
use crate::printer::Printer;

pub(super) async fn run(
    config: &Config,
    given: &CopyRegistry,
    printer: &mut Printer,
) -> Result<()> {
    let from = url(&given.from, "--from-password-file", given.from_password_file.as_deref())?;
    let to = url(&given.to, "--to-password-file", given.to_password_file.as_deref())?;
    let what = Copy {
        from: &from,
        to: &to,
        options: &config.database_options,
        tables: config.tables.as_ref(),
    };
    let copied = copy(what, &mut |table| printer.talk(format_args!("copying {table}"))).await?;
    let rows = copied.tables.iter().map(|table| {
        let equal = if table.is_equal { "equal" } else { "different" };
        vec![table.name.clone(), table.rows.to_string(), equal.to_owned()]
    });
    printer.table(&["TABLE", "ROWS", "CONTENT"], &rows.collect::<Vec<_>>());
    tell(&copied, &from, &to, printer)
}

fn url(text: &str, option: &str, file: Option<&Path>) -> Result<DatabaseUrl> {
    let url: DatabaseUrl = text.parse()?;
    match file {
        Some(file) => password_in_file(url, option, file),
        None => Ok(url),
    }
}

fn tell(
    copied: &CopyReport,
    from: &DatabaseUrl,
    to: &DatabaseUrl,
    printer: &mut Printer,
) -> Result<()> {
    if copied.moved {
        return Err(hinted(
            format!("`{from}` changed while it was copied, so `{to}` is not finished"),
            "run the same again when nobody writes to the source; it begins anew",
        ));
    }
    if !copied.is_finished() {
        return Err(hinted(
            format!("`{to}` is not what `{from}` is, so the copy is not finished"),
            "run the same again, which begins anew; if it stays so, somebody else writes to the target, \
             or it does not keep what it is given",
        ));
    }
    let done = if copied.was_there { "had all of it" } else { "has all of it" };
    printer.talk(format_args!("{to} {done}"));
    Ok(())
}
