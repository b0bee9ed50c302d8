//! Differences between SQL dialects.
//!
//! Operations are written as templates, in which `?` stands for a value. A mark in braces is expanded by the dialect,
//! or is the name of a table:
//!
//! | in a template | expands to |
//! | --- | --- |
//! | `{text c}`, `{int c}` | a column as text or as a number, also if SQLite stores another type |
//! | `{seconds c}`, `{seconds now}` | a column of times, or the current time, in seconds since 1970 |
//! | `{at}` | a [`Value::Time`] |
//! | `{now}` | the current time by the database's clock |
//! | `{name c}` | a column whose name is a keyword of SQL |
//! | `{folded c}`, `{folded ?}` | a column of actions, or a value, in lower case |
//! | `{limit n}` | after `ORDER BY`: the clause that limits the number of rows |
//! | `{sections}` and so on | see [`TableNames`](crate::TableNames) |

use crate::db::database::{LAST_SECOND, Value};

/// SQL dialect of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MySQL, and MariaDB.
    MySql,
    /// SQL Server.
    SqlServer,
}

/// Value of a column in an upsert.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UpsertValue<'a> {
    Value(Value<'a>),
    /// The higher of this value and the value in the row.
    Highest(Value<'a>),
    /// Current time of the database.
    Now,
}

impl<'a, T: Into<Value<'a>>> From<T> for UpsertValue<'a> {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

impl<'a> UpsertValue<'a> {
    pub(crate) fn value(&self) -> Option<Value<'a>> {
        match self {
            Self::Value(value) | Self::Highest(value) => Some(*value),
            Self::Now => None,
        }
    }

    fn template(&self) -> &'static str {
        match self {
            Self::Value(value) | Self::Highest(value) => placeholder(value),
            Self::Now => "{now}",
        }
    }

    /// Returns the assignment of a column in an update. `old` and `new` are SQL for the value in the row and the
    /// value to write. For [`Self::Highest`], `new` occurs twice in the assignment.
    fn assignment(&self, name: &str, old: &str, new: &str) -> String {
        match self {
            Self::Highest(_) => {
                format!("{name} = CASE WHEN {new} > {old} THEN {new} ELSE {old} END")
            }
            Self::Value(_) | Self::Now => format!("{name} = {new}"),
        }
    }
}

/// A row to be inserted or updated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Upsert<'a> {
    pub(crate) table: &'a str,
    /// Key columns. The table has a unique constraint with the same columns in the same order.
    pub(crate) keys: &'a [(&'a str, Value<'a>)],
    /// Columns that are always written.
    pub(crate) columns: &'a [(&'a str, UpsertValue<'a>)],
    /// Columns that are only written by an insert.
    pub(crate) insert_only: &'a [(&'a str, UpsertValue<'a>)],
}

impl<'a> Upsert<'a> {
    /// Returns the template of an `INSERT` with the values of [`Self::insert_values`].
    pub(crate) fn insert(&self) -> String {
        self.insert_rows(1)
    }

    /// Returns the template of an `INSERT` of several rows.
    fn insert_rows(&self, count: usize) -> String {
        let keys = self.keys.iter().map(|(name, value)| (*name, placeholder(value)));
        let other_columns = self.columns.iter().chain(self.insert_only);
        let other_columns = other_columns.map(|(name, value)| (*name, value.template()));
        let (names, values): (Vec<_>, Vec<_>) = keys.chain(other_columns).unzip();
        let rows = vec![format!("({})", values.join(", ")); count].join(", ");
        format!("INSERT INTO {} ({}) VALUES {rows}", self.table, names.join(", "))
    }

