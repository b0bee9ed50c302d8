//! Write operations for administration, each in one transaction.

use callgate::{Mask, Secret};

use super::attach::read_only;
use super::{MAX_CHANGED, SqlStore, in_list};
use crate::db::database::{Purpose, Value};
use crate::db::dialect::{Upsert, UpsertValue};
use crate::db::error::{self as db, DatabaseError, DatabaseErrorKind};
use crate::db::pool::retry_deadlocks;
use crate::db::transaction::Transaction;
use crate::festi::layout::FestiTable;
use crate::rows::{GrantHolder, MethodRow, UpstreamRow};
use crate::store::{Entity, NewToken, Result, Store as _, StoreError};

/// Returns the permission table, its column for the holder, and the id of the holder.
fn permissions(holder: GrantHolder) -> (&'static str, &'static str, i64) {
    match holder {
        GrantHolder::User(id) => ("{sections_user_permission}", "id_user", id),
        GrantHolder::Role(id) => ("{sections_user_types_permission}", "id_user_type", id),
    }
}

/// Converts a duplicate key into [`StoreError::AlreadyExists`].
fn map_duplicate(error: DatabaseError, entity: Entity, name: &str) -> StoreError {
    match error.kind {
        DatabaseErrorKind::Duplicate => entity.already_exists(name),
        _ => error.into(),
    }
}

impl SqlStore {
    /// Adds a method with its required sections. Fails if another method has the same plugin and function, and its
    /// required sections are not `needs`. Does not fail for this reason if `needs` is empty.
    pub async fn add_method(&self, row: &MethodRow, needs: &[(String, Mask)]) -> Result<()> {
        if let Some(festi) = &self.festi
            && festi.method(&row.rpc_method).await?.is_some()
        {
            return Err(Entity::Method.already_exists(&row.rpc_method));
        }
        self.ensure_required_sections(needs).await?;
        let mut transaction = self.database.begin(Purpose::Write).await?;
        if transaction.has_method(&row.rpc_method).await? {
            return Err(Entity::Method.already_exists(&row.rpc_method));
        }
        if !needs.is_empty() {
            transaction.check_shared_actions(row, needs).await?;
        }
        transaction.insert_method(row, needs).await?;
        Ok(transaction.commit().await?)
    }

    /// Adds methods without required sections. Skips methods whose id exists. Uses several transactions if there are
    /// many.
    pub async fn add_missing_methods(&self, rows: &[MethodRow]) -> Result<()> {
        for part in rows.chunks(MAX_CHANGED) {
            let mut transaction = self.database.begin(Purpose::Write).await?;
            for row in part {
                if !transaction.has_method(&row.rpc_method).await? {
                    transaction.insert_method(row, &[]).await?;
                }
            }
            transaction.commit().await?;
        }
        Ok(())
    }

    /// Updates the columns of a method that differ between `before` and `row`, and its required sections if `needs` is
    /// given. The remaining columns keep their stored values, which may be newer than `before`. Fails if the required
    /// sections of another method would change too.
    pub async fn update_method(
        &self,
        before: &MethodRow,
        row: &MethodRow,
        needs: Option<&[(String, Mask)]>,
    ) -> Result<()> {
        if let Some(overlay) = self.overlay(row, needs).await? {
            return self.write_overlay(overlay).await;
        }
        self.ensure_required_sections(needs.unwrap_or_default()).await?;
        let mut transaction = self.database.begin(Purpose::Write).await?;
        let mut current = transaction.method_by_id(row).await?;
        for column in MethodRow::COLUMNS {
            if column.get(row) != column.get(before) {
                column.get_mut(&mut current).clone_from(column.get(row));
            }
        }
        if let Some(needs) = needs {
            transaction.check_shared_actions(&current, needs).await?;
        }
        transaction.rewrite_method(&current, needs).await?;
        Ok(transaction.commit().await?)
    }

    /// Deletes the rows of a method, and the actions that no other method shares. Returns the number of deleted rows.
    /// For a method of an attached database, deletes only the overlay.
    pub async fn remove_method(&self, id: &str) -> Result<u64> {
        if let Some(festi) = &self.festi
            && self.without_festi().methods_with_id(id).await?.is_empty()
            && festi.method(id).await?.is_some()
        {
            let remedy =
                format!("`callgate method set {id} --hidden` hides the method in Callgate");
            return Err(read_only(
                festi,
                format!("method `{id}` is"),
                FestiTable::Methods,
                &remedy,
            ));
        }
        let mut transaction = self.database.begin(Purpose::Write).await?;
        let deleted = transaction.remove_methods(|row| row.rpc_method == id).await?;
        if deleted == 0 {
            return Err(Entity::Method.not_found(id));
        }
        transaction.run("DELETE FROM callgate_imports WHERE rpc_method = ?", &[id.into()]).await?;
        transaction.commit().await?;
        Ok(deleted)
    }

