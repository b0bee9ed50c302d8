//! The columns of a method that an import compares and writes.

use callgate_registry::{MethodColumn, MethodRow};
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Title,
    Description,
    Safety,
    Annotations,
    Exposed,
    ToolName,
    Params,
    ParamsTypes,
    Defaults,
    ReturnType,
    InputSchema,
    OutputSchema,
    ParamsBy,
    Plugin,
    Method,
}

/// Whose value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The source: what a method takes and gives.
    Source,
    /// People: their value stays.
    People,
    /// People, and a source that says nothing leaves what is there: a name that was given once stays.
    Given,
}

/// The columns in the order in which they are shown, each with its name.
const FIELDS: [(Field, &str, Owner); 15] = [
    (Field::Title, "title", Owner::People),
    (Field::Description, "description", Owner::People),
    (Field::Safety, "safety", Owner::People),
    (Field::Annotations, "annotations", Owner::People),
    (Field::Exposed, "exposed", Owner::People),
    (Field::ToolName, "tool_name", Owner::Given),
    (Field::Params, "params", Owner::Source),
    (Field::ParamsTypes, "params_types", Owner::Source),
    (Field::Defaults, "defaults", Owner::Source),
    (Field::ReturnType, "return_type", Owner::Source),
    (Field::InputSchema, "input_schema", Owner::Source),
    (Field::OutputSchema, "output_schema", Owner::Source),
    (Field::ParamsBy, "params_by", Owner::Source),
    (Field::Plugin, "plugin", Owner::Given),
    (Field::Method, "method", Owner::Given),
];

impl Field {
    /// All columns, in the order in which they are shown.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        FIELDS.into_iter().map(|(field, ..)| field)
    }

    fn declared(self) -> (&'static str, Owner) {
        let found = FIELDS.iter().find(|(field, ..)| *field == self);
        found.map_or(("", Owner::Source), |(_, name, owner)| (name, *owner))
    }

    fn column(self) -> Option<&'static MethodColumn> {
        MethodRow::COLUMNS.iter().find(|column| column.name == self.name())
    }

    pub(crate) fn name(self) -> &'static str {
        self.declared().0
    }

    /// Whether a person's value stays.
    pub(super) fn is_kept(self) -> bool {
        self.declared().1 != Owner::Source
    }

    /// Whether a source that says nothing leaves what is there.
    pub(super) fn is_left(self) -> bool {
        self.declared().1 == Owner::Given
    }

    /// What a row says, in one form: nothing for white space, JSON without any.
    pub(crate) fn value(self, row: &MethodRow) -> Option<String> {
        let column = self.column()?;
        let text = column.get(row).as_deref().map(str::trim).filter(|text| !text.is_empty())?;
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Null) if column.is_json() => None,
            Ok(json) if column.is_json() => Some(json.to_string()),
            _ => Some(text.to_owned()),
        }
    }

    pub(super) fn set(self, row: &mut MethodRow, value: Option<String>) {
        if let Some(column) = self.column() {
            *column.get_mut(row) = value;
        }
    }
}
