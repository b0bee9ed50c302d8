//! What dialects of SQL write differently.
//!
//! The operations are templates. `?` is a value; what is in braces is written by the dialect, or is the
//! name of a table:
//!
//! | in a template | what |
//! | --- | --- |
//! | `{text c}`, `{int c}` | a column as text or as a number, whatever SQLite has in it |
//! | `{seconds c}`, `{seconds now}` | a column of times, or the time, in seconds since 1970 |
//! | `{at}` | a [`Value::Time`] |
//! | `{now}` | the time by the database's clock |
//! | `{name c}` | a column whose name is a word of SQL |
//! | `{folded c}`, `{folded ?}` | a column of actions, or a value, in lower case |
//! | `{limit n}` | behind `ORDER BY`: the first so many rows |
//! | `{sections}` and so on | see [`TableNames`](crate::TableNames) |

use crate::db::database::{Dialect, LAST_SECOND, Value};

/// What an upsert puts into a column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Put<'a> {
    Value(Value<'a>),
    /// The time by the database's clock.
    Now,
}

impl<'a, T: Into<Value<'a>>> From<T> for Put<'a> {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

impl<'a> Put<'a> {
    pub(crate) fn value(&self) -> Option<Value<'a>> {
        match self {
            Self::Value(value) => Some(*value),
            Self::Now => None,
        }
    }

    fn template(&self) -> &'static str {
        match self {
            Self::Value(value) => placeholder(value),
            Self::Now => "{now}",
        }
    }
}

/// A row to be written whether it is there or not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Upsert<'a> {
    pub(crate) table: &'a str,
    /// What it is known by; there is a unique constraint on them, in this order.
    pub(crate) keys: &'a [(&'a str, Value<'a>)],
    /// What is written in each case.
    pub(crate) columns: &'a [(&'a str, Put<'a>)],
    /// What is written if it is not there yet.
    pub(crate) once: &'a [(&'a str, Put<'a>)],
}

impl<'a> Upsert<'a> {
    /// The template of an `INSERT`. Its values are those of [`Self::insert_values`].
    pub(crate) fn insert(&self) -> String {
        self.insert_rows(1)
    }

    /// So for several rows like this one.
    fn insert_rows(&self, count: usize) -> String {
        let keys = self.keys.iter().map(|(name, value)| (*name, placeholder(value)));
        let others = self.columns.iter().chain(self.once);
        let others = others.map(|(name, put)| (*name, put.template()));
        let (names, values): (Vec<_>, Vec<_>) = keys.chain(others).unzip();
        let rows = vec![format!("({})", values.join(", ")); count].join(", ");
        format!("INSERT INTO {} ({}) VALUES {rows}", self.table, names.join(", "))
    }

    pub(crate) fn insert_values(&self) -> Vec<Value<'a>> {
        let others = self.columns.iter().chain(self.once).filter_map(|(_, put)| put.value());
        self.keys.iter().map(|(_, value)| *value).chain(others).collect()
    }

    /// The template of an `UPDATE`. Its values are those of [`Self::update_values`].
    pub(crate) fn update(&self) -> String {
        let set = self.columns.iter().map(|(name, put)| format!("{name} = {}", put.template()));
        let set = set.collect::<Vec<_>>().join(", ");
        format!("UPDATE {} SET {set} WHERE {}", self.table, self.is_it())
    }

    pub(crate) fn update_values(&self) -> Vec<Value<'a>> {
        let columns = self.columns.iter().filter_map(|(_, put)| put.value());
        columns.chain(self.keys.iter().map(|(_, value)| *value)).collect()
    }

    /// The template of a look whether it is there. Its values are the keys'.
    pub(crate) fn look(&self) -> String {
        format!("SELECT 1 FROM {} WHERE {}", self.table, self.is_it())
    }

    fn is_it(&self) -> String {
        let keys = self.keys.iter().map(|(name, value)| format!("{name} = {}", placeholder(value)));
        keys.collect::<Vec<_>>().join(" AND ")
    }

    /// The template of both in one statement, with the values of an insert, where the dialect has that. It is
    /// for several rows like this one, no two of them with the same keys.
    pub(crate) fn in_one(&self, count: usize, dialect: Dialect) -> Option<String> {
        let names = self.columns.iter().map(|(name, _)| name);
        let tail = match dialect {
            Dialect::Sqlite | Dialect::Postgres => {
                let keys: Vec<_> = self.keys.iter().map(|(name, _)| *name).collect();
                let set: Vec<_> = names.map(|name| format!("{name} = excluded.{name}")).collect();
                format!("ON CONFLICT ({}) DO UPDATE SET {}", keys.join(", "), set.join(", "))
            }
            Dialect::MySql => {
                let set: Vec<_> = names.map(|name| format!("{name} = VALUES({name})")).collect();
                format!("ON DUPLICATE KEY UPDATE {}", set.join(", "))
            }
            // Its MERGE is not safe from others without locks of its own.
            Dialect::SqlServer => return None,
        };
        Some(format!("{} {tail}", self.insert_rows(count)))
    }
}

