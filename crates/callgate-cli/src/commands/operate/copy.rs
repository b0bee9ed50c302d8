//! `callgate registry copy`

use std::path::Path;

use anyhow::Result;
use callgate_registry::{Copy, CopyReport, DatabaseUrl, copy};

use crate::cli::CopyArgs;
use crate::config::{Config, password_in_file};
use crate::error_hints::hinted;
use crate::printer;

pub(crate) async fn run(config: &Config, args: &CopyArgs) -> Result<()> {
    let from = url(&args.from, "--from-password-file", args.from_password_file.as_deref())?;
    let to = url(&args.to, "--to-password-file", args.to_password_file.as_deref())?;
    let request = Copy {
        from: &from,
        to: &to,
        options: &config.database_options,
        tables: config.tables.as_ref(),
    };
    let copied =
        copy(request, &mut |table| printer::message(format_args!("copying {table}"))).await?;
    let rows = copied.tables.iter().map(|table| {
        let equal = if table.is_equal { "equal" } else { "different" };
        vec![table.name.clone(), table.rows.to_string(), equal.to_owned()]
    });
    printer::table(&["TABLE", "ROWS", "CONTENT"], &rows.collect::<Vec<_>>());
    report(&copied, &from, &to)
}

fn url(text: &str, option: &str, file: Option<&Path>) -> Result<DatabaseUrl> {
    let url: DatabaseUrl = text.parse()?;
    match file {
        Some(file) => password_in_file(url, option, file),
        None => Ok(url),
    }
}

fn report(copied: &CopyReport, from: &DatabaseUrl, to: &DatabaseUrl) -> Result<()> {
    if copied.source_changed {
        return Err(hinted(
            format!("`{from}` changed while it was copied, so the copy in `{to}` is not finished"),
            "run the command again while nothing writes to the source; the copy starts over",
        ));
    }
    if !copied.is_finished() {
        return Err(hinted(
            format!("`{to}` differs from `{from}`, so the copy is not finished"),
            "run the command again; the copy starts over. If the difference stays, another program writes to the \
             target, or the target changes values when it stores them",
        ));
    }
    let state = if copied.was_equal { "was complete already" } else { "is complete" };
    printer::message(format_args!("{to} {state}"));
    Ok(())
}
