//! Layout of a Festi database: its tables and columns.

use std::ops::Range;

use crate::db::database::Row;
use crate::db::dialect::Dialect;
use crate::db::table_names::TableNames;
use crate::festi::error::{FestiError, Result};
use crate::rows::MethodRow;

/// A table of a Festi database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FestiTable {
    Methods,
    Sections,
    Actions,
    Roles,
    Users,
    /// Tokens of users. They are in the table of users.
    Tokens,
    RoleGrants,
    UserGrants,
    Settings,
}

/// Alternative names of a column. The first one that exists is used.
type Choices = &'static [&'static str];

impl FestiTable {
    pub(crate) const ALL: [Self; 9] = [
        Self::Methods,
        Self::Sections,
        Self::Actions,
        Self::Roles,
        Self::Users,
        Self::Tokens,
        Self::RoleGrants,
        Self::UserGrants,
        Self::Settings,
    ];

    /// Returns the columns in the order in which they are read.
    pub(super) fn columns(self) -> Vec<Choices> {
        let columns: &[Choices] = match self {
            Self::Methods => {
                let others =
                    MethodRow::COLUMNS.iter().map(|column| std::slice::from_ref(&column.name));
                let keys: [Choices; 2] = [&["id"], &["rpc_method", "method"]];
                return keys.into_iter().chain(others).collect();
            }
            Self::Sections => &[&["id"], &["caption"], &["ident"], &["mask"]],
            Self::Actions => &[&["id_section"], &["plugin"], &["method"], &["mask"]],
            Self::Roles => &[&["id"], &["caption", "name", "ident"]],
            Self::Users => &[&["id"], &["login", "email", "username", "name"], &["id_type"]],
            Self::Tokens => &[&["id"], &["access_token"]],
            Self::RoleGrants => &[&["id_section"], &["id_user_type"], &["value"]],
            Self::UserGrants => &[&["id_section"], &["id_user"], &["value"]],
            Self::Settings => &[&["name"], &["value"]],
        };
        columns.to_vec()
    }

    /// Returns the indexes of the required columns. If a missing required column were ignored, anyone could call
    /// protected methods.
    fn required_columns(self) -> Range<usize> {
        match self {
            // The name of the key column differs between applications.
            Self::Methods => 1..2,
            Self::Users => 0..2,
            Self::Sections | Self::RoleGrants | Self::UserGrants => 0..3,
            Self::Actions => 0..4,
            Self::Roles | Self::Tokens | Self::Settings => 0..0,
        }
    }

    /// Returns `true` if all names of the table have the prefix.
    fn is_prefixed(self, tables: &TableNames) -> bool {
        self.names(tables).iter().all(|name| name.starts_with(&tables.prefix))
    }

    /// Returns possible names of the table, the most likely one first.
    fn names(self, tables: &TableNames) -> Vec<String> {
        let prefixed = |name: &str| format!("{}{name}", tables.prefix);
        let both = |name: &str| vec![name.to_owned(), prefixed(name)];
        match self {
            Self::Methods => both(&tables.rpc_methods),
            Self::Users | Self::Tokens => both(&tables.users),
            // Festi's scripts for SQL Server use the second name.
            Self::Roles => [both(&tables.users_types), both("user_types")].concat(),
            Self::Sections => vec![prefixed("sections")],
            Self::Actions => vec![prefixed(ACTIONS)],
            Self::RoleGrants => vec![prefixed("sections_user_types_permission")],
            Self::UserGrants => vec![prefixed("sections_user_permission")],
            Self::Settings => vec![prefixed("settings")],
        }
    }
}

/// Name of the table of actions without its prefix.
const ACTIONS: &str = "section_actions";

/// Prefix of the registry's own tables, which may be in the same database.
const REGISTRY_PREFIX: &str = "callgate_";

/// An existing table. `table` and `columns` are quoted for SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundTable {
    /// Unquoted name.
    pub(super) name: String,
    pub(super) table: String,
    /// Existing column for each of [`FestiTable::columns`], if there is one.
    pub(super) columns: Vec<Option<String>>,
}

/// Existing tables and columns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Layout {
    tables: Vec<(FestiTable, FoundTable)>,
    /// Prefix of another table of actions, if there is no table with the expected prefix.
    pub(crate) other_prefix: Option<String>,
}