    /// Adds a user, and the role if it does not exist. Returns the user's id.
    pub async fn add_user(&self, login: &str, role: Option<&str>) -> Result<i64> {
        if let Some(festi) = &self.festi {
            return Err(read_only(festi, "users are", FestiTable::Users, "add the user there"));
        }
        let mut transaction = self.database.begin(Purpose::Write).await?;
        let id_type = match role {
            Some(role) => Some(transaction.role_id(role).await?),
            None => None,
        };
        let template = "INSERT INTO {users} (login, id_type) VALUES (?, ?)";
        let added = transaction.run(template, &[login.into(), id_type.into()]).await;
        added.map_err(|error| map_duplicate(error, Entity::User, login))?;
        let id =
            transaction.number("SELECT id FROM {users} WHERE login = ?", &[login.into()]).await?;
        transaction.commit().await?;
        Ok(id)
    }

    /// Adds a section.
    pub async fn add_section(&self, ident: &str, caption: &str, mask: Mask) -> Result<()> {
        if let Some(festi) = &self.festi
            && festi.section_idents().await?.contains(ident)
        {
            return Err(Entity::Section.already_exists(ident));
        }
        let mut transaction = self.database.begin(Purpose::Write).await?;
        transaction.add_section(ident, caption, mask.value().into()).await?;
        Ok(transaction.commit().await?)
    }

    /// Sets the grant of a user or a role on a section.
    pub async fn grant(&self, holder: GrantHolder, section: &str, mask: Mask) -> Result<()> {
        let (table, column, id) = permissions(holder);
        if let Some(festi) = &self.festi
            && festi.section_idents().await?.contains(section)
        {
            let table = match holder {
                GrantHolder::User(_) => FestiTable::UserGrants,
                GrantHolder::Role(_) => FestiTable::RoleGrants,
            };
            let remedy = format!(
                "insert or update the row there: `id_section` of `{section}`, `{column}` {id}, `value` {}",
                mask.value()
            );
            return Err(read_only(festi, format!("grants on `{section}` are"), table, &remedy));
        }
        let mut transaction = self.database.begin(Purpose::Write).await?;
        let id_section = transaction.section_id(section).await?;
        let template = format!("DELETE FROM {table} WHERE id_section = ? AND {column} = ?");
        transaction.run(&template, &[id_section.into(), id.into()]).await?;
        transaction.add_grant(holder, section, mask.value()).await?;
        Ok(transaction.commit().await?)
    }

    /// Stores a token. Returns its id.
    pub async fn add_token(&self, token: &NewToken) -> Result<i64> {
        let template = "INSERT INTO callgate_tokens (id_user, name, digest, created_at, expires_at)
                        VALUES (?, ?, ?, {now}, {at})";
        let values = [
            token.id_user.into(),
            (&token.name).into(),
            (&token.digest).into(),
            Value::time(token.expires_at),
        ];
        let mut transaction = self.database.begin(Purpose::Tokens).await?;
        transaction.run(template, &values).await?;
        let select = "SELECT id FROM callgate_tokens WHERE digest = ?";
        let id = transaction.number(select, &[(&token.digest).into()]).await?;
        transaction.commit().await?;
        Ok(id)
    }

    /// Deletes a token.
    pub async fn revoke_token(&self, id: i64) -> Result<()> {
        let deleted = retry_deadlocks(|| self.revoke_where("id = ?", id.into())).await?;
        if deleted == 0 {
            return Err(Entity::Token.not_found(id.to_string()));
        }
        Ok(())
    }

    /// Deletes all tokens with this name. Returns their number.
    pub async fn revoke_tokens_named(&self, name: &str) -> Result<u64> {
        Ok(retry_deadlocks(|| self.revoke_where("name = ?", name.into())).await?)
    }

    /// Sets a user's credential at an upstream.
    pub async fn set_credential(
        &self,
        id_user: i64,
        upstream: &str,
        secret: &Secret,
    ) -> Result<()> {
        self.upsert_row(&Upsert {
            table: "callgate_credentials",
            keys: &[("id_user", id_user.into()), ("upstream", upstream.into())],
            columns: &[("secret", secret.expose().into()), ("set_at", UpsertValue::Now)],
            insert_only: &[],
        })
        .await
    }

