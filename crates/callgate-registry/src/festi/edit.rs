//! Changes through a registry with a Festi database: what would change Festi's tables is refused.

use std::collections::HashMap;

use callgate::Mask;

use super::attached::Attached;
use super::merge;
use crate::error::{Result, StoreError};
use crate::festi::layout::Table;
use crate::rows::Holder;
use crate::rows::MethodRow;

/// A change that may concern rows of Festi's.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    AddMethod(&'a str),
    /// Of which the registry has no row.
    RemoveMethod(&'a str),
    AddUser,
    AddSection(&'a str),
    Grant(Holder, &'a str, Mask),
    SetSetting(&'a str),
}

impl Attached {
    /// Refuses a change of what is Festi's.
    pub(crate) async fn check(&self, change: Change<'_>) -> Result<()> {
        match change {
            Change::AddMethod(id) if self.method(id).await?.is_some() => {
                Err(StoreError::Exists { what: "method", name: id.to_owned() })
            }
            Change::RemoveMethod(id) if self.method(id).await?.is_some() => {
                let instead = format!("`callgate method edit {id} --hidden` hides it here");
                Err(self.festis(format!("method `{id}` is"), Table::Methods, &instead))
            }
            Change::AddUser => Err(self.festis("users are", Table::Users, "add the user there")),
            Change::AddSection(ident) if self.has_section(ident).await? => {
                Err(StoreError::Exists { what: "section", name: ident.to_owned() })
            }
            Change::Grant(holder, section, mask) if self.has_section(section).await? => {
                let (table, column, id) = match holder {
                    Holder::User(id) => (Table::UserGrants, "id_user", id),
                    Holder::Role(id) => (Table::RoleGrants, "id_user_type", id),
                };
                let instead = format!(
                    "say it there: `id_section` of `{section}`, `{column}` {id}, `value` {}",
                    mask.value()
                );
                Err(self.festis(format!("grants on `{section}` are"), table, &instead))
            }
            Change::SetSetting(name) if self.has_setting(name).await? => {
                let instead = format!("update the `value` of `{name}` there");
                Err(self.festis(format!("setting `{name}` is"), Table::Settings, &instead))
            }
            _ => Ok(()),
        }
    }

    /// Says that something is Festi's, and what to do there.
    fn festis(&self, what: impl Into<String>, table: Table, instead: &str) -> StoreError {
        let table = self.site.watch.layout().name(table, self.site.festi.tables());
        let instead = instead.replace("{table}", &table);
        StoreError::Festis { what: what.into(), table, instead }
    }

    /// Festi's row of a method, with what the file says of it.
    async fn method(&self, id: &str) -> Result<Option<MethodRow>> {
        let festi = self.site.rows(&[Table::Methods]).await?.methods;
        let row = festi.into_iter().find(|row| row.rpc_method == id);
        let file = self.options.overlay.methods.iter().find(|row| row.rpc_method == id);
        Ok(row.map(|row| merge::base(row, file, &self.options)))
    }

    async fn has_section(&self, ident: &str) -> Result<bool> {
        let mut idents = vec![ident.to_owned()];
        self.retain_known_sections(&mut idents).await?;
        Ok(!idents.is_empty())
    }

    async fn has_setting(&self, name: &str) -> Result<bool> {
        let settings = self.site.rows(&[Table::Settings]).await?.settings;
        Ok(settings.iter().any(|row| row.name == name))
    }

    /// Removes the sections that Festi does not have.
    pub(crate) async fn retain_known_sections(&self, idents: &mut Vec<String>) -> Result<()> {
        let sections = self.site.rows(&[Table::Sections]).await?.sections;
        idents.retain(|ident| sections.iter().any(|row| row.ident == *ident));
        Ok(())
    }

    /// Returns the row of ours that makes a method of Festi's as `row` says; `None` where it is not Festi's.
    pub(crate) async fn overlay(
        &self,
        row: &MethodRow,
        needs: Option<&[(String, Mask)]>,
    ) -> Result<Option<MethodRow>> {
        let Some(base) = self.method(&row.rpc_method).await? else { return Ok(None) };
        if needs.is_some() {
            let what = format!("what callers of `{}` need is", row.rpc_method);
            let instead = "insert or update its row in `{table}` there";
            return Err(self.festis(what, Table::Actions, instead));
        }
        if let Some(column) = merge::emptied(&base, row) {
            let what = format!("the `{column}` of `{}` is", row.rpc_method);
            let instead =
                "empty it there, and in the overlay if that says it; or say something else";
            return Err(self.festis(what, Table::Methods, instead));
        }
        Ok(Some(merge::difference(&base, row)))
    }

    /// Returns rows of ours that give names to methods of Festi's.
    pub(crate) async fn named_tools(&self, names: Vec<(i64, String)>) -> Result<Vec<MethodRow>> {
        let methods = self.site.rows(&[Table::Methods]).await?.methods;
        let ids: HashMap<i64, String> =
            methods.into_iter().map(|row| (merge::foreign(row.id), row.rpc_method)).collect();
        let overlay = |(id, name): (i64, String)| {
            let rpc_method = ids.get(&id)?.clone();
            Some(MethodRow { rpc_method, tool_name: Some(name), ..MethodRow::default() })
        };
        Ok(names.into_iter().filter_map(overlay).collect())
    }
}
