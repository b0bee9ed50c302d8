//! The columns of a method that an import compares and writes.

use callgate_registry::MethodRow;
use serde_json::Value;

/// A column.
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

impl Field {
    pub(crate) const ALL: [Self; 15] = [
        Self::Title,
        Self::Description,
        Self::Safety,
        Self::Annotations,
        Self::Exposed,
        Self::ToolName,
        Self::Params,
        Self::ParamsTypes,
        Self::Defaults,
        Self::ReturnType,
        Self::InputSchema,
        Self::OutputSchema,
        Self::ParamsBy,
        Self::Plugin,
        Self::Method,
    ];

    /// The column's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Description => "description",
            Self::Safety => "safety",
            Self::Annotations => "annotations",
            Self::Exposed => "exposed",
            Self::ToolName => "tool_name",
            Self::Params => "params",
            Self::ParamsTypes => "params_types",
            Self::Defaults => "defaults",
            Self::ReturnType => "return_type",
            Self::InputSchema => "input_schema",
            Self::OutputSchema => "output_schema",
            Self::ParamsBy => "params_by",
            Self::Plugin => "plugin",
            Self::Method => "method",
        }
    }

    /// Whether a person's value stays. What a method takes and gives is the source's to say.
    pub(crate) fn is_kept(self) -> bool {
        matches!(
            self,
            Self::Title | Self::Description | Self::Safety | Self::Annotations | Self::Exposed
        ) || self.is_left()
    }

    /// Whether a source that says nothing leaves what is there: a name that was given once stays.
    pub(crate) fn is_left(self) -> bool {
        matches!(self, Self::ToolName | Self::Plugin | Self::Method)
    }

    fn is_json(self) -> bool {
        matches!(
            self,
            Self::Annotations
                | Self::Params
                | Self::ParamsTypes
                | Self::Defaults
                | Self::InputSchema
                | Self::OutputSchema
        )
    }

    /// What a row says, in one form: nothing for white space, JSON without any.
    pub(crate) fn value(self, row: &MethodRow) -> Option<String> {
        let text = self.column(row).map(str::trim).filter(|text| !text.is_empty())?;
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Null) if self.is_json() => None,
            Ok(json) if self.is_json() => Some(json.to_string()),
            _ => Some(text.to_owned()),
        }
    }

    fn column(self, row: &MethodRow) -> Option<&str> {
        match self {
            Self::Title => row.title.as_deref(),
            Self::Description => row.description.as_deref(),
            Self::Safety => row.safety.as_deref(),
            Self::Annotations => row.annotations.as_deref(),
            Self::Exposed => row.exposed.as_deref(),
            Self::ToolName => row.tool_name.as_deref(),
            Self::Params => row.params.as_deref(),
            Self::ParamsTypes => row.params_types.as_deref(),
            Self::Defaults => row.defaults.as_deref(),
            Self::ReturnType => row.return_type.as_deref(),
            Self::InputSchema => row.input_schema.as_deref(),
            Self::OutputSchema => row.output_schema.as_deref(),
            Self::ParamsBy => row.params_by.as_deref(),
            Self::Plugin => row.plugin.as_deref(),
            Self::Method => row.method.as_deref(),
        }
    }

    /// Writes a value into a row.
    pub(crate) fn set(self, row: &mut MethodRow, value: Option<String>) {
        let column = match self {
            Self::Title => &mut row.title,
            Self::Description => &mut row.description,
            Self::Safety => &mut row.safety,
            Self::Annotations => &mut row.annotations,
            Self::Exposed => &mut row.exposed,
            Self::ToolName => &mut row.tool_name,
            Self::Params => &mut row.params,
            Self::ParamsTypes => &mut row.params_types,
            Self::Defaults => &mut row.defaults,
            Self::ReturnType => &mut row.return_type,
            Self::InputSchema => &mut row.input_schema,
            Self::OutputSchema => &mut row.output_schema,
            Self::ParamsBy => &mut row.params_by,
            Self::Plugin => &mut row.plugin,
            Self::Method => &mut row.method,
        };
        *column = value;
    }
}
