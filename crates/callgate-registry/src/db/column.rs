//! Column types, and the values that each database can store in them.

use callgate::model::ParamStyle;

use super::database::{Cell, LAST_SECOND, Value};
use super::dialect::Dialect;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    /// A 32-bit number.
    Small,
    Flag,
    Time,
    Json,
    /// JSON that may also be `true` or `false`.
    Schema,
    Text(Width),
    /// A name of [`ParamStyle`].
    ParamsBy,
}

/// Maximum length of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Name,
    Caption,
    Word,
    Nonce,
    /// A text of exactly 64 characters.
    Digest,
    Paragraph,
    Free,
}

impl Kind {
    /// Converts a cell to the canonical form, which is the same for all databases.
    pub(crate) fn canonical(self, cell: Cell) -> Cell {
        match (self, cell) {
            (Self::Json | Self::Schema | Self::Text(_) | Self::ParamsBy, Cell::Int(number)) => {
                Cell::Text(number.to_string())
            }
            (_, cell) => cell,
        }
    }

    /// Returns the value to write for a cell. Does not convert a value of the wrong type, because SQLite accepts it.
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

    /// Returns the reason why a database cannot store a value, or `None` if it can.
    pub(crate) fn mismatch(self, cell: &Cell, dialect: Dialect) -> Option<String> {
        match cell {
            Cell::Null => None,
            Cell::Broken(_) => Some("is not text".to_owned()),
            _ if dialect == Dialect::Sqlite => None,
            Cell::Int(number) => self.number_mismatch(*number),
            Cell::Text(text) => self.text_mismatch(text, dialect),
        }
    }

    fn number_mismatch(self, number: i64) -> Option<String> {
        let fits = match self {
            Self::Small => i32::try_from(number).is_ok(),
            Self::Flag => matches!(number, 0 | 1),
            Self::Time => (0..=LAST_SECOND).contains(&number),
            _ => true,
        };
        let expected = match self {
            Self::Small => "a 32-bit integer",
            Self::Flag => "0 or 1",
            _ => "seconds since 1970, up to the year 9999",
        };
        (!fits).then(|| format!("is {number}; expected {expected}"))
    }

    fn text_mismatch(self, text: &str, dialect: Dialect) -> Option<String> {
        if dialect == Dialect::Postgres && text.contains('\0') {
            return Some("has a NUL character, which PostgreSQL cannot store".to_owned());
        }
        match self {
            Self::Int | Self::Small | Self::Flag | Self::Time => {
                Some("is text; expected a number".to_owned())
            }
            Self::Schema if matches!(text, "true" | "false") => None,
            Self::Json | Self::Schema => json_mismatch(text, dialect).map(ToOwned::to_owned),
            Self::ParamsBy => text
                .parse::<ParamStyle>()
                .is_err()
                .then(|| "is not a style of parameters".to_owned()),
            Self::Text(width) => width.mismatch(text, dialect),
        }
    }
}

fn json_mismatch(text: &str, dialect: Dialect) -> Option<&'static str> {
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return Some("is not JSON");
    }
    let is_compound = text.trim_start().starts_with(['{', '[']);
    (dialect == Dialect::SqlServer && !is_compound)
        .then_some("is neither a JSON object nor a list; SQL Server cannot store other JSON")
}

impl Width {
    fn mismatch(self, text: &str, dialect: Dialect) -> Option<String> {
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
        (length > most).then(|| format!("has {length} {unit}; at most {most} are allowed"))
    }

    fn most(self, dialect: Dialect) -> Option<usize> {
        match (self, dialect) {
            // SQL Server counts UTF-16 units.
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
