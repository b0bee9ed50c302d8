//! What writes. Each operation is one transaction, which takes the write lock at its start.

use std::collections::HashSet;

use async_trait::async_trait;
use callgate::{Mask, Secret};
use sqlx::{Row as _, Sqlite, SqliteConnection, Transaction};

use super::SqliteStore;
use super::load::{METHODS, method};
use crate::rows::{MethodRow, SessionRow, UpstreamRow};
use crate::store::{Edit, Holder, Import, NewToken, Result, StoreError};

impl SqliteStore {
    pub(super) async fn writing(&self) -> Result<Transaction<'static, Sqlite>> {
        Ok(self.pool.begin_with("BEGIN IMMEDIATE").await?)
    }

    pub(super) async fn section_id(
        &self,
        connection: &mut SqliteConnection,
        ident: &str,
    ) -> Result<i64> {
        let row = sqlx::query(self.sql("SELECT id FROM {sections} WHERE ident = ?"))
            .bind(ident)
            .fetch_optional(connection)
            .await?;
        match row {
            Some(row) => Ok(row.try_get(0)?),
            None => Err(StoreError::NotFound { what: "section", name: ident.to_owned() }),
        }
    }

    pub(super) async fn delete_actions(
        &self,
        connection: &mut SqliteConnection,
        row: &MethodRow,
    ) -> Result<()> {
        let (plugin, method) = row.permission_key();
        let sql = "DELETE FROM {section_actions}
                   WHERE lower(plugin) = lower(?) AND lower(method) = lower(?)";
        sqlx::query(self.sql(sql)).bind(plugin).bind(method).execute(connection).await?;
        Ok(())
    }

    /// Beside the ones that are there: those may protect another id of the same method.
    async fn add_actions(
        &self,
        connection: &mut SqliteConnection,
        row: &MethodRow,
        needs: &[(String, Mask)],
    ) -> Result<()> {
        let (plugin, method) = row.permission_key();
        for (section, mask) in needs {
            let id = self.section_id(&mut *connection, section).await?;
            let sql = "INSERT INTO {section_actions} (id_section, plugin, method, mask, comment)
                       VALUES (?, ?, ?, ?, '')
                       ON CONFLICT (plugin, method, id_section) DO UPDATE SET mask = excluded.mask";
            sqlx::query(self.sql(sql))
                .bind(id)
                .bind(plugin)
                .bind(method)
                .bind(mask.value())
                .execute(&mut *connection)
                .await?;
        }
        Ok(())
    }

    pub(super) async fn insert_method(
        &self,
        connection: &mut SqliteConnection,
        row: &MethodRow,
        needs: &[(String, Mask)],
    ) -> Result<()> {
        let sql = "INSERT INTO {rpc_methods} (plugin, method, rpc_method, params, params_types,
            description, sections, return_type, title, safety, annotations, exposed, upstream,
            tool_name, input_schema, output_schema, defaults, params_by)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        bind_columns(sqlx::query(self.sql(sql)), row).execute(&mut *connection).await?;
        self.add_actions(connection, row, needs).await
    }

    pub(super) async fn rewrite_method(
        &self,
        connection: &mut SqliteConnection,
        row: &MethodRow,
        needs: Option<&[(String, Mask)]>,
    ) -> Result<()> {
        let old = self.method_by_number(&mut *connection, row).await?;
        let sql = "UPDATE {rpc_methods} SET plugin = ?, method = ?, rpc_method = ?, params = ?,
            params_types = ?, description = ?, sections = ?, return_type = ?, title = ?,
            safety = ?, annotations = ?, exposed = ?, upstream = ?, tool_name = ?,
            input_schema = ?, output_schema = ?, defaults = ?, params_by = ? WHERE id = ?";
        let query = bind_columns(sqlx::query(self.sql(sql)), row).bind(row.id);
        query.execute(&mut *connection).await?;
        if let Some(needs) = needs {
            self.delete_actions(&mut *connection, row).await?;
            self.add_actions(connection, row, needs).await
        } else if old.permission_key() != row.permission_key() {
            self.copy_actions(connection, &old, row).await
        } else {
            Ok(())
        }
    }

    async fn method_by_number(
        &self,
        connection: &mut SqliteConnection,
        row: &MethodRow,
    ) -> Result<MethodRow> {
        let sql = format!("{METHODS} WHERE id = ?");
        let found = sqlx::query(self.sql(&sql)).bind(row.id).fetch_optional(connection).await?;
        let missing = || StoreError::NotFound { what: "method", name: row.rpc_method.clone() };
        method(&found.ok_or_else(missing)?)
    }

    /// What a method needed under its old key it also needs under its new one.
    async fn copy_actions(
        &self,
        connection: &mut SqliteConnection,
        old: &MethodRow,
        new: &MethodRow,
    ) -> Result<()> {
        let sql =
            "INSERT OR IGNORE INTO {section_actions} (id_section, plugin, method, mask, comment)
            SELECT id_section, ?, ?, mask, comment FROM {section_actions}
            WHERE lower(plugin) = lower(?) AND lower(method) = lower(?)";
        let ((plugin, method), (from_plugin, from_method)) =
            (new.permission_key(), old.permission_key());
        sqlx::query(self.sql(sql))
            .bind(plugin)
            .bind(method)
            .bind(from_plugin)
            .bind(from_method)
            .execute(connection)
            .await?;
        Ok(())
    }
}

