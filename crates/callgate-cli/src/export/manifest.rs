//! The registry as a manifest, in JSON: it has null, which TOML lacks.

use std::collections::HashSet;

use anyhow::Context as _;
use callgate_registry::{CatalogRows, DEFAULT_UPSTREAM, MethodRow, TypeRow};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Exported;
use crate::import::field::Field;
use crate::import::manifest::{Class, Manifest, ManifestMask, ManifestSafety, Method, ParamsBy};
use crate::import::{Needs, needs_by_rows};
use crate::php_schema;

/// All methods that `is_meant`, and all classes.
pub(crate) fn write(
    rows: &CatalogRows,
    is_meant: impl Fn(&MethodRow) -> bool,
) -> anyhow::Result<Exported> {
    let mut manifest = Manifest::default();
    let mut left_out = Vec::new();
    let mut seen = HashSet::new();
    for (row, needs) in rows.methods.iter().zip(needs_by_rows(rows)) {
        if !is_meant(row) {
            continue;
        }
        let id = &row.rpc_method;
        if !seen.insert(id.as_str()) {
            left_out.push((id.clone(), "another row has the same id".to_owned()));
            continue;
        }
        match method(row, &needs) {
            Ok(method) => manifest.methods.push(method),
            Err(error) => left_out.push((id.clone(), format!("{error:#}"))),
        }
    }
    for row in &rows.types {
        match class(row) {
            Ok(class) => {
                manifest.types.insert(row.name.clone(), class);
            }
            Err(error) => left_out.push((format!("class {}", row.name), format!("{error:#}"))),
        }
    }
    manifest.methods.sort_by(|a, b| a.id.cmp(&b.id));
    let text = serde_json::to_string_pretty(&manifest).context("cannot write JSON")?;
    Ok(Exported { text, left_out })
}

fn method(row: &MethodRow, needs: &Needs) -> anyhow::Result<Method> {
    if let Some(column) = &row.unreadable {
        anyhow::bail!("{column}: the bytes are not text");
    }
    let text = |field: Field| field.value(row);
    let upstream = row.upstream_name();
    let safety = match text(Field::Safety).as_deref() {
        Some("read_only") => ManifestSafety::ReadOnly,
        Some("destructive") => ManifestSafety::Destructive,
        None => ManifestSafety::Unknown,
        Some(other) => anyhow::bail!("safety: `{other}`"),
    };
    let params_by = match text(Field::ParamsBy).as_deref() {
        None => None,
        Some("name") => Some(ParamsBy::Name),
        Some("position") => Some(ParamsBy::Position),
        Some(other) => anyhow::bail!("params_by: `{other}`"),
    };
    let exposed = match text(Field::Exposed).as_deref() {
        None => None,
        Some("1" | "true" | "t") => Some(true),
        Some("0" | "false" | "f") => Some(false),
        Some(other) => anyhow::bail!("exposed: `{other}`"),
    };
    Ok(Method {
        id: row.rpc_method.clone(),
        title: text(Field::Title),
        description: text(Field::Description),
        params: json(row, Field::Params)?,
        params_types: json(row, Field::ParamsTypes)?,
        defaults: json(row, Field::Defaults)?,
        returns: text(Field::ReturnType),
        input_schema: schema(row, Field::InputSchema)?,
        output_schema: schema(row, Field::OutputSchema)?,
        params_by,
        safety: Some(safety),
        exposed,
        deprecated: false,
        sections: Some(needs.iter().map(|(ident, mask)| (ident.clone(), word(mask))).collect()),
        annotations: json(row, Field::Annotations)?,
        upstream: Some(upstream.to_owned()).filter(|name| name != DEFAULT_UPSTREAM),
        tool_name: text(Field::ToolName),
        plugin: text(Field::Plugin).filter(|plugin| plugin != upstream),
        method: text(Field::Method).filter(|method| *method != row.rpc_method),
    })
}

fn json<T: DeserializeOwned>(row: &MethodRow, field: Field) -> anyhow::Result<Option<T>> {
    let Some(text) = field.value(row) else { return Ok(None) };
    // PHP writes an empty object as an empty list.
    let text = if text == "[]" && field != Field::Params && field != Field::ParamsTypes {
        "{}"
    } else {
        &text
    };
    serde_json::from_str(text).with_context(|| field.name()).map(Some)
}

/// Returns a schema of the row. PHP may have written it.
fn schema(row: &MethodRow, field: Field) -> anyhow::Result<Option<Map<String, Value>>> {
    let mut schema = json(row, field)?.map_or(Value::Null, Value::Object);
    php_schema::repair(&mut schema);
    match schema {
        Value::Object(members) => Ok(Some(members)),
        _ => Ok(None),
    }
}

/// What is past the ladder's end is closed.
fn word(mask: &str) -> ManifestMask {
    match mask.parse().ok().and_then(callgate::Mask::required) {
        Some(callgate::Mask::Execute) => ManifestMask::Execute,
        Some(callgate::Mask::Write) => ManifestMask::Write,
        Some(_) => ManifestMask::Read,
        None => ManifestMask::Closed,
    }
}

fn class(row: &TypeRow) -> anyhow::Result<Class> {
    let fields = column("fields", row.fields.as_deref())?;
    Ok(Class { fields, schema: column("schema", row.schema.as_deref())? })
}

fn column<T: DeserializeOwned + Default>(
    name: &'static str,
    text: Option<&str>,
) -> anyhow::Result<T> {
    match text.filter(|text| !text.trim().is_empty()) {
        Some(text) => serde_json::from_str(text).context(name),
        None => Ok(T::default()),
    }
}
