//! Formats of a tool for REST and for revisions of MCP.
//!
//! A tool is serialized once in the REST format, with the offsets of its parts. The MCP formats are
//! assembled from the same bytes when the catalog is built. Assembling them for each page would take 285
//! instructions per tool, see `docs/internals/decisions/0001-raw-json-bytes.md`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::model::schema::single_types::single_types;
use crate::model::schema::walk::for_each_schema;
use crate::wire::Revision;

use super::json as write_json;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ToolFormat {
    /// REST: all members, with the method's id as the name.
    Rest,
    /// MCP up to 2025-03-26: without title and output schema. Clients of 2024-11-05 ignore the annotations.
    Plain,
    /// MCP 2025-06-18 and 2025-11-25: output schemas other than objects are wrapped in a property `result`.
    ObjectOutput,
    /// MCP from 2026-07-28: any output schema.
    AnyOutput,
}

impl ToolFormat {
    pub(crate) const ALL: [Self; 4] =
        [Self::Rest, Self::Plain, Self::ObjectOutput, Self::AnyOutput];

    /// Returns the format for a revision of MCP.
    pub(crate) const fn of(revision: Revision) -> Self {
        match revision {
            Revision::V2024_11_05 | Revision::V2025_03_26 => Self::Plain,
            Revision::V2025_06_18 | Revision::V2025_11_25 => Self::ObjectOutput,
            Revision::V2026_07_28 => Self::AnyOutput,
        }
    }
}

/// Parts of a tool in the REST format. The other formats are assembled from these parts.
#[derive(Debug, Clone)]
pub(crate) struct ToolParts {
    /// End of `{"name":…`.
    pub(crate) name_end: u32,
    /// End of `,"title":…`, if present.
    pub(crate) title_end: u32,
    pub(crate) input_start: u32,
    pub(crate) input_end: u32,
    /// End of `,"outputSchema":…`, if present.
    pub(crate) output_end: u32,
    /// Whether the input schema in MCP formats ends with [`CLOSED`], because undeclared arguments are refused.
    pub(crate) closes_input: bool,
    pub(crate) output: OutputKind,
    /// Schemas for MCP, if they differ from the schemas for REST.
    pub(crate) mcp: Option<Arc<McpSchemas>>,
}

/// Kind of a method's output schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputKind {
    /// No schema.
    Unknown,
    /// The root is an object.
    Object,
    /// The root is not an object. In [`ToolFormat::ObjectOutput`], the schema is wrapped in an object.
    Wrapped,
    /// The root is not an object, and the schema cannot be wrapped. In [`ToolFormat::ObjectOutput`], the schema is left
    /// out.
    Unwrappable,
}

pub(super) const OUTPUT_KEY: &[u8] = b",\"outputSchema\":";

/// End of an input schema that refuses undeclared arguments.
const CLOSED: &[u8] = b",\"additionalProperties\":false}";

impl ToolParts {
    /// Returns the range of the input schema.
    pub(crate) fn input_range(&self) -> Range<usize> {
        self.input_start as usize..self.input_end as usize
    }

    /// Returns the range of the output schema.
    pub(crate) fn output_range(&self) -> Option<Range<usize>> {
        let start = self.input_end as usize + OUTPUT_KEY.len();
        (self.output_end > self.input_end).then_some(start..self.output_end as usize)
    }

