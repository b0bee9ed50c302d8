//! Attaches the database of a Festi application to a registry.

#[cfg(test)]
mod tests;

use super::SqlStore;
use crate::db::connect::DatabaseOptions;
use crate::db::table_names::TableNames;
use crate::db::url::DatabaseUrl;
use crate::error::{Result, StoreError};
use crate::festi::attached::{Attached, BESIDE};
use crate::festi::merge::AttachOptions;
use crate::festi::watch::LookEvery;

impl SqlStore {
    /// Attaches a Festi database whose tables are called so; they are only read. The registry must have no
    /// users of its own: their tokens and grants would pass to Festi's users of the same numbers.
    pub async fn attach(
        &self,
        database: (&DatabaseUrl, &DatabaseOptions),
        tables: &TableNames,
        options: AttachOptions,
        every: LookEvery,
    ) -> Result<Self> {
        if !self.users().await?.is_empty() {
            return Err(StoreError::OwnUsers);
        }
        let attached = Attached::open(database, tables, options, every).await?;
        if self.meta(BESIDE).await?.is_none() {
            self.set_meta(BESIDE, "festi").await?;
        }
        Ok(self.with_festi(attached))
    }

    /// Looks at all tables of the attached database now, and not when it is time.
    pub async fn look(&self) -> Result<()> {
        match &self.festi {
            Some(festi) => festi.look().await,
            None => Ok(()),
        }
    }

    /// Returns the ids in the overlay that the attached database does not have.
    pub async fn unused_overlays(&self) -> Result<Vec<String>> {
        match &self.festi {
            Some(festi) => festi.unused_overlays().await,
            None => Ok(Vec::new()),
        }
    }
}
