//! The tables that are copied between registries, in this order.
//!
//! Migrations, counters and messages are not copied.

use crate::db::column::Kind;
use crate::db::database::Dialect;
use crate::db::schema;

/// A table, whose first columns are its key.
#[derive(Debug)]
pub(crate) struct Table {
    /// Name in templates.
    pub(crate) name: &'static str,
    keys: usize,
    pub(crate) columns: Vec<Column>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

impl Table {
    pub(crate) fn keys(&self) -> &[Column] {
        self.columns.get(..self.keys).unwrap_or_default()
    }

    /// Whether the database assigns ids.
    pub(crate) fn is_numbered(&self) -> bool {
        self.columns.first().is_some_and(|column| column.name == "id")
    }

    /// Returns the table and a condition for the rows to copy: table names are not copied.
    pub(crate) fn copied_rows(&self) -> String {
        match self.name {
            "callgate_meta" => format!("{} WHERE name <> 'tables'", self.name),
            name => name.to_owned(),
        }
    }
}

/// Returns the tables to copy.
pub(crate) fn tables() -> Vec<Table> {
    const OF_RUNNING_SERVERS: [&str; 3] =
        ["callgate_messages", "callgate_revisions", "callgate_servers"];
    let is_copied = |table: &&schema::Table| !OF_RUNNING_SERVERS.contains(&table.name);
    let tables = schema::TABLES.iter().filter(is_copied).map(|table| {
        let (keys, columns) = table.stored_columns();
        let columns = columns.into_iter().map(|(name, kind)| Column { name, kind }).collect();
        Table { name: table.name, keys, columns }
    });
    tables.collect()
}

impl Column {
    /// Returns the expression that reads the column: unchanged in SQLite, times as Unix time elsewhere.
    pub(crate) fn template(&self, dialect: Dialect) -> String {
        let what =
            if self.kind == Kind::Time && dialect != Dialect::Sqlite { "seconds" } else { "name" };
        format!("{{{what} {}}}", self.name)
    }
}
