//! What a registry holds: its tables, their columns, and what each column has in it.
//!
//! In the order in which they are copied. What is not here is each registry's own: which migrations it has,
//! its counters, and messages, which nobody wants a minute later.

use crate::sql::{Cell, Dialect, LAST_SECOND, Value};

/// A table. Its first columns are what its rows are known by.
#[derive(Debug)]
pub(crate) struct Table {
    /// As it stands in a template.
    pub(crate) name: &'static str,
    keys: usize,
    pub(crate) columns: &'static [Column],
    /// Which rows are meant; empty is all.
    pub(crate) condition: &'static str,
}

#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// What a column has in it.
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

/// How long a text may be.
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
    pub(crate) fn keys(&self) -> &'static [Column] {
        self.columns.get(..self.keys).unwrap_or_default()
    }

    /// Whether the database gives its rows their numbers.
    pub(crate) fn is_numbered(&self) -> bool {
        self.columns.first().is_some_and(|column| column.name == "id")
    }
}

const fn text(name: &'static str, width: Width) -> Column {
    Column { name, kind: Kind::Text(width) }
}

const fn is(name: &'static str, kind: Kind) -> Column {
    Column { name, kind }
}

const ID: Column = is("id", Kind::Int);

/// The tables.
pub(crate) const TABLES: &[Table] = &[
    Table {
        name: "{sections}",
        keys: 1,
        columns: &[
            ID,
            text("caption", Width::Caption),
            text("ident", Width::Name),
            is("mask", Kind::Small),
        ],
        condition: "",
    },
    Table {
        name: "{section_actions}",
        keys: 1,
        columns: &[
            ID,
            is("id_section", Kind::Int),
            text("plugin", Width::Name),
            text("method", Width::Name),
            is("mask", Kind::Small),
            text("comment", Width::Paragraph),
        ],
        condition: "",
    },
    Table {
        name: "{sections_user_permission}",
        keys: 1,
        columns: &[
            ID,
            is("id_section", Kind::Int),
            is("id_user", Kind::Int),
            is("value", Kind::Small),
        ],
        condition: "",
    },
    Table {
        name: "{sections_user_types_permission}",
        keys: 1,
        columns: &[
            ID,
            is("id_section", Kind::Int),
            is("id_user_type", Kind::Int),
            is("value", Kind::Small),
        ],
        condition: "",
    },
    Table {
        name: "{settings}",
        keys: 1,
        columns: &[
            ID,
            text("caption", Width::Caption),
            text("name", Width::Name),
            text("value", Width::Free),
        ],
        condition: "",
    },
    Table {
        name: "{users_types}",
        keys: 1,
        columns: &[ID, text("caption", Width::Name)],
        condition: "",
    },
    Table {
        name: "{users}",
        keys: 1,
        columns: &[ID, text("login", Width::Name), is("id_type", Kind::Int)],
        condition: "",
    },
    Table { name: "{rpc_methods}", keys: 1, columns: METHODS, condition: "" },
    Table {
        name: "callgate_types",
        keys: 1,
        columns: &[text("name", Width::Name), is("fields", Kind::Json), is("schema", Kind::Schema)],
        condition: "",
    },
    Table {
        name: "callgate_upstreams",
        keys: 1,
        columns: &[text("name", Width::Name), is("config", Kind::Json)],
        condition: "",
    },
    Table {
        name: "callgate_credentials",
        keys: 2,
        columns: &[
            is("id_user", Kind::Int),
            text("upstream", Width::Name),
            text("secret", Width::Free),
            is("set_at", Kind::Time),
        ],
        condition: "",
    },
    Table {
        name: "callgate_imports",
        keys: 2,
        columns: &[
            text("upstream", Width::Name),
            text("rpc_method", Width::Name),
            text("source", Width::Paragraph),
            is("written", Kind::Json),
        ],
        condition: "",
    },
    Table {
        name: "callgate_keys",
        keys: 1,
        columns: &[
            ID,
            text("purpose", Width::Name),
            text("secret", Width::Paragraph),
            is("created_at", Kind::Time),
            is("active_from", Kind::Time),
        ],
        condition: "",
    },
    Table {
        name: "callgate_tokens",
        keys: 1,
        columns: &[
            ID,
            is("id_user", Kind::Int),
            text("name", Width::Name),
            text("digest", Width::Digest),
            is("created_at", Kind::Time),
            is("expires_at", Kind::Time),
            is("last_used_at", Kind::Time),
        ],
        condition: "",
    },
    Table {
        name: "callgate_sessions",
        keys: 1,
        columns: &[
            text("nonce", Width::Nonce),
            is("number", Kind::Int),
            is("ended", Kind::Flag),
            text("log_level", Width::Word),
            is("subscriptions", Kind::Json),
            is("ends_at", Kind::Time),
        ],
        condition: "",
    },
    // What the tables are called, and how far a copy has come, is said of one registry.
    Table {
        name: "callgate_meta",
        keys: 1,
        columns: &[text("name", Width::Name), text("value", Width::Free)],
        condition: "name NOT IN ('copy', 'tables')",
    },
];

const METHODS: &[Column] = &[
    ID,
    text("plugin", Width::Name),
    text("method", Width::Name),
    text("rpc_method", Width::Name),
    is("params", Kind::Json),
    is("params_types", Kind::Json),
    text("description", Width::Free),
    text("sections", Width::Paragraph),
    text("return_type", Width::Paragraph),
    text("title", Width::Paragraph),
    text("safety", Width::Paragraph),
    is("annotations", Kind::Json),
    is("exposed", Kind::Flag),
    text("upstream", Width::Name),
    text("tool_name", Width::Name),
    is("input_schema", Kind::Schema),
    is("output_schema", Kind::Schema),
    is("defaults", Kind::Json),
    is("params_by", Kind::ParamsBy),
];

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql_store::read::METHOD_COLUMNS;

    #[test]
    fn all_of_a_method_is_copied() {
        let mut copied: Vec<&str> = METHODS.iter().skip(1).map(|column| column.name).collect();
        let mut read = METHOD_COLUMNS;
        copied.sort_unstable();
        read.sort_unstable();
        assert_eq!(copied, read);
    }
}