    /// Deletes a user's credential at an upstream. Returns `false` if there was none.
    pub async fn remove_credential(&self, id_user: i64, upstream: &str) -> Result<bool> {
        let rows = "callgate_credentials WHERE id_user = ? AND upstream = ?";
        let mut transaction = self.database.begin(Purpose::Write).await?;
        let deleted = transaction.delete_counted(rows, &[id_user.into(), upstream.into()]).await?;
        transaction.commit().await?;
        Ok(deleted > 0)
    }

    /// Adds or replaces an upstream. Fails if the stored upstream is not `before`.
    pub async fn set_upstream(
        &self,
        before: Option<&UpstreamRow>,
        row: &UpstreamRow,
    ) -> Result<()> {
        let mut transaction = self.database.begin(Purpose::Write).await?;
        let select = "SELECT {text config} FROM callgate_upstreams WHERE name = ?";
        let current =
            transaction.row(select, &[(&row.name).into()]).await?.map(|mut row| row.text());
        if current.as_ref() != before.map(|before| &before.config) {
            return Err(StoreError::Conflict);
        }
        transaction
            .upsert(&Upsert {
                table: "callgate_upstreams",
                keys: &[("name", (&row.name).into())],
                columns: &[("config", Value::Json(Some(&row.config)).into())],
                insert_only: &[],
            })
            .await?;
        Ok(transaction.commit().await?)
    }

    /// Deletes an upstream and, unless `keep_credentials` is set, users' credentials for it. Returns the number of
    /// deleted credentials.
    pub async fn remove_upstream(&self, name: &str, keep_credentials: bool) -> Result<u64> {
        let mut transaction = self.database.begin(Purpose::Write).await?;
        if transaction.delete_counted("callgate_upstreams WHERE name = ?", &[name.into()]).await?
            == 0
        {
            return Err(Entity::Upstream.not_found(name));
        }
        let mut credentials = 0;
        if !keep_credentials {
            let rows = "callgate_credentials WHERE upstream = ?";
            credentials = transaction.delete_counted(rows, &[name.into()]).await?;
        }
        transaction.commit().await?;
        Ok(credentials)
    }

    /// Sets a setting.
    pub async fn set_setting(&self, name: &str, value: &str) -> Result<()> {
        if let Some(festi) = &self.festi
            && festi.has_setting(name).await?
        {
            let remedy = format!("update the `value` of `{name}` there");
            return Err(read_only(
                festi,
                format!("setting `{name}` is"),
                FestiTable::Settings,
                &remedy,
            ));
        }
        let mut transaction = self.database.begin(Purpose::Write).await?;
        transaction.set_setting(name, value).await?;
        Ok(transaction.commit().await?)
    }

    /// Adds missing settings.
    pub async fn add_missing_settings(&self, settings: &[(&str, &str)]) -> Result<()> {
        let mut transaction = self.database.begin(Purpose::Write).await?;
        for (name, value) in settings {
            let select = "SELECT 1 FROM {settings} WHERE name = ?";
            if !transaction.exists(select, &[(*name).into()]).await? {
                transaction.set_setting(name, value).await?;
            }
        }
        Ok(transaction.commit().await?)
    }

    /// Sets a row of `callgate_meta`.
    pub async fn set_meta(&self, name: &str, value: &str) -> Result<()> {
        self.upsert_row(&Upsert {
            table: "callgate_meta",
            keys: &[("name", name.into())],
            columns: &[("value", value.into())],
            insert_only: &[],
        })
        .await
    }

    /// Adds to the registry the required sections that exist in the attached database, so that the registry's
    /// actions can refer to them.
    async fn ensure_required_sections(&self, needs: &[(String, Mask)]) -> Result<()> {
        let Some(festi) = self.festi.as_ref().filter(|_| !needs.is_empty()) else { return Ok(()) };
        let existing = festi.section_idents().await?;
        let idents = needs.iter().map(|(ident, _)| ident).filter(|ident| existing.contains(*ident));
        let idents: Vec<String> = idents.cloned().collect();
        if idents.is_empty() { Ok(()) } else { self.ensure_sections(&idents).await }
    }