/// What stands for a value in a template.
pub(crate) fn placeholder(value: &Value<'_>) -> &'static str {
    if matches!(value, Value::Time(_)) { "{at}" } else { "?" }
}

impl Dialect {
    /// Returns the text of this dialect, of those for SQLite, PostgreSQL, MySQL and SQL Server.
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

    /// A template as this dialect writes it; the names of tables are left.
    pub(crate) fn expand(self, template: &str) -> String {
        let mut sql = String::with_capacity(template.len() + 64);
        let mut rest = template;
        while let Some((before, marked)) = rest.split_once('{') {
            sql.push_str(before);
            let (mark, after) = marked.split_once('}').unwrap_or((marked, ""));
            match self.written(mark) {
                Some(text) => sql.push_str(&text),
                None => sql.extend(["{", mark, "}"]),
            }
            rest = after;
        }
        sql.push_str(rest);
        sql
    }

    fn written(self, mark: &str) -> Option<String> {
        match mark.split_once(' ') {
            None if mark == "now" => Some(self.now().to_owned()),
            None if mark == "at" => Some(self.at().to_owned()),
            Some(("text", column)) => Some(self.cast(column, "TEXT")),
            Some(("int", column)) => Some(self.cast(column, "INTEGER")),
            Some(("seconds", "now")) => Some(self.seconds_now()),
            Some(("seconds", column)) => Some(self.seconds(column)),
            Some(("name", word)) => Some(self.name(word)),
            Some(("folded", text)) => Some(self.folded(text)),
            Some(("limit", count)) => Some(self.limit(count, 0)),
            None | Some(_) => None,
        }
    }

    /// SQLite lets any column hold anything. Elsewhere columns are what they are, and the driver reads
    /// numbers, truth values and JSON alike.
    fn cast(self, column: &str, to: &str) -> String {
        match self {
            Self::Sqlite => format!("CAST({column} AS {to})"),
            _ => column.to_owned(),
        }
    }

    fn seconds(self, column: &str) -> String {
        match self {
            Self::Sqlite => self.cast(column, "INTEGER"),
            // It has times without an end, which have no number.
            Self::Postgres => format!(
                "CASE {column} WHEN 'infinity' THEN {LAST_SECOND} WHEN '-infinity' THEN 0 \
                 ELSE CAST(FLOOR(EXTRACT(EPOCH FROM {column})) AS BIGINT) END"
            ),
            // Not UNIX_TIMESTAMP, which takes it for a time in the session's zone.
            Self::MySql => {
                format!("TIMESTAMPDIFF(SECOND, TIMESTAMP'1970-01-01 00:00:00', {column})")
            }
            // By days, since there are more seconds than fit; nothing is no time, also to servers that
            // only speak this dialect.
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
            // Asked for once: it may be midnight.
            Self::SqlServer => format!("DATEDIFF_BIG(SECOND, '1970-01-01', {})", self.now()),
            _ => self.seconds(self.now()),
        }
    }

    /// A column of actions, or a value, in lower case as far as the database goes; there is an index on it,
    /// but not in SQL Server.
    fn folded(self, text: &str) -> String {
        match self {
            // As the columns are. Else the same letter may become two.
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
            // Its driver writes the time out.
            "CAST(? AS DATETIME2)",
        ])
    }

    /// In PostgreSQL not when the transaction began: it may have waited for others.
    fn now(self) -> &'static str {
        self.pick(["unixepoch()", "clock_timestamp()", "UTC_TIMESTAMP()", "SYSUTCDATETIME()"])
    }

    pub(crate) fn name(self, word: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!("\"{word}\""),
            Self::MySql => format!("`{word}`"),
            Self::SqlServer => format!("[{word}]"),
        }
    }

    /// So many rows behind the first so many; stands behind `ORDER BY`.
    pub(crate) fn limit(self, count: impl std::fmt::Display, offset: i64) -> String {
        match self {
            Self::SqlServer => format!("OFFSET {offset} ROWS FETCH NEXT {count} ROWS ONLY"),
            _ => format!("LIMIT {count} OFFSET {offset}"),
        }
    }

    /// So many values may stand in a list; SQL Server takes 2100 in a statement, the others more than this.
    pub(crate) fn most_listed(self) -> usize {
        if self == Self::SqlServer { 2_000 } else { 10_000 }
    }

    /// So many rows are written in one statement. SQL Server has no upsert, nor many values.
    pub(crate) fn most_written(self) -> usize {
        if self == Self::SqlServer { 1 } else { 100 }
    }

    /// Locks rows in the order of their numbers, where an `UPDATE` or a `DELETE` of several takes them as it
    /// finds them; else two that want the same could each have what the other waits for.
    pub(crate) fn lock_in_order(self, table: &str, list: &str) -> Option<String> {
        (self == Self::Postgres)
            .then(|| format!("SELECT FROM {table} WHERE id IN ({list}) ORDER BY id FOR UPDATE"))
    }

    /// The columns of a row as it is read. SQLite's driver takes its time by the value, so there they
    /// are one: a JSON list. With 100,000 rows this takes a third of the time.
    pub(crate) fn columns(self, names: &[&str]) -> String {
        let names = names.iter().map(|name| self.cast(name, "TEXT")).collect::<Vec<_>>().join(", ");
        if self.joins_columns() { format!("json_array({names})") } else { names }
    }

    /// Whether [`Self::columns`] makes one value of them.
    pub(crate) fn joins_columns(self) -> bool {
        self == Self::Sqlite
    }

    /// An `INSERT` that gives the row its number, which the database else does.
    pub(crate) fn with_given_id(self, table: &str, insert: &str) -> String {
        match self {
            Self::SqlServer => {
                format!("SET IDENTITY_INSERT {table} ON; {insert}; SET IDENTITY_INSERT {table} OFF")
            }
            _ => insert.to_owned(),
        }
    }

    /// Reads the highest number that the database gave to a row of a table; null is none.
    pub(crate) fn last_given(self, table: &str) -> String {
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

    /// Whether a transaction for reading sees one moment by itself.
    pub(crate) fn reads_one_moment(self) -> bool {
        self != Self::SqlServer
    }

    /// A look whether there is a table; its value is the name.
    pub(crate) fn table_there(self) -> &'static str {
        self.pick([
            "SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE",
            // Names without quotes are in lower case there. Also those that this user may not read.
            "SELECT 1 FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname = current_schema() AND c.relname = lower(?)",
            "SELECT 1 FROM information_schema.tables \
             WHERE table_schema = DATABASE() AND LOWER(table_name) = LOWER(?)",
            "SELECT 1 FROM INFORMATION_SCHEMA.TABLES \
             WHERE TABLE_SCHEMA = SCHEMA_NAME() AND LOWER(TABLE_NAME) = LOWER(?)",
        ])
    }

    /// What stands between parts of a script that must be sent one by one.
    pub(crate) fn between_batches(self) -> &'static str {
        if self == Self::SqlServer { "\nGO\n" } else { "\n" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Dialect; 4] =
        [Dialect::Sqlite, Dialect::Postgres, Dialect::MySql, Dialect::SqlServer];

    #[test]
    fn each_dialect_writes_templates_its_way() {
        let template = "SELECT {int id}, {text title}, {name schema}, {seconds ends_at} \
                        FROM {rpc_methods} WHERE at < {at} AND begun < {now} AND {folded plugin} = {folded ?} \
                        ORDER BY id {limit 7}";
        let written = ALL.map(|dialect| dialect.expand(template));
        insta::assert_debug_snapshot!(written);
    }

    #[test]
    fn each_dialect_upserts_its_way() {
        let row = Upsert {
            table: "t",
            keys: &[("a", 1.into()), ("b", "2".into())],
            columns: &[("c", "3".into()), ("d", Put::Now), ("e", Value::time(4).into())],
            once: &[("f", "5".into())],
        };
        let written = ALL.map(|dialect| match row.in_one(2, dialect) {
            Some(both) => vec![dialect.expand(&both)],
            None => [row.look(), row.update(), row.insert()].map(|one| dialect.expand(&one)).into(),
        });
        insta::assert_debug_snapshot!(written);
        assert_eq!(row.insert_values().len(), 5);
        assert_eq!(row.update_values().len(), 4);
    }

    #[test]
    fn numbers_that_are_given_are_not_given_again() {
        let insert = "INSERT INTO t (id) VALUES (?)";
        let written =
            ALL.map(|dialect| (dialect.with_given_id("t", insert), dialect.last_given("t")));
        insta::assert_debug_snapshot!(written);
    }

    #[test]
    fn a_mark_without_an_end_or_a_meaning_is_left() {
        assert_eq!(
            Dialect::Sqlite.expand("a {users} {what ever} {open"),
            "a {users} {what ever} {open}"
        );
    }
}
