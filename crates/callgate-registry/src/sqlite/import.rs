//! What an import writes, in one transaction.

use std::collections::HashSet;

use sqlx::{Row as _, SqliteConnection};

use super::SqliteStore;
use super::load::{METHODS, method};
use crate::rows::{ImportRow, MethodRow, TypeRow};
use crate::store::{Holder, Import, ImportAccess, ImportChange, ImportGrant, Result, StoreError};

impl SqliteStore {
    pub(super) async fn write_import(&self, import: &Import) -> Result<()> {
        let mut transaction = self.writing().await?;
        let revision = "SELECT value FROM callgate_revisions WHERE name = 'catalog'";
        let revision: i64 = sqlx::query(revision).fetch_one(&mut *transaction).await?.try_get(0)?;
        if revision != import.revision {
            return Err(StoreError::Moved);
        }
        self.write_access(&mut transaction, &import.access).await?;
        for ident in &import.sections {
            let sql = "INSERT OR IGNORE INTO {sections} (caption, ident, mask) VALUES (?, ?, 6)";
            sqlx::query(self.sql(sql)).bind(ident).bind(ident).execute(&mut *transaction).await?;
        }
        for row in &import.types {
            write_type(&mut transaction, row).await?;
        }
        let is_removal = |change: &ImportChange| matches!(change, ImportChange::Remove(_));
        if import.changes.iter().any(is_removal) {
            self.remove_rows(&mut transaction, import).await?;
        }
        for change in &import.changes {
            match change {
                ImportChange::Write { row, needs, note } => {
                    if row.id == 0 {
                        let needs = needs.as_deref().unwrap_or_default();
                        self.insert_method(&mut transaction, row, needs).await?;
                    } else {
                        self.rewrite_method(&mut transaction, row, needs.as_deref()).await?;
                    }
                    write_note(&mut transaction, note).await?;
                }
                ImportChange::Note(note) => write_note(&mut transaction, note).await?,
                ImportChange::Remove(row) => {
                    let sql = "DELETE FROM callgate_imports WHERE upstream = ? AND rpc_method = ?";
                    sqlx::query(sql)
                        .bind(row.upstream_name())
                        .bind(&row.rpc_method)
                        .execute(&mut *transaction)
                        .await?;
                }
            }
        }
        Ok(transaction.commit().await?)
    }

    async fn write_access(
        &self,
        connection: &mut SqliteConnection,
        access: &ImportAccess,
    ) -> Result<()> {
        let sql = "SELECT value FROM callgate_revisions WHERE name = 'access'";
        let revision: i64 = sqlx::query(sql).fetch_one(&mut *connection).await?.try_get(0)?;
        if access.revision.is_some_and(|made_from| made_from != revision) {
            return Err(StoreError::Moved);
        }
        for row in &access.sections {
            let sql = "INSERT OR IGNORE INTO {sections} (caption, ident, mask) VALUES (?, ?, ?)";
            let query = sqlx::query(self.sql(sql)).bind(&row.caption).bind(&row.ident);
            query.bind(&row.mask).execute(&mut *connection).await?;
        }
        for row in &access.roles {
            let sql = "INSERT INTO {users_types} (id, caption) VALUES (?, ?)";
            let query = sqlx::query(self.sql(sql)).bind(row.id).bind(&row.caption);
            query.execute(&mut *connection).await?;
        }
        for row in &access.users {
            let sql = "INSERT INTO {users} (id, login, id_type) VALUES (?, ?, ?)";
            let query = sqlx::query(self.sql(sql)).bind(row.id).bind(&row.login);
            query.bind(row.id_type).execute(&mut *connection).await?;
        }
        for grant in &access.grants {
            self.write_grant(&mut *connection, grant).await?;
        }
        Ok(())
    }

    async fn write_grant(
        &self,
        connection: &mut SqliteConnection,
        grant: &ImportGrant,
    ) -> Result<()> {
        let (sql, holder) = match grant.holder {
            Holder::User(id) => (
                "INSERT INTO {sections_user_permission} (id_section, id_user, value)
                 VALUES (?, ?, ?)",
                id,
            ),
            Holder::Role(id) => (
                "INSERT INTO {sections_user_types_permission} (id_section, id_user_type, value)
                 VALUES (?, ?, ?)",
                id,
            ),
        };
        let section = self.section_id(&mut *connection, &grant.section).await?;
        let query = sqlx::query(self.sql(sql)).bind(section).bind(holder).bind(grant.value);
        query.execute(&mut *connection).await?;
        Ok(())
    }

    /// With the actions that no other method has.
    async fn remove_rows(&self, connection: &mut SqliteConnection, import: &Import) -> Result<()> {
        let removed = |change: &ImportChange| match change {
            ImportChange::Remove(row) => Some(row.id),
            _ => None,
        };
        let numbers: HashSet<i64> = import.changes.iter().filter_map(removed).collect();
        let rows = self.rows(&mut *connection, METHODS, method).await?;
        let (mine, others): (Vec<MethodRow>, Vec<MethodRow>) =
            rows.into_iter().partition(|row| numbers.contains(&row.id));
        let kept: HashSet<_> = others.iter().map(MethodRow::action_key).collect();
        for row in &mine {
            if !kept.contains(&row.action_key()) {
                self.delete_actions(&mut *connection, row).await?;
            }
            sqlx::query(self.sql("DELETE FROM {rpc_methods} WHERE id = ?"))
                .bind(row.id)
                .execute(&mut *connection)
                .await?;
        }
        Ok(())
    }
}

async fn write_type(connection: &mut SqliteConnection, row: &TypeRow) -> Result<()> {
    let sql = "INSERT INTO callgate_types (name, fields, schema) VALUES (?, ?, ?)
               ON CONFLICT (name) DO UPDATE SET fields = excluded.fields, schema = excluded.schema";
    let query = sqlx::query(sql).bind(&row.name).bind(&row.fields).bind(&row.schema);
    query.execute(connection).await?;
    Ok(())
}

async fn write_note(connection: &mut SqliteConnection, note: &ImportRow) -> Result<()> {
    let sql = "INSERT INTO callgate_imports (upstream, rpc_method, source, written)
               VALUES (?, ?, ?, ?) ON CONFLICT (upstream, rpc_method) DO UPDATE SET
               source = excluded.source, written = excluded.written";
    sqlx::query(sql)
        .bind(&note.upstream)
        .bind(&note.rpc_method)
        .bind(&note.source)
        .bind(&note.written)
        .execute(connection)
        .await?;
    Ok(())
}
