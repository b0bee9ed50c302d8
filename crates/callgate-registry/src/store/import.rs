//! Writes the changes of an import in one transaction.

use std::collections::{BTreeMap, HashSet};

use super::SqlStore;
use super::methods::json;
use crate::db::database::{Purpose, Value};
use crate::db::dialect::{Upsert, UpsertValue};
use crate::db::error as db;
use crate::db::transaction::Transaction;
use crate::festi::poll_state::registry_part;
use crate::rows::{ImportRow, TypeRow};
use crate::store::{Import, ImportAccess, ImportChange};
use crate::store::{Result, StoreError};

impl SqlStore {
    /// Writes the changes of an import. Fails and writes nothing if the registry has changed since the changes were
    /// computed.
    pub async fn import(&self, import: &Import) -> Result<()> {
        let mut transaction = self.database.begin(Purpose::Write).await?;
        if transaction.change_counter("catalog").await? != registry_part(import.change_counter) {
            return Err(StoreError::Conflict);
        }
        transaction.write_access(&import.access).await?;
        for ident in &import.sections {
            transaction.ensure_section(ident, ident, 6.into()).await?;
        }
        for row in &import.types {
            transaction.write_type(row).await?;
        }
        transaction.remove_rows(&import.changes).await?;
        for group in import.changes.chunk_by(|change, next| is_new(change) && is_new(next)) {
            for part in group.chunks(transaction.dialect().max_rows_per_statement()) {
                transaction.write_changes(part).await?;
            }
        }
        Ok(transaction.commit().await?)
    }
}

/// Returns `true` if a change adds a method. Consecutive changes of this kind are written together.
fn is_new(change: &ImportChange) -> bool {
    matches!(change, ImportChange::Write { row, .. } if row.id == 0)
}

impl Transaction<'_> {
    /// Writes one change, or several that add methods.
    async fn write_changes(&mut self, changes: &[ImportChange]) -> Result<()> {
        let (mut methods, mut notes) = (Vec::new(), Vec::new());
        for change in changes {
            match change {
                ImportChange::Write { row, needs, note } => {
                    if row.id == 0 {
                        methods.push((&**row, needs.as_deref().unwrap_or_default()));
                    } else {
                        self.rewrite_method(row, needs.as_deref()).await?;
                    }
                    notes.push(note);
                }
                ImportChange::Note(note) => notes.push(note),
                ImportChange::Remove(row) => {
                    let delete =
                        "DELETE FROM callgate_imports WHERE upstream = ? AND rpc_method = ?";
                    let values = [row.upstream_name().into(), (&row.rpc_method).into()];
                    self.run(delete, &values).await?;
                }
            }
        }
        if !methods.is_empty() {
            self.insert_methods(&methods).await?;
        }
        Ok(self.write_notes(&notes).await?)
    }

    async fn write_access(&mut self, access: &ImportAccess) -> Result<()> {
        let change_counter = self.change_counter("access").await?;
        if access.change_counter.is_some_and(|base| registry_part(base) != change_counter) {
            return Err(StoreError::Conflict);
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
    ) -> db::Result<()> {
        let template = self.dialect().insert_with_id(table, insert);
        self.run(&template, values).await
    }

    async fn remove_rows(&mut self, changes: &[ImportChange]) -> Result<()> {
        let removed = |change: &ImportChange| match change {
            ImportChange::Remove(row) => Some(row.id),
            _ => None,
        };
        let ids: HashSet<i64> = changes.iter().filter_map(removed).collect();
        if ids.is_empty() {
            return Ok(());
        }
        self.remove_methods(|row| ids.contains(&row.id)).await.map(drop)
    }

    async fn write_type(&mut self, row: &TypeRow) -> db::Result<()> {
        let dialect = self.dialect();
        self.upsert(&Upsert {
            table: "callgate_types",
            keys: &[("name", (&row.name).into())],
            columns: &[
                ("fields", UpsertValue::Value(json(dialect, row.fields.as_ref()))),
                ("{name schema}", UpsertValue::Value(json(dialect, row.schema.as_ref()))),
            ],
            insert_only: &[],
        })
        .await
    }

    /// Writes the values for the next import. If there are several for one method, writes the last.
    async fn write_notes(&mut self, notes: &[&ImportRow]) -> db::Result<()> {
        let last: BTreeMap<_, &ImportRow> =
            notes.iter().map(|note| ((&note.upstream, &note.rpc_method), *note)).collect();
        let notes: Vec<_> = last
            .into_values()
            .map(|note| {
                let keys: [(&str, Value<'_>); 2] = [
                    ("upstream", (&note.upstream).into()),
                    ("rpc_method", (&note.rpc_method).into()),
                ];
                let written = Value::Json(Some(&note.written));
                (
                    keys,
                    [
                        ("source", UpsertValue::from(&note.source)),
                        ("written", UpsertValue::Value(written)),
                    ],
                )
            })
            .collect();
        let rows: Vec<Upsert<'_>> = notes
            .iter()
            .map(|(keys, columns)| Upsert {
                table: "callgate_imports",
                keys,
                columns,
                insert_only: &[],
            })
            .collect();
        self.upsert_all(&rows).await
    }
}

/// Binds a text that is a number as a number. Other text is bound unchanged, so that the database stores or refuses it.
pub(super) fn number(text: &str) -> Value<'_> {
    text.trim().parse::<i64>().map_or(text.into(), Value::from)
}