#[async_trait]
impl Edit for SqliteStore {
    async fn add_method(&self, row: &MethodRow, needs: &[(String, Mask)]) -> Result<()> {
        let mut transaction = self.writing().await?;
        let taken = sqlx::query(self.sql("SELECT 1 FROM {rpc_methods} WHERE rpc_method = ?"))
            .bind(&row.rpc_method)
            .fetch_optional(&mut *transaction)
            .await?;
        if taken.is_some() {
            return Err(StoreError::Exists { what: "method", name: row.rpc_method.clone() });
        }
        self.insert_method(&mut transaction, row, needs).await?;
        Ok(transaction.commit().await?)
    }

    async fn update_method(&self, row: &MethodRow, needs: Option<&[(String, Mask)]>) -> Result<()> {
        let mut transaction = self.writing().await?;
        self.rewrite_method(&mut transaction, row, needs).await?;
        Ok(transaction.commit().await?)
    }

    async fn remove_method(&self, id: &str) -> Result<u64> {
        let mut transaction = self.writing().await?;
        // The actions first: they must not stay for a later namesake, nor go while another method
        // has them.
        let rows = self.rows(&mut transaction, METHODS, method).await?;
        let (mine, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.rpc_method == id);
        let kept: HashSet<_> = others.iter().map(|row| row.action_key()).collect();
        for row in mine.iter().filter(|row| !kept.contains(&row.action_key())) {
            self.delete_actions(&mut transaction, row).await?;
        }
        let gone = sqlx::query(self.sql("DELETE FROM {rpc_methods} WHERE rpc_method = ?"))
            .bind(id)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("DELETE FROM callgate_imports WHERE rpc_method = ?")
            .bind(id)
            .execute(&mut *transaction)
            .await?;
        if gone.rows_affected() == 0 {
            return Err(StoreError::NotFound { what: "method", name: id.to_owned() });
        }
        transaction.commit().await?;
        Ok(gone.rows_affected())
    }

    async fn import(&self, import: &Import) -> Result<()> {
        self.write_import(import).await
    }

    async fn remember_tool_names(&self, names: &[(i64, String)]) -> Result<()> {
        // In parts, so that other writers need not wait for all of them; each in one statement.
        let sql = "UPDATE {rpc_methods} SET tool_name = given.value ->> 1
                   FROM json_each(?) AS given
                   WHERE {rpc_methods}.id = given.value ->> 0 AND tool_name IS NULL";
        for part in names.chunks(2_000) {
            let part = serde_json::to_string(part).unwrap_or_default();
            sqlx::query(self.sql(sql)).bind(part).execute(&self.pool).await?;
        }
        Ok(())
    }

