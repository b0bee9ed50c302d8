//! Configurable names of tables.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::db::schema::TABLES;

/// Names of the tables that can be configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredTableNames")]
pub struct TableNames {
    pub(crate) prefix: String,
    pub(crate) rpc_methods: String,
    pub(crate) users: String,
    pub(crate) users_types: String,
}

/// Names in the form that the registry stores, before validation.
#[derive(Deserialize)]
struct StoredTableNames {
    prefix: String,
    rpc_methods: String,
    users: String,
    users_types: String,
}

impl TryFrom<StoredTableNames> for TableNames {
    type Error = TableNameError;

    fn try_from(stored: StoredTableNames) -> Result<Self, TableNameError> {
        Self::with_prefix(&stored.prefix)?
            .rpc_methods(&stored.rpc_methods)?
            .users(&stored.users)?
            .users_types(&stored.users_types)
    }
}

/// An invalid table name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a table name; expected a letter or `_`, followed by letters, digits and `_`, at most 40 characters"
)]
pub struct TableNameError(String);

/// Tables whose names begin with the configured prefix.
const PREFIXED: [&str; 5] = [
    "sections",
    "section_actions",
    "sections_user_permission",
    "sections_user_types_permission",
    "settings",
];

impl Default for TableNames {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            rpc_methods: "rpc_methods".to_owned(),
            users: "users".to_owned(),
            users_types: "users_types".to_owned(),
        }
    }
}

impl TableNames {
    /// Creates names with a prefix for sections, actions, permissions and settings.
    pub fn with_prefix(prefix: &str) -> Result<Self, TableNameError> {
        let prefix = if prefix.is_empty() { String::new() } else { checked(prefix)? };
        Ok(Self { prefix, ..Self::default() })
    }

    /// Sets the table of methods.
    pub fn rpc_methods(mut self, name: &str) -> Result<Self, TableNameError> {
        self.rpc_methods = checked(name)?;
        Ok(self)
    }

    /// Sets the table of users.
    pub fn users(mut self, name: &str) -> Result<Self, TableNameError> {
        self.users = checked(name)?;
        Ok(self)
    }

    /// Sets the table of roles.
    pub fn users_types(mut self, name: &str) -> Result<Self, TableNameError> {
        self.users_types = checked(name)?;
        Ok(self)
    }

    /// Returns the names of all tables except `callgate_migrations`.
    pub(crate) fn all(&self) -> Vec<String> {
        TABLES.iter().map(|table| self.expand(table.name)).collect()
    }

    /// Replaces `{sections}`, `{users}` and so on by the configured names, which are plain identifiers.
    pub(crate) fn expand(&self, sql: &str) -> String {
        let mut sql = sql
            .replace("{rpc_methods}", &self.rpc_methods)
            .replace("{users}", &self.users)
            .replace("{users_types}", &self.users_types);
        for name in PREFIXED {
            sql = sql.replace(&format!("{{{name}}}"), &format!("{}{name}", self.prefix));
        }
        sql
    }
}

pub(crate) fn checked(name: &str) -> Result<String, TableNameError> {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.len() <= 40;
    if is_name { Ok(name.to_owned()) } else { Err(TableNameError(name.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_applies_only_to_tables_of_festi_and_other_names_are_set_individually() {
        let names = TableNames::with_prefix("festi_").unwrap().users("site_users").unwrap();
        let sql = "{sections} {section_actions} {sections_user_permission} \
                   {sections_user_types_permission} {settings} {rpc_methods} {users} {users_types}";
        assert_eq!(
            names.expand(sql),
            "festi_sections festi_section_actions festi_sections_user_permission \
             festi_sections_user_types_permission festi_settings rpc_methods site_users users_types"
        );
    }

    #[test]
    fn invalid_table_names_are_refused() {
        for name in ["a b", "a;drop", "\"x\"", "", "1a", "a.b"] {
            assert!(TableNames::default().users(name).is_err(), "{name}");
        }
    }
}
