//! Writes the registry as an OpenRPC document, for programs that call the upstreams directly.
//!
//! The document has the parameters' own names and order, and includes methods that are not tools. It differs from the
//! document of `rpc.discover`, which describes the methods that a caller of this server may use.

use std::collections::HashSet;

use anyhow::Context as _;
use callgate::catalog::Catalog;
use callgate::gateway::Settings;
use callgate::internal::{Components, ContentDescriptor, SourceSchema};
use callgate::model::{Finding, ParamStyle, REST_PARAM};
use callgate_registry::{Assembly, CatalogRows, MethodRow, assemble, settings};
use serde_json::{Map, Value, json};

use super::Exported;
use crate::plan::columns::normalized;
use crate::schema::repair_php;

/// Version of OpenRPC.
const VERSION: &str = "1.3.2";

/// Writes the methods for which `is_selected` returns `true`.
pub fn write(
    rows: &CatalogRows,
    is_selected: impl Fn(&MethodRow) -> bool,
) -> anyhow::Result<Exported> {
    let exposed = all_exposed(rows);
    let mut catalog = assemble(&exposed, Assembly::default()).catalog;
    let mut methods: Vec<(&str, Value)> = Vec::new();
    let mut components = Components::default();
    let mut ids = HashSet::new();
    for row in rows.methods.iter().filter(|row| is_selected(row)) {
        let (is_first, normal) = (ids.insert(row.rpc_method.as_str()), normalized(row));
        if let (true, Some(tool)) = (is_first, Tool::new(&normal, &catalog)) {
            methods.push((&row.rpc_method, method(&normal, tool, &mut components)));
        }
    }
    methods.sort_by_key(|(id, _)| *id);
    let effective_settings = settings(&rows.settings, &Settings::default()).0;
    let mut document = json!({
        "openrpc": VERSION,
        "info": {
            "title": effective_settings.server_name,
            "version": effective_settings.server_version,
        },
        "methods": methods.into_iter().map(|(_, method)| method).collect::<Vec<_>>(),
    });
    if let (Value::Object(document), Some(schemas)) = (&mut document, components.finish()) {
        document.insert("components".to_owned(), json!({"schemas": schemas}));
    }
    let quarantined = catalog.take_quarantined().into_iter();
    let omitted = quarantined.filter(|definition| ids.contains(definition.id.as_str()));
    let omitted =
        omitted.map(|definition| (definition.id, definition.reason.to_string())).collect();
    let text = serde_json::to_string_pretty(&document).context("cannot write JSON")?;
    Ok(Exported { text, omitted })
}

fn all_exposed(rows: &CatalogRows) -> CatalogRows {
    let mut rows = rows.clone();
    for row in &mut rows.methods {
        row.exposed = Some("1".to_owned());
    }
    rows
}

/// Schemas and annotations of a method.
struct Tool {
    input: Map<String, Value>,
    output: Option<Value>,
    annotations: Map<String, Value>,
}

impl Tool {
    fn new(row: &MethodRow, catalog: &Catalog) -> Option<Self> {
        let entry = catalog.by_id(&row.rpc_method)?;
        let Ok(Value::Object(mut tool)) = serde_json::from_slice(&catalog.tool(entry)) else {
            return None;
        };
        let mut object = |key: &str| match tool.remove(key) {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        };
        let annotations = object("annotations");
        // A schema in the row already has the parameters' own names.
        let input = match parse_schema(row.input_schema.as_deref()) {
            Some(Value::Object(schema)) => schema,
            _ => {
                let schema = with_original_names(object("inputSchema"), entry.findings());
                if is_variadic(row) { with_rest(schema) } else { schema }
            }
        };
        let output = parse_schema(row.output_schema.as_deref());
        let output = output.or_else(|| tool.remove("outputSchema"));
        Some(Self { input, output, annotations })
    }
}

