//! Methods and the actions that protect them.

use std::collections::{HashMap, HashSet};

use callgate::Mask;

use super::load::methods;
use super::{StoreTransaction, read};
use crate::db::column::Kind;
use crate::db::database::{Dialect, Value};
use crate::db::dialect::{Upsert, UpsertValue};
use crate::rows::{MethodRow, action_key};
use crate::store::{Entity, Result};

/// Returns the values of a row, in the order of [`MethodRow::column_names`].
fn values(dialect: Dialect, row: &MethodRow) -> Vec<Value<'_>> {
    let columns = MethodRow::COLUMNS.iter().map(|column| match column.kind {
        Kind::Json | Kind::Schema => json(dialect, column.get(row).as_ref()),
        Kind::Flag => exposed(row),
        _ => column.get(row).into(),
    });
    std::iter::once((&row.rpc_method).into()).chain(columns).collect()
}

/// Binds a JSON column. An empty text becomes null except in SQLite.
pub(super) fn json(dialect: Dialect, text: Option<&String>) -> Value<'_> {
    let says_something = |text: &&String| dialect == Dialect::Sqlite || !text.trim().is_empty();
    Value::Json(text.filter(says_something).map(String::as_str))
}

/// Binds the flag. Other text is bound unchanged, so that the database stores or refuses it.
fn exposed(row: &MethodRow) -> Value<'_> {
    row.is_exposed().map_or((&row.exposed).into(), Value::Flag)
}

/// Required sections and masks of a method.
type RequiredSections<'a> = &'a [(String, Mask)];