    pub(crate) fn insert_values(&self) -> Vec<Value<'a>> {
        let other_values =
            self.columns.iter().chain(self.insert_only).filter_map(|(_, value)| value.value());
        self.keys.iter().map(|(_, value)| *value).chain(other_values).collect()
    }

    /// Returns the template of an `UPDATE` with the values of [`Self::update_values`].
    pub(crate) fn update(&self) -> String {
        let set =
            self.columns.iter().map(|(name, value)| value.assignment(name, name, value.template()));
        let set = set.collect::<Vec<_>>().join(", ");
        format!("UPDATE {} SET {set} WHERE {}", self.table, self.key_condition())
    }

    pub(crate) fn update_values(&self) -> Vec<Value<'a>> {
        let columns = self.columns.iter().flat_map(|(_, value)| {
            let repeated = value.value().filter(|_| matches!(value, UpsertValue::Highest(_)));
            value.value().into_iter().chain(repeated)
        });
        columns.chain(self.keys.iter().map(|(_, value)| *value)).collect()
    }

    /// Returns the template of a query that checks whether the key exists.
    pub(crate) fn exists(&self) -> String {
        format!("SELECT 1 FROM {} WHERE {}", self.table, self.key_condition())
    }

    fn key_condition(&self) -> String {
        let keys = self.keys.iter().map(|(name, value)| format!("{name} = {}", placeholder(value)));
        keys.collect::<Vec<_>>().join(" AND ")
    }

    /// Returns the template of an upsert of several rows with different keys, or `None` if the dialect has no such
    /// statement. Its values are the same as for an insert.
    pub(crate) fn upsert_statement(&self, count: usize, dialect: Dialect) -> Option<String> {
        let set = |new: fn(&str) -> String| {
            let columns = self.columns.iter().map(|(name, value)| {
                value.assignment(name, &format!("{}.{name}", self.table), &new(name))
            });
            columns.collect::<Vec<_>>().join(", ")
        };
        let conflict_clause = match dialect {
            Dialect::Sqlite | Dialect::Postgres => {
                let keys: Vec<_> = self.keys.iter().map(|(name, _)| *name).collect();
                let set = set(|name| format!("excluded.{name}"));
                format!("ON CONFLICT ({}) DO UPDATE SET {set}", keys.join(", "))
            }
            Dialect::MySql => {
                format!("ON DUPLICATE KEY UPDATE {}", set(|name| format!("VALUES({name})")))
            }
            // SQL Server's `MERGE` is not atomic without additional locks.
            Dialect::SqlServer => return None,
        };
        Some(format!("{} {conflict_clause}", self.insert_rows(count)))
    }
}

