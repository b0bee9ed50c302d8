//! The registry as an OpenRPC document.
//!
//! For programs that call the methods where they are: with the parameters' own names, in their own
//! order, and with the methods that are no tools. What a caller of this server may use is another
//! document, which `rpc.discover` gives.

use std::collections::BTreeMap;

use anyhow::Context as _;
use callgate::{Catalog, Finding, Prefix, Settings};
use callgate_registry::{Assembly, CatalogRows, Exposure, MethodRow, assemble, settings};
use serde_json::{Map, Value, json};

use super::Exported;
use crate::import::field::Field;
use crate::php_schema;

/// The version of OpenRPC that the document is written in.
const VERSION: &str = "1.3.2";

/// All methods that `is_meant`.
pub(crate) fn write(
    rows: &CatalogRows,
    is_meant: impl Fn(&MethodRow) -> bool,
) -> anyhow::Result<Exported> {
    let shown = all_shown(rows);
    let mut catalog = assemble(
        &shown,
        Assembly {
            code: &[],
            exposure: Exposure::All,
            prefix: Prefix::default(),
            upstreams: Vec::new(),
            previous: None,
        },
    )
    .catalog;
    let mut methods: Vec<(&str, Value)> = Vec::new();
    let mut components = Components::default();
    let mut written = std::collections::HashSet::new();
    for row in rows.methods.iter().filter(|row| is_meant(row)) {
        if let (Some(tool), true) = (Tool::of(row, &catalog), written.insert(&row.rpc_method)) {
            methods.push((&row.rpc_method, method(row, tool, &mut components)));
        }
    }
    methods.sort_by_key(|(id, _)| *id);
    let in_force = settings(&rows.settings, &Settings::default()).0;
    let mut document = json!({
        "openrpc": VERSION,
        "info": {"title": in_force.server_name, "version": in_force.server_version},
        "methods": methods.into_iter().map(|(_, method)| method).collect::<Vec<_>>(),
    });
    if let (Value::Object(document), false) = (&mut document, components.schemas.is_empty()) {
        document.insert("components".to_owned(), json!({"schemas": components.schemas}));
    }
    let meant: std::collections::HashSet<&str> = rows
        .methods
        .iter()
        .filter(|row| is_meant(row))
        .map(|row| row.rpc_method.as_str())
        .collect();
    let quarantined = catalog.take_quarantined().into_iter();
    let left_out = quarantined.map(|one| (one.id, one.reason.to_string()));
    let left_out = left_out.filter(|(id, _)| meant.contains(id.as_str())).collect();
    let text = serde_json::to_string_pretty(&document).context("cannot write JSON")?;
    Ok(Exported { text, left_out })
}

/// The rows as if all were tools.
fn all_shown(rows: &CatalogRows) -> CatalogRows {
    let mut rows = rows.clone();
    for row in &mut rows.methods {
        row.exposed = Some("1".to_owned());
    }
    rows
}

/// A method's schemas.
struct Tool {
    input: Map<String, Value>,
    output: Option<Value>,
    annotations: Map<String, Value>,
}

impl Tool {
    fn of(row: &MethodRow, catalog: &Catalog) -> Option<Self> {
        let entry = catalog.by_id(&row.rpc_method)?;
        let Ok(Value::Object(mut tool)) = serde_json::from_slice(&catalog.tool(entry)) else {
            return None;
        };
        let mut object = |key: &str| match tool.remove(key) {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        };
        let annotations = object("annotations");
        // What the row itself says has the names that the method knows.
        let input = match own_schema(Field::InputSchema, row) {
            Some(Value::Object(own)) => own,
            _ => with_own_names(object("inputSchema"), entry.findings()),
        };
        let output = own_schema(Field::OutputSchema, row);
        let output = output.or_else(|| tool.remove("outputSchema"));
        Some(Self { input, output, annotations })
    }
}

/// Returns a schema of the row itself. PHP may have written it.
fn own_schema(field: Field, row: &MethodRow) -> Option<Value> {
    let mut schema: Value = serde_json::from_str(&field.value(row)?).ok()?;
    php_schema::repair(&mut schema);
    schema.is_object().then_some(schema)
}