    /// Writes the overlay of a method of the attached database.
    async fn write_overlay(&self, mut overlay: MethodRow) -> Result<()> {
        let mut transaction = self.database.begin(Purpose::Write).await?;
        // Runs in the transaction, because servers add such rows when they store tool names.
        let template = "SELECT id FROM {rpc_methods} WHERE rpc_method = ? ORDER BY id";
        match transaction.number(template, &[overlay.rpc_method.as_str().into()]).await? {
            0 => transaction.insert_method(&overlay, &[]).await?,
            id => {
                overlay.id = id;
                transaction.rewrite_method(&overlay, None).await?;
            }
        }
        Ok(transaction.commit().await?)
    }

    /// Inserts or updates a row.
    async fn upsert_row(&self, row: &Upsert<'_>) -> Result<()> {
        let mut transaction = self.database.begin(Purpose::Write).await?;
        transaction.upsert(row).await?;
        Ok(transaction.commit().await?)
    }

    /// Deletes tokens. Returns their number.
    async fn revoke_where(&self, condition: &str, value: Value<'_>) -> db::Result<u64> {
        let mut transaction = self.database.begin(Purpose::Tokens).await?;
        let template = format!("SELECT id FROM callgate_tokens WHERE {condition} ORDER BY id");
        let rows = transaction.rows(&template, &[value]).await?;
        let ids: Vec<i64> = rows.into_iter().map(|mut row| row.int()).collect::<db::Result<_>>()?;
        for part in ids.chunks(self.dialect().max_list_len()) {
            let (list, ids) = in_list(part.iter().copied());
            transaction.lock_tokens(&list, &ids).await?;
            transaction
                .run(&format!("DELETE FROM callgate_tokens WHERE id IN ({list})"), &ids)
                .await?;
        }
        transaction.commit().await?;
        Ok(ids.len() as u64)
    }
}

impl Transaction<'_> {
    async fn role_id(&mut self, caption: &str) -> db::Result<i64> {
        let select = "SELECT id FROM {users_types} WHERE caption = ?";
        if let Some(mut row) = self.row(select, &[caption.into()]).await? {
            return row.int();
        }
        self.run("INSERT INTO {users_types} (caption) VALUES (?)", &[caption.into()]).await?;
        // Databases differ in how `INSERT` returns the new id.
        self.number(select, &[caption.into()]).await
    }

    async fn add_section(&mut self, ident: &str, caption: &str, mask: Value<'_>) -> Result<()> {
        let template = "INSERT INTO {sections} (caption, ident, mask) VALUES (?, ?, ?)";
        let added = self.run(template, &[caption.into(), ident.into(), mask]).await;
        added.map_err(|error| map_duplicate(error, Entity::Section, ident))
    }

    /// Adds a section, unless it exists.
    pub(super) async fn ensure_section(
        &mut self,
        ident: &str,
        caption: &str,
        mask: Value<'_>,
    ) -> Result<()> {
        let select = "SELECT 1 FROM {sections} WHERE ident = ?";
        if self.exists(select, &[ident.into()]).await? {
            return Ok(());
        }
        self.add_section(ident, caption, mask).await
    }

    pub(super) async fn add_grant(
        &mut self,
        holder: GrantHolder,
        section: &str,
        value: i64,
    ) -> Result<()> {
        let (table, column, id) = permissions(holder);
        let id_section = self.section_id(section).await?;
        let template =
            format!("INSERT INTO {table} (id_section, {column}, value) VALUES (?, ?, ?)");
        Ok(self.run(&template, &[id_section.into(), id.into(), value.into()]).await?)
    }

    pub(super) async fn lock_tokens(&mut self, list: &str, ids: &[Value<'_>]) -> db::Result<()> {
        match self.dialect().lock_in_order("callgate_tokens", list) {
            Some(template) => self.run(&template, ids).await,
            None => Ok(()),
        }
    }

    /// Deletes the rows of a table that match a condition. Returns their number. They are counted before the deletion,
    /// because not every database reports the number.
    async fn delete_counted(&mut self, rows: &str, values: &[Value<'_>]) -> db::Result<u64> {
        let count = format!("SELECT COUNT(*) FROM {rows}");
        let number = self.number(&count, values).await?;
        if number > 0 {
            self.run(&format!("DELETE FROM {rows}"), values).await?;
        }
        Ok(u64::try_from(number).unwrap_or_default())
    }

    async fn set_setting(&mut self, name: &str, value: &str) -> db::Result<()> {
        self.upsert(&Upsert {
            table: "{settings}",
            keys: &[("name", name.into())],
            columns: &[("value", value.into())],
            insert_only: &[("caption", name.into())],
        })
        .await
    }
}
