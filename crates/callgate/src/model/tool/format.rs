//! Formats of a tool for REST and for revisions of MCP.
//!
//! A tool is serialized once in the REST format, with the offsets of its parts. The MCP formats are
//! assembled from the same bytes when the catalog is built. Assembling them for each page would take 285
//! instructions per tool, see `docs/internals/decisions/0001-raw-json-bytes.md`.

use std::ops::Range;

use serde_json::{Map, Value, json};

use crate::model::schema::walk::for_each_schema;
use crate::wire::Revision;

/// Format of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ToolFormat {
    /// REST: all members, with the method's id as the name.
    Rest,
    /// MCP up to 2025-03-26: without title and output schema. Clients of 2024-11-05 ignore the annotations.
    Plain,
    /// MCP from 2025-06-18: output schemas other than objects are wrapped in a property `result`.
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

/// Offsets of the parts of a serialized tool.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ToolOffsets {
    /// End of `{"name":…`.
    pub(crate) name_end: u32,
    /// End of `,"title":…`, if present.
    pub(crate) title_end: u32,
    pub(crate) input_start: u32,
    pub(crate) input_end: u32,
    /// End of `,"outputSchema":…`, if present.
    pub(crate) output_end: u32,
}

/// Kind of a method's output schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputKind {
    /// No schema.
    Unknown,
    /// The root is an object.
    Object,
    /// Another type; wrapped for the revisions of 2025.
    Wrapped,
    /// Another type that cannot be wrapped; hidden from the revisions of 2025.
    Unwrappable,
}

pub(super) const OUTPUT_KEY: &[u8] = b",\"outputSchema\":";

impl ToolOffsets {
    pub(crate) fn input(&self) -> Range<usize> {
        self.input_start as usize..self.input_end as usize
    }

    /// Range of the output schema.
    pub(crate) fn output(&self) -> Option<Range<usize>> {
        let start = self.input_end as usize + OUTPUT_KEY.len();
        (self.output_end > self.input_end).then_some(start..self.output_end as usize)
    }
}

/// Appends a serialized tool in another format.
pub(crate) fn write(
    format: ToolFormat,
    name: &str,
    tool: &[u8],
    parts: &ToolOffsets,
    output: OutputKind,
    out: &mut Vec<u8>,
) {
    if format == ToolFormat::Rest {
        return out.extend_from_slice(tool);
    }
    let part = |from: u32, to: u32| tool.get(from as usize..to as usize).unwrap_or_default();
    // Tool names need no escaping.
    out.extend_from_slice(b"{\"name\":\"");
    out.extend_from_slice(name.as_bytes());
    out.push(b'"');
    if format != ToolFormat::Plain {
        out.extend_from_slice(part(parts.name_end, parts.title_end));
    }
    out.extend_from_slice(part(parts.title_end, parts.input_end));
    match (format, output) {
        (ToolFormat::AnyOutput, _) | (ToolFormat::ObjectOutput, OutputKind::Object) => {
            out.extend_from_slice(part(parts.input_end, parts.output_end));
        }
        (ToolFormat::ObjectOutput, OutputKind::Wrapped) => {
            let schema = parts.output().and_then(|range| tool.get(range)).unwrap_or_default();
            if let Some(wrapped) = wrapped(schema) {
                out.extend_from_slice(OUTPUT_KEY);
                out.extend_from_slice(&wrapped);
            }
        }
        _ => {}
    }
    out.extend_from_slice(tool.get(parts.output_end as usize..).unwrap_or_default());
}

/// Classifies an output schema.
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

/// Keywords with which a schema cannot be nested.
const NOT_MOVABLE: [&str; 5] = ["$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef"];

/// Wraps a schema as the property `result`. Definitions move to the new root, so that references still
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
