//! Methods and the actions that protect them.

use std::collections::{BTreeMap, HashMap, HashSet};

use callgate::access::{Mask, Section};

use super::import::number;
use super::load::methods;
use crate::db::column::Kind;
use crate::db::database::{FromRow as _, Value};
use crate::db::dialect::{Dialect, Upsert, UpsertValue};
use crate::db::error as db;
use crate::db::transaction::Transaction;
use crate::rows::{MethodRow, action_key};
use crate::store::{Entity, Result, StoreError};

/// Returns the values of a row, in the order of [`MethodRow::column_names`].
fn values(dialect: Dialect, row: &MethodRow) -> Vec<Value<'_>> {
    let columns = MethodRow::COLUMNS.iter().map(|column| match column.kind {
        Kind::Json | Kind::Schema => json(dialect, column.get(row).as_ref()),
        Kind::Flag => exposed(row),
        _ => column.get(row).into(),
    });
    std::iter::once((&row.rpc_method).into()).chain(columns).collect()
}

/// Binds a JSON column. An empty text becomes null, except in SQLite.
pub(super) fn json(dialect: Dialect, text: Option<&String>) -> Value<'_> {
    let is_bound = |text: &&String| dialect == Dialect::Sqlite || !text.trim().is_empty();
    Value::Json(text.filter(is_bound).map(String::as_str))
}

/// Binds the column `exposed` as a flag. Other text is bound unchanged, so that the database stores or refuses it.
fn exposed(row: &MethodRow) -> Value<'_> {
    row.is_exposed().map_or((&row.exposed).into(), Value::Flag)
}

/// Required sections and masks of a method.
type RequiredSections<'a> = &'a [(String, Mask)];

/// Columns of a row of actions.
struct Action {
    id: i64,
    id_section: i64,
    mask: String,
    comment: Option<String>,
}

/// Returns the columns that identify an action.
fn action_columns<'a>(plugin: &'a str, method: &'a str, section: i64) -> [(&'a str, Value<'a>); 3] {
    [("plugin", plugin.into()), ("method", method.into()), ("id_section", section.into())]
}