impl Layout {
    /// Returns the query for the columns of all tables.
    pub(super) fn statement(dialect: Dialect, tables: &TableNames) -> String {
        let names = FestiTable::ALL.iter().flat_map(|table| table.names(tables));
        let names: Vec<String> =
            names.map(|name| format!("'{}'", name.to_ascii_lowercase())).collect();
        let (table, column, from) = match dialect {
            Dialect::Sqlite => (
                "t.name",
                "c.name",
                "sqlite_master t, pragma_table_info(t.name) c WHERE t.type IN ('table', 'view')",
            ),
            // PostgreSQL's information schema would hide tables that the user may not read.
            Dialect::Postgres => (
                "CAST(t.relname AS TEXT)",
                "CAST(c.attname AS TEXT)",
                "pg_catalog.pg_class t JOIN pg_catalog.pg_attribute c ON c.attrelid = t.oid
                 WHERE pg_catalog.pg_table_is_visible(t.oid) AND t.relkind IN ('r', 'p', 'v', 'm', 'f')
                 AND c.attnum > 0 AND NOT c.attisdropped",
            ),
            Dialect::MySql => (
                "CAST(t.TABLE_NAME AS CHAR)",
                "CAST(t.COLUMN_NAME AS CHAR)",
                "information_schema.COLUMNS t WHERE t.TABLE_SCHEMA = DATABASE()",
            ),
            Dialect::SqlServer => (
                "t.TABLE_NAME",
                "t.COLUMN_NAME",
                "INFORMATION_SCHEMA.COLUMNS t WHERE t.TABLE_SCHEMA = SCHEMA_NAME()",
            ),
        };
        format!(
            "SELECT {table}, {column} FROM {from}
             AND (LOWER({table}) IN ({}) OR LOWER({table}) LIKE '%{ACTIONS}')",
            names.join(", ")
        )
    }

    /// Builds the layout from the rows of [`Self::statement`].
    pub(super) fn of(rows: Vec<Row>, dialect: Dialect, tables: &TableNames) -> Self {
        let found: Vec<(String, String)> =
            rows.into_iter().map(|mut row| (row.text(), row.text())).collect();
        let mut layout = Self::default();
        for table in FestiTable::ALL {
            let mut names = table.names(tables).into_iter();
            let existing = names.find_map(|name| find_table(table, &name, &found, dialect));
            layout.tables.extend(existing.map(|existing| (table, existing)));
        }
        if layout.found(FestiTable::Actions).is_none() {
            let others = found.iter().filter_map(|(table, _)| table.strip_suffix(ACTIONS));
            let others = others.filter(|prefix| !prefix.eq_ignore_ascii_case(REGISTRY_PREFIX));
            layout.other_prefix = others.min().map(ToOwned::to_owned);
        }
        layout
    }

    pub(crate) fn found(&self, table: FestiTable) -> Option<&FoundTable> {
        self.tables.iter().find(|(candidate, _)| *candidate == table).map(|(_, found)| found)
    }

    /// Returns the names of missing tables.
    pub(super) fn missing(&self, checked: &[FestiTable], tables: &TableNames) -> Vec<String> {
        let missing = checked.iter().filter(|table| self.found(**table).is_none());
        missing.map(|table| self.name(*table, tables)).collect()
    }

    /// Fails if a required table or column is missing.
    pub(crate) fn check(&self, tables: &TableNames) -> Result<()> {
        self.check_tables(&FestiTable::ALL, tables)
    }

    /// Fails if one of these tables is required and does not exist, or lacks a required column.
    pub(super) fn check_tables(&self, checked: &[FestiTable], tables: &TableNames) -> Result<()> {
        for table in checked.iter().filter(|table| !table.required_columns().is_empty()) {
            let Some(found) = self.found(*table) else {
                let name = table.names(tables).into_iter().next().unwrap_or_default();
                let prefix = self.other_prefix.clone().filter(|_| table.is_prefixed(tables));
                return Err(FestiError::Missing { object: format!("table `{name}`"), prefix });
            };
            let Range { start, end } = table.required_columns();
            let columns = found.columns.iter().zip(table.columns());
            for (column, choices) in columns.take(end).skip(start) {
                if column.is_none() {
                    let choices = choices.join("` or `");
                    let object = format!("column `{choices}` in `{}`", found.name);
                    return Err(FestiError::Missing { object, prefix: None });
                }
            }
        }
        Ok(())
    }

