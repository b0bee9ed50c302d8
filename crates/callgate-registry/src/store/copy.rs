//! Copies a registry into another database.
//!
//! All rows of the source are read as of one moment and checked against what the target can store. They are
//! written in one transaction into an empty target and read back before the commit, so a copy that fails or is
//! killed leaves the target empty.

mod content;

use thiserror::Error;

use self::content::{Content, Sum, sum_up};
use super::SqlStore;
use super::contents::tables;
use crate::db::connect::{DatabaseOptions, Wanted, connect};
use crate::db::database::Purpose;
use crate::db::error::OpenError;
use crate::db::migrate;
use crate::db::table_names::TableNames;
use crate::db::url::DatabaseUrl;
use crate::rows::Revisions;
use crate::store::Store as _;
use crate::store::StoreError;

/// What is to be copied.
#[derive(Debug, Clone, Copy)]
pub struct Copy<'a> {
    /// The source, which stays as it is.
    pub from: &'a DatabaseUrl,
    /// The target, which must be empty.
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
    /// Whether the source changed meanwhile. Nothing was written then.
    pub moved: bool,
}

impl Copied {
    /// Whether the target has what the source has; if not, nothing was written.
    pub fn is_finished(&self) -> bool {
        !self.moved && self.tables.iter().all(|table| table.is_equal)
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
    /// The source could not be opened.
    #[error("cannot read `{0}`")]
    OpenSource(String, #[source] OpenError),
    /// The source could not be read.
    #[error("cannot read `{0}`")]
    Read(String, #[source] StoreError),
    /// The target could not be opened.
    #[error("cannot write to `{0}`")]
    OpenTarget(String, #[source] OpenError),
    /// The target could not be written.
    #[error("cannot write to `{0}`")]
    Write(String, #[source] StoreError),
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
}

/// Copies a registry. `tell` hears of each table as it is begun.
pub async fn copy(
    copy: Copy<'_>,
    tell: &mut (dyn FnMut(&str) + Send),
) -> Result<Copied, CopyError> {
    let from_error = |error| CopyError::Read(copy.from.to_string(), error);
    let to_error = |error| CopyError::Write(copy.to.to_string(), error);
    // A statement may take its time here: nobody waits for it.
    let patient =
        DatabaseOptions { statement_timeout: copy.options.load_timeout, ..copy.options.clone() };
    let from = SqlStore::open(copy.from, &patient, None).await;
    let from = from.map_err(|error| CopyError::OpenSource(copy.from.to_string(), error))?;
    let before = from.revisions().await.map_err(from_error)?;
    let source = Content::read(&from).await.map_err(from_error)?;
    source.refuse_unfit(copy.to.dialect(), &from.tables)?;
    let sums = source.sums();
    let to = target(&copy, &patient, &from.tables).await;
    let to = to.map_err(|error| CopyError::OpenTarget(copy.to.to_string(), error))?;
    let mut work = to.begin(Purpose::Write).await.map_err(to_error)?;
    let found = sum_up(&mut work).await.map_err(to_error)?;
    if found == sums {
        drop(work);
        to.database.driver.settle().await.map_err(|error| to_error(error.into()))?;
        return Ok(Copied { was_there: true, ..compared(&to, &sums, &found) });
    }
    refuse_content(&copy, &to, &sums, &found)?;
    source.write(&mut work, tell).await.map_err(to_error)?;
    let found = sum_up(&mut work).await.map_err(to_error)?;
    let now = from.revisions().await.map_err(from_error)?;
    let copied = Copied { moved: !is_same(&before, &now), ..compared(&to, &sums, &found) };
    if copied.is_finished() {
        work.commit().await.map_err(to_error)?;
        to.database.driver.settle().await.map_err(|error| to_error(error.into()))?;
    }
    Ok(copied)
}

/// The target, made or brought up to date.
async fn target(
    copy: &Copy<'_>,
    options: &DatabaseOptions,
    names: &TableNames,
) -> Result<SqlStore, OpenError> {
    // One that is there knows what its tables are called.
    let is_new = match connect(copy.to, options, Wanted::There).await {
        Ok(database) => {
            let found = migrate::tables_of(&database, "", copy.tables).await;
            matches!(found, Err(OpenError::Missing(_)))
        }
        Err(OpenError::Missing(_)) => true,
        Err(error) => return Err(error),
    };
    let names = copy.tables.or(is_new.then_some(names));
    Ok(SqlStore::migrate(copy.to, options, names).await?.0)
}

fn compared(to: &SqlStore, sums: &[Sum], found: &[Sum]) -> Copied {
    let tables = tables().into_iter().zip(sums.iter().zip(found));
    let tables = tables.map(|(table, (wanted, found))| {
        let name = to.tables.expand(table.name);
        CopiedTable { name, rows: wanted.rows, is_equal: wanted == found }
    });
    Copied { tables: tables.collect(), was_there: false, moved: false }
}

/// Refuses a target with rows, naming a table that differs if there is one.
fn refuse_content(
    copy: &Copy<'_>,
    to: &SqlStore,
    sums: &[Sum],
    found: &[Sum],
) -> Result<(), CopyError> {
    let tables = tables().into_iter().zip(sums.iter().zip(found));
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
