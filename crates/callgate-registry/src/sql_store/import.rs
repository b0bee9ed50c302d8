//! What an import writes, in one transaction.

use std::collections::HashSet;

use super::methods::json;
use super::{SqlStore, Work};
use crate::dialect::{Put, Upsert};
use crate::rows::{ImportRow, TypeRow};
use crate::sql::{Purpose, Value};
use crate::store::{Import, ImportAccess, ImportChange, Result, StoreError};

impl SqlStore {
    pub(super) async fn write_import(&self, import: &Import) -> Result<()> {
        let mut work = self.begin(Purpose::Write).await?;
        if work.revision("catalog").await? != import.revision {
            return Err(StoreError::Moved);
        }
        work.write_access(&import.access).await?;
        for ident in &import.sections {
            work.ensure_section(ident, ident, 6.into()).await?;
        }
        for row in &import.types {
            work.write_type(row).await?;
        }
        work.remove_rows(&import.changes).await?;
        for change in &import.changes {
            work.write_change(change).await?;
        }
        work.commit().await
    }
}

impl Work<'_> {
    async fn write_change(&mut self, change: &ImportChange) -> Result<()> {
        match change {
            ImportChange::Write { row, needs, note } => {
                if row.id == 0 {
                    self.insert_method(row, needs.as_deref().unwrap_or_default()).await?;
                } else {
                    self.rewrite_method(row, needs.as_deref()).await?;
                }
                self.write_note(note).await
            }
            ImportChange::Note(note) => self.write_note(note).await,
            ImportChange::Remove(row) => {
                let forget = "DELETE FROM callgate_imports WHERE upstream = ? AND rpc_method = ?";
                self.run(forget, &[row.upstream_name().into(), (&row.rpc_method).into()]).await
            }
        }
    }

    async fn write_access(&mut self, access: &ImportAccess) -> Result<()> {
        let revision = self.revision("access").await?;
        if access.revision.is_some_and(|made_from| made_from != revision) {
            return Err(StoreError::Moved);
        }
        for row in &access.sections {
            self.ensure_section(&row.ident, &row.caption, number(&row.mask)).await?;
        }
        let insert = "INSERT INTO {users_types} (id, caption) VALUES (?, ?)";
        for row in &access.roles {
            let values = [row.id.into(), (&row.caption).into()];
            self.insert_with_id("{users_types}", insert, &values).await?;
        }
        let insert = "INSERT INTO {users} (id, login, id_type) VALUES (?, ?, ?)";
        for row in &access.users {
            let values = [row.id.into(), (&row.login).into(), row.id_type.into()];
            self.insert_with_id("{users}", insert, &values).await?;
        }
        for grant in &access.grants {
            self.add_grant(grant.holder, &grant.section, grant.value).await?;
        }
        Ok(())
    }

    async fn insert_with_id(
        &mut self,
        table: &str,
        insert: &str,
        values: &[Value<'_>],
    ) -> Result<()> {
        let template = self.dialect().with_given_id(table, insert);
        self.run(&template, values).await
    }

    async fn remove_rows(&mut self, changes: &[ImportChange]) -> Result<()> {
        let removed = |change: &ImportChange| match change {
            ImportChange::Remove(row) => Some(row.id),
            _ => None,
        };
        let numbers: HashSet<i64> = changes.iter().filter_map(removed).collect();
        if numbers.is_empty() {
            return Ok(());
        }
        self.remove_methods(|row| numbers.contains(&row.id)).await.map(drop)
    }

    async fn write_type(&mut self, row: &TypeRow) -> Result<()> {
        let dialect = self.dialect();
        self.upsert(&Upsert {
            table: "callgate_types",
            keys: &[("name", (&row.name).into())],
            columns: &[
                ("fields", Put::Value(json(dialect, row.fields.as_ref()))),
                ("{name schema}", Put::Value(json(dialect, row.schema.as_ref()))),
            ],
            once: &[],
        })
        .await
    }

    async fn write_note(&mut self, note: &ImportRow) -> Result<()> {
        self.upsert(&Upsert {
            table: "callgate_imports",
            keys: &[
                ("upstream", (&note.upstream).into()),
                ("rpc_method", (&note.rpc_method).into()),
            ],
            columns: &[
                ("source", (&note.source).into()),
                ("written", Value::Json(Some(&note.written)).into()),
            ],
            once: &[],
        })
        .await
    }
}

/// What is no number is for the database to refuse, or to keep.
fn number(text: &str) -> Value<'_> {
    text.trim().parse::<i64>().map_or(text.into(), Value::from)
}
