//! Read operations for administration.

use super::SqlStore;
use crate::db::database::{FromRow, Purpose, Value};
use crate::db::dialect::Dialect;
use crate::db::error as db;
use crate::db::transaction::Transaction;
use crate::rows::{
    AccessRows, CatalogRows, CredentialRow, ImportRow, MethodRow, RoleRow, SectionRow, SettingRow,
    TokenRow, UpstreamRow, UserRow,
};
use crate::store::{Entity, Result, StoreError};

const SECTIONS: &str = "SELECT id, {text caption}, {text ident}, {text mask}
    FROM {sections} ORDER BY ident";

const ACTIONS: &str = "SELECT {int id_section}, {text plugin}, {text method}, {text mask}
    FROM {section_actions} ORDER BY id";

const TYPES: &str = "SELECT {text name}, {text fields}, {name schema}
    FROM callgate_types ORDER BY name";

const USERS: &str = "SELECT u.id, {text u.login}, {int u.id_type}, {text t.caption}
    FROM {users} u LEFT JOIN {users_types} t ON t.id = u.id_type";

const ROLES: &str = "SELECT id, {text caption} FROM {users_types}";

pub(super) const TOKENS: &str =
    "SELECT t.id, {int t.id_user}, {text u.login}, {text t.name}, {text t.digest},
    {seconds t.created_at}, {seconds t.expires_at}, {seconds t.last_used_at}
    FROM callgate_tokens t LEFT JOIN {users} u ON u.id = t.id_user";

const CREDENTIALS: &str = "SELECT {int c.id_user}, {text u.login}, {text c.upstream},
    {text c.secret}, {seconds c.set_at}
    FROM callgate_credentials c LEFT JOIN {users} u ON u.id = c.id_user
    ORDER BY c.upstream, u.login, c.id_user";

const UPSTREAMS: &str = "SELECT {text name}, {text config} FROM callgate_upstreams ORDER BY name";

const SETTINGS: &str = "SELECT {text name}, {text value} FROM {settings} ORDER BY name";

const USER_GRANTS: &str =
    "SELECT {int id_section}, {int id_user}, {text value} FROM {sections_user_permission}";

const ROLE_GRANTS: &str = "SELECT {int id_section}, {int id_user_type}, {text value}
    FROM {sections_user_types_permission}";

const IMPORTS: &str = "SELECT {text upstream}, {text rpc_method}, {text source}, {text written}
    FROM callgate_imports";

/// Returns a template that selects methods. A condition and an order must be appended.
pub(super) fn methods(dialect: Dialect) -> String {
    let columns: Vec<_> = MethodRow::column_names().collect();
    format!("SELECT id, {} FROM {{rpc_methods}}", dialect.columns(&columns))
}