impl Transaction<'_> {
    /// Returns the id of a section. If it is the built-in section `authenticated`, adds its row if that is missing.
    pub(super) async fn section_id(&mut self, ident: &str) -> Result<i64> {
        if ident == Section::authenticated().as_str() {
            self.ensure_section(ident, ident, 6.into()).await?;
        }
        let template = "SELECT id FROM {sections} WHERE ident = ?";
        match self.row(template, &[ident.into()]).await? {
            Some(mut row) => Ok(row.int()?),
            None => Err(Entity::Section.not_found(ident)),
        }
    }

    pub(super) async fn has_method(&mut self, id: &str) -> db::Result<bool> {
        let template = "SELECT 1 FROM {rpc_methods} WHERE rpc_method = ?";
        self.exists(template, &[id.into()]).await
    }

    pub(super) async fn insert_method(
        &mut self,
        row: &MethodRow,
        needs: &[(String, Mask)],
    ) -> Result<()> {
        self.insert_methods(&[(row, needs)]).await
    }

    /// Inserts methods. All methods must fit into one statement.
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
        let old = self.method_by_id(row).await?;
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

    pub(super) async fn method_by_id(&mut self, row: &MethodRow) -> Result<MethodRow> {
        let template = format!("{} WHERE id = ?", methods(self.dialect()));
        match self.row(&template, &[row.id.into()]).await? {
            Some(found) => Ok(MethodRow::from_row(found)?),
            None => Err(Entity::Method.not_found(row.rpc_method.clone())),
        }
    }

    /// Deletes methods, and the actions that no other method shares. If these actions were kept, they would apply
    /// to a later method of the same name.
    pub(super) async fn remove_methods(
        &mut self,
        is_removed: impl Fn(&MethodRow) -> bool + Send,
    ) -> Result<u64> {
        let rows = self.all_methods().await?;
        let (removed, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| is_removed(row));
        let remaining_keys: HashSet<_> = others.iter().map(MethodRow::action_key).collect();
        for row in &removed {
            if !remaining_keys.contains(&row.action_key()) {
                self.delete_actions(row).await?;
            }
            self.run("DELETE FROM {rpc_methods} WHERE id = ?", &[row.id.into()]).await?;
        }
        Ok(removed.len() as u64)
    }

    /// Adds actions. Existing actions are kept, because they may protect another id of the same method. If there are
    /// several masks for a section, the highest applies.
    async fn add_actions(&mut self, methods: &[(&MethodRow, RequiredSections<'_>)]) -> Result<()> {
        let mut sections = HashMap::new();
        let mut masks: BTreeMap<(&str, &str, i64), i64> = BTreeMap::new();
        for (row, needs) in methods {
            let (plugin, method) = row.permission_key();
            for (section, mask) in *needs {
                let id = match sections.get(section) {
                    Some(id) => *id,
                    None => self.section_id(section).await?,
                };
                sections.insert(section, id);
                let highest = masks.entry((plugin, method, id)).or_default();
                *highest = mask.value().max(*highest);
            }
        }
        let actions: Vec<_> = masks
            .into_iter()
            .map(|((plugin, method, id), mask)| {
                (action_columns(plugin, method, id), [("mask", UpsertValue::Highest(mask.into()))])
            })
            .collect();
        let rows: Vec<Upsert<'_>> = actions
            .iter()
            .map(|(keys, columns)| Upsert {
                table: "{section_actions}",
                keys,
                columns,
                insert_only: &[("comment", UpsertValue::Value(Value::Text(Some(""))))],
            })
            .collect();
        for part in rows.chunks(self.dialect().max_rows_per_statement()) {
            self.upsert_all(part).await?;
        }
        Ok(())
    }

    /// Fails if another method shares the actions of a row, unless those actions already equal `needs`.
    pub(super) async fn check_shared_actions(
        &mut self,
        row: &MethodRow,
        needs: &[(String, Mask)],
    ) -> Result<()> {
        let key = row.action_key();
        let shares =
            |other: &MethodRow| other.rpc_method != row.rpc_method && other.action_key() == key;
        let Some(other) = self.all_methods().await?.into_iter().find(shares) else {
            return Ok(());
        };
        let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
        for action in self.actions_of(row).await? {
            let mask = action.mask.trim().parse().ok().and_then(Mask::required);
            let highest = old.entry(action.id_section).or_insert(mask);
            *highest = mask.zip(*highest).map(|(left, right)| left.max(right));
        }
        for (section, mask) in needs {
            let highest = new.entry(self.section_id(section).await?).or_insert(Some(*mask));
            *highest = (*highest).max(Some(*mask));
        }
        if old == new {
            return Ok(());
        }
        let (plugin, method) = row.permission_key();
        let (plugin, method) = (plugin.to_owned(), method.to_owned());
        Err(StoreError::SharedActions { other: other.rpc_method, plugin, method })
    }

    async fn delete_actions(&mut self, row: &MethodRow) -> Result<()> {
        for action in self.actions_of(row).await? {
            self.run("DELETE FROM {section_actions} WHERE id = ?", &[action.id.into()]).await?;
        }
        Ok(())
    }

    /// Copies the actions from the old key to the new one.
    async fn copy_actions(&mut self, old: &MethodRow, new: &MethodRow) -> Result<()> {
        let (plugin, method) = new.permission_key();
        for action in self.actions_of(old).await? {
            self.upsert(&Upsert {
                table: "{section_actions}",
                keys: &action_columns(plugin, method, action.id_section),
                columns: &[("mask", UpsertValue::Highest(number(&action.mask)))],
                insert_only: &[("comment", (&action.comment).into())],
            })
            .await?;
        }
        Ok(())
    }

    /// Returns the actions of a method. The query may also return actions of other methods, because databases fold
    /// case differently. These are left out.
    async fn actions_of(&mut self, row: &MethodRow) -> Result<Vec<Action>> {
        let (plugin, method) = row.permission_key();
        let template =
            "SELECT id, {int id_section}, {text plugin}, {text method}, {text mask}, {text comment}
                        FROM {section_actions}
                        WHERE {folded plugin} = {folded ?} AND {folded method} = {folded ?}";
        let mut found = Vec::new();
        for mut action in self.rows(template, &[plugin.into(), method.into()]).await? {
            let (id, id_section) = (action.int()?, action.int()?);
            if action_key(&action.text(), &action.text()) == row.action_key() {
                let (mask, comment) = (action.text(), action.optional_text());
                found.push(Action { id, id_section, mask, comment });
            }
        }
        Ok(found)
    }
}
