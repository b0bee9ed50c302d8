//! A registry, copied into another database.
//!
//! The source is read as of one moment, first to see whether the target can keep all of it, then page by
//! page; each page is written together with a note of how far the copy has come. With the note there,
//! nobody serves from the target, and a copy that was interrupted goes on behind the last page. In the end
//! the target is read back, and the note goes when everything is equal.

mod note;
mod numbers;
mod page;
mod sum;

use thiserror::Error;

use self::note::Note;
use self::numbers::Given;
use self::page::Page;
use self::sum::{Sum, survey};
use super::contents::{TABLES, Table};
use super::{SqlStore, Work};
use crate::connect::{DatabaseOptions, DatabaseUrl, Wanted, connect};
use crate::migrate;
use crate::rows::Revisions;
use crate::sql::Purpose;
use crate::store::{Load as _, StoreError};
use crate::tables::TableNames;

/// What is to be copied.
#[derive(Debug, Clone, Copy)]
pub struct Copy<'a> {
    /// The source, which stays as it is.
    pub from: &'a DatabaseUrl,
    /// The target: empty, or where an earlier copy was interrupted.
    pub to: &'a DatabaseUrl,
    /// How both are used.
    pub options: &'a DatabaseOptions,
    /// What the tables of a new target are called; as in the source, if nothing is said.
    pub tables: Option<&'a TableNames>,
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Each table.
    pub tables: Vec<CopiedTable>,
    /// Whether the target had all of it before.
    pub was_there: bool,
    /// Whether the source changed meanwhile. The copy is as of its beginning, and not finished.
    pub moved: bool,
}

impl Copied {
    /// Whether the target has what the source has, and may be served from.
    pub fn is_finished(&self) -> bool {
        !self.moved && self.is_equal()
    }

    fn is_equal(&self) -> bool {
        self.tables.iter().all(|table| table.is_equal)
    }
}

/// A table of the source and of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedTable {
    /// Its name in the target.
    pub name: String,
    /// The source's rows.
    pub rows: u64,
    /// Whether the target has the same.
    pub is_equal: bool,
}