    /// Returns `true` if the columns for the tokens of users exist.
    pub(crate) fn has_tokens(&self) -> bool {
        self.found(FestiTable::Tokens)
            .is_some_and(|found| found.columns.iter().all(Option::is_some))
    }

    /// Returns the name of a table. The table need not exist.
    pub(crate) fn name(&self, table: FestiTable, tables: &TableNames) -> String {
        match self.found(table) {
            Some(found) => found.name.clone(),
            None => table.names(tables).into_iter().next().unwrap_or_default(),
        }
    }
}

fn find_table(
    table: FestiTable,
    name: &str,
    found: &[(String, String)],
    dialect: Dialect,
) -> Option<FoundTable> {
    // If two names differ only in case, the exact spelling is preferred.
    let find_name = |exact: bool| {
        found.iter().find(|(existing, _)| {
            if exact { existing == name } else { existing.eq_ignore_ascii_case(name) }
        })
    };
    let (name, _) = find_name(true).or_else(|| find_name(false))?;
    let existing_columns =
        || found.iter().filter(|(table, _)| table == name).map(|(_, column)| column);
    let column = |choices: &Choices| {
        let named =
            |choice: &&str| existing_columns().find(|column| column.eq_ignore_ascii_case(choice));
        choices.iter().find_map(named).map(|column| dialect.quote_name(column))
    };
    // Apart from case, the names of the table and of its columns equal known or validated names, so quoting is safe.
    Some(FoundTable {
        name: name.clone(),
        table: dialect.quote_name(name),
        columns: table.columns().iter().map(column).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::database::Cell;

    fn layout(found: &[(&str, &str)], prefix: &str) -> Layout {
        let cell = |text: &str| Cell::Text(text.to_owned());
        let rows = found.iter().map(|(table, column)| Row::new(vec![cell(table), cell(column)]));
        let tables = TableNames::with_prefix(prefix).unwrap();
        Layout::of(rows.collect(), Dialect::SqlServer, &tables)
    }

    #[test]
    fn roles_are_found_in_either_table_and_columns_regardless_of_case() {
        let found = [("user_types", "ID"), ("user_types", "Caption"), ("users", "email")];
        let layout = layout(&found, "festi_");
        let roles = layout.found(FestiTable::Roles).unwrap();
        assert_eq!(roles.table, "[user_types]");
        assert_eq!(roles.columns, [Some("[ID]".to_owned()), Some("[Caption]".to_owned())]);
        let users = layout.found(FestiTable::Users).unwrap();
        assert_eq!(users.columns, [None, Some("[email]".to_owned()), None]);
        assert!(!layout.has_tokens());
    }

    #[test]
    fn the_check_names_the_missing_table_or_column_and_another_prefix_is_found() {
        let tables = TableNames::with_prefix("festi_").unwrap();
        let mut found = vec![("rpc_methods", "rpc_method")];
        let check = |found: &[(&str, &str)]| {
            layout(found, "festi_").check(&tables).map_err(|error| error.to_string())
        };
        assert!(check(&[]).unwrap_err().contains("table `rpc_methods`"));
        assert!(check(&[("rpc_methods", "id")]).unwrap_err().contains("column `rpc_method`"));
        found.extend([("festi_sections", "id"), ("festi_sections", "caption")]);
        assert!(check(&found).unwrap_err().contains("column `ident` in `festi_sections`"));
        found.extend([("festi_sections", "ident"), ("my_section_actions", "id")]);
        assert!(check(&found).unwrap_err().contains("table `festi_section_actions`"));
        assert_eq!(layout(&found, "festi_").other_prefix.as_deref(), Some("my_"));
    }

    #[test]
    fn the_error_for_a_missing_table_suggests_another_prefix_but_not_the_registrys() {
        let tables = TableNames::with_prefix("festi_").unwrap();
        let prefix = |found: &[(&str, &str)]| match layout(found, "festi_").check(&tables) {
            Err(FestiError::Missing { object, prefix }) => (object, prefix),
            other => panic!("{other:?}"),
        };
        let registry_table = ("callgate_section_actions", "id");
        let mut found = vec![("rpc_methods", "rpc_method"), registry_table];
        let sections = "table `festi_sections`".to_owned();
        assert_eq!(prefix(&found), (sections.clone(), None));
        found.push(("my_section_actions", "id"));
        assert_eq!(prefix(&found), (sections, Some("my_".to_owned())));
    }
}