impl StoreTransaction<'_> {
    pub(super) async fn section_id(&mut self, ident: &str) -> Result<i64> {
        let template = "SELECT id FROM {sections} WHERE ident = ?";
        match self.row(template, &[ident.into()]).await? {
            Some(mut row) => Ok(row.int()?),
            None => Err(Entity::Section.not_found(ident)),
        }
    }

    pub(super) async fn has_method(&mut self, id: &str) -> Result<bool> {
        let template = "SELECT 1 FROM {rpc_methods} WHERE rpc_method = ?";
        self.is_there(template, &[id.into()]).await
    }

    pub(super) async fn insert_method(
        &mut self,
        row: &MethodRow,
        needs: &[(String, Mask)],
    ) -> Result<()> {
        self.insert_methods(&[(row, needs)]).await
    }

    /// Inserts at most as many methods as fit into a statement.
    pub(super) async fn insert_methods(
        &mut self,
        methods: &[(&MethodRow, RequiredSections<'_>)],
    ) -> Result<()> {
        let names: Vec<_> = MethodRow::column_names().collect();
        let row = format!("({})", vec!["?"; names.len()].join(", "));
        let template = format!(
            "INSERT INTO {{rpc_methods}} ({}) VALUES {}",
            names.join(", "),
            vec![row; methods.len()].join(", ")
        );
        let dialect = self.dialect();
        let values: Vec<Value<'_>> =
            methods.iter().flat_map(|(row, _)| values(dialect, row)).collect();
        self.run(&template, &values).await?;
        self.add_actions(methods).await
    }

    pub(super) async fn rewrite_method(
        &mut self,
        row: &MethodRow,
        needs: Option<&[(String, Mask)]>,
    ) -> Result<()> {
        let old = self.method_by_number(row).await?;
        let set: Vec<_> = MethodRow::column_names().map(|name| format!("{name} = ?")).collect();
        let set = set.join(", ");
        let mut values = values(self.dialect(), row);
        values.push(row.id.into());
        self.run(&format!("UPDATE {{rpc_methods}} SET {set} WHERE id = ?"), &values).await?;
        if let Some(needs) = needs {
            self.delete_actions(row).await?;
            self.add_actions(&[(row, needs)]).await
        } else if old.permission_key() != row.permission_key() {
            self.copy_actions(&old, row).await
        } else {
            Ok(())
        }
    }

    async fn method_by_number(&mut self, row: &MethodRow) -> Result<MethodRow> {
        let dialect = self.dialect();
        let template = format!("{} WHERE id = ?", methods(dialect));
        match self.row(&template, &[row.id.into()]).await? {
            Some(found) => Ok(read::method(dialect, found)?),
            None => Err(Entity::Method.not_found(row.rpc_method.clone())),
        }
    }

    /// Deletes methods and the actions that no other method shares, so that none apply to a later method of the
    /// same name.
    pub(super) async fn remove_methods(
        &mut self,
        is_one: impl Fn(&MethodRow) -> bool + Send,
    ) -> Result<u64> {
        let rows = self.all_methods().await?;
        let (mine, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| is_one(row));
        let kept: HashSet<_> = others.iter().map(MethodRow::action_key).collect();
        for row in &mine {
            if !kept.contains(&row.action_key()) {
                self.delete_actions(row).await?;
            }
            self.run("DELETE FROM {rpc_methods} WHERE id = ?", &[row.id.into()]).await?;
        }
        Ok(mine.len() as u64)
    }

    /// Adds actions. Existing ones stay, since they may protect another id of the same method.
    async fn add_actions(&mut self, methods: &[(&MethodRow, RequiredSections<'_>)]) -> Result<()> {
        let mut sections = HashMap::new();
        let mut actions: Vec<((&str, &str, i64), Mask)> = Vec::new();
        for (row, needs) in methods {
            let (plugin, method) = row.permission_key();
            for (section, mask) in *needs {
                let id = match sections.get(section) {
                    Some(id) => *id,
                    None => self.section_id(section).await?,
                };
                sections.insert(section, id);
                let action = (plugin, method, id);
                // The last of several masks for a section applies.
                actions.retain(|(other, _)| *other != action);
                actions.push((action, *mask));
            }
        }
        let actions: Vec<_> = actions
            .into_iter()
            .map(|((plugin, method, id), mask)| {
                let keys: [(&str, Value<'_>); 3] = [
                    ("plugin", plugin.into()),
                    ("method", method.into()),
                    ("id_section", id.into()),
                ];
                (keys, [("mask", UpsertValue::from(mask.value()))])
            })
            .collect();
        let rows: Vec<Upsert<'_>> = actions
            .iter()
            .map(|(keys, columns)| Upsert {
                table: "{section_actions}",
                keys,
                columns,
                once: &[("comment", UpsertValue::Value(Value::Text(Some(""))))],
            })
            .collect();
        for part in rows.chunks(self.dialect().most_written()) {
            self.upsert_all(part).await?;
        }
        Ok(())
    }

    async fn delete_actions(&mut self, row: &MethodRow) -> Result<()> {
        for (id, _) in self.actions_of(row).await? {
            self.run("DELETE FROM {section_actions} WHERE id = ?", &[id.into()]).await?;
        }
        Ok(())
    }

    /// Copies the actions of the old key to the new one.
    async fn copy_actions(&mut self, old: &MethodRow, new: &MethodRow) -> Result<()> {
        let (plugin, method) = new.permission_key();
        for (id, id_section) in self.actions_of(old).await? {
            let there = "SELECT 1 FROM {section_actions}
                         WHERE plugin = ? AND method = ? AND id_section = ?";
            let key = [plugin.into(), method.into(), id_section.into()];
            if self.is_there(there, &key).await? {
                continue;
            }
            let copy = "INSERT INTO {section_actions} (id_section, plugin, method, mask, comment)
                        SELECT id_section, ?, ?, mask, comment FROM {section_actions} WHERE id = ?";
            self.run(copy, &[plugin.into(), method.into(), id.into()]).await?;
        }
        Ok(())
    }

    /// Returns the ids of a method's actions and their sections. The query may return too many rows,
    /// because databases fold case differently.
    async fn actions_of(&mut self, row: &MethodRow) -> Result<Vec<(i64, i64)>> {
        let (plugin, method) = row.permission_key();
        let template = "SELECT id, {int id_section}, {text plugin}, {text method}
                        FROM {section_actions}
                        WHERE {folded plugin} = {folded ?} AND {folded method} = {folded ?}";
        let mut found = Vec::new();
        for mut action in self.rows(template, &[plugin.into(), method.into()]).await? {
            let numbers = (action.int()?, action.int()?);
            if action_key(&action.text(), &action.text()) == row.action_key() {
                found.push(numbers);
            }
        }
        Ok(found)
    }

    /// Sets tool names of rows without one.
    pub(super) async fn name_tools(&mut self, names: &[(i64, String)]) -> Result<()> {
        let cases = vec!["WHEN ? THEN ?"; names.len()].join(" ");
        let list = vec!["?"; names.len()].join(", ");
        let template = format!(
            "UPDATE {{rpc_methods}} SET tool_name = CASE id {cases} END
             WHERE id IN ({list}) AND tool_name IS NULL"
        );
        let pairs = names.iter().flat_map(|(id, name)| [Value::from(*id), name.into()]);
        let values: Vec<_> = pairs.chain(names.iter().map(|(id, _)| Value::from(*id))).collect();
        self.run(&template, &values).await
    }
}