/// Why a registry could not be copied.
#[derive(Debug, Error)]
pub enum CopyError {
    /// The source said no.
    #[error("cannot read `{0}`")]
    From(String, #[source] StoreError),
    /// The target said no.
    #[error("cannot write to `{0}`")]
    To(String, #[source] StoreError),
    /// The target cannot keep a value. Nothing was written.
    #[error("the target cannot keep `{column}` of {row} in `{table}`: it {why}")]
    Unfit {
        /// The table in the source.
        table: String,
        /// What the row is known by.
        row: String,
        /// The column.
        column: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The target has something else.
    #[error("`{to}` has a registry that is not the source's: `{table}` has {rows} rows")]
    Occupied {
        /// The target.
        to: String,
        /// A table that differs.
        table: String,
        /// Its rows.
        rows: u64,
    },
    /// Two copies into one target.
    #[error("another copy into `{0}` has begun")]
    Overtaken(String),
}

/// Copies a registry. `tell` hears of each table as it is begun.
pub async fn copy(
    copy: Copy<'_>,
    tell: &mut (dyn FnMut(&str) + Send),
) -> Result<Copied, CopyError> {
    let from_error = |error| CopyError::From(copy.from.to_string(), error);
    let to_error = |error| CopyError::To(copy.to.to_string(), error);
    // A statement may take its time here: nobody waits for it.
    let patient =
        DatabaseOptions { statement_timeout: copy.options.load_timeout, ..copy.options.clone() };
    let from = SqlStore::open(copy.from, &patient, None).await.map_err(from_error)?;
    let before = from.revisions().await.map_err(from_error)?;
    let mut moment = from.begin(Purpose::Read).await.map_err(from_error)?;
    moment.let_idle().await.map_err(from_error)?;
    let sums =
        survey(&mut moment, copy.to.dialect()).await.map_err(|failure| failure.told(copy.from))?;
    let to = target(&copy, &patient, &from.tables).await.map_err(to_error)?;
    let begun = note::read(&to).await.map_err(to_error)?;
    if begun.is_none() {
        let found = sum_up(&to).await.map_err(to_error)?;
        if found == sums {
            to.database.settle().await.map_err(to_error)?;
            return Ok(Copied { was_there: true, ..compared(&to, &sums, &found) });
        }
        refuse_content(&copy, &to, &sums, &found)?;
    }
    let mut copying = Copying { copy: &copy, to: &to, note: Note::new(copy.from, &sums) };
    copying.begin(begun).await?;
    copying.write(&mut moment, tell).await?;
    let given = numbers::given(&mut moment).await.map_err(from_error)?;
    drop(moment);
    copying.move_counters(&given).await?;
    let found = sum_up(&to).await.map_err(to_error)?;
    let now = from.revisions().await.map_err(from_error)?;
    let copied = Copied { moved: !is_same(&before, &now), ..compared(&to, &sums, &found) };
    if copied.is_finished() {
        copying.end().await?;
        to.database.settle().await.map_err(to_error)?;
    } else if !copied.is_equal() {
        copying.forget().await?;
    }
    Ok(copied)
}

/// The target, made or brought up to date.
async fn target(
    copy: &Copy<'_>,
    options: &DatabaseOptions,
    names: &TableNames,
) -> Result<SqlStore, StoreError> {
    // One that is there knows what its tables are called.
    let is_new = match connect(copy.to, options, Wanted::There).await {
        Ok(database) => {
            let found = migrate::tables_of(&*database, "", copy.tables).await;
            matches!(found, Err(StoreError::Missing(_)))
        }
        Err(StoreError::Missing(_)) => true,
        Err(error) => return Err(error),
    };
    let names = copy.tables.or(is_new.then_some(names));
    let (tables, _) = migrate::migrate(copy.to, options, names).await?;
    Ok(SqlStore { database: connect(copy.to, options, Wanted::There).await?, tables })
}

/// Everything that a registry has.
async fn sum_up(store: &SqlStore) -> Result<Vec<Sum>, StoreError> {
    let mut moment = store.begin(Purpose::Read).await?;
    let mut sums = Vec::new();
    for table in TABLES {
        sums.push(sum::of_table(&mut moment, table).await?);
    }
    Ok(sums)
}

fn compared(to: &SqlStore, sums: &[Sum], found: &[Sum]) -> Copied {
    let tables = TABLES.iter().zip(sums.iter().zip(found)).map(|(table, (wanted, found))| {
        let name = to.tables.expand(table.name);
        CopiedTable { name, rows: wanted.rows, is_equal: wanted == found }
    });
    Copied { tables: tables.collect(), was_there: false, moved: false }
}

/// Names a table that differs, if there is one.
fn refuse_content(
    copy: &Copy<'_>,
    to: &SqlStore,
    sums: &[Sum],
    found: &[Sum],
) -> Result<(), CopyError> {
    let tables = TABLES.iter().zip(sums.iter().zip(found));
    let occupied = tables.filter(|(_, (_, found))| found.rows > 0);
    let told = occupied.min_by_key(|(_, (wanted, found))| wanted == found);
    told.map_or(Ok(()), |(table, (_, found))| {
        let (to, table) = (copy.to.to_string(), to.tables.expand(table.name));
        Err(CopyError::Occupied { to, table, rows: found.rows })
    })
}

/// By what changes on purpose. Sessions come and go while a gateway runs.
fn is_same(before: &Revisions, now: &Revisions) -> bool {
    let of = |revisions: &Revisions| Revisions { sessions: 0, messages: 0, ..*revisions };
    of(before) == of(now)
}

/// A copy under way.
struct Copying<'a> {
    copy: &'a Copy<'a>,
    to: &'a SqlStore,
    note: Note,
}

impl Copying<'_> {
    fn to_error(&self, error: StoreError) -> CopyError {
        CopyError::To(self.copy.to.to_string(), error)
    }

    /// Notes that it begins, behind what an earlier one wrote if that was of the same rows. Only what an
    /// earlier one wrote is removed.
    async fn begin(&mut self, begun: Option<Note>) -> Result<(), CopyError> {
        let going_on = begun.as_ref().is_some_and(|begun| self.note.goes_on(begun));
        let mut work = self.to.begin(Purpose::Write).await.map_err(|error| self.to_error(error))?;
        let found = note::in_work(&mut work).await;
        self.held(found.map(|found| found == begun))?;
        if begun.is_none() {
            self.refuse_rows(&mut work).await?;
        }
        let prepare = async {
            if begun.is_some() && !going_on {
                for table in TABLES {
                    page::clear(&mut work, table).await?;
                }
            }
            self.note.write(&mut work).await?;
            work.commit().await
        };
        prepare.await.map_err(|error| self.to_error(error))
    }

    /// Somebody may have begun to use the target since it was looked at.
    async fn refuse_rows(&self, work: &mut Work<'_>) -> Result<(), CopyError> {
        for table in TABLES {
            let rows = page::count(work, table).await.map_err(|error| self.to_error(error))?;
            if rows > 0 {
                let (to, table) = (self.copy.to.to_string(), self.to.tables.expand(table.name));
                return Err(CopyError::Occupied { to, table, rows });
            }
        }
        Ok(())
    }

    async fn write(
        &mut self,
        moment: &mut Work<'_>,
        tell: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), CopyError> {
        let mut after = self.note.after().map_err(|error| self.to_error(error))?;
        let done = TABLES.iter().position(|table| self.note.is_at(table)).unwrap_or(0);
        for table in TABLES.iter().skip(done) {
            tell(&self.to.tables.expand(table.name));
            loop {
                let page = Page::read(moment, table, after.as_deref()).await;
                let page =
                    page.map_err(|error| CopyError::From(self.copy.from.to_string(), error))?;
                after = page.last();
                let Some(last) = &after else { break };
                self.note.move_to(table, last);
                let written = self.write_page(&page).await;
                self.held(written)?;
            }
        }
        Ok(())
    }

    /// Writes a page and the note, unless another copy has begun meanwhile.
    async fn write_page(&self, page: &Page) -> Result<bool, StoreError> {
        let Some(mut work) = self.ours().await? else { return Ok(false) };
        page.write(&mut work).await?;
        self.note.write(&mut work).await?;
        work.commit().await?;
        Ok(true)
    }

    /// Moves what gives numbers behind those that the source gave.
    async fn move_counters(&self, given: &[Given]) -> Result<(), CopyError> {
        let moved = async {
            let Some(mut work) = self.ours().await? else { return Ok(false) };
            numbers::pass(&mut work, given, self.note.sum()).await?;
            let highest = "SELECT MAX(number) FROM callgate_sessions";
            let highest = work.row(highest, &[]).await?.map_or(Ok(0), |mut row| row.int())?;
            let raise =
                "UPDATE callgate_revisions SET value = ? WHERE name = 'sessions' AND value < ?";
            work.run(raise, &[highest.into(), highest.into()]).await?;
            work.commit().await?;
            Ok(true)
        };
        self.held(moved.await)
    }

    /// Notes that what was written is not what was read: the next run begins anew.
    async fn forget(&mut self) -> Result<(), CopyError> {
        self.note.forget();
        let noted = async {
            let Some(mut work) = self.ours().await? else { return Ok(false) };
            self.note.write(&mut work).await?;
            work.commit().await?;
            Ok(true)
        };
        self.held(noted.await)
    }

    async fn end(&self) -> Result<(), CopyError> {
        let removed = async {
            let Some(mut work) = self.ours().await? else { return Ok(false) };
            note::remove(&mut work).await?;
            work.commit().await?;
            Ok(true)
        };
        self.held(removed.await)
    }

    /// A transaction on the target, unless another copy has begun meanwhile.
    async fn ours(&self) -> Result<Option<Work<'_>>, StoreError> {
        let mut work = self.to.begin(Purpose::Write).await?;
        let is_ours = self.note.is_ours(note::in_work(&mut work).await?.as_ref());
        Ok(is_ours.then_some(work))
    }