    async fn add_user(&self, login: &str, role: Option<&str>) -> Result<i64> {
        let mut transaction = self.writing().await?;
        let mut id_type: Option<i64> = None;
        if let Some(role) = role {
            sqlx::query(self.sql("INSERT OR IGNORE INTO {users_types} (caption) VALUES (?)"))
                .bind(role)
                .execute(&mut *transaction)
                .await?;
            let row = sqlx::query(self.sql("SELECT id FROM {users_types} WHERE caption = ?"))
                .bind(role)
                .fetch_one(&mut *transaction)
                .await?;
            id_type = Some(row.try_get(0)?);
        }
        let result = sqlx::query(self.sql("INSERT INTO {users} (login, id_type) VALUES (?, ?)"))
            .bind(login)
            .bind(id_type)
            .execute(&mut *transaction)
            .await
            .map_err(|error| taken(error, "user", login))?;
        transaction.commit().await?;
        Ok(result.last_insert_rowid())
    }

    async fn add_section(&self, ident: &str, caption: &str, mask: Mask) -> Result<()> {
        let sql = "INSERT INTO {sections} (caption, ident, mask) VALUES (?, ?, ?)";
        sqlx::query(self.sql(sql))
            .bind(caption)
            .bind(ident)
            .bind(mask.value())
            .execute(&self.pool)
            .await
            .map_err(|error| taken(error, "section", ident))?;
        Ok(())
    }

    async fn ensure_sections(&self, idents: &[String]) -> Result<()> {
        let mut transaction = self.writing().await?;
        let sql = "INSERT OR IGNORE INTO {sections} (caption, ident, mask) VALUES (?, ?, 6)";
        for ident in idents {
            sqlx::query(self.sql(sql)).bind(ident).bind(ident).execute(&mut *transaction).await?;
        }
        Ok(transaction.commit().await?)
    }

    async fn grant(&self, holder: Holder, section: &str, mask: Mask) -> Result<()> {
        let (id, delete, insert) = match holder {
            Holder::User(id) => (
                id,
                "DELETE FROM {sections_user_permission} WHERE id_section = ? AND id_user = ?",
                "INSERT INTO {sections_user_permission} (id_section, id_user, value)
                 VALUES (?, ?, ?)",
            ),
            Holder::Role(id) => (
                id,
                "DELETE FROM {sections_user_types_permission}
                 WHERE id_section = ? AND id_user_type = ?",
                "INSERT INTO {sections_user_types_permission} (id_section, id_user_type, value)
                 VALUES (?, ?, ?)",
            ),
        };
        let mut transaction = self.writing().await?;
        let section = self.section_id(&mut transaction, section).await?;
        sqlx::query(self.sql(delete)).bind(section).bind(id).execute(&mut *transaction).await?;
        sqlx::query(self.sql(insert))
            .bind(section)
            .bind(id)
            .bind(mask.value())
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }

    async fn add_token(&self, token: &NewToken) -> Result<i64> {
        let sql = "INSERT INTO callgate_tokens (id_user, name, digest, created_at, expires_at)
                   VALUES (?, ?, ?, unixepoch(), ?)";
        let result = sqlx::query(sql)
            .bind(token.id_user)
            .bind(&token.name)
            .bind(&token.digest)
            .bind(token.expires_at)
            .execute(&self.pool)
            .await?;
        Ok(result.last_insert_rowid())
    }

    async fn revoke_token(&self, id: i64) -> Result<()> {
        let gone = sqlx::query("DELETE FROM callgate_tokens WHERE id = ?")
            .bind(id)
            .execute(&self.pool)
            .await?;
        if gone.rows_affected() == 0 {
            return Err(StoreError::NotFound { what: "token", name: id.to_string() });
        }
        Ok(())
    }

    async fn revoke_tokens_named(&self, name: &str) -> Result<u64> {
        let gone = sqlx::query("DELETE FROM callgate_tokens WHERE name = ?")
            .bind(name)
            .execute(&self.pool)
            .await?;
        Ok(gone.rows_affected())
    }

