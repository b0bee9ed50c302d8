//! Users, roles, sections and grants.

use callgate::Mask;

use super::StoreTransaction;
use super::transaction::taken;
use crate::db::database::Value;
use crate::rows::GrantHolder;
use crate::store::Entity;
use crate::store::Result;

/// Returns the permission table, its column and the id.
fn permissions(holder: GrantHolder) -> (&'static str, &'static str, i64) {
    match holder {
        GrantHolder::User(id) => ("{sections_user_permission}", "id_user", id),
        GrantHolder::Role(id) => ("{sections_user_types_permission}", "id_user_type", id),
    }
}

impl StoreTransaction<'_> {
    /// Adds a user, and the role if it does not exist. Returns the user's id.
    pub(super) async fn add_user(&mut self, login: &str, role: Option<&str>) -> Result<i64> {
        let id_type = match role {
            Some(role) => Some(self.role_id(role).await?),
            None => None,
        };
        let template = "INSERT INTO {users} (login, id_type) VALUES (?, ?)";
        let added = self.run(template, &[login.into(), id_type.into()]).await;
        added.map_err(|error| taken(error, Entity::User, login))?;
        self.number("SELECT id FROM {users} WHERE login = ?", &[login.into()]).await
    }

    async fn role_id(&mut self, caption: &str) -> Result<i64> {
        let look = "SELECT id FROM {users_types} WHERE caption = ?";
        if let Some(mut row) = self.row(look, &[caption.into()]).await? {
            return Ok(row.int()?);
        }
        self.run("INSERT INTO {users_types} (caption) VALUES (?)", &[caption.into()]).await?;
        // Databases differ in how `INSERT` returns the id.
        self.number(look, &[caption.into()]).await
    }

    pub(super) async fn add_section(
        &mut self,
        ident: &str,
        caption: &str,
        mask: Value<'_>,
    ) -> Result<()> {
        let template = "INSERT INTO {sections} (caption, ident, mask) VALUES (?, ?, ?)";
        let added = self.run(template, &[caption.into(), ident.into(), mask]).await;
        added.map_err(|error| taken(error, Entity::Section, ident))
    }

    /// Adds a section unless it exists.
    pub(super) async fn ensure_section(
        &mut self,
        ident: &str,
        caption: &str,
        mask: Value<'_>,
    ) -> Result<()> {
        let look = "SELECT 1 FROM {sections} WHERE ident = ?";
        if self.is_there(look, &[ident.into()]).await? {
            return Ok(());
        }
        self.add_section(ident, caption, mask).await
    }

    /// Sets a grant.
    pub(super) async fn grant(
        &mut self,
        holder: GrantHolder,
        section: &str,
        mask: Mask,
    ) -> Result<()> {
        let (table, column, id) = permissions(holder);
        let id_section = self.section_id(section).await?;
        let template = format!("DELETE FROM {table} WHERE id_section = ? AND {column} = ?");
        self.run(&template, &[id_section.into(), id.into()]).await?;
        self.add_grant(holder, section, mask.value()).await
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
        self.run(&template, &[id_section.into(), id.into(), value.into()]).await
    }
}
