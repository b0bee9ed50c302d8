//! Attaches the database of a Festi application to a registry.

#[cfg(test)]
mod tests;

use callgate::Mask;

use super::SqlStore;
use super::error::{AttachError, Result, StoreError};
use crate::db::connect::DatabaseOptions;
use crate::db::table_names::TableNames;
use crate::db::url::DatabaseUrl;
use crate::festi::attached::{ATTACHED, Attached};
use crate::festi::layout::FestiTable;
use crate::festi::merge::{self, AttachOptions};
use crate::festi::poll_state::PollIntervals;
use crate::rows::MethodRow;

impl SqlStore {
    /// Attaches a Festi database, which is never written. The registry must have no users, because their tokens and
    /// grants would apply to Festi's users with the same ids.
    pub async fn attach(
        &self,
        database: (&DatabaseUrl, &DatabaseOptions),
        tables: &TableNames,
        options: AttachOptions,
        intervals: PollIntervals,
    ) -> Result<Self, AttachError> {
        if !self.users().await?.is_empty() {
            return Err(AttachError::HasUsers);
        }
        let attached = Attached::open(database, tables, options, intervals).await?;
        if self.meta(ATTACHED).await?.is_none() {
            self.set_meta(ATTACHED, "festi").await?;
        }
        Ok(self.with_festi(attached))
    }

    /// Polls all tables of the attached database now.
    pub async fn poll_attached(&self) -> Result<()> {
        match &self.festi {
            Some(festi) => Ok(festi.poller.poll(&FestiTable::ALL).await?),
            None => Ok(()),
        }
    }

    /// Returns the ids of methods that the overlay changes but that do not exist in the attached database.
    pub async fn unused_overlays(&self) -> Result<Vec<String>> {
        match &self.festi {
            Some(festi) => Ok(festi.unused_overlays().await?),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the overlay that changes a method of the attached database to `row`, or `None` if that database does not
    /// have the method.
    pub(super) async fn overlay(
        &self,
        row: &MethodRow,
        needs: Option<&[(String, Mask)]>,
    ) -> Result<Option<MethodRow>> {
        let Some(festi) = &self.festi else { return Ok(None) };
        let Some(base) = festi.method(&row.rpc_method).await? else { return Ok(None) };
        if needs.is_some() {
            let subject = format!("the required sections of `{}` are", row.rpc_method);
            let remedy =
                "in the Festi database, insert or update the row of the method in `{table}`";
            return Err(read_only(festi, subject, FestiTable::Actions, remedy));
        }
        if let Some(column) = merge::cleared_column(&base, row) {
            let subject = format!("the `{column}` of `{}` is", row.rpc_method);
            let remedy =
                "clear the column in Festi's table and in the overlay, or set another value";
            return Err(read_only(festi, subject, FestiTable::Methods, remedy));
        }
        Ok(Some(merge::difference(&base, row)))
    }
}

/// Returns the error for a change of a row in the attached database.
pub(super) fn read_only(
    festi: &Attached,
    subject: impl Into<String>,
    table: FestiTable,
    remedy: &str,
) -> StoreError {
    let table = festi.table_name(table);
    let remedy = remedy.replace("{table}", &table);
    StoreError::FestiReadOnly { subject: subject.into(), table, remedy }
}
