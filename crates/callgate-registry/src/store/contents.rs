//! The tables that are copied between registries, in this order.
//!
//! Migrations, counters and messages are not copied.

use crate::db::column::{Kind, Width};
use crate::db::database::Dialect;
use crate::rows::MethodRow;

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

type Columns = &'static [(&'static str, Kind)];

const NAMED: Kind = Kind::Text(Width::Name);
const PARAGRAPH: Kind = Kind::Text(Width::Paragraph);
const ID: (&str, Kind) = ("id", Kind::Int);
const NAME: (&str, Kind) = ("name", NAMED);
const CAPTION: (&str, Kind) = ("caption", Kind::Text(Width::Caption));
const SECTION: (&str, Kind) = ("id_section", Kind::Int);
const USER: (&str, Kind) = ("id_user", Kind::Int);
const UPSTREAM: (&str, Kind) = ("upstream", NAMED);
const MASK: (&str, Kind) = ("mask", Kind::Small);
const VALUE: (&str, Kind) = ("value", Kind::Small);
const TEXT_VALUE: (&str, Kind) = ("value", Kind::Text(Width::Free));
const SECRET: (&str, Kind) = ("secret", Kind::Text(Width::Free));
const COMMENT: (&str, Kind) = ("comment", PARAGRAPH);
const SOURCE: (&str, Kind) = ("source", PARAGRAPH);
const CREATED: (&str, Kind) = ("created_at", Kind::Time);
const ACTIVE_FROM: (&str, Kind) = ("active_from", Kind::Time);
const DIGEST: (&str, Kind) = ("digest", Kind::Text(Width::Digest));
const EXPIRES: (&str, Kind) = ("expires_at", Kind::Time);
const LAST_USED: (&str, Kind) = ("last_used_at", Kind::Time);
const SESSIONS: Columns = &[
    ("nonce", Kind::Text(Width::Nonce)),
    ("number", Kind::Int),
    ("ended", Kind::Flag),
    ("log_level", Kind::Text(Width::Word)),
    ("subscriptions", Kind::Json),
    ("ends_at", Kind::Time),
];

/// Name, number of key columns, and columns of each table.
const TABLES: &[(&str, usize, Columns)] = &[
    ("{sections}", 1, &[ID, CAPTION, ("ident", NAMED), MASK]),
    ("{section_actions}", 1, &[ID, SECTION, ("plugin", NAMED), ("method", NAMED), MASK, COMMENT]),
    ("{sections_user_permission}", 1, &[ID, SECTION, USER, VALUE]),
    ("{sections_user_types_permission}", 1, &[ID, SECTION, ("id_user_type", Kind::Int), VALUE]),
    ("{settings}", 1, &[ID, CAPTION, NAME, TEXT_VALUE]),
    ("{users_types}", 1, &[ID, ("caption", NAMED)]),
    ("{users}", 1, &[ID, ("login", NAMED), ("id_type", Kind::Int)]),
    ("{rpc_methods}", 1, &[ID, ("rpc_method", NAMED)]),
    ("callgate_types", 1, &[NAME, ("fields", Kind::Json), ("schema", Kind::Schema)]),
    ("callgate_upstreams", 1, &[NAME, ("config", Kind::Json)]),
    ("callgate_credentials", 2, &[USER, UPSTREAM, SECRET, ("set_at", Kind::Time)]),
    ("callgate_imports", 2, &[UPSTREAM, ("rpc_method", NAMED), SOURCE, ("written", Kind::Json)]),
    ("callgate_keys", 1, &[ID, ("purpose", NAMED), ("secret", PARAGRAPH), CREATED, ACTIVE_FROM]),
    ("callgate_tokens", 1, &[ID, USER, NAME, DIGEST, CREATED, EXPIRES, LAST_USED]),
    ("callgate_sessions", 1, SESSIONS),
    ("callgate_meta", 1, &[NAME, TEXT_VALUE]),
];

/// Returns all tables. Those of [`MethodRow::COLUMNS`] are added to the columns of methods.
pub(crate) fn tables() -> Vec<Table> {
    let tables = TABLES.iter().map(|(name, keys, columns)| {
        let columns = columns.iter().map(|(name, kind)| Column { name, kind: *kind });
        let others = MethodRow::COLUMNS.iter().filter(|_| *name == "{rpc_methods}");
        let others = others.map(|column| Column { name: column.name, kind: column.kind });
        Table { name, keys: *keys, columns: columns.chain(others).collect() }
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