/// Parses a schema in the row. If PHP wrote the schema, repairs it.
fn parse_schema(text: Option<&str>) -> Option<Value> {
    let mut schema: Value = serde_json::from_str(text?).ok()?;
    repair_php(&mut schema);
    schema.is_object().then_some(schema)
}

/// Returns `true` if the last parameter of the row is variadic, such as `int ...$ids`.
fn is_variadic(row: &MethodRow) -> bool {
    let params: Vec<Value> =
        row.params.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let last = params.last().map(|last| last.get("type").unwrap_or(last));
    let ty = last.and_then(Value::as_str).and_then(|text| text.split('$').next());
    ty.is_some_and(|ty| ty.contains("..."))
}

/// Marks the last parameter as variadic, which OpenRPC itself cannot express.
fn with_rest(mut schema: Map<String, Value>) -> Map<String, Value> {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    let last = properties.and_then(|properties| properties.values_mut().last());
    if let Some(last) = last.and_then(Value::as_object_mut) {
        last.insert(REST_PARAM.to_owned(), json!(true));
    }
    schema
}

/// Restores the names of parameters that were renamed for clients.
fn with_original_names(mut schema: Map<String, Value>, findings: &[Finding]) -> Map<String, Value> {
    let original = |name: &str| {
        findings.iter().find_map(|finding| match finding {
            Finding::RenamedParam { from, to } if to == name => Some(from.clone()),
            _ => None,
        })
    };
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let old = std::mem::take(properties);
        properties.extend(
            old.into_iter().map(|(name, schema)| (original(&name).unwrap_or(name), schema)),
        );
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        for name in required {
            if let Some(original) = name.as_str().and_then(original) {
                *name = Value::String(original);
            }
        }
    }
    schema
}

fn method(row: &MethodRow, mut tool: Tool, components: &mut Components) -> Value {
    let mut method = Map::new();
    let mut insert = |key: &str, value: Value| method.insert(key.to_owned(), value);
    insert("name", json!(row.remote_name.as_ref().unwrap_or(&row.rpc_method)));
    if let Some(description) = &row.description {
        let summary: Vec<&str> =
            description.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        insert("summary", json!(summary.join(" ")));
        if description.lines().count() > 1 {
            insert("description", json!(description));
        }
    }
    let input = SourceSchema::new(format!("{}.params", row.rpc_method), Value::Object(tool.input));
    insert("params", components.params(&input).into_iter().map(param).collect());
    let result = tool.output.map_or_else(
        || json!({}),
        |schema| {
            components.result(&SourceSchema::new(format!("{}.result", row.rpc_method), schema))
        },
    );
    insert("result", json!({"name": "result", "schema": result}));
    insert("paramStructure", json!(structure(row)));
    if let Some(title) = &row.title {
        insert("x-title", json!(title));
    }
    // Hints that nobody declared are left out, because readers would take them for declared ones.
    if matches!(row.safety_or_guess(), (None, _) | (_, true)) {
        tool.annotations.remove("readOnlyHint");
        tool.annotations.remove("destructiveHint");
    }
    if !tool.annotations.is_empty() {
        insert("x-annotations", Value::Object(tool.annotations));
    }
    if matches!(row.exposed.as_deref(), Some("0" | "false" | "f")) {
        insert("x-exposed", json!(false));
    }
    Value::Object(method)
}

fn structure(row: &MethodRow) -> &'static str {
    match row.params_by.as_deref().and_then(|style| style.parse().ok()) {
        Some(ParamStyle::Named) => "by-name",
        Some(ParamStyle::Positional | ParamStyle::PositionalNull) => "by-position",
        Some(ParamStyle::Either) | None => "either",
    }
}

fn param(param: ContentDescriptor<'_>) -> Value {
    let ContentDescriptor { name, description, required, schema } = param;
    match description {
        None => json!({"required": required, "name": name, "schema": schema}),
        Some(text) => {
            json!({"required": required, "name": name, "description": text, "schema": schema})
        }
    }
}
