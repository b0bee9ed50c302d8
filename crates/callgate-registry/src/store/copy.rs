//! Copies a registry into another database.
//!
//! All rows are read in one snapshot. Before anything is written, each value is checked: the target must be able to
//! store it. The rows are written in one transaction into an empty target, and read back before the commit. A failed
//! copy therefore leaves the target empty.

mod content;

use thiserror::Error;

use self::content::{Content, TableChecksum, checksums};
use super::SqlStore;
use crate::db::connect::{DatabaseOptions, OpenMode, connect};
use crate::db::database::Purpose;
use crate::db::error::{DatabaseError, OpenError};
use crate::db::migrate;
use crate::db::table_names::TableNames;
use crate::db::url::DatabaseUrl;
use crate::rows::ChangeCounters;
use crate::store::{Store as _, StoreError};

/// Source and target of a copy.
#[derive(Debug, Clone, Copy)]
pub struct Copy<'a> {
    /// The source.
    pub from: &'a DatabaseUrl,
    /// The target, which must be empty.
    pub to: &'a DatabaseUrl,
    /// Options of both databases.
    pub options: &'a DatabaseOptions,
    /// Table names of a new target. Defaults to those of the source.
    pub tables: Option<&'a TableNames>,
}

/// Result of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyReport {
    /// The tables.
    pub tables: Vec<CopiedTable>,
    /// Whether the target was already equal to the source.
    pub was_equal: bool,
    /// Whether the source changed during the copy. If so, nothing was written.
    pub source_changed: bool,
}

impl CopyReport {
    /// Returns `true` if source and target are equal. If it returns `false`, nothing was written.
    pub fn is_finished(&self) -> bool {
        !self.source_changed && self.tables.iter().all(|table| table.is_equal)
    }
}

/// A table of the source and of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedTable {
    /// Name in the target.
    pub name: String,
    /// Number of rows in the source.
    pub rows: u64,
    /// Whether the target has the same rows.
    pub is_equal: bool,
}

/// Reason why a registry could not be copied.
#[derive(Debug, Error)]
pub enum CopyError {
    /// The source could not be opened.
    #[error("cannot read `{0}`")]
    OpenSource(String, #[source] OpenError),
    /// The source could not be read.
    #[error("cannot read `{0}`")]
    Read(String, #[source] StoreError),
    /// The target could not be opened.
    #[error("cannot open the target `{0}`")]
    OpenTarget(String, #[source] OpenError),
    /// The target could not be written.
    #[error("cannot write to `{0}`")]
    Write(String, #[source] StoreError),
    /// The target cannot store a value. Nothing was written.
    #[error("the target cannot store `{column}` of {row} in `{table}`: the value {reason}")]
    Incompatible {
        /// Table in the source.
        table: String,
        /// Key of the row.
        row: String,
        /// Column.
        column: &'static str,
        /// Reason.
        reason: String,
    },
    /// The target contains other rows.
    #[error("the target `{to}` has another registry: `{table}` has {rows} rows")]
    NotEmpty {
        /// Target.
        to: String,
        /// Table that differs.
        table: String,
        /// Number of its rows.
        rows: u64,
    },
}

/// Copies a registry. Calls `on_table` with each table before the table is written.
pub async fn copy(
    copy: Copy<'_>,
    on_table: &mut (dyn FnMut(&str) + Send),
) -> Result<CopyReport, CopyError> {
    let from_error = |error| CopyError::Read(copy.from.to_string(), error);
    let to_error = |error: DatabaseError| CopyError::Write(copy.to.to_string(), error.into());
    // Statements may take longer here than in a server.
    let options =
        DatabaseOptions { statement_timeout: copy.options.load_timeout, ..copy.options.clone() };
    let from = SqlStore::open(copy.from, &options, None).await;
    let from = from.map_err(|error| CopyError::OpenSource(copy.from.to_string(), error))?;
    let before = from.change_counters().await.map_err(from_error)?;
    let source = Content::read(&from).await.map_err(|error| from_error(error.into()))?;
    source.check_values(copy.to.dialect(), &from.database.tables)?;
    let sums = source.sums();
    let to = open_target(&copy, &options, &from.database.tables).await;
    let to = to.map_err(|error| CopyError::OpenTarget(copy.to.to_string(), error))?;
    let mut transaction = to.database.begin(Purpose::Write).await.map_err(to_error)?;
    let target_sums = checksums(&mut transaction).await.map_err(to_error)?;
    if target_sums == sums {
        transaction.commit().await.map_err(to_error)?;
        to.database.driver.checkpoint().await.map_err(to_error)?;
        return Ok(CopyReport { was_equal: true, ..compare(&to, &sums, &target_sums) });
    }
    check_empty(&copy, &to, &sums, &target_sums)?;
    source.write(&mut transaction, on_table).await.map_err(to_error)?;
    let target_sums = checksums(&mut transaction).await.map_err(to_error)?;
    let now = from.change_counters().await.map_err(from_error)?;
    let report = CopyReport {
        source_changed: !copied_counters_are_equal(&before, &now),
        ..compare(&to, &sums, &target_sums)
    };
    if report.is_finished() {
        transaction.commit().await.map_err(to_error)?;
        to.database.driver.checkpoint().await.map_err(to_error)?;
    }
    Ok(report)
}

/// Opens the target, and creates or migrates it.
async fn open_target(
    copy: &Copy<'_>,
    options: &DatabaseOptions,
    names: &TableNames,
) -> Result<SqlStore, OpenError> {
    // If the target is an existing registry, it knows its table names.
    let is_new = match connect(copy.to, options, OpenMode::Existing).await {
        Ok(database) => {
            let found = migrate::registry_tables(&database, "", copy.tables).await;
            matches!(found, Err(OpenError::Missing(_)))
        }
        Err(OpenError::Missing(_)) => true,
        Err(error) => return Err(error),
    };
    let names = copy.tables.or(is_new.then_some(names));
    Ok(SqlStore::migrate(copy.to, options, names).await?.0)
}

fn compare(to: &SqlStore, sums: &[TableChecksum], target_sums: &[TableChecksum]) -> CopyReport {
    let tables = sums.iter().zip(target_sums).map(|(source, target)| {
        let name = to.database.tables.expand(source.table);
        CopiedTable { name, rows: source.rows, is_equal: source == target }
    });
    CopyReport { tables: tables.collect(), was_equal: false, source_changed: false }
}

/// Returns an error for a target that contains rows. If a table differs, the error names it.
fn check_empty(
    copy: &Copy<'_>,
    to: &SqlStore,
    sums: &[TableChecksum],
    target_sums: &[TableChecksum],
) -> Result<(), CopyError> {
    let occupied = sums.iter().zip(target_sums).filter(|(_, target)| target.rows > 0);
    let differing = occupied.min_by_key(|(source, target)| source == target);
    differing.map_or(Ok(()), |(_, target)| {
        let (to, table) = (copy.to.to_string(), to.database.tables.expand(target.table));
        Err(CopyError::NotEmpty { to, table, rows: target.rows })
    })
}

/// Compares the counters, except those of sessions and messages, which change while a server runs.
fn copied_counters_are_equal(before: &ChangeCounters, now: &ChangeCounters) -> bool {
    let without_sessions = |change_counters: &ChangeCounters| ChangeCounters {
        sessions: 0,
        messages: 0,
        ..*change_counters
    };
    without_sessions(before) == without_sessions(now)
}