impl SqlStore {
    pub(super) async fn read<T: FromRow>(
        &self,
        template: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<T>> {
        let rows = self.database.rows(template, values).await?;
        Ok(rows.into_iter().map(T::from_row).collect::<db::Result<_>>()?)
    }

    /// Returns the rows of methods with this id, in order. If there is more than one, `callgate lint` reports an
    /// error.
    pub async fn methods_with_id(&self, id: &str) -> Result<Vec<MethodRow>> {
        let template = format!("{} WHERE rpc_method = ? ORDER BY id", methods(self.dialect()));
        let rows = self.read(&template, &[id.into()]).await?;
        let Some(festi) = &self.festi else { return Ok(rows) };
        Ok(festi.methods_with_id(id, rows).await?)
    }

    /// Returns the users, ordered by name.
    pub async fn users(&self) -> Result<Vec<UserRow>> {
        match &self.festi {
            Some(festi) => Ok(festi.users().await?),
            None => self.read(&format!("{USERS} ORDER BY u.login"), &[]).await,
        }
    }

    /// Returns the user with this name.
    pub async fn user(&self, login: &str) -> Result<UserRow> {
        let found = match &self.festi {
            Some(festi) => festi.users().await?,
            None => self.read(&format!("{USERS} WHERE u.login = ?"), &[login.into()]).await?,
        };
        let found = found.into_iter().find(|row| row.login == login);
        found.ok_or_else(|| Entity::User.not_found(login))
    }

    /// Returns the role with this name.
    pub async fn role(&self, caption: &str) -> Result<RoleRow> {
        let template = format!("{ROLES} WHERE caption = ?");
        let found = match &self.festi {
            Some(festi) => festi.roles().await?,
            None => self.read(&template, &[caption.into()]).await?,
        };
        let found = found.into_iter().find(|row| row.caption == caption);
        found.ok_or_else(|| Entity::Role.not_found(caption))
    }

    /// Returns the sections, ordered by name.
    pub async fn sections(&self) -> Result<Vec<SectionRow>> {
        let rows = self.read(SECTIONS, &[]).await?;
        let Some(festi) = &self.festi else { return Ok(rows) };
        Ok(festi.sections(rows).await?)
    }

    /// Returns the tokens, oldest first. Tokens of an attached database are not included.
    pub async fn tokens(&self) -> Result<Vec<TokenRow>> {
        let mut rows: Vec<TokenRow> = self.read(&format!("{TOKENS} ORDER BY t.id"), &[]).await?;
        if let Some(festi) = &self.festi {
            let logins = festi.logins().await?;
            for row in &mut rows {
                row.login = logins.get(&row.id_user).cloned();
            }
        }
        Ok(rows)
    }

    /// Returns users' credentials, ordered by upstream and user.
    pub async fn credentials(&self) -> Result<Vec<CredentialRow>> {
        let mut rows: Vec<CredentialRow> = self.read(CREDENTIALS, &[]).await?;
        if let Some(festi) = &self.festi {
            let logins = festi.logins().await?;
            for row in &mut rows {
                row.login = logins.get(&row.id_user).cloned();
            }
        }
        Ok(rows)
    }

    /// Returns the upstreams, ordered by name.
    pub async fn upstreams(&self) -> Result<Vec<UpstreamRow>> {
        self.read(UPSTREAMS, &[]).await
    }

    /// Returns the settings.
    pub async fn settings(&self) -> Result<Vec<SettingRow>> {
        let rows = self.read(SETTINGS, &[]).await?;
        let Some(festi) = &self.festi else { return Ok(rows) };
        Ok(festi.settings(rows).await?)
    }

    /// Returns the values that earlier imports wrote, ordered by upstream and id.
    pub async fn imports(&self) -> Result<Vec<ImportRow>> {
        let template = format!("{IMPORTS} ORDER BY upstream, rpc_method");
        self.read(&template, &[]).await
    }

    /// Returns the values that earlier imports wrote for a method, ordered by upstream.
    pub async fn imports_of(&self, id: &str) -> Result<Vec<ImportRow>> {
        let template = format!("{IMPORTS} WHERE rpc_method = ? ORDER BY upstream");
        self.read(&template, &[id.into()]).await
    }

    /// Reads the rows of a catalog without those of an attached database.
    pub(super) async fn registry_catalog_rows(&self) -> Result<CatalogRows> {
        let mut transaction = self.database.begin(Purpose::Read).await?;
        let rows = CatalogRows {
            change_counter: transaction.change_counter("catalog").await?,
            methods: transaction.all_methods().await?,
            sections: transaction.read(SECTIONS).await?,
            actions: transaction.read(ACTIONS).await?,
            types: transaction.read(TYPES).await?,
            upstreams: transaction.read(UPSTREAMS).await?,
            settings: transaction.read(SETTINGS).await?,
        };
        transaction.check_unchanged("catalog", rows.change_counter).await?;
        Ok(rows)
    }

    /// Reads the rows of the access snapshot without those of an attached database.
    pub(super) async fn registry_access_rows(&self) -> Result<AccessRows> {
        let mut transaction = self.database.begin(Purpose::Read).await?;
        let rows = AccessRows {
            change_counter: transaction.change_counter("access").await?,
            users: transaction.read(USERS).await?,
            roles: transaction.read(&format!("{ROLES} ORDER BY id")).await?,
            sections: transaction.read(SECTIONS).await?,
            user_grants: transaction.read(USER_GRANTS).await?,
            role_grants: transaction.read(ROLE_GRANTS).await?,
            credentials: transaction.read(CREDENTIALS).await?,
            settings: transaction.read(SETTINGS).await?,
        };
        transaction.check_unchanged("access", rows.change_counter).await?;
        Ok(rows)
    }

    /// Returns a value of `callgate_meta`.
    pub async fn meta(&self, name: &str) -> Result<Option<String>> {
        let template = "SELECT value FROM callgate_meta WHERE name = ?";
        let rows = self.database.rows(template, &[name.into()]).await?;
        Ok(rows.into_iter().next().and_then(|mut row| row.optional_text()))
    }
}

impl Transaction<'_> {
    pub(super) async fn all_methods(&mut self) -> Result<Vec<MethodRow>> {
        Ok(self.read(&format!("{} ORDER BY id", methods(self.dialect()))).await?)
    }

    /// Fails if rows were read without a snapshot and have changed meanwhile.
    async fn check_unchanged(&mut self, counter: &str, change_counter: i64) -> Result<()> {
        let is_unchanged = self.dialect().has_snapshot_reads()
            || self.change_counter(counter).await? == change_counter;
        if is_unchanged { Ok(()) } else { Err(StoreError::Conflict) }
    }
}