    async fn touch_tokens(&self, uses: &[(i64, i64)]) -> Result<()> {
        let mut transaction = self.writing().await?;
        let sql = "UPDATE callgate_tokens SET last_used_at = ?
                   WHERE id = ? AND COALESCE(last_used_at, 0) < ?";
        for (id, at) in uses {
            sqlx::query(sql).bind(at).bind(id).bind(at).execute(&mut *transaction).await?;
        }
        Ok(transaction.commit().await?)
    }

    async fn set_credential(&self, id_user: i64, upstream: &str, secret: &Secret) -> Result<()> {
        let sql = "INSERT INTO callgate_credentials (id_user, upstream, secret, set_at)
                   VALUES (?, ?, ?, unixepoch()) ON CONFLICT (id_user, upstream)
                   DO UPDATE SET secret = excluded.secret, set_at = excluded.set_at";
        sqlx::query(sql)
            .bind(id_user)
            .bind(upstream)
            .bind(secret.expose())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    async fn remove_credential(&self, id_user: i64, upstream: &str) -> Result<bool> {
        let sql = "DELETE FROM callgate_credentials WHERE id_user = ? AND upstream = ?";
        let gone = sqlx::query(sql).bind(id_user).bind(upstream).execute(&self.pool).await?;
        Ok(gone.rows_affected() > 0)
    }

    async fn set_upstream(&self, row: &UpstreamRow) -> Result<()> {
        let sql = "INSERT INTO callgate_upstreams (name, config) VALUES (?, ?)
                   ON CONFLICT (name) DO UPDATE SET config = excluded.config";
        sqlx::query(sql).bind(&row.name).bind(&row.config).execute(&self.pool).await?;
        Ok(())
    }

    async fn remove_upstream(&self, name: &str, keep_credentials: bool) -> Result<u64> {
        let mut transaction = self.writing().await?;
        let sql = "DELETE FROM callgate_upstreams WHERE name = ?";
        let gone = sqlx::query(sql).bind(name).execute(&mut *transaction).await?;
        if gone.rows_affected() == 0 {
            return Err(StoreError::NotFound { what: "upstream", name: name.to_owned() });
        }
        let mut credentials = 0;
        if !keep_credentials {
            let sql = "DELETE FROM callgate_credentials WHERE upstream = ?";
            let gone = sqlx::query(sql).bind(name).execute(&mut *transaction).await?;
            credentials = gone.rows_affected();
        }
        transaction.commit().await?;
        Ok(credentials)
    }

    async fn set_setting(&self, name: &str, value: &str) -> Result<()> {
        let sql = "INSERT INTO {settings} (caption, name, value) VALUES (?, ?, ?)
                   ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        sqlx::query(self.sql(sql)).bind(name).bind(name).bind(value).execute(&self.pool).await?;
        Ok(())
    }

    async fn insert_absent_settings(&self, settings: &[(&str, &str)]) -> Result<()> {
        let mut transaction = self.writing().await?;
        let sql = "INSERT OR IGNORE INTO {settings} (caption, name, value) VALUES (?, ?, ?)";
        for (name, value) in settings {
            sqlx::query(self.sql(sql))
                .bind(name)
                .bind(name)
                .bind(value)
                .execute(&mut *transaction)
                .await?;
        }
        Ok(transaction.commit().await?)
    }

    async fn add_first_key(&self, purpose: &str, secret: &str) -> Result<()> {
        let sql = "INSERT INTO callgate_keys (purpose, secret, created_at)
                   SELECT ?, ?, unixepoch()
                   WHERE NOT EXISTS (SELECT 1 FROM callgate_keys WHERE purpose = ?)";
        sqlx::query(sql).bind(purpose).bind(secret).bind(purpose).execute(&self.pool).await?;
        Ok(())
    }

    async fn add_key(&self, purpose: &str, secret: &str, active_from: i64) -> Result<()> {
        let sql = "INSERT INTO callgate_keys (purpose, secret, created_at, active_from)
                   VALUES (?, ?, unixepoch(), ?)";
        sqlx::query(sql).bind(purpose).bind(secret).bind(active_from).execute(&self.pool).await?;
        Ok(())
    }

    async fn remove_keys_before(&self, purpose: &str, id: i64) -> Result<()> {
        let sql = "DELETE FROM callgate_keys WHERE purpose = ? AND id < ?";
        sqlx::query(sql).bind(purpose).bind(id).execute(&self.pool).await?;
        Ok(())
    }

    async fn post_message(&self, session: &str, message: &str) -> Result<()> {
        let mut transaction = self.writing().await?;
        let next = "UPDATE callgate_revisions SET value = value + 1 WHERE name = 'messages'
                    RETURNING value";
        let number: i64 = sqlx::query(next).fetch_one(&mut *transaction).await?.try_get(0)?;
        let sql = "INSERT INTO callgate_messages (number, session, message, posted_at)
                   VALUES (?, ?, ?, unixepoch())";
        let query = sqlx::query(sql).bind(number).bind(session).bind(message);
        query.execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    async fn forget_messages(&self, before: i64) -> Result<()> {
        let sql = "DELETE FROM callgate_messages WHERE posted_at < ?";
        sqlx::query(sql).bind(before).execute(&self.pool).await?;
        Ok(())
    }

    async fn keep_session(&self, row: &SessionRow) -> Result<()> {
        let mut transaction = self.writing().await?;
        let next = "UPDATE callgate_revisions SET value = value + 1 WHERE name = 'sessions'
                    RETURNING value";
        let number: i64 = sqlx::query(next).fetch_one(&mut *transaction).await?.try_get(0)?;
        let sql = "INSERT INTO callgate_sessions
                   (nonce, number, ended, log_level, subscriptions, ends_at)
                   VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (nonce) DO UPDATE SET
                   number = excluded.number, ended = MAX(ended, excluded.ended),
                   log_level = excluded.log_level, subscriptions = excluded.subscriptions";
        sqlx::query(sql)
            .bind(&row.nonce)
            .bind(number)
            .bind(row.ended)
            .bind(&row.log_level)
            .bind(&row.subscriptions)
            .bind(row.ends_at)
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }

    async fn forget_sessions(&self, now: i64, most: i64) -> Result<()> {
        let sql = "DELETE FROM callgate_sessions WHERE ends_at <= ? OR number IN
                   (SELECT number FROM callgate_sessions ORDER BY number DESC LIMIT -1 OFFSET ?)";
        sqlx::query(sql).bind(now).bind(most).execute(&self.pool).await?;
        Ok(())
    }

    async fn set_meta(&self, name: &str, value: &str) -> Result<()> {
        let sql = "INSERT INTO callgate_meta (name, value) VALUES (?, ?)
                   ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        sqlx::query(sql).bind(name).bind(value).execute(&self.pool).await?;
        Ok(())
    }
}

type Query<'q> = sqlx::query::Query<'q, Sqlite, sqlx::sqlite::SqliteArguments>;

fn bind_columns<'q>(query: Query<'q>, row: &'q MethodRow) -> Query<'q> {
    query
        .bind(&row.plugin)
        .bind(&row.method)
        .bind(&row.rpc_method)
        .bind(&row.params)
        .bind(&row.params_types)
        .bind(&row.description)
        .bind(&row.sections)
        .bind(&row.return_type)
        .bind(&row.title)
        .bind(&row.safety)
        .bind(&row.annotations)
        .bind(&row.exposed)
        .bind(&row.upstream)
        .bind(&row.tool_name)
        .bind(&row.input_schema)
        .bind(&row.output_schema)
        .bind(&row.defaults)
        .bind(&row.params_by)
}

fn taken(error: sqlx::Error, what: &'static str, name: &str) -> StoreError {
    match &error {
        sqlx::Error::Database(database) if database.is_unique_violation() => {
            StoreError::Exists { what, name: name.to_owned() }
        }
        _ => error.into(),
    }
}
