//! What writes: to our own registry. What would change Festi's tables is refused.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use callgate::{Mask, Secret};

use super::watch::own_part;
use super::{AttachedStore, merge};
use crate::festi::Table;
use crate::rows::{MethodRow, SessionRow, UpstreamRow};
use crate::store::{ChangeSession, Edit, Holder, Import, NewKey, NewToken, Result, StoreError};

impl AttachedStore {
    /// Says that something is Festi's, and what to do there.
    fn festis(&self, what: impl Into<String>, table: Table, instead: &str) -> StoreError {
        let table = self.site.watch.layout().name(table, self.site.festi.tables());
        let instead = instead.replace("{table}", &table);
        StoreError::Festis { what: what.into(), table, instead }
    }

    /// Festi's row of a method, with what the file says of it.
    async fn festis_method(&self, id: &str) -> Result<Option<MethodRow>> {
        let festi = self.site.rows(&[Table::Methods]).await?.methods;
        let row = festi.into_iter().find(|row| row.rpc_method == id);
        let file = self.options.overlay.methods.iter().find(|row| row.rpc_method == id);
        Ok(row.map(|row| merge::base(row, file, &self.options)))
    }

    async fn has_section(&self, ident: &str) -> Result<bool> {
        let sections = self.site.rows(&[Table::Sections]).await?.sections;
        Ok(sections.iter().any(|row| row.ident == ident))
    }

    /// The sections that a method of ours needs must be ours too, so that its actions can name them; one
    /// that Festi has is Festi's all the same.
    async fn ensure_needed(&self, needs: &[(String, Mask)]) -> Result<()> {
        if needs.is_empty() {
            return Ok(());
        }
        let sections = self.site.rows(&[Table::Sections]).await?.sections;
        let festis: HashSet<&str> = sections.iter().map(|row| row.ident.as_str()).collect();
        let idents = needs.iter().map(|(ident, _)| ident);
        let idents: Vec<String> =
            idents.filter(|ident| festis.contains(ident.as_str())).cloned().collect();
        if idents.is_empty() { Ok(()) } else { self.own.ensure_sections(&idents).await }
    }

    /// Writes what is different from what Festi says.
    async fn write_overlay(&self, base: &MethodRow, row: &MethodRow) -> Result<()> {
        if let Some(column) = merge::emptied(base, row) {
            let what = format!("the `{column}` of `{}` is", row.rpc_method);
            let instead =
                "empty it there, and in the overlay if that says it; or say something else";
            return Err(self.festis(what, Table::Methods, instead));
        }
        let mut overlay = merge::difference(base, row);
        match self.own.methods_with_id(&row.rpc_method).await?.into_iter().next() {
            Some(own) => {
                overlay.id = own.id;
                self.own.update_method(&overlay, None).await
            }
            None => self.own.add_method(&overlay, &[]).await,
        }
    }
}

#[async_trait]
impl Edit for AttachedStore {
    async fn add_method(&self, row: &MethodRow, needs: &[(String, Mask)]) -> Result<()> {
        if self.festis_method(&row.rpc_method).await?.is_some() {
            return Err(StoreError::Exists { what: "method", name: row.rpc_method.clone() });
        }
        self.ensure_needed(needs).await?;
        self.own.add_method(row, needs).await
    }

    async fn update_method(&self, row: &MethodRow, needs: Option<&[(String, Mask)]>) -> Result<()> {
        let Some(base) = self.festis_method(&row.rpc_method).await? else {
            self.ensure_needed(needs.unwrap_or_default()).await?;
            return self.own.update_method(row, needs).await;
        };
        if needs.is_some() {
            let what = format!("what callers of `{}` need is", row.rpc_method);
            let instead = "insert or update its row in `{table}` there";
            return Err(self.festis(what, Table::Actions, instead));
        }
        self.write_overlay(&base, row).await
    }

    /// Removes what is said here of a method of Festi's, or a method of our own.
    async fn remove_method(&self, id: &str) -> Result<u64> {
        let is_ours = !self.own.methods_with_id(id).await?.is_empty();
        if !is_ours && self.festis_method(id).await?.is_some() {
            let instead = format!("`callgate method edit {id} --hidden` hides it here");
            return Err(self.festis(format!("method `{id}` is"), Table::Methods, &instead));
        }
        self.own.remove_method(id).await
    }

    /// To the registry beside, whose rows it was made from.
    async fn import(&self, import: &Import) -> Result<()> {
        let mut import = import.clone();
        import.revision = own_part(import.revision);
        import.access.revision = import.access.revision.map(own_part);
        self.own.import(&import).await
    }