/// With the names of the method in place of those that are shown.
fn with_own_names(mut schema: Map<String, Value>, findings: &[Finding]) -> Map<String, Value> {
    let own = |name: &str| {
        findings.iter().find_map(|finding| match finding {
            Finding::RenamedParam { from, to } if to == name => Some(from.clone()),
            _ => None,
        })
    };
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let old = std::mem::take(properties);
        properties
            .extend(old.into_iter().map(|(name, schema)| (own(&name).unwrap_or(name), schema)));
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        for name in required {
            if let Some(own) = name.as_str().and_then(own) {
                *name = Value::String(own);
            }
        }
    }
    schema
}

fn method(row: &MethodRow, mut tool: Tool, components: &mut Components) -> Value {
    let mut method = Map::new();
    let mut put = |key: &str, value: Value| method.insert(key.to_owned(), value);
    put("name", json!(row.rpc_method));
    if let Some(description) = Field::Description.value(row) {
        let first: Vec<&str> =
            description.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        put("summary", json!(first.join(" ")));
        if description.lines().count() > 1 {
            put("description", json!(description));
        }
    }
    put("params", components.params(&mut tool.input));
    let result = tool.output.map_or_else(|| json!({}), |schema| components.adopt(schema));
    put("result", json!({"name": "result", "schema": result}));
    put("paramStructure", json!(structure(row)));
    if let Some(title) = Field::Title.value(row) {
        put("x-title", json!(title));
    }
    if Field::Safety.value(row).is_none() {
        tool.annotations.remove("readOnlyHint");
        tool.annotations.remove("destructiveHint");
    }
    if !tool.annotations.is_empty() {
        put("x-annotations", Value::Object(tool.annotations));
    }
    if matches!(Field::Exposed.value(row).as_deref(), Some("0" | "false" | "f")) {
        put("x-exposed", json!(false));
    }
    Value::Object(method)
}

fn structure(row: &MethodRow) -> &'static str {
    match Field::ParamsBy.value(row).as_deref() {
        Some("name") => "by-name",
        Some("position") => "by-position",
        _ => "either",
    }
}

/// The definitions that methods share.
#[derive(Default)]
struct Components {
    schemas: BTreeMap<String, Value>,
    /// Each definition as its own schema has it, by its key.
    originals: BTreeMap<String, Value>,
}

impl Components {
    /// The properties of an input schema, each as a parameter.
    fn params(&mut self, input: &mut Map<String, Value>) -> Value {
        let definitions = input.remove("$defs");
        let ending = self.take_in(definitions);
        let required = input.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let Some(Value::Object(properties)) = input.remove("properties") else { return json!([]) };
        let params = properties.into_iter().map(|(name, mut schema)| {
            point(&mut schema, &ending);
            let description = schema.as_object_mut().and_then(|it| it.shift_remove("description"));
            let mut param = Map::new();
            param.insert("required".to_owned(), json!(required.contains(&json!(name))));
            param.insert("name".to_owned(), Value::String(name));
            if let Some(description) = description {
                param.insert("description".to_owned(), description);
            }
            param.insert("schema".to_owned(), schema);
            Value::Object(param)
        });
        params.collect()
    }

    /// A whole schema, without its definitions.
    fn adopt(&mut self, mut schema: Value) -> Value {
        let definitions = schema.as_object_mut().and_then(|schema| schema.shift_remove("$defs"));
        let ending = self.take_in(definitions);
        point(&mut schema, &ending);
        schema
    }

    /// Takes definitions in, and says what stands behind their names: nothing, where those of that
    /// name are the same, else a number.
    fn take_in(&mut self, definitions: Option<Value>) -> String {
        let Some(Value::Object(definitions)) = definitions else { return String::new() };
        let mut ending = String::new();
        for number in 2.. {
            let is_other = |(name, schema): (&String, &Value)| {
                self.originals.get(&format!("{name}{ending}")).is_some_and(|known| known != schema)
            };
            if !definitions.iter().any(is_other) {
                break;
            }
            ending = format!("_{number}");
        }
        for (name, mut schema) in definitions {
            let key = format!("{name}{ending}");
            self.originals.insert(key.clone(), schema.clone());
            point(&mut schema, &ending);
            self.schemas.insert(key, schema);
        }
        ending
    }
}

/// Points references to the document's definitions.
fn point(schema: &mut Value, ending: &str) {
    match schema {
        Value::Object(members) => {
            for (keyword, member) in members {
                match member {
                    Value::String(reference) if keyword == "$ref" => {
                        if let Some(name) = reference.strip_prefix("#/$defs/") {
                            *reference = format!("#/components/schemas/{name}{ending}");
                        }
                    }
                    other => point(other, ending),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| point(item, ending)),
        _ => {}
    }
}
