//! Lookups in a Festi database for changes of the registry.

use std::collections::HashMap;

use super::attached::Attached;
use super::merge;
use crate::festi::error::Result;
use crate::festi::layout::Table;
use crate::rows::MethodRow;

impl Attached {
    /// Returns the name of a table.
    pub(crate) fn table_name(&self, table: Table) -> String {
        self.site.watch.layout().name(table, self.site.festi.tables())
    }

    /// Returns Festi's row of a method with the overlay of the file.
    pub(crate) async fn method(&self, id: &str) -> Result<Option<MethodRow>> {
        let festi = self.site.rows(&[Table::Methods]).await?.methods;
        let row = festi.into_iter().find(|row| row.rpc_method == id);
        let file = self.options.overlay.methods.iter().find(|row| row.rpc_method == id);
        Ok(row.map(|row| merge::base(row, file, &self.options)))
    }

    pub(crate) async fn has_section(&self, ident: &str) -> Result<bool> {
        let mut idents = vec![ident.to_owned()];
        self.retain_known_sections(&mut idents).await?;
        Ok(!idents.is_empty())
    }

    pub(crate) async fn has_setting(&self, name: &str) -> Result<bool> {
        let settings = self.site.rows(&[Table::Settings]).await?.settings;
        Ok(settings.iter().any(|row| row.name == name))
    }

    /// Retains only sections of Festi.
    pub(crate) async fn retain_known_sections(&self, idents: &mut Vec<String>) -> Result<()> {
        let sections = self.site.rows(&[Table::Sections]).await?.sections;
        idents.retain(|ident| sections.iter().any(|row| row.ident == *ident));
        Ok(())
    }

    /// Returns overlays that set the tool names of Festi's methods.
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
