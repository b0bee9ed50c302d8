//! The numbers that a database has given, also those whose rows are gone.
//!
//! None is given again: tokens and grants may still name a user who was removed, and must not pass to whoever
//! comes next.

use super::page::Page;
use crate::sql::Cell;
use crate::sql_store::Work;
use crate::sql_store::contents::{Kind, TABLES, Table};
use crate::store::Result;

/// A table, and the highest number that its rows were given.
pub(super) struct Given(&'static Table, i64);

pub(super) async fn given(moment: &mut Work<'_>) -> Result<Vec<Given>> {
    let mut given = Vec::new();
    for table in TABLES.iter().filter(|table| table.is_numbered()) {
        let template = moment.dialect().last_given(table.name);
        let last = moment.row(&template, &[]).await?.map_or(Ok(0), |mut row| row.int())?;
        given.push(Given(table, last));
    }
    Ok(given)
}

/// Has a database go on behind such numbers: each counts on behind a row that was there, so a row is written
/// and removed. `text` is one that no row has, of 64 characters.
pub(super) async fn pass(work: &mut Work<'_>, given: &[Given], text: &str) -> Result<()> {
    for Given(table, last) in given {
        let highest = format!("SELECT MAX(id) FROM {}", table.name);
        let highest = work.row(&highest, &[]).await?.map_or(Ok(0), |mut row| row.int())?;
        if *last > highest {
            let others = table.columns.iter().skip(1).map(|column| filler(column.kind, text));
            let row = std::iter::once(Cell::Int(*last)).chain(others).collect();
            Page::of_one(table, row).write(work).await?;
            let remove = format!("DELETE FROM {} WHERE id = ?", table.name);
            work.run(&remove, &[(*last).into()]).await?;
        }
    }
    Ok(())
}

/// What each database takes in such a column, and no other row has.
fn filler(kind: Kind, text: &str) -> Cell {
    match kind {
        Kind::Int => Cell::Int(i64::MIN),
        Kind::Small | Kind::Flag | Kind::Time => Cell::Int(0),
        Kind::Json | Kind::Schema | Kind::ParamsBy => Cell::Null,
        Kind::Text(_) => Cell::Text(text.to_owned()),
    }
}