/// Returns the placeholder of a value.
pub(crate) fn placeholder(value: &Value<'_>) -> &'static str {
    if matches!(value, Value::Time(_)) { "{at}" } else { "?" }
}

impl Dialect {
    /// Returns the text for this dialect. The order is SQLite, PostgreSQL, MySQL, SQL Server.
    pub(crate) fn pick(
        self,
        [sqlite, postgres, mysql, sql_server]: [&'static str; 4],
    ) -> &'static str {
        match self {
            Self::Sqlite => sqlite,
            Self::Postgres => postgres,
            Self::MySql => mysql,
            Self::SqlServer => sql_server,
        }
    }

    /// Expands a template, except for the names of tables.
    pub(crate) fn expand(self, template: &str) -> String {
        let mut sql = String::with_capacity(template.len() + 64);
        let mut rest = template;
        while let Some((before, marked)) = rest.split_once('{') {
            sql.push_str(before);
            let (mark, after) = marked.split_once('}').unwrap_or((marked, ""));
            match self.expand_mark(mark) {
                Some(text) => sql.push_str(&text),
                None => sql.extend(["{", mark, "}"]),
            }
            rest = after;
        }
        sql.push_str(rest);
        sql
    }

    fn expand_mark(self, mark: &str) -> Option<String> {
        match mark.split_once(' ') {
            None if mark == "now" => Some(self.now().to_owned()),
            None if mark == "at" => Some(self.at().to_owned()),
            Some(("text", column)) => Some(self.cast(column, "TEXT")),
            Some(("int", column)) => Some(self.cast(column, "INTEGER")),
            Some(("seconds", "now")) => Some(self.seconds_now()),
            Some(("seconds", column)) => Some(self.seconds(column)),
            Some(("name", column)) => Some(self.quote_name(column)),
            Some(("folded", text)) => Some(self.folded(text)),
            Some(("limit", count)) => Some(self.limit(count, 0)),
            None | Some(_) => None,
        }
    }

    /// Casts a column, in SQLite only. SQLite stores any value in any column. In other databases, drivers convert by
    /// the type of the column.
    fn cast(self, column: &str, to: &str) -> String {
        match self {
            Self::Sqlite => format!("CAST({column} AS {to})"),
            _ => column.to_owned(),
        }
    }

    fn seconds(self, column: &str) -> String {
        match self {
            Self::Sqlite => self.cast(column, "INTEGER"),
            // `infinity` has no Unix time.
            Self::Postgres => format!(
                "CASE {column} WHEN 'infinity' THEN {LAST_SECOND} WHEN '-infinity' THEN 0 \
                 ELSE CAST(FLOOR(EXTRACT(EPOCH FROM {column})) AS BIGINT) END"
            ),
            // `UNIX_TIMESTAMP` would use the time zone of the session.
            Self::MySql => {
                format!("TIMESTAMPDIFF(SECOND, TIMESTAMP'1970-01-01 00:00:00', {column})")
            }
            // Counts days first, because `DATEDIFF` in seconds would overflow. The explicit `CASE` is needed by servers
            // that only emulate SQL Server.
            Self::SqlServer => format!(
                "CAST(CASE WHEN {column} IS NOT NULL \
                 THEN CAST(DATEDIFF(DAY, '1970-01-01', {column}) AS BIGINT) * 86400 \
                 + DATEDIFF(SECOND, CAST({column} AS DATE), {column}) END AS BIGINT)"
            ),
        }
    }

    fn seconds_now(self) -> String {
        match self {
            Self::Postgres => {
                format!("CAST(FLOOR(EXTRACT(EPOCH FROM {})) AS BIGINT)", self.now())
            }
            // Evaluates the clock only once, because the date could change between two evaluations.
            Self::SqlServer => format!("DATEDIFF_BIG(SECOND, '1970-01-01', {})", self.now()),
            _ => self.seconds(self.now()),
        }
    }

    /// Returns a column of actions, or a value, in lower case by the rules of the database.
    fn folded(self, text: &str) -> String {
        match self {
            // Uses the collation of the columns, so that columns and values are folded in the same way.
            Self::Postgres if text == "?" => "lower(? COLLATE \"C\")".to_owned(),
            Self::MySql if text != "?" => format!("{text}_key"),
            _ => format!("lower({text})"),
        }
    }

    fn at(self) -> &'static str {
        self.pick([
            "?",
            "to_timestamp(?)",
            "TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ? SECOND",
            // The driver sends the time as text.
            "CAST(? AS DATETIME2)",
        ])
    }

    /// Returns the current time. In PostgreSQL, this is not the time at which the transaction began.
    fn now(self) -> &'static str {
        self.pick(["unixepoch()", "clock_timestamp()", "UTC_TIMESTAMP()", "SYSUTCDATETIME()"])
    }

    pub(crate) fn quote_name(self, name: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!("\"{name}\""),
            Self::MySql => format!("`{name}`"),
            Self::SqlServer => format!("[{name}]"),
        }
    }

    /// Returns the clause that limits the number of rows. It must follow `ORDER BY`.
    pub(crate) fn limit(self, count: impl std::fmt::Display, offset: i64) -> String {
        match self {
            Self::SqlServer => format!("OFFSET {offset} ROWS FETCH NEXT {count} ROWS ONLY"),
            _ => format!("LIMIT {count} OFFSET {offset}"),
        }
    }

    /// Returns the maximum number of values in a list. SQL Server accepts 2100 values in a statement.
    pub(crate) fn max_list_len(self) -> usize {
        if self == Self::SqlServer { 2_000 } else { 10_000 }
    }

    /// Returns the maximum number of rows in one statement.
    pub(crate) fn max_rows_per_statement(self) -> usize {
        if self == Self::SqlServer { 1 } else { 100 }
    }

    /// Returns a statement that locks rows in the order of their ids. Needed for dialects whose `UPDATE` and `DELETE`
    /// lock in any order: two such statements could deadlock.
    pub(crate) fn lock_in_order(self, table: &str, list: &str) -> Option<String> {
        (self == Self::Postgres)
            .then(|| format!("SELECT FROM {table} WHERE id IN ({list}) ORDER BY id FOR UPDATE"))
    }

    /// Returns the columns to select. In SQLite, the columns are combined into one JSON array, because the driver of
    /// SQLite needs much time for each value. With the array, reading 100,000 rows takes a third of the time.
    pub(crate) fn columns(self, names: &[&str]) -> String {
        let names = names.iter().map(|name| self.cast(name, "TEXT")).collect::<Vec<_>>().join(", ");
        if self == Self::Sqlite { format!("json_array({names})") } else { names }
    }

    /// Returns an `INSERT` that sets the id.
    pub(crate) fn insert_with_id(self, table: &str, insert: &str) -> String {
        match self {
            Self::SqlServer => {
                format!("SET IDENTITY_INSERT {table} ON; {insert}; SET IDENTITY_INSERT {table} OFF")
            }
            _ => insert.to_owned(),
        }
    }

    /// Returns the query for the highest id that was assigned in a table.
    pub(crate) fn last_assigned_id(self, table: &str) -> String {
        match self {
            Self::Sqlite => format!("SELECT seq FROM sqlite_sequence WHERE name = '{table}'"),
            Self::Postgres => {
                format!("SELECT pg_sequence_last_value(pg_get_serial_sequence('{table}', 'id'))")
            }
            Self::MySql => format!(
                "SELECT CAST(AUTO_INCREMENT AS SIGNED) - 1 FROM information_schema.tables \
                 WHERE table_schema = DATABASE() AND LOWER(table_name) = LOWER('{table}')"
            ),
            Self::SqlServer => format!("SELECT CAST(IDENT_CURRENT('{table}') AS BIGINT)"),
        }
    }

    /// Returns `true` if read transactions see a snapshot.
    pub(crate) fn has_snapshot_reads(self) -> bool {
        self != Self::SqlServer
    }

    /// Returns a query that checks whether a table exists.
    pub(crate) fn table_exists_query(self) -> &'static str {
        self.pick([
            "SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE",
            // PostgreSQL converts unquoted names to lower case. The query includes tables that the user may not read.
            "SELECT 1 FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname = current_schema() AND c.relname = lower(?)",
            "SELECT 1 FROM information_schema.tables \
             WHERE table_schema = DATABASE() AND LOWER(table_name) = LOWER(?)",
            "SELECT 1 FROM INFORMATION_SCHEMA.TABLES \
             WHERE TABLE_SCHEMA = SCHEMA_NAME() AND LOWER(TABLE_NAME) = LOWER(?)",
        ])
    }

    /// Returns the separator of batches in a script.
    pub(crate) fn batch_separator(self) -> &'static str {
        if self == Self::SqlServer { "\nGO\n" } else { "\n" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Dialect; 4] =
        [Dialect::Sqlite, Dialect::Postgres, Dialect::MySql, Dialect::SqlServer];

    #[test]
    fn templates_are_expanded_for_each_dialect() {
        let template = "SELECT {int id}, {text title}, {name schema}, {seconds ends_at} \
                        FROM {rpc_methods} WHERE at < {at} AND begun < {now} AND {folded plugin} = {folded ?} \
                        ORDER BY id {limit 7}";
        let expanded = ALL.map(|dialect| dialect.expand(template));
        insta::assert_debug_snapshot!(expanded);
    }

    #[test]
    fn upserts_are_written_for_each_dialect() {
        let row = Upsert {
            table: "t",
            keys: &[("a", 1.into()), ("b", "2".into())],
            columns: &[
                ("c", "3".into()),
                ("d", UpsertValue::Now),
                ("e", Value::time(4).into()),
                ("g", UpsertValue::Highest(6.into())),
            ],
            insert_only: &[("f", "5".into())],
        };
        let statements = ALL.map(|dialect| match row.upsert_statement(2, dialect) {
            Some(upsert) => vec![dialect.expand(&upsert)],
            None => [row.exists(), row.update(), row.insert()]
                .map(|template| dialect.expand(&template))
                .into(),
        });
        insta::assert_debug_snapshot!(statements);
        assert_eq!(row.insert_values().len(), 6);
        assert_eq!(row.update_values().len(), 6);
    }

    #[test]
    fn inserts_with_ids_and_queries_of_the_last_id_are_written_for_each_dialect() {
        let insert = "INSERT INTO t (id) VALUES (?)";
        let statements =
            ALL.map(|dialect| (dialect.insert_with_id("t", insert), dialect.last_assigned_id("t")));
        insta::assert_debug_snapshot!(statements);
    }

    #[test]
    fn unknown_marks_are_not_expanded_and_unclosed_marks_are_closed() {
        assert_eq!(
            Dialect::Sqlite.expand("a {users} {what ever} {open"),
            "a {users} {what ever} {open}"
        );
    }
}