    /// Converts `tool` from the REST format to `format`, and appends it to `out`.
    pub(crate) fn write(&self, format: ToolFormat, name: &str, tool: &[u8], out: &mut Vec<u8>) {
        if format == ToolFormat::Rest {
            return out.extend_from_slice(tool);
        }
        let part = |range: Range<u32>| {
            tool.get(range.start as usize..range.end as usize).unwrap_or_default()
        };
        // Tool names need no escaping.
        out.extend_from_slice(b"{\"name\":\"");
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
        if format != ToolFormat::Plain {
            out.extend_from_slice(part(self.name_end..self.title_end));
        }
        out.extend_from_slice(part(self.title_end..self.input_start));
        let rewritten = self.mcp.as_ref().and_then(|schemas| schemas.input.as_deref());
        let input = rewritten.unwrap_or_else(|| part(self.input_start..self.input_end));
        match input.strip_suffix(b"}") {
            Some(open) if self.closes_input => {
                out.extend_from_slice(open);
                out.extend_from_slice(CLOSED);
            }
            _ => out.extend_from_slice(input),
        }
        let rewritten = self.mcp.as_ref().and_then(|schemas| schemas.output.as_deref());
        let output = || rewritten.or_else(|| tool.get(self.output_range()?));
        let output = match (format, self.output) {
            (ToolFormat::AnyOutput, _) | (ToolFormat::ObjectOutput, OutputKind::Object) => {
                output().map(Cow::Borrowed)
            }
            (ToolFormat::ObjectOutput, OutputKind::Wrapped) => {
                output().and_then(wrapped).map(Cow::Owned)
            }
            _ => None,
        };
        if let Some(output) = output {
            out.extend_from_slice(OUTPUT_KEY);
            out.extend_from_slice(&output);
        }
        out.extend_from_slice(tool.get(self.output_end as usize..).unwrap_or_default());
    }
}

/// Schemas for MCP, rewritten by [`single_types`]. `None` if a schema is the same as for REST.
#[derive(Debug)]
pub(crate) struct McpSchemas {
    input: Option<Box<[u8]>>,
    output: Option<Box<[u8]>>,
}

impl McpSchemas {
    /// Returns the schemas for MCP, or `None` if they equal the schemas for REST.
    pub(super) fn of(input: &Value, output: Option<&Value>) -> Option<Self> {
        let rewritten = |schema| {
            let mut bytes = Vec::new();
            write_json(&mut bytes, &single_types(schema)?);
            Some(bytes.into())
        };
        let (input, output) = (rewritten(input), output.and_then(rewritten));
        (input.is_some() || output.is_some()).then_some(Self { input, output })
    }
}

pub(super) fn classify_output(schema: &Value) -> OutputKind {
    if schema.get("type").is_some_and(|ty| ty == "object") {
        return OutputKind::Object;
    }
    let mut can_move = true;
    for_each_schema(schema, &mut |map| {
        let leads_to_definition = |target: &Value| {
            let target = target.as_str().unwrap_or("#/$defs/");
            target.starts_with("#/$defs/") || target.starts_with("#/definitions/")
        };
        can_move &= map.get("$ref").is_none_or(leads_to_definition)
            && !NOT_MOVABLE.iter().any(|keyword| map.contains_key(*keyword));
    });
    if can_move { OutputKind::Wrapped } else { OutputKind::Unwrappable }
}

/// Keywords that change their meaning if the schema is nested in another one.
const NOT_MOVABLE: [&str; 5] = ["$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef"];

/// Wraps a schema as the property `result` of an object. Moves `$defs` to the new root, so that references still
/// resolve.
fn wrapped(schema: &[u8]) -> Option<Vec<u8>> {
    let has_keywords = schema.windows(2).any(|pair| pair == b"\"$");
    if !has_keywords {
        let (start, end) =
            (b"{\"type\":\"object\",\"properties\":{\"result\":", b"},\"required\":[\"result\"]}");
        return Some([start, schema, end].concat());
    }
    let mut schema: Value = serde_json::from_slice(schema).ok()?;
    let root = schema.as_object_mut()?;
    let definitions: Map<String, Value> = ["$defs", "definitions"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), root.shift_remove(key)?)))
        .collect();
    let mut wrapper = json!({
        "type": "object",
        "properties": {"result": schema},
        "required": ["result"],
    });
    wrapper.as_object_mut()?.extend(definitions);
    serde_json::to_vec(&wrapper).ok()
}