    fn held(&self, done: Result<bool, StoreError>) -> Result<(), CopyError> {
        match done {
            Ok(true) => Ok(()),
            Ok(false) => Err(CopyError::Overtaken(self.copy.to.to_string())),
            Err(error) => Err(self.to_error(error)),
        }
    }
}

/// What a row is known by, for people.
fn row_shown(table: &Table, page: &Page, row: usize) -> String {
    let keys = table.keys().iter().zip(page.keys(row));
    keys.map(|(column, cell)| format!("{} {}", column.name, page::shown(&cell)))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Edit as _;

    #[tokio::test]
    async fn what_came_into_the_target_since_it_was_looked_at_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let url = DatabaseUrl::sqlite(directory.path().join("to.db"));
        let options = DatabaseOptions::default();
        let (to, _) = SqlStore::migrate(&url, &options, None).await.unwrap();
        to.add_user("ada", None).await.unwrap();
        let copy = Copy { from: &url, to: &url, options: &options, tables: None };
        let mut copying = Copying { copy: &copy, to: &to, note: Note::new(&url, &[]) };
        let error = copying.begin(None).await.unwrap_err();
        assert!(matches!(error, CopyError::Occupied { rows: 1, .. }), "{error}");
        assert_eq!(to.users().await.unwrap().len(), 1);
    }
}
