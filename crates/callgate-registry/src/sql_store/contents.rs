//! What a registry holds: its tables, their columns, and what each column has in it.
//!
//! In the order in which they are copied. What is not here is each registry's own: which migrations it has,
//! its counters, and messages, which nobody wants a minute later.

use crate::rows::MethodRow;
use crate::sql::{Cell, Dialect, LAST_SECOND, Value};

/// A table. Its first columns identify its rows.
#[derive(Debug)]
pub(crate) struct Table {
    /// Name as it stands in a template.
    pub(crate) name: &'static str,
    keys: usize,
    pub(crate) columns: Vec<Column>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// Type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    /// A number of 32 bits.
    Small,
    Flag,
    Time,
    Json,
    /// JSON that may also be `true` or `false`.
    Schema,
    Text(Width),
    /// `name` or `position`.
    ParamsBy,
}

/// Maximum length of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Name,
    Caption,
    Word,
    Nonce,
    /// 64 characters, not one less.
    Digest,
    Paragraph,
    Free,
}

impl Table {
    pub(crate) fn keys(&self) -> &[Column] {
        self.columns.get(..self.keys).unwrap_or_default()
    }

    /// Whether the database numbers its rows.
    pub(crate) fn is_numbered(&self) -> bool {
        self.columns.first().is_some_and(|column| column.name == "id")
    }

    /// The table and a condition for the rows that are copied: the names of its tables belong to one registry.
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

/// Name, number of keys and columns of each table.
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
    /// How it is read. What SQLite has in it, whatever it is; elsewhere a time in seconds.
    pub(crate) fn template(&self, dialect: Dialect) -> String {
        let what =
            if self.kind == Kind::Time && dialect != Dialect::Sqlite { "seconds" } else { "name" };
        format!("{{{what} {}}}", self.name)
    }
}

impl Kind {
    /// A value as each database would give it. A text is one even if it looks like a number.
    pub(crate) fn canonical(self, cell: Cell) -> Cell {
        match (self, cell) {
            (Self::Json | Self::Schema | Self::Text(_) | Self::ParamsBy, Cell::Int(number)) => {
                Cell::Text(number.to_string())
            }
            (_, cell) => cell,
        }
    }

    /// What is written. SQLite takes what it had, also where it is of another kind.
    pub(crate) fn value(self, cell: &Cell) -> Value<'_> {
        match (self, cell) {
            (Self::Int | Self::Small, Cell::Null) => Value::Int(None),
            (Self::Flag, Cell::Null) => Value::Flag(None),
            (Self::Flag, Cell::Int(number @ (0 | 1))) => Value::Flag(Some(*number == 1)),
            (Self::Time, Cell::Null) => Value::Time(None),
            (Self::Time, Cell::Int(seconds)) => Value::Time(Some(*seconds)),
            (_, Cell::Int(number)) => Value::Int(Some(*number)),
            (Self::Json | Self::Schema, Cell::Null) => Value::Json(None),
            (Self::Json | Self::Schema, Cell::Text(text)) => Value::Json(Some(text)),
            (Self::Text(_) | Self::ParamsBy, Cell::Null) => Value::Text(None),
            (_, Cell::Text(text) | Cell::Broken(text)) => Value::Text(Some(text)),
        }
    }

    /// Why a database cannot keep a value, if it cannot.
    pub(crate) fn misfit(self, cell: &Cell, dialect: Dialect) -> Option<String> {
        match cell {
            Cell::Null => None,
            Cell::Broken(_) => Some("is not text".to_owned()),
            _ if dialect == Dialect::Sqlite => None,
            Cell::Int(number) => self.number_misfit(*number),
            Cell::Text(text) => self.text_misfit(text, dialect),
        }
    }

    fn number_misfit(self, number: i64) -> Option<String> {
        let fits = match self {
            Self::Small => i32::try_from(number).is_ok(),
            Self::Flag => matches!(number, 0 | 1),
            Self::Time => (0..=LAST_SECOND).contains(&number),
            _ => true,
        };
        let expected = match self {
            Self::Small => "a number of 32 bits",
            Self::Flag => "0 or 1",
            _ => "seconds since 1970, up to the year 9999",
        };
        (!fits).then(|| format!("is {number}; expected {expected}"))
    }

    fn text_misfit(self, text: &str, dialect: Dialect) -> Option<String> {
        if dialect == Dialect::Postgres && text.contains('\0') {
            return Some("has a zero character, which PostgreSQL does not keep".to_owned());
        }
        match self {
            Self::Int | Self::Small | Self::Flag | Self::Time => {
                Some("is a text; expected a number".to_owned())
            }
            Self::Schema if matches!(text, "true" | "false") => None,
            Self::Json | Self::Schema => json_misfit(text, dialect).map(ToOwned::to_owned),
            Self::ParamsBy => (!matches!(text, "name" | "position"))
                .then(|| "is neither `name` nor `position`".to_owned()),
            Self::Text(width) => width.misfit(text, dialect),
        }
    }
}

fn json_misfit(text: &str, dialect: Dialect) -> Option<&'static str> {
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return Some("is not JSON");
    }
    let is_compound = text.trim_start().starts_with(['{', '[']);
    (dialect == Dialect::SqlServer && !is_compound)
        .then_some("is neither a JSON object nor a list, which SQL Server does not keep")
}

impl Width {
    fn misfit(self, text: &str, dialect: Dialect) -> Option<String> {
        let length = match (self, dialect) {
            (Self::Paragraph, _) => text.len(),
            (_, Dialect::SqlServer) => text.encode_utf16().count(),
            _ => text.chars().count(),
        };
        if self == Self::Digest && length != 64 {
            return Some(format!("has {length} characters; expected 64"));
        }
        let most = self.most(dialect)?;
        let unit = if self == Self::Paragraph { "bytes" } else { "characters" };
        (length > most).then(|| format!("has {length} {unit}; {most} fit"))
    }

    fn most(self, dialect: Dialect) -> Option<usize> {
        match (self, dialect) {
            // Letters may take two places there.
            (Self::Name, Dialect::SqlServer) => Some(420),
            (Self::Name, _)
            | (Self::Caption, Dialect::MySql)
            | (Self::Word, Dialect::SqlServer) => Some(255),
            (Self::Nonce, _) => Some(64),
            (Self::Word, Dialect::MySql) => Some(20),
            (Self::Paragraph, Dialect::MySql) => Some(65_535),
            _ => None,
        }
    }
}