    /// Of Festi's methods too, in rows of our own.
    async fn remember_tool_names(&self, names: &[(i64, String)]) -> Result<()> {
        let (festis, own): (Vec<_>, Vec<_>) = names.iter().cloned().partition(|(id, _)| *id < 0);
        self.own.remember_tool_names(&own).await?;
        if festis.is_empty() {
            return Ok(());
        }
        let methods = self.site.rows(&[Table::Methods]).await?.methods;
        let ids: HashMap<i64, String> =
            methods.into_iter().map(|row| (merge::foreign(row.id), row.rpc_method)).collect();
        let overlay = |(id, name): (i64, String)| {
            let rpc_method = ids.get(&id)?.clone();
            Some(MethodRow { rpc_method, tool_name: Some(name), ..MethodRow::default() })
        };
        let overlays: Vec<MethodRow> = festis.into_iter().filter_map(overlay).collect();
        self.own.add_absent_methods(&overlays).await
    }

    async fn add_absent_methods(&self, rows: &[MethodRow]) -> Result<()> {
        self.own.add_absent_methods(rows).await
    }

    async fn add_user(&self, _: &str, _: Option<&str>) -> Result<i64> {
        Err(self.festis("users are", Table::Users, "add the user there"))
    }

    async fn add_section(&self, ident: &str, caption: &str, mask: Mask) -> Result<()> {
        if self.has_section(ident).await? {
            return Err(StoreError::Exists { what: "section", name: ident.to_owned() });
        }
        self.own.add_section(ident, caption, mask).await
    }

    async fn ensure_sections(&self, idents: &[String]) -> Result<()> {
        self.own.ensure_sections(idents).await
    }

    /// On sections of our own; on Festi's, Festi says it.
    async fn grant(&self, holder: Holder, section: &str, mask: Mask) -> Result<()> {
        if self.has_section(section).await? {
            let (table, column) = match holder {
                Holder::User(_) => (Table::UserGrants, "id_user"),
                Holder::Role(_) => (Table::RoleGrants, "id_user_type"),
            };
            let (Holder::User(id) | Holder::Role(id)) = holder;
            let instead = format!(
                "say it there: `id_section` of `{section}`, `{column}` {id}, `value` {}",
                mask.value()
            );
            return Err(self.festis(format!("grants on `{section}` are"), table, &instead));
        }
        self.own.grant(holder, section, mask).await
    }

    async fn add_token(&self, token: &NewToken) -> Result<i64> {
        self.own.add_token(token).await
    }

    async fn revoke_token(&self, id: i64) -> Result<()> {
        self.own.revoke_token(id).await
    }

    async fn revoke_tokens_named(&self, name: &str) -> Result<u64> {
        self.own.revoke_tokens_named(name).await
    }

    /// Of ours; when Festi's were used is noted nowhere.
    async fn touch_tokens(&self, uses: &[(i64, i64)]) -> Result<()> {
        let own: Vec<(i64, i64)> = uses.iter().copied().filter(|(id, _)| *id >= 0).collect();
        if own.is_empty() { Ok(()) } else { self.own.touch_tokens(&own).await }
    }

    async fn set_credential(&self, id_user: i64, upstream: &str, secret: &Secret) -> Result<()> {
        self.own.set_credential(id_user, upstream, secret).await
    }

    async fn replace_credential(
        &self,
        id_user: i64,
        upstream: &str,
        old: &Secret,
        new: &Secret,
    ) -> Result<bool> {
        self.own.replace_credential(id_user, upstream, old, new).await
    }

    async fn remove_credential(&self, id_user: i64, upstream: &str) -> Result<bool> {
        self.own.remove_credential(id_user, upstream).await
    }

    async fn set_upstream(&self, row: &UpstreamRow) -> Result<()> {
        self.own.set_upstream(row).await
    }

    async fn remove_upstream(&self, name: &str, keep_credentials: bool) -> Result<u64> {
        self.own.remove_upstream(name, keep_credentials).await
    }

    async fn set_setting(&self, name: &str, value: &str) -> Result<()> {
        let festi = self.site.rows(&[Table::Settings]).await?.settings;
        if festi.iter().any(|row| row.name == name) {
            let instead = format!("update the `value` of `{name}` there");
            return Err(self.festis(format!("setting `{name}` is"), Table::Settings, &instead));
        }
        self.own.set_setting(name, value).await
    }

    async fn insert_absent_settings(&self, settings: &[(&str, &str)]) -> Result<()> {
        self.own.insert_absent_settings(settings).await
    }

    async fn add_key(&self, key: &NewKey) -> Result<bool> {
        self.own.add_key(key).await
    }

    async fn remove_keys_before(&self, purpose: &str, id: i64) -> Result<()> {
        self.own.remove_keys_before(purpose, id).await
    }

    async fn post_message(&self, session: &str, message: &str) -> Result<()> {
        self.own.post_message(session, message).await
    }

    async fn forget_messages(&self, before: i64) -> Result<()> {
        self.own.forget_messages(before).await
    }

    async fn change_session(
        &self,
        nonce: &str,
        ends_at: i64,
        change: &ChangeSession<'_>,
    ) -> Result<SessionRow> {
        self.own.change_session(nonce, ends_at, change).await
    }

    async fn forget_sessions(&self, now: i64, most: i64) -> Result<()> {
        self.own.forget_sessions(now, most).await
    }

    async fn set_meta(&self, name: &str, value: &str) -> Result<()> {
        self.own.set_meta(name, value).await
    }
}
